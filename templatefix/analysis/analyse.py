"""Check a template: render the loops, read the tree, let the rules judge."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from templatefix.analysis.evidence import Evidence
from templatefix.analysis.findings import Finding, Verdict
from templatefix.analysis.metering import Budget, is_beyond
from templatefix.analysis.registry import shipped_rules
from templatefix.analysis.rule import Rule
from templatefix.analysis.stability import LoopRun
from templatefix.chat.go import GoChatTemplate
from templatefix.chat.rendering import ChatTemplate, RenderError
from templatefix.chat.serving import Serving

NOWHERE = Serving()


@dataclass(frozen=True)
class Analysis:
    """Everything a check found out about a template."""

    verdict: Verdict
    reason: str | None
    findings: tuple[Finding, ...]
    loops: tuple[LoopRun, ...]  # core loops first
    disagreement: tuple[str, ...]  # where rendering and reading do not say the same, one sentence each

    @property
    def core(self) -> tuple[LoopRun, ...]:
        """The runs that give the verdict."""
        return tuple([run for run in self.loops if run.loop.core])

    def lost_bytes(self) -> float:
        """What a request reads again although it was there before, in bytes, on average over the core loops."""
        lost = requests = 0
        for run in self.core:
            for index in range(1, len(run.steps)):
                requests += 1
                lost += max(0, run.needed(index - 1) - run.steps[index].kept_bytes)
        return lost / requests if requests else 0.0

    def without_tools(self) -> float | None:
        """The share of the requests with tools whose prompt has none, over the core loops; None where none has any."""
        steps = [step for run in self.core for step in run.steps if step.request.tools]
        return sum(not step.tools for step in steps) / len(steps) if steps else None


def analyse(
    template: ChatTemplate,
    select: Collection[str] = (),
    ignore: Collection[str] = (),
    rules: Sequence[Rule] | None = None,
    serving: Serving = NOWHERE,
    budget: Budget | None = None,
) -> Analysis:
    """Check a template on all loops with the rules selected (all but the ignored ones by default).

    `select` and `ignore` hold codes or their beginnings (`TF2`); `serving` is what is known of its server. Its renders
    are paid from `budget`, which is its own if None.
    """
    evidence = Evidence(template, serving, budget or Budget())
    verdict, reason = judge(evidence)
    findings: dict[tuple[str, int, int], Finding] = {}
    for rule in shipped_rules() if rules is None else rules:
        if _wanted(rule.CODE, select, ignore):
            for finding in rule.check(evidence):
                findings.setdefault((finding.code, finding.span.start, finding.span.end), finding)
    ordered = tuple(sorted(findings.values(), key=lambda finding: (finding.span, finding.code)))
    return Analysis(verdict, reason, ordered, evidence.core + evidence.others, evidence.disagreement)


def _wanted(code: str, select: Collection[str], ignore: Collection[str]) -> bool:
    if select and not any(code.startswith(prefix.upper()) for prefix in select):
        return False
    return not any(code.startswith(prefix.upper()) for prefix in ignore)


def _refusal(template: ChatTemplate) -> RenderError | None:
    """Why a server would not even start with a template; None for Go's, which it takes as they are."""
    if template.kind == "go":
        return None
    from templatefix.chat.jinja import JinjaChatTemplate  # with jinja2, which Go templates do without

    return template.refusal if isinstance(template, JinjaChatTemplate) else None


def judge(evidence: Evidence) -> tuple[Verdict, str | None]:
    """The verdict, the first that holds, and its reason."""
    core = evidence.core
    if (refusal := _refusal(evidence.template)) is not None and not is_beyond(refusal):
        return "not-evaluated", f"llama-server does not start with the template: {refusal}"
    if not evidence.renders:
        error = next(run.error for run in core if run.error is not None)
        return "not-evaluated", f"no conversation could be rendered: {error}"
    cut = [run for run in core if run.beyond]
    failed = next((run for run in core if run.error is not None and not run.beyond), None)
    if failed is not None:
        return (
            "broken",
            f"step {len(failed.steps)} of the loop {failed.loop.name} cannot be rendered: {failed.error}",
        )
    if evidence.takes_tools:
        bare = next((run for run in core if not run.beyond and not any(step.tools for step in run.steps)), None)
        if bare is not None:
            return "broken", f"the tool definitions are in no prompt of the loop {bare.loop.name}"
    chats = None
    if not evidence.takes_tools:
        legacy = isinstance(evidence.template, GoChatTemplate) and evidence.template.legacy
        chats = "a legacy template never sees tools" if legacy else "the template has no tools"
        chats += ": judged on chats"
    if any(run.lost for run in core):
        return "unstable", chats
    if cut:
        whole = f"{len(core) - len(cut)} of {len(core)} loops could be rendered"
        return "not-evaluated", f"the template is too large or too slow: {whole} ({cut[0].error})"
    preset = evidence.thinking_preset
    kept = f"llama-server sets {preset}, another server may drop past thinking" if preset else None
    return "stable", "; ".join(filter(None, (chats, kept))) or None
