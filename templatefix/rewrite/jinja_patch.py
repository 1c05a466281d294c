"""Patch a Jinja template: it is repaired, what moves is fixed, thinking is kept where that is asked for; all proved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from templatefix.analysis.jinja_faults import why_it_fails
from templatefix.analysis.metering import is_beyond
from templatefix.analysis.stability import LoopRun
from templatefix.chat.jinja import JinjaChatTemplate
from templatefix.chat.rendering import ChatTemplate, RenderError
from templatefix.gotemplate.edits import apply_edits
from templatefix.rewrite.attempt import Attempt
from templatefix.rewrite.candidates import Placement
from templatefix.rewrite.jinja_calls import repair_failures
from templatefix.rewrite.jinja_candidates import JinjaCandidate, JinjaCandidates
from templatefix.rewrite.jinja_objects import repair_objects
from templatefix.rewrite.jinja_repairs import JinjaRepair
from templatefix.rewrite.jinja_tags import JinjaTags
from templatefix.rewrite.kept import by_thinking_alone
from templatefix.rewrite.proof import Baseline, Proof, declined, prove
from templatefix.rewrite.result import ADAPTED, FAILS, STRUCTS, PatchResult, Refusal, with_repairs
from templatefix.rewrite.spending import refuse_cut
from templatefix.rewrite.words import count, words_of

THOUGHTS, SYSTEM = "TF203", "TF201"
OPTION: Final = "--keep-thinking"
_TOLD: Final = "in a Jinja template this is told, not changed: what the model was trained on only its maker can tell"
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


class _JinjaPatch(Attempt):
    template: JinjaChatTemplate

    def __init__(
        self,
        template: JinjaChatTemplate,
        placement: Placement,
        select: Collection[str],
        ignore: Collection[str],
        keeps: bool,
    ) -> None:
        super().__init__(template, placement, select, ignore)
        self.keeps = keeps
        self.thoughts = self.evidence.thinks

    def changes(self) -> PatchResult:
        """Repair, then move what still moves."""
        verdict = self.analysis.verdict
        if verdict == "not-evaluated":
            return self.unchanged(self.each(self._unmendable()))
        refuse_cut(self.analysis)
        if verdict != "stable" and (left := self.unwanted()):
            return self.unchanged(left)
        template = self._repaired()
        if any(refusal.code == FAILS for refusal in self.refused):
            return self.unchanged(self.refused)
        if self.checks:
            self.judged = self.budget.check(template)
        if self.judged.verdict == "stable":
            return self._proved(template) if self.checks else self.unchanged(self.refused)
        if self.judged.verdict != "unstable":
            return self.unchanged([*self.refused, *self.each(self._unmendable())])
        return self._moved(template)

    def _repaired(self) -> JinjaChatTemplate:
        """The template with what fails and what is printed wrongly mended, as far as wanted."""
        template = self.template
        codes = {finding.code for finding in self.analysis.findings}
        self.refused += [Refusal(code, _TOLD) for code in ADAPTED if code in codes and self._selected(code)]
        for code, mend in ((FAILS, repair_failures), (STRUCTS, repair_objects)):
            if code not in codes or not self.wanted(code):
                continue
            repair = mend(Baseline(template, tools=self.tools, thoughts=self.thoughts, budget=self.budget))
            if isinstance(repair, JinjaRepair) and repair.check.holds:
                self.checks.append(repair.check)
                template = repair.template
            else:
                self.refused.append(Refusal(code, repair if isinstance(repair, str) else f"{repair.check.reason}"))
        return template

    def _proved(self, template: JinjaChatTemplate) -> PatchResult:
        """What was repaired and needs nothing else."""
        base = Baseline(template, tools=self.tools, thoughts=self.thoughts, budget=self.budget)
        proof = prove(base, template, patch_again=self.needs_patch)
        if not proof.holds:
            return self.unchanged(self.each(f"{proof.failure}"))
        return self._changed(_Found(template, (), proof, ()))

    def _moved(self, template: JinjaChatTemplate) -> PatchResult:
        """What still moves, put where it stays."""
        moves = self._selected(SYSTEM) and not self.tools
        if not self.tools and not self.keeps and not moves:
            return self.unchanged(self.each(self._without_tools()))
        if not self.keeps and by_thinking_alone(self.judged.core):
            return self.unchanged(self.each(self._thinking_reason()))
        base = Baseline(
            template,
            tools=self.tools,
            thoughts=self.thoughts,
            keeps=self.keeps,
            moves_system=moves,
            budget=self.budget,
        )
        search = _Search(base, self.placement, self.needs_patch)
        found = search.run()
        if found is None:
            dropped = not self.keeps and (search.left_by_thinking or THOUGHTS in self.errors())
            reason = self._thinking_reason() if dropped else search.reason
            return self.unchanged(self.each(reason))
        return self._changed(found)

    # -- what is wanted

    def _selected(self, code: str) -> bool:
        return any(code.startswith(prefix) for prefix in self.select) and self.wanted(code)

    def wanted(self, code: str) -> bool:
        """Whether a code may be mended: the system text and the user's text around it are one and the same change."""
        with_system = code == "TF202" and SYSTEM in self.select and not self.left_out(code)
        return with_system or super().wanted(code)

    # -- why not

    def _unmendable(self) -> str:
        error = next((run.error for run in self.judged.core if run.error is not None), None)
        if error is not None:
            return f"{self.judged.reason}" if is_beyond(error) else why_it_fails(error)
        if self.judged.verdict == "not-evaluated":
            return f"{self.judged.reason}"
        return "the template prints no tool definitions, and where they belong is not for a rewrite to say"

    def _thinking_reason(self) -> str:
        said = f"the template drops what the model thought from the history; {OPTION} makes a variant that keeps it"
        switch = self.evidence.thinking_switch
        return f"{said}, and the template has a switch for it: --chat-template-kwargs '{switch}'" if switch else said

    def _without_tools(self) -> str:
        reason = "the template has no tools, and without tools every prompt has to stay as it is"
        if SYSTEM in self.errors():
            reason += f"; --select {SYSTEM} lets the system text stay at the first user turn all the same"
        return reason

    def _changed(self, found: _Found) -> PatchResult:
        after = self.budget.check(found.template)
        known = (*self.analysis.findings, *self.judged.findings)
        gone = {finding.code for finding in known} - {finding.code for finding in after.findings}
        return PatchResult(
            self.template.source.text,
            found.template.source.text,
            True,
            tuple(sorted(gone)),
            tuple(self.refused),
            found.placement or self.placement,
            with_repairs(found.proof, self.checks),
            after.findings,
            (),
            found.added,
            self._apart(),
            self.tools,
            notes=after.disagreement,
        )

    def _apart(self) -> str | None:
        """What changes without tools as well, because it was asked for."""
        if self.keeps:
            return "thinking that is kept"
        return None if self.tools else "the place of the system text"


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
            self.left_by_thinking = self.left_by_thinking or by_thinking_alone(after)
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
            return template.with_text(text)
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
