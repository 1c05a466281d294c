"""A report of a template that an update made worse: the last good one beside the first bad one."""

from __future__ import annotations

import difflib
from typing import Any

from templatefix.analysis.analyse import Analysis
from templatefix.analysis.comparison import Comparison, Side
from templatefix.analysis.stability import LoopRun
from templatefix.report.lock import Entry
from templatefix.report.upstream import Subject, Variant, loop_rows, references
from templatefix.report.upstream_requests import Repo
from templatefix.report.upstream_words import notes
from templatefix.report.watch_text import loop_words

TEMPLATE = "regression.md.j2"


def regression_values(
    subject: Subject,
    then: Entry,
    now: Entry,
    before: Side,
    found: Comparison,
    variant: Variant,
    repo: Repo,
) -> dict[str, Any]:
    """The values for the Markdown template of a regression."""
    name = _loop_name(found, subject.checked.analysis)
    runs = [_run_of(side, name) for side in (before.analysis, subject.checked.analysis, variant.analysis)]
    return {
        "title": f"{subject.name}: an update made the chat template worse ({_head(found.reason)})",
        "repo": repo,
        "kind": now.kind,
        "name": subject.name,
        "reason": found.reason,
        "consequences": found.consequences,
        "then": then,
        "now": now,
        "codes": [sorted({str(finding["code"]) for finding in entry.findings}) for entry in (then, now)],
        "structure": found.structure,
        "loops": loop_words(found.loops),
        "change": _diff(then.text, now.text),
        "loop_name": name,
        "good_rows": loop_rows(runs[0], None),
        "bad_rows": loop_rows(runs[1], None),
        "costs": [_cost(side) for side in (before.analysis, subject.checked.analysis, variant.analysis)],
        "diff": variant.diff,
        "proof": variant.proof,
        "reasons": variant.reasons,
        "mended": variant.analysis.verdict if variant.analysis is not None else "",
        "notes": notes(repo, now.kind, variant.apart) if variant.diff else (),
        "facts": subject.facts,
        "references": references(subject.checked.findings),
    }


def _head(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:].rstrip(".")


def _loop_name(found: Comparison, analysis: Analysis | None) -> str:
    """The loop that shows most: the shortest-named of those with changed figures, else that of a finding."""
    names = [change.scenario for change in found.loops]
    if "single-call" in names or not names:
        return "single-call" if analysis is None or _run_of(analysis, "single-call") else analysis.loops[0].loop.name
    return names[0]


def _run_of(analysis: Analysis | None, name: str) -> LoopRun | None:
    return next((run for run in analysis.loops if run.loop.name == name), None) if analysis is not None else None


def _cost(analysis: Analysis | None) -> tuple[str, str] | None:
    """Bytes a request reads again, and the share of prompts without their tools."""
    if analysis is None:
        return None
    bare = analysis.without_tools()
    return f"{analysis.lost_bytes():.0f}", "–" if bare is None else f"{bare:.0%}"


def _diff(before: str, after: str) -> str:
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    lines = difflib.unified_diff(old, new, "a/template", "b/template")
    return "".join([line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines])
