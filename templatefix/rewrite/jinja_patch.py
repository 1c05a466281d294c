"""Patch a Jinja template: what moves is fixed in place, thinking is kept where that is asked for, all of it proved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from templatefix.analysis.analyse import analyse
from templatefix.analysis.evidence import Evidence
from templatefix.analysis.stability import LoopRun
from templatefix.chat.jinja import JinjaChatTemplate
from templatefix.chat.rendering import ChatTemplate, RenderError
from templatefix.gotemplate.edits import apply_edits
from templatefix.gotemplate.source import Source
from templatefix.rewrite.candidates import Placement
from templatefix.rewrite.jinja_candidates import JinjaCandidate, JinjaCandidates
from templatefix.rewrite.jinja_tags import JinjaTags
from templatefix.rewrite.kept import has_thoughts
from templatefix.rewrite.patch import NO_VERDICT, PatchResult, Refusal
from templatefix.rewrite.proof import Baseline, Proof, declined, prove
from templatefix.rewrite.traits import names_used
from templatefix.rewrite.words import count, words_of

THOUGHTS, SYSTEM = "TF203", "TF201"
OPTION: Final = "--keep-thinking"
_DEPTH, _BRANCHES, _TRIALS, _PROOFS = 4, 3, 200, 12


def patch_jinja(
    template: JinjaChatTemplate,
    *,
    placement: Placement = "system",
    select: Collection[str] = (),
    ignore: Collection[str] = (),
    keep_thinking: bool = False,
) -> PatchResult:
    """Make a variant with its proof, or say why not; thinking stays in the history only with `keep_thinking`.

    A template without tools is changed only where TF201 is selected: its system text then stands at the first turn.
    """
    return _JinjaPatch(template, placement, select, ignore, keep_thinking).run()


class _JinjaPatch:
    def __init__(
        self,
        template: JinjaChatTemplate,
        placement: Placement,
        select: Collection[str],
        ignore: Collection[str],
        keeps: bool,
    ) -> None:
        self.template = template
        self.placement = placement
        self.select = [code.upper() for code in select]
        self.ignore = [code.upper() for code in ignore]
        self.keeps = keeps
        self.analysis = analyse(template)
        evidence = Evidence(template)
        self.tools, self.thoughts = evidence.takes_tools, evidence.thinks

    def run(self) -> PatchResult:
        """Look for a change, and prove it."""
        verdict = self.analysis.verdict
        if verdict == "stable":
            return self._unchanged([])
        if verdict != "unstable":
            return self._unchanged(self._each(f"{self.analysis.reason}, and that is not for a rewrite to mend"))
        if left := [code for code in self._errors() if not self._wanted(code)]:
            said = "left out by the choice of codes, and the rest is not enough"
            return self._unchanged([Refusal(code, said) for code in left])
        moves = self._selected(SYSTEM) and not self.tools
        if not self.tools and not self.keeps and not moves:
            return self._unchanged(self._each(self._without_tools()))
        if not self.keeps and self._thinking_alone():
            return self._unchanged(self._each(self._thinking_reason()))
        base = Baseline(self.template, tools=self.tools, thoughts=self.thoughts, keeps=self.keeps, moves_system=moves)
        search = _Search(base, self.placement, needs_patch)
        found = search.run()
        if found is None:
            dropped = not self.keeps and (search.left_by_thinking or THOUGHTS in self._errors())
            reason = self._thinking_reason() if dropped else search.reason
            return self._unchanged(self._each(reason))
        return self._changed(found)

    # -- what is wanted

    def _selected(self, code: str) -> bool:
        return any(code.startswith(prefix) for prefix in self.select) and self._wanted(code)

    def _wanted(self, code: str) -> bool:
        whole = self.select and not any(code.startswith(prefix) for prefix in self.select)
        # The system text and the user's text around it are one and the same change.
        if whole and not (code == "TF202" and SYSTEM in self.select):
            return False
        return not any(code.startswith(prefix) for prefix in self.ignore)

    def _errors(self) -> list[str]:
        errors = [finding.code for finding in self.analysis.findings if finding.severity == "error"]
        return list(dict.fromkeys(code for code in errors if code not in NO_VERDICT))

    def _thinking_alone(self) -> bool:
        return all(has_thoughts(run.loop.requests[-1]) for run in self.analysis.core if run.lost)

    # -- why not

    def _thinking_reason(self) -> str:
        said = f"the template drops what the model thought from the history; {OPTION} makes a variant that keeps it"
        switch = switch_of(self.template)
        return said if switch is None else f"{said}, and the template has a switch for it: {_argument(switch)}"

    def _without_tools(self) -> str:
        reason = "the template has no tools, and without tools every prompt has to stay as it is"
        if SYSTEM in self._errors():
            reason += f"; --select {SYSTEM} lets the system text stay at the first user turn all the same"
        return reason

    def _each(self, reason: str) -> list[Refusal]:
        return [Refusal(code, reason) for code in self._errors()] or [Refusal("", reason)]

    def _unchanged(self, refused: list[Refusal]) -> PatchResult:
        text = self.template.source.text
        remaining = self.analysis.findings
        return PatchResult(text, text, False, refused=tuple(refused), placement=self.placement, remaining=remaining)

    def _changed(self, found: _Found) -> PatchResult:
        after = analyse(found.template)
        codes = {finding.code for finding in after.findings}
        gone = {finding.code for finding in self.analysis.findings} - codes
        return PatchResult(
            self.template.source.text,
            found.template.source.text,
            True,
            tuple(sorted(gone)),
            (),
            found.placement or self.placement,
            found.proof,
            after.findings,
            (),
            found.added,
            self._apart(),
        )

    def _apart(self) -> str | None:
        """What changes without tools as well, because it was asked for."""
        if self.keeps:
            return "thinking that is kept"
        return None if self.tools else "the place of the system text"


def needs_patch(template: ChatTemplate) -> bool:
    """Whether a variant would be changed again."""
    return analyse(template).verdict != "stable"


def switch_of(template: JinjaChatTemplate) -> dict[str, Any] | None:
    """The variable, with its value, by which a template itself keeps the thinking; None where it has none."""
    for name in sorted(names_used(template)):
        if "think" not in name and "reason" not in name:
            continue
        for value in (True, False):
            if name != "enable_thinking" and analyse(template.with_kwargs({name: value})).verdict == "stable":
                return {name: value}
    return None


def _argument(switch: dict[str, Any]) -> str:
    ((name, value),) = switch.items()
    return f"--chat-template-kwargs '{{\"{name}\":{str(value).lower()}}}'"


@dataclass(frozen=True)
class _Found:
    template: JinjaChatTemplate
    steps: tuple[JinjaCandidate, ...]
    proof: Proof
    added: tuple[str, ...]

    @property
    def placement(self) -> Placement | None:
        """Where the tools were put."""
        return next((step.placement for step in self.steps if step.placement is not None), None)


class _Search:
    """Tries one change after the other, as long as each makes the loops lose less."""

    def __init__(self, base: Baseline, placement: Placement, changes: Callable[[ChatTemplate], bool]) -> None:
        self.base = base
        self.placement = placement
        self.changes = changes
        self.seen: set[str] = set()
        self.proofs = 0
        self.reason = "no change was found that keeps every prompt"
        self.left_by_thinking = False

    def run(self) -> _Found | None:
        """The first variant whose proof holds."""
        assert isinstance(self.base.template, JinjaChatTemplate)
        return self._from(self.base.template, (), self.base.runs)

    def _from(
        self, template: JinjaChatTemplate, steps: tuple[JinjaCandidate, ...], runs: Sequence[LoopRun]
    ) -> _Found | None:
        candidates = JinjaCandidates(
            JinjaTags(template.source), runs, self.placement, keeps=self.base.keeps, tools=self.base.tools
        )
        found = self._among(template, candidates.propose(True), steps, runs)
        return found or (self._among(template, candidates.propose(False), steps, runs) if not steps else None)

    def _among(
        self,
        template: JinjaChatTemplate,
        candidates: Iterator[JinjaCandidate],
        steps: tuple[JinjaCandidate, ...],
        runs: Sequence[LoopRun],
    ) -> _Found | None:
        lost = self._lost(runs)
        begun: list[tuple[int, JinjaChatTemplate, tuple[JinjaCandidate, ...], tuple[LoopRun, ...]]] = []
        for candidate in candidates:
            variant = self._apply(template, candidate)
            after = self._tried(variant, lost) if variant is not None else None
            if variant is None or after is None:
                continue
            now, taken = self._lost(after), (*steps, candidate)
            if now:
                begun.append((now, variant, taken, after))
            elif (found := self._proved(variant, taken, after)) is not None:
                return found
        # Only where no single change is enough, another one upon those that helped most.
        for _, variant, taken, after in sorted(begun, key=lambda each: each[0])[:_BRANCHES]:
            if not any(run.lost for run in after if not has_thoughts(run.loop.requests[-1])):
                self.left_by_thinking = True
            if len(taken) < _DEPTH and (found := self._from(variant, taken, after)) is not None:
                return found
        return None

    def _tried(self, variant: JinjaChatTemplate, lost: int) -> tuple[LoopRun, ...] | None:
        """A variant's loops if they lose less than before and nothing fails anew."""
        runs: list[LoopRun] = []
        for before, loop in zip(self.base.runs, self.base.core, strict=True):
            (run,) = self.base.run(variant, (loop,))
            if run.error is not None and not declined(before, run):
                return None
            runs.append(run)
            if self._lost(runs) >= lost:
                return None
        return tuple(runs)

    def _lost(self, runs: Sequence[LoopRun]) -> int:
        """The bytes that have to be read again although they were there, and steps with the tools at the end."""
        lost = 0
        for run in runs:
            for index in run.lost:
                lost += max(1, run.needed(index - 1) - run.steps[index].kept_bytes if index else 1)
            lost += sum(step.tools != int(self.base.tools) for step in run.steps)
        return lost

    def _apply(self, template: JinjaChatTemplate, candidate: JinjaCandidate) -> JinjaChatTemplate | None:
        try:
            text = apply_edits(template.source, candidate.edits)
            if text in self.seen or text == template.source.text or len(self.seen) > _TRIALS:
                return None
            self.seen.add(text)
            return again(template, text)
        except (ValueError, RenderError):
            return None

    def _proved(
        self, variant: JinjaChatTemplate, steps: tuple[JinjaCandidate, ...], runs: Sequence[LoopRun]
    ) -> _Found | None:
        if self.proofs >= _PROOFS:
            return None
        self.proofs += 1
        added = self._added(runs) if self.base.keeps or any(step.adds for step in steps) else ()
        proof = prove(self.base, variant, added=added, patch_again=self.changes)
        if proof.holds:
            return _Found(variant, steps, proof, added)
        what = ", then ".join([step.what for step in steps])
        self.reason = f"{what}: {proof.failure}"
        return None

    def _added(self, runs: Sequence[LoopRun]) -> tuple[str, ...]:
        """The words of the template that stand in a prompt more often than before, beside what is kept."""
        more: Counter[str] = Counter()
        for before, after in zip(self.base.runs, runs, strict=True):
            for old, new in zip(before.steps, after.steps, strict=False):
                more |= count(words_of(new.rendering)) - count(words_of(old.rendering))
        return tuple(sorted(more))


def again(template: JinjaChatTemplate, text: str) -> JinjaChatTemplate:
    """Another text in the place of a template; raises RenderError."""
    return JinjaChatTemplate(
        Source(text, template.source.name),
        bos=template.bos,
        eos=template.eos,
        date=template.date,
        caps=template.caps,
        kwargs=template.kwargs,
    )
