"""Check a template: render the loops, read the tree, let the rules judge."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from templatefix.analysis.findings import Finding, Verdict
from templatefix.analysis.stability import LoopRun
from templatefix.chat.rendering import ChatTemplate


@dataclass(frozen=True)
class Analysis:
    """Everything a check found out about a template."""

    verdict: Verdict
    reason: str | None
    findings: tuple[Finding, ...]
    loops: tuple[LoopRun, ...]
    disagreement: tuple[str, ...]  # where rendering and reading do not say the same, one sentence each


def analyse(template: ChatTemplate, select: Collection[str] = (), ignore: Collection[str] = ()) -> Analysis:
    """Check a template on all loops with the rules selected (all but the ignored ones by default)."""
    raise NotImplementedError
