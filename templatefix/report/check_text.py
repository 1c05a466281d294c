"""The result of a check for the terminal, about 80 columns wide."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from templatefix.analysis.findings import Finding, Severity
from templatefix.report.checked import SEVERITIES, Checked
from templatefix.report.pictures import LEGEND, loop_lines, span_lines
from templatefix.report.style import PLAIN, Style
from templatefix.report.width import WIDTH, counted, fitted, readable, wrapped

ON_REQUEST = ("TF302", "TF303", "TF304")  # what `patch` mends in Go templates, and only when it is named
_NOT_OF_THE_CACHE = ("TF3", "TF4")
_WORST = ("broken", "unstable", "not-evaluated", "stable")


def check_text(checked: Checked, style: Style = PLAIN) -> str:
    """One target: each finding with its place, its loop and what to do, and a line that sums up."""
    lines: list[str] = []
    shown: set[str] = set()
    for finding in checked.findings:
        lines += [*_finding(checked, finding, shown, style), ""]
    if checked.analysis is not None:
        for sentence in checked.analysis.disagreement:
            lines += [*_lines(f"note: {sentence}", ""), ""]
        lines += _broken_loops(checked, shown, style)
    lines.append(_summary(checked, style))
    if checked.reason and checked.analysis is not None:
        lines += _lines(checked.reason, "  ")
    return "\n".join(lines) + "\n"


def check_table(results: Sequence[Checked], style: Style = PLAIN) -> str:
    """Several targets, worst first: the verdict, what a turn costs, and the findings; at most 80 columns."""
    rows = sorted(
        results, key=lambda c: (_WORST.index(c.verdict), -c.lost_bytes(), -(c.without_tools() or 0), c.target)
    )
    lines = [style.faint(_row("verdict", "read again", "no tools", "err", "warn", "target"))]
    lines += [_verdict_style(checked, _table_row(checked), style) for checked in rows]
    counts = [(verdict, sum(c.verdict == verdict for c in results)) for verdict in _WORST]
    said = ", ".join(f"{count} {verdict}" for verdict, count in counts if count)
    lines.append(f"{len(results)} targets: {said}.")
    lines.append(style.faint("read again  bytes a turn that stood in the turn before, on average over loops"))
    lines.append(style.faint("no tools    how many of the prompts lack the tools that the request has"))
    return "\n".join(lines) + "\n"


def _table_row(checked: Checked) -> str:
    if checked.verdict == "not-evaluated":
        return _row(checked.verdict, "?", "?", "?", "?", checked.target)
    errors, warnings = (str(sum(f.severity == s for f in checked.findings)) for s in SEVERITIES[:2])
    share = checked.without_tools()
    return _row(
        checked.verdict,
        f"{checked.lost_bytes():.0f}",
        "-" if share is None else f"{share:.0%}",
        errors,
        warnings,
        checked.target,
    )


def _row(verdict: str, lost: str, without: str, errors: str, warnings: str, target: str) -> str:
    head = f"{verdict:<13} {lost:>10} {without:>8} {errors:>4} {warnings:>4}  "
    return head + fitted(readable(target), WIDTH - len(head))


def _finding(checked: Checked, finding: Finding, shown: set[str], style: Style) -> Iterator[str]:
    start, end = checked.place(finding.span.start), checked.place(finding.span.end)
    head = f"{readable(checked.target)}:{start.line}:{start.column}: "
    yield style.bold(head) + _severity(finding.severity, style) + style.bold(f" {finding.code} {finding.name}")
    yield from _lines(finding.message, "  ")
    if checked.file is not None:
        yield from span_lines(checked.file, start, end, style)
    yield from _loop(checked, finding, shown, style)
    yield from _cost(finding)
    yield from _what_to_do(checked, finding)


def _loop(checked: Checked, finding: Finding, shown: set[str], style: Style) -> Iterator[str]:
    """The picture of the loop that shows a finding, the first time that it is needed."""
    if finding.loop is None or finding.loop in shown or checked.analysis is None:
        return
    for run in checked.analysis.loops:
        if run.loop.name == finding.loop:
            if run.steps and not shown:
                yield style.faint(f"  {LEGEND}")
            yield f"  loop {run.loop.name}" + style.faint("  (> keeps too little)" if run.lost else "")
            yield from loop_lines(run, style)
            shown.add(run.loop.name)


def _broken_loops(checked: Checked, shown: set[str], style: Style) -> Iterator[str]:
    """The first loop that fails, where no finding has shown it."""
    runs = checked.analysis.loops if checked.analysis is not None else ()
    failed = [run for run in runs if run.error is not None and run.loop.core]
    if failed and not any(run.loop.name in shown for run in failed):
        yield f"  loop {failed[0].loop.name}"
        yield from loop_lines(failed[0], style)
        yield ""


def _cost(finding: Finding) -> Iterator[str]:
    """What a finding costs, of those about the cache; of others, where they were seen."""
    if finding.loop is None:
        return
    where = f"step {finding.step} of {finding.loop}"
    said = _costs(finding, where) if not finding.code.startswith(_NOT_OF_THE_CACHE) else []
    if not said:
        yield f"  seen  at {where}"
    for number, sentence in enumerate(said):
        yield f"  {'' if number else 'cost':4}  {sentence}"


def _costs(finding: Finding, where: str) -> list[str]:
    cost, said = finding.cost, []
    if cost is not None and finding.step:  # a first request has nothing to keep
        fresh = cost.prompt_bytes - cost.kept_bytes
        when = f", {cost.when}" if cost.when else ""
        said.append(f"{counted(cost.kept_bytes, 'byte')} kept, {fresh} read anew at {where}{when}")
    if cost is not None and cost.steps_without_tools:
        said.append(f"no tools in {cost.steps_without_tools} of {counted(cost.steps, 'request')} of {finding.loop}")
    return said


def _what_to_do(checked: Checked, finding: Finding) -> Iterator[str]:
    target = shlex.quote(readable(checked.target))
    if finding.fixable:
        yield f"  fix   templatefix patch {f'{finding.option} ' if finding.option else ''}{target}"
    elif checked.kind == "go" and finding.code in ON_REQUEST:
        yield f"  fix   on request: templatefix patch --select TF,{finding.code} {target}"
    else:
        yield "  fix   none by patch; the page says what can be done"
    yield f"  why   templatefix explain {finding.code}"


def _summary(checked: Checked, style: Style) -> str:
    if checked.analysis is None:
        return style.bold(f"{readable(checked.target)}: not evaluated")
    counts = [(severity, sum(f.severity == severity for f in checked.findings)) for severity in SEVERITIES]
    said = [f"{count} info" if severity == "info" else counted(count, severity) for severity, count in counts if count]
    mended = sum(finding.fixable for finding in checked.findings)
    if checked.verdict == "not-evaluated":
        said.insert(0, "not evaluated")
    else:
        said.insert(0, checked.verdict)
        said += [] if checked.findings else ["nothing found"]
    line = f"{readable(checked.target)}: {', '.join(said)}"
    if mended:
        line += f"; patch mends {mended} of {len(checked.findings)}"
    return style.bold(_verdict_style(checked, line, style))


def _severity(severity: Severity, style: Style) -> str:
    return {"error": style.bad, "warning": style.warn, "info": style.faint}[severity](severity)


def _verdict_style(checked: Checked, text: str, style: Style) -> str:
    if checked.verdict == "stable":
        return style.good(text)
    return style.warn(text) if checked.verdict == "not-evaluated" else style.bad(text)


def _lines(text: str, indent: str) -> list[str]:
    return wrapped(readable(" ".join(text.split())), indent)
