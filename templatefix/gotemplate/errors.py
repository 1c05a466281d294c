"""Errors about a template: Go's sentence for programs, and a picture of the place for people."""

from __future__ import annotations

from typing import Any

from templatefix.gotemplate.source import Source, Span

_WIDTH = 100  # characters of a line that a picture shows
_LEAD = 60  # of them, at most this many before the caret


class GoError(Exception):
    """A template that Go refuses or fails to execute.

    `message` is Go's sentence, `source` and `span` say where (None where the place is not known).
    """

    def __init__(self, message: str, source: Source | None = None, span: Span | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.source = source
        self.span = span

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.source, self.span)

    def explain(self, file: str | None = None) -> str:
        """The sentence with `file:line:column`, the line of the template and a caret below it.

        `file` names the template for people; without it the source's own name is used, or `template`.
        """
        if self.source is None or self.span is None:
            return self.message
        where = self.source.position(self.span.start)
        head = f"{file or self.source.name or 'template'}:{where.line}:{where.column}: {self.message}"
        line = self.source.line(where.line)
        length = len(self.source.slice(self.span).split("\n", 1)[0])
        shown, caret = _picture(line, where.column - 1, length)
        number = str(where.line)
        return f"{head}\n {number} | {shown}\n {' ' * len(number)} | {caret}"


class ParseError(GoError):
    """A template that Go's parser refuses."""


class ExecError(GoError):
    """A template whose execution fails."""


def _picture(line: str, index: int, length: int) -> tuple[str, str]:
    """A line, cut where it is long, and the carets below `length` characters from `index` on."""
    start = 0
    before = after = ""
    if len(line) > _WIDTH:
        start = max(0, min(index - _LEAD, len(line) - _WIDTH))
        before = "…" if start else ""
        after = "…" if start + _WIDTH < len(line) else ""
    shown = line[start : start + _WIDTH]
    lead = "".join("\t" if char == "\t" else " " for char in shown[: index - start])
    carets = "^" * max(1, min(length, len(shown) - (index - start)))
    printable = "".join(char if char.isprintable() or char == "\t" else "\N{REPLACEMENT CHARACTER}" for char in shown)
    return before + printable + after, " " * len(before) + lead + carets
