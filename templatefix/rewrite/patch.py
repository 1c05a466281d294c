"""Patch a template: repair it, make its prompts grow only, and prove it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from templatefix.chat.go import GoChatTemplate
from templatefix.chat.rendering import ChatTemplate
from templatefix.gotemplate.deep import run_deep
from templatefix.gotemplate.source import Span
from templatefix.rewrite.adaptations import adapt
from templatefix.rewrite.candidates import Placement, culprits
from templatefix.rewrite.proof import Baseline, Check, prove
from templatefix.rewrite.repairs import Repair, repair_failures, repair_structs
from templatefix.rewrite.result import ADAPTED, FAILS, NO_VERDICT, STRUCTS, PatchResult, Refusal, with_repairs
from templatefix.rewrite.search import Found, Search, is_sound
from templatefix.rewrite.spending import PatchBudget, TooSlow, refuse_cut


def patch(
    template: ChatTemplate,
    *,
    placement: Placement = "system",
    select: Collection[str] = (),
    ignore: Collection[str] = (),
    keep_thinking: bool = False,
) -> PatchResult:
    """Make a variant of a template with its proof, or say why not.

    `select` and `ignore` hold rule codes or their beginnings, as in `check`. Where the tools cannot be put as
    `placement` asks but can be fixed at the first user turn, that is done and the result says so. With `keep_thinking`
    a Jinja template may keep what it drops from the history.
    """
    if template.kind == "jinja":
        from templatefix.chat.jinja import JinjaChatTemplate  # with jinja2, which Go templates do without
        from templatefix.rewrite.jinja_patch import patch_jinja

        assert isinstance(template, JinjaChatTemplate)
        return patch_jinja(template, placement=placement, select=select, ignore=ignore, keep_thinking=keep_thinking)
    depth = template.tree.depth if isinstance(template, GoChatTemplate) else 0
    return run_deep(depth, lambda: _Patch(template, placement, select, ignore).run())


class _Patch:
    def __init__(
        self, template: ChatTemplate, placement: Placement, select: Collection[str], ignore: Collection[str]
    ) -> None:
        self.template = template
        self.placement = placement
        self.select = [code.upper() for code in select]
        self.ignore = [code.upper() for code in ignore]
        self.budget = PatchBudget()
        self.analysis = self.budget.check(template)
        self.refused: list[Refusal] = []

    def wanted(self, code: str) -> bool:
        """Whether a code may be mended."""
        if self.select and not any(code.startswith(prefix) for prefix in self.select):
            return False
        return not any(code.startswith(prefix) for prefix in self.ignore)

    def run(self) -> PatchResult:
        """Repair, move, prove; refuse where that takes too much."""
        try:
            return self._run()
        except TooSlow as error:
            return self._unchanged(self._each(f"{error}"))

    def _run(self) -> PatchResult:
        analysis, template = self.analysis, self.template
        if not isinstance(template, GoChatTemplate):
            return self._unchanged([Refusal("", "only Go templates can be rewritten")])
        if analysis.verdict == "not-evaluated" and any(run.beyond for run in analysis.core):
            return self._unchanged([Refusal("", f"{analysis.reason}")])
        refuse_cut(analysis)
        shaky = analysis.verdict != "stable"
        if shaky and (template.legacy or not template.uses_tools):
            reason = "a legacy template never sees tools" if template.legacy else "the template has no tools"
            return self._unchanged(self._each(f"{reason}, and without tools every prompt has to stay as it is"))
        if shaky and (left := [code for code in self._errors() if not self.wanted(code)]):
            return self._unchanged(
                [Refusal(code, "left out by the choice of codes, and the rest is not enough") for code in left]
            )
        base = Baseline(template, budget=self.budget)
        checks: list[Check] = []
        base = self._repair(base, checks)
        if any(refusal.code == FAILS for refusal in self.refused):
            return self._unchanged(self.refused)
        return self._finish(base, checks)

    def needs_patch(self, template: ChatTemplate) -> bool:
        """Whether patching a template in the same way would change it, or be refused."""
        analysis = self.budget.check(template)
        told = {refusal.code for refusal in self.refused}
        codes = {code for code in (STRUCTS, FAILS) if self.wanted(code) and code not in told}
        return analysis.verdict != "stable" or any(
            finding.code in codes or (finding.severity == "error" and finding.code not in NO_VERDICT)
            for finding in analysis.findings
        )

    def _errors(self) -> list[str]:
        """The codes that make the template unstable or broken."""
        errors = [finding.code for finding in self.analysis.findings if finding.severity == "error"]
        return list(dict.fromkeys(code for code in errors if code not in NO_VERDICT))

    def _repair(self, base: Baseline, checks: list[Check]) -> Baseline:
        """Mend what fails and what is printed wrongly, as far as wanted."""
        codes = {finding.code for finding in self.analysis.findings}
        fails = any(run.error is not None for run in base.runs)
        for code in ADAPTED:
            if code in codes and code in self.select and self.wanted(code):
                base = self._taken(base, code, adapt(base, code), checks)
        for code, mend, found in ((FAILS, repair_failures, fails), (STRUCTS, repair_structs, STRUCTS in codes)):
            if not found or not self.wanted(code):
                continue
            base = self._taken(base, code, mend(base), checks)
        return base

    def _taken(self, base: Baseline, code: str, repair: Repair | str, checks: list[Check]) -> Baseline:
        """Go on with a repaired template, or note why there is none."""
        if isinstance(repair, Repair) and repair.check.holds:
            checks.append(repair.check)
            return Baseline(repair.template, base.generated, base.seed, budget=self.budget)
        self.refused.append(Refusal(code, repair if isinstance(repair, str) else f"{repair.check.reason}"))
        return base

    def _finish(self, base: Baseline, checks: list[Check]) -> PatchResult:
        """Move what has to move, and prove the whole."""
        repaired = base.template
        assert isinstance(repaired, GoChatTemplate)
        repeated = bool(checks) and any(step.tools > 1 for run in base.runs for step in run.steps)
        if not checks and self.analysis.verdict == "stable":
            return self._unchanged(self.refused)
        if is_sound(base.runs) and not repeated:
            proof = prove(base, repaired, patch_again=self.needs_patch)
            if not proof.holds:
                return self._unchanged([Refusal(STRUCTS, f"{proof.failure}")])
            return self._changed(base, Found(repaired, (), proof), checks)
        search = Search(base, self.placement, self.needs_patch)
        found = search.run()
        if found is None:
            return self._unchanged(self._reasons(search))
        return self._changed(base, found, checks, search)

    def _reasons(self, search: Search) -> list[Refusal]:
        obstacle = search.obstacle
        reason = "no change was found that keeps every prompt"
        if obstacle is not None:
            reason = f"{self._place(obstacle.span)}: {obstacle.reason}"
        elif not any(step.tools for run in search.base.runs for step in run.steps):
            reason = "the template prints no tool definitions, and where they belong is not for a rewrite to say"
        elif parting := culprits(search.base.runs):
            reason = f"{self._place(parting[0])}: prompts part here, and {reason}"
        return self._each(reason)

    def _each(self, reason: str) -> list[Refusal]:
        """The same reason for everything that makes the template unstable or broken."""
        return [Refusal(code, reason) for code in self._errors()] or [Refusal("", reason)]

    def _place(self, span: Span) -> str:
        start = self.template.source.position(span.start)
        return f"line {start.line}, column {start.column}"

    def _instead(self, found: Found, search: Search | None) -> str | None:
        """Why the tools stand elsewhere than asked for: what was wrong with the first place that was tried."""
        if search is None or found.placement in (None, self.placement):
            return None
        obstacle = search.obstacle
        return "no place for them was found" if obstacle is None else f"{self._place(obstacle.span)}: {obstacle.reason}"

    def _changed(self, base: Baseline, found: Found, checks: list[Check], search: Search | None = None) -> PatchResult:
        after = self.budget.check(found.template)
        known = self.analysis.findings + (self.budget.check(base.template).findings if checks else ())
        gone = {finding.code for finding in known} - {finding.code for finding in after.findings}
        proof = with_repairs(found.proof, checks)
        before = [step.rendering.text for run in base.runs for step in run.steps]
        later = [step.rendering.text for run in after.loops for step in run.steps]
        return PatchResult(
            self.template.source.text,
            found.template.source.text,
            True,
            tuple(sorted(gone)),
            tuple(self.refused),
            found.placement or self.placement,
            proof,
            after.findings,
            _seen(found.dropped, before),
            _seen(found.added, later),
            instead=self._instead(found, search),
        )

    def _unchanged(self, refused: list[Refusal]) -> PatchResult:
        text = self.template.source.text
        findings = self.analysis.findings
        tools = not isinstance(self.template, GoChatTemplate) or (self.template.uses_tools and not self.template.legacy)
        return PatchResult(
            text, text, False, refused=tuple(refused), placement=self.placement, remaining=findings, tools=tools
        )


def _seen(texts: Sequence[str], prompts: Sequence[str]) -> tuple[str, ...]:
    """The texts that stand in some prompt, each once."""
    return tuple(dict.fromkeys(text for text in texts if any(text.strip() in prompt for prompt in prompts)))
