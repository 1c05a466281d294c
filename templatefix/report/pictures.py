"""Small pictures for the terminal: a span in its lines, a loop as bars."""

from __future__ import annotations

from collections.abc import Iterator

from templatefix.analysis.stability import LoopRun, Step
from templatefix.gotemplate.source import Position, Source
from templatefix.report.style import PLAIN, Style

LEGEND = "= kept of the request before   . read anew   T tools kept   t tools read anew"

_LINES = 4  # of a span that are shown
_WIDTH = 68  # characters of a line that are shown
_LEAD = 24  # of them, at most this many before the span
_BAR = 34


def span_lines(source: Source, start: Position, end: Position, style: Style = PLAIN) -> list[str]:
    """The lines of a span, each with carets below what belongs to it; the middle of a long span is left out."""
    last = max(start.line, end.line - (1 if end.column == 1 and end.line > start.line else 0))
    numbers = list(range(start.line, last + 1))
    gap = len(numbers) > _LINES
    shown = [*numbers[: _LINES - 1], numbers[-1]] if gap else numbers
    digits = len(str(last))
    lines: list[str] = []
    for number in shown:
        text = source.line(number)
        left = start.column - 1 if number == start.line else len(text) - len(text.lstrip())
        right = end.column - 1 if number == end.line else len(text.rstrip())
        if gap and number == last:
            lines.append(style.faint(f"{'…':>{digits + 2}} |"))
        if left >= right and number != start.line:
            lines.append(style.faint(f"  {number:>{digits}} | ") + _readable(text[:_WIDTH]))
            continue
        part, carets = _window(text, left, max(right, left + 1))
        lines.append(style.faint(f"  {number:>{digits}} | ") + part)
        lines.append(style.faint(f"  {' ' * digits} | ") + style.bad(carets))
    return [line.rstrip() for line in lines]


def _window(text: str, left: int, right: int) -> tuple[str, str]:
    """A piece of a line that shows a range, and the carets below it."""
    begin = 0 if len(text) <= _WIDTH else max(0, min(left - _LEAD, len(text) - _WIDTH))
    stop = min(len(text), begin + _WIDTH)
    before, after = "…" if begin else "", "…" if stop < len(text) else ""
    lead = "".join("\t" if char == "\t" else " " for char in text[begin:left])
    carets = "^" * max(1, min(right, stop) - left)
    return before + _readable(text[begin:stop]) + after, " " * len(before) + lead + carets


def _readable(text: str) -> str:
    return "".join(char if char.isprintable() or char == "\t" else "\N{REPLACEMENT CHARACTER}" for char in text)


def loop_lines(run: LoopRun, style: Style = PLAIN) -> list[str]:
    """One row a request: what is kept of the one before, where tools stand, and the figures."""
    widest = max((step.prompt_bytes for step in run.steps), default=0)
    lines = [style.faint(f"{'step':>6}  after  {'prompt':<{_BAR}} {'bytes':>7} {'kept':>13} {'tools':>5}")]
    before = 0
    for index, step in enumerate(run.steps):
        roles = step.request.messages
        role = str(roles[-1].get("role", "")) if roles else ""
        kept = f"{step.kept_bytes}/{before}" if index else ""
        figures = f"{step.prompt_bytes:>7} {kept:>13} {step.tools or 'none':>5}"
        row = f"{step.index:>6}  {role:<5.5}  {_bar(step, widest):<{_BAR}} {figures}".rstrip()
        lines.append(style.warn(row) if index in run.lost else row)
        before = step.prompt_bytes
    if run.error is not None:
        lines.append(style.bad(f"{len(run.steps):>6}  fails: {run.error.message}"))
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
