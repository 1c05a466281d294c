"""Where the tokens of a Jinja template stand; jinja2's own nodes know nothing but lines."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from jinja2 import Environment, TemplateSyntaxError

from templatefix.gotemplate.source import Source, Span

MOST: Final = 100_000  # tokens; the largest templates that people have need a tenth
DIGITS: Final = 300  # of a number; a float has no more
_BREAK: Final = re.compile(r"\r\n?")
_OPEN: Final = ("block_begin", "variable_begin", "raw_begin", "comment_begin")
_CLOSE: Final = ("block_end", "variable_end", "raw_end", "comment_end")


@dataclass(frozen=True, slots=True)
class LaidToken:
    """A token of jinja2's lexer with its place, in characters of the text that jinja2 reads."""

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        """Behind its last character."""
        return self.start + len(self.text)


class Layout:
    """A template's tokens in a row; between them stands nothing but white space that a tag strips."""

    def __init__(self, source: Source, environment: Environment) -> None:
        """Raises TemplateSyntaxError with a line."""
        self.source = source
        self.text = _BREAK.sub("\n", source.text)  # as jinja2 and the server read it
        self.tokens: list[LaidToken] = []
        at = 0
        for line, kind, text in environment.lexer.tokeniter(self.text, None):
            at = self.text.index(text, at)
            self.tokens.append(LaidToken(kind, text, at))
            if len(self.tokens) > MOST:
                raise TemplateSyntaxError(f"template: more than {MOST} tokens", line)
            if kind in ("integer", "float") and len(text) > DIGITS:
                raise TemplateSyntaxError(f"template: more than {DIGITS} digits of a number", line)
            at += len(text)

    @cached_property
    def _returns(self) -> list[int]:
        # Where a line break of two characters became one, in characters of the text.
        return [found.start() - count for count, found in enumerate(re.finditer("\r\n", self.source.text))]

    def _byte(self, at: int) -> int:
        return self.source.byte_offset(at + bisect_right(self._returns, at - 1) if self._returns else at)

    def span(self, start: int, end: int) -> Span:
        """The bytes of the template for characters of the text."""
        return Span(self._byte(start), self._byte(end))

    @cached_property
    def tags(self) -> list[tuple[int, int]]:
        """Where each tag and each text between tags starts and ends, in characters."""
        found: list[tuple[int, int]] = []
        start = -1
        for token in self.tokens:
            if token.kind in _OPEN:
                start = token.start
            elif token.kind in _CLOSE:
                found.append((start, token.end))
                start = -1
            elif start < 0:
                found.append((token.start, token.end))
            elif token.kind == "data":
                found.append((start, token.start))
                found.append((token.start, token.end))
                start = token.end
        return found

    @cached_property
    def _starts(self) -> list[int]:
        return [start for start, _ in self.tags]

    @cached_property
    def _token_starts(self) -> list[int]:
        return [token.start for token in self.tokens]

    def tag(self, at: int) -> Span:
        """The tag or text around a character."""
        start, end = self.tags[max(0, bisect_right(self._starts, at) - 1)]
        return self.span(start, end)

    def literal(self, at: int) -> Span:
        """The string that begins at a character, with those that follow it directly."""
        index = bisect_right(self._token_starts, at) - 1
        end = self.tokens[index].end
        for token in self.tokens[index + 1 :]:
            if token.kind == "string":
                end = token.end
            elif token.kind != "whitespace":
                break
        return self.span(self.tokens[index].start, end)

    def line(self, number: int) -> Span:
        """A line, counted from 1."""
        lines = self.text.split("\n")
        start = sum(len(line) + 1 for line in lines[: number - 1])
        return self.span(start, start + len(lines[min(number, len(lines)) - 1]))

    def stream(self) -> Iterator[tuple[int, str, str]]:
        """What jinja2's lexer yields, with the place of each token instead of its line."""
        for token in self.tokens:
            yield token.start, token.kind, token.text
