"""The result of a check as workflow commands of GitHub Actions: annotations at the lines of a change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from templatefix.analysis.findings import Finding, Severity
from templatefix.gotemplate.source import Span
from templatefix.report.checked import Checked
from templatefix.report.places import region, relative_path, said

_COMMANDS: dict[Severity, str] = {"error": "error", "warning": "warning", "info": "notice"}


def check_github(results: Sequence[Checked], root: Path) -> str:
    """What `check --format github` writes: a command a finding, and a line a target that says its verdict."""
    lines: list[str] = []
    for checked in results:
        if checked.verdict == "not-evaluated":
            where = _where(checked, checked.failed_at, root)
            lines.append(command("error", {**where, "title": f"not evaluated: {checked.target}"}, said(checked)))
        lines += _findings(checked, root)
        # A line of the log must not begin with a target: its name could be a command.
        lines.append(f"checked {one_line(checked.target)}: {checked.verdict}")
    return "\n".join(lines) + "\n"


def _findings(checked: Checked, root: Path) -> Iterator[str]:
    for finding in checked.findings:
        title = f"{finding.code} {finding.name}"
        if checked.path is None:
            title += f" in {checked.target}"
        where = _where(checked, finding.span, root)
        yield command(_COMMANDS[finding.severity], {**where, "title": title}, _message(checked, finding))


def _message(checked: Checked, finding: Finding) -> str:
    start = checked.place(finding.span.start)
    place = f" (line {start.line}, column {start.column})" if checked.path is None else ""
    return finding.message + place


def _where(checked: Checked, span: Span | None, root: Path) -> dict[str, str | int]:
    """File and place; columns only within one line, as annotations have it."""
    path = relative_path(checked, root)
    if path is None:
        return {}
    if span is None:
        return {"file": path}
    start, end = region(checked, span)
    where: dict[str, str | int] = {"file": path, "line": start.line, "endLine": end.line}
    if start.line == end.line:
        where |= {"col": start.column, "endColumn": max(end.column, start.column)}
    return where


def command(name: str, properties: Mapping[str, str | int], message: str) -> str:
    """A workflow command, with whatever it cannot hold escaped."""
    given = ",".join(f"{key}={_property(str(value))}" for key, value in properties.items())
    return f"::{name} {given}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def one_line(text: str) -> str:
    """The text without line ends."""
    return " ".join(text.split())
