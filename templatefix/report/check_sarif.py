"""The result of a check as SARIF 2.1.0."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from templatefix.analysis.findings import Finding, Severity
from templatefix.analysis.rule import Rule
from templatefix.gotemplate.source import Span
from templatefix.report.checked import Checked
from templatefix.report.pages import page_of
from templatefix.report.places import region, relative_path, said

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
ROOT = "SRCROOT"  # stands for the folder that paths are relative to

_LEVELS: dict[Severity, str] = {"error": "error", "warning": "warning", "info": "note"}


def check_sarif(results: Sequence[Checked], rules: Sequence[Rule], root: Path, version: str) -> dict[str, Any]:
    """The document that `check --format sarif` writes: one run, an artifact a target, a result a finding.

    The verdict of a target is a property of its artifact; what was not evaluated is a notification, and the run then
    counts as failed. Files below `root` are given relative to it.
    """
    shown = sorted(rules, key=lambda rule: rule.CODE)
    index = {rule.CODE: number for number, rule in enumerate(shown)}
    missed = [_notification(checked, root) for checked in results if checked.verdict == "not-evaluated"]
    run = {
        "tool": {
            "driver": {
                "name": "templatefix",
                "semanticVersion": version,
                "rules": [_rule(rule) for rule in shown],
                "notifications": [{"id": "not-evaluated", "defaultConfiguration": {"level": "error"}}],
            }
        },
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {ROOT: {"description": {"text": "The folder that the check ran in."}}},
        "invocations": [{"executionSuccessful": not missed, "toolExecutionNotifications": missed}],
        "artifacts": [_artifact(checked, root) for checked in results],
        "results": [
            result for number, checked in enumerate(results) for result in _results(checked, number, index, root)
        ],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule: Rule) -> dict[str, Any]:
    page = page_of(rule)
    described = {
        "id": rule.CODE,
        "name": rule.NAME,
        "shortDescription": {"text": page.summary or rule.NAME},
        "fullDescription": {"text": page.section("Why it is bad") or page.summary or rule.NAME},
        "help": {"text": page.text or rule.NAME, "markdown": page.markdown or rule.NAME},
        "defaultConfiguration": {"level": _LEVELS[rule.SEVERITY]},
        "properties": {"tags": ["chat-template", "prompt-cache"], "problem.severity": _problem(rule.SEVERITY)},
    }
    return described


def _problem(severity: Severity) -> str:
    return "recommendation" if severity == "info" else severity


def _location(checked: Checked, root: Path) -> dict[str, Any]:
    path = relative_path(checked, root)
    if path is None:  # no file: a scheme of its own keeps readers from looking for one
        return {"uri": f"templatefix:{_quoted(checked.target, safe=':/')}"}
    return file_location(path)


def file_location(path: str) -> dict[str, Any]:
    """The location of a file: relative to the root, or absolute."""
    if path.startswith("/") or path[1:2] == ":":
        return {"uri": "file:///" + _quoted(path.lstrip("/"), safe="/:")}
    return {"uri": _quoted(path), "uriBaseId": ROOT}


def _quoted(text: str, safe: str = "/") -> str:
    return quote(text, safe=safe, errors="surrogateescape")


def _artifact(checked: Checked, root: Path) -> dict[str, Any]:
    made: dict[str, Any] = {
        "location": _location(checked, root),
        "description": {"text": _text(checked.target)},
        "roles": ["analysisTarget"],
        "properties": {"verdict": checked.verdict, "reason": _text(checked.reason) if checked.reason else None},
    }
    if checked.path is None and checked.file is not None:
        made["contents"] = {"text": _text(checked.file.text)}
    return made


def _notification(checked: Checked, root: Path) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": _location(checked, root)}
    if checked.failed_at is not None:
        physical["region"] = _region(checked, checked.failed_at)
    return {
        "descriptor": {"id": "not-evaluated", "index": 0},
        "level": "error",
        "message": {"text": _text(said(checked))},
        "locations": [{"physicalLocation": physical}],
    }


def _results(checked: Checked, number: int, index: dict[str, int], root: Path) -> Iterator[dict[str, Any]]:
    same: Counter[str] = Counter()
    location = {**_location(checked, root), "index": number}
    for finding in checked.findings:
        region_of = _region(checked, finding.span)
        words = f"{finding.code}\n{location['uri']}\n{region_of.get('snippet', {}).get('text', '')}"
        same[words] += 1
        yield {
            "ruleId": finding.code,
            **({"ruleIndex": index[finding.code]} if finding.code in index else {}),
            "level": _LEVELS[finding.severity],
            "message": {"text": _text(finding.message)},
            "locations": [{"physicalLocation": {"artifactLocation": location, "region": region_of}}],
            "partialFingerprints": {"ruleFileText/v1": fingerprint(f"{words}\n{same[words]}")},
            "properties": _properties(finding),
        }


def fingerprint(words: str) -> str:
    """What tells a result from others in runs to come."""
    return hashlib.sha256(words.encode()).hexdigest()


def _region(checked: Checked, span: Span) -> dict[str, Any]:
    start, end = region(checked, span)
    made: dict[str, Any] = {
        "startLine": start.line,
        "startColumn": start.column,
        "endLine": end.line,
        "endColumn": end.column,
    }
    if checked.file is not None:
        made["snippet"] = {"text": _text(checked.file.slice(Span(start.offset, end.offset)))}
    return made


def _properties(finding: Finding) -> dict[str, Any]:
    made: dict[str, Any] = {"fixable": finding.fixable}
    if finding.loop is not None:
        made |= {"scenario": finding.loop, "step": finding.step}
    if finding.cost is not None:
        made |= {
            "promptBytes": finding.cost.prompt_bytes,
            "keptBytes": finding.cost.kept_bytes,
            "stepsWithoutTools": finding.cost.steps_without_tools,
            "steps": finding.cost.steps,
        }
    return made


def _text(text: str) -> str:
    """Text that UTF-8 can carry."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
