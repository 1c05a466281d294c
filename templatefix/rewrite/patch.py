"""Patch a template: repair it, make its prompts grow only, and prove it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from templatefix.chat.go import GoChatTemplate
from templatefix.chat.rendering import ChatTemplate
from templatefix.gotemplate.deep import run_deep
from templatefix.gotemplate.source import Span
from templatefix.rewrite.adaptations import adapt
from templatefix.rewrite.attempt import Attempt
from templatefix.rewrite.candidates import Placement, culprits
from templatefix.rewrite.proof import Baseline, prove
from templatefix.rewrite.repairs import Repair, repair_failures, repair_structs
from templatefix.rewrite.result import ADAPTED, FAILS, STRUCTS, PatchResult, Refusal, with_repairs
from templatefix.rewrite.search import Found, Search, is_sound
from templatefix.rewrite.spending import refuse_cut


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
    assert isinstance(template, GoChatTemplate)
    return run_deep(template.tree.depth, lambda: _GoPatch(template, placement, select, ignore).run())


class _GoPatch(Attempt):
    template: GoChatTemplate

    def changes(self) -> PatchResult:
        """Repair, then move what has to move."""
        analysis, template = self.analysis, self.template
        if analysis.verdict == "not-evaluated" and any(run.beyond for run in analysis.core):
            return self.unchanged([Refusal("", f"{analysis.reason}")])
        refuse_cut(analysis)
        shaky = analysis.verdict != "stable"
        if shaky and not self.tools:
            reason = "a legacy template never sees tools" if template.legacy else "the template has no tools"
            return self.unchanged(self.each(f"{reason}, and without tools every prompt has to stay as it is"))
        if shaky and (left := self.unwanted()):
            return self.unchanged(left)
        base = self._repaired(Baseline(template, budget=self.budget))
        if any(refusal.code == FAILS for refusal in self.refused):
            return self.unchanged(self.refused)
        return self._moved(base)

    def _repaired(self, base: Baseline) -> Baseline:
        """Mend what fails and what is printed wrongly, as far as wanted."""
        codes = {finding.code for finding in self.analysis.findings}
        fails = any(run.error is not None for run in base.runs)
        for code in ADAPTED:
            if code in codes and code in self.select and self.wanted(code):
                base = self._taken(base, code, adapt(base, code))
        for code, mend, found in ((FAILS, repair_failures, fails), (STRUCTS, repair_structs, STRUCTS in codes)):
            if not found or not self.wanted(code):
                continue
            base = self._taken(base, code, mend(base))
        return base

    def _taken(self, base: Baseline, code: str, repair: Repair | str) -> Baseline:
        """Go on with a repaired template, or note why there is none."""
        if isinstance(repair, Repair) and repair.check.holds:
            self.checks.append(repair.check)
            return Baseline(repair.template, base.generated, base.seed, budget=self.budget)
        self.refused.append(Refusal(code, repair if isinstance(repair, str) else f"{repair.check.reason}"))
        return base

    def _moved(self, base: Baseline) -> PatchResult:
        """Move what has to move, and prove the whole."""
        repaired = base.template
        assert isinstance(repaired, GoChatTemplate)
        repeated = bool(self.checks) and any(step.tools > 1 for run in base.runs for step in run.steps)
        if not self.checks and self.analysis.verdict == "stable":
            return self.unchanged(self.refused)
        if is_sound(base.runs) and not repeated:
            proof = prove(base, repaired, patch_again=self.needs_patch)
            if not proof.holds:
                return self.unchanged([Refusal(STRUCTS, f"{proof.failure}")])
            return self._changed(base, Found(repaired, (), proof))
        search = Search(base, self.placement, self.needs_patch)
        found = search.run()
        if found is None:
            return self.unchanged(self._reasons(search))
        return self._changed(base, found, search)

    def _reasons(self, search: Search) -> list[Refusal]:
        obstacle = search.obstacle
        reason = "no change was found that keeps every prompt"
        if obstacle is not None:
            reason = f"{self._place(obstacle.span)}: {obstacle.reason}"
        elif not any(step.tools for run in search.base.runs for step in run.steps):
            reason = "the template prints no tool definitions, and where they belong is not for a rewrite to say"
        elif parting := culprits(search.base.runs):
            reason = f"{self._place(parting[0])}: prompts part here, and {reason}"
        return self.each(reason)

    def _place(self, span: Span) -> str:
        start = self.template.source.position(span.start)
        return f"line {start.line}, column {start.column}"

    def _instead(self, found: Found, search: Search | None) -> str | None:
        """Why the tools stand elsewhere than asked for: what was wrong with the first place that was tried."""
        if search is None or found.placement in (None, self.placement):
            return None
        obstacle = search.obstacle
        return "no place for them was found" if obstacle is None else f"{self._place(obstacle.span)}: {obstacle.reason}"

    def _changed(self, base: Baseline, found: Found, search: Search | None = None) -> PatchResult:
        after = self.budget.check(found.template)
        known = self.analysis.findings + (self.budget.check(base.template).findings if self.checks else ())
        gone = {finding.code for finding in known} - {finding.code for finding in after.findings}
        proof = with_repairs(found.proof, self.checks)
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
            tools=self.tools,
            instead=self._instead(found, search),
            notes=after.disagreement,
        )


def _seen(texts: Sequence[str], prompts: Sequence[str]) -> tuple[str, ...]:
    """The texts that stand in some prompt, each once."""
    return tuple(dict.fromkeys(text for text in texts if any(text.strip() in prompt for prompt in prompts)))
