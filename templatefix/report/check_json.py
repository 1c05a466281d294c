"""The result of a check as JSON."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from templatefix.analysis.findings import Finding
from templatefix.analysis.stability import LoopRun
from templatefix.gotemplate.source import Position
from templatefix.report.checked import Checked


def check_json(results: Iterable[Checked]) -> dict[str, Any]:
    """The document that `check --format json` writes.

    Places are in the file as it came (of a model, in its template); `sha256` is that of the template's bytes, None
    where it could not be read.
    """
    return {"version": 1, "results": [_result(checked) for checked in results]}


def _result(checked: Checked) -> dict[str, Any]:
    return {
        "target": checked.target,
        "kind": checked.kind,
        "sha256": None if checked.text is None else _digest(checked.text),
        "verdict": checked.verdict,
        "reason": checked.reason,
        "findings": [_finding(checked, finding) for finding in checked.findings],
        "loops": [_loop(run) for run in (checked.analysis.loops if checked.analysis is not None else ())],
        "disagreement": list(checked.analysis.disagreement) if checked.analysis is not None else [],
    }


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _finding(checked: Checked, finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity,
        "message": finding.message,
        "start": _place(checked.place(finding.span.start)),
        "end": _place(checked.place(finding.span.end)),
        "loop": None if finding.loop is None else {"scenario": finding.loop, "step": finding.step},
        "fixable": finding.fixable,
        "option": finding.option or None,
    }


def _place(position: Position) -> dict[str, int]:
    return {"line": position.line, "column": position.column, "offset": position.offset}


def _loop(run: LoopRun) -> dict[str, Any]:
    steps = [
        {"step": step.index, "prompt_bytes": step.prompt_bytes, "kept_bytes": step.kept_bytes, "tools": step.tools}
        for step in run.steps
    ]
    return {"scenario": run.loop.name, "steps": steps}
