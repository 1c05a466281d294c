"""Small pictures for the terminal: a span in its lines, a loop as bars."""

from __future__ import annotations

from collections.abc import Iterator

from templatefix.analysis.stability import LoopRun, Step
from templatefix.gotemplate.source import Position, Source
from templatefix.report.style import PLAIN, Style
from templatefix.report.width import TAB, ahead, back, readable, width

LEGEND = "= kept of the request before   . read anew   T tools kept   t tools read anew"

_LINES = 4  # of a span that are shown
_WIDTH = 68  # columns of a line that are shown
_LEAD = 24  # of them, at most this many before the span
_BAR = 34
_ROW = 80


def span_lines(source: Source, start: Position, end: Position, style: Style = PLAIN) -> list[str]:
    """The lines of a span, each with carets below what belongs to it; the middle of a long span is left out."""
    numbers = _numbers(source, start, end)
    gap = len(numbers) > _LINES
    shown = [*numbers[: _LINES - 1], numbers[-1]] if gap else numbers
    digits = len(str(numbers[-1]))
    lines: list[str] = []
    for number in shown:
        text = source.line(number)
        left = start.column - 1 if number == start.line else len(text) - len(text.lstrip())
        right = min(len(text), end.column - 1) if number == end.line else len(text.rstrip())
        if gap and number == shown[-1]:
            lines.append(style.faint(f"{'…':>{digits + 2}} |"))
        bare = left >= right and len(numbers) > 1
        part, carets = _window(text, left, max(right, left + 1))
        lines.append(style.faint(f"  {number:>{digits}} | ") + part)
        if not bare:
            lines.append(style.faint(f"  {' ' * digits} | ") + style.bad(carets))
    return [line.rstrip() for line in lines]


def _numbers(source: Source, start: Position, end: Position) -> range:
    """The lines of a span, without those at its ends of which nothing but the line break belongs to it."""
    first = start.line
    last = max(first, end.line - (1 if end.column == 1 and end.line > start.line else 0))
    while first < last and not source.line(first)[start.column - 1 if first == start.line else 0 :].strip():
        first += 1
    return range(first, last + 1)


def _window(text: str, left: int, right: int) -> tuple[str, str]:
    """A piece of a line that shows a range, and the carets below it."""
    begin = 0
    if len(text) > _WIDTH or width(text) > _WIDTH:
        begin = back(text, left, _LEAD)
        if ahead(text, begin, _WIDTH) == len(text):
            begin = back(text, len(text), _WIDTH)
    stop = ahead(text, begin, _WIDTH)
    before, after = "…" if begin else "", "…" if stop < len(text) else ""
    lead = " " * (len(before) + width(text[begin:left]))
    carets = "^" * max(1, width(text[left : min(right, stop)]))
    return before + _readable(text[begin:stop]) + after, lead + carets


def _readable(text: str) -> str:
    return readable(text.replace("\t", TAB))


def loop_lines(run: LoopRun, style: Style = PLAIN) -> list[str]:
    """One row a request: what is kept of the one before, where tools stand, and the figures.

    A mark stands before requests that do not keep what they should.
    """
    widest = max((step.prompt_bytes for step in run.steps), default=0)
    head = f"{'step':>6}  after  {'prompt':<{_BAR}} {'bytes':>7} {'kept':>13} {'tools':>5}"
    lines = [style.faint(head)] if run.steps else []
    before = 0
    for index, step in enumerate(run.steps):
        roles = step.request.messages
        role = str(roles[-1].get("role", "")) if roles else ""
        kept = f"{step.kept_bytes}/{before}" if index else ""
        figures = f"{step.prompt_bytes:>7} {kept:>13} {step.tools or 'none':>5}"
        lost = index in run.lost
        row = f"  {'>' if lost else '':1} {step.index:>2}  {role:<5.5}  {_bar(step, widest):<{_BAR}} {figures}".rstrip()
        lines.append(style.warn(row) if lost else row)
        before = step.prompt_bytes
    if run.error is not None:
        row = readable(f"{len(run.steps):>6}  fails: {run.error.message}")
        lines.append(style.bad(row if len(row) <= _ROW else row[: _ROW - 1] + "…"))
    return lines


def _bar(step: Step, widest: int) -> str:
    """The prompt as a bar, `widest` bytes over the full width; what is there is never too small to be seen."""
    length = max(1, round(step.prompt_bytes * _BAR / max(widest, 1)))
    cells = list("." * length)
    for cell in _cells(0, step.kept_bytes, step.prompt_bytes, length):
        cells[cell] = "="
    for found in step.passes:
        for cell in _cells(found.start, found.end, step.prompt_bytes, length):
            cells[cell] = "T" if cells[cell] in "=T" else "t"
    return "".join(cells)


def _cells(start: int, end: int, size: int, length: int) -> Iterator[int]:
    """The cells of a bar that a range of bytes fills; one at least where there is a byte."""
    if start >= end or not size:
        return iter(())
    first = min(length - 1, start * length // size)
    return iter(range(first, max(first + 1, min(length, end * length // size))))
