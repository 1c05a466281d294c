"""The tags of a Jinja template as blocks with places: branches with their arms, loops, and the parts of a condition.

All of it comes from jinja2's tokens; spans are bytes of the source, so that what is not edited stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from templatefix.chat.jinja_language import JinjaLanguage
from templatefix.chat.jinja_layout import LaidToken, Layout
from templatefix.gotemplate.source import Source, Span

_SPACE = ("whitespace", "linecontrol")


@dataclass(frozen=True, slots=True)
class Tag:
    """A statement: `{% name expression %}`."""

    name: str
    span: Span
    expression: Span | None  # what stands behind the name; None for nothing
    tokens: tuple[LaidToken, ...]  # of the expression, without white space


@dataclass(frozen=True)
class Arm:
    """One arm of a branch: the tag that opens it and what it holds."""

    tag: Tag
    body: Span


@dataclass(frozen=True)
class Branch:
    """`{% if %} … {% endif %}`."""

    span: Span
    arms: tuple[Arm, ...]

    def arm_at(self, offset: int) -> Arm | None:
        """The arm whose body holds a byte."""
        return next((arm for arm in self.arms if arm.body.start <= offset < arm.body.end), None)


@dataclass(frozen=True)
class ForLoop:
    """`{% for target in iterable %} … {% endfor %}`."""

    span: Span
    tag: Tag
    target: str
    iterable: str


class JinjaTags:
    """A template's statements."""

    def __init__(self, source: Source) -> None:
        """Raises TemplateSyntaxError where the text is no template."""
        language = JinjaLanguage()
        language.read(source)
        self.source = source
        self.layout: Layout = language.layout
        self.branches: list[Branch] = []
        self.loops: list[ForLoop] = []
        self.tags = list(self._tags())
        self._blocks()

    def _tags(self) -> Iterator[Tag]:
        inside: list[LaidToken] = []
        start: LaidToken | None = None
        for token in self.layout.tokens:
            if token.kind == "block_begin":
                start, inside = token, []
            elif token.kind == "block_end" and start is not None:
                # The white space that the tag strips behind it is part of jinja2's token, but not of the tag.
                span = self._span(start.start, token.start + len(token.text.rstrip()))
                name, rest = inside[0], inside[1:]
                expression = self._span(rest[0].start, rest[-1].end) if rest else None
                yield Tag(name.text, span, expression, tuple(rest))
                start = None
            elif start is not None and token.kind not in _SPACE:
                inside.append(token)

    def _span(self, start: int, end: int) -> Span:
        return self.layout.span(start, end)

    def _blocks(self) -> None:
        opened: list[list[Tag]] = []
        for tag in self.tags:
            if tag.name in ("if", "for"):
                opened.append([tag])
            elif tag.name in ("elif", "else") and opened:
                opened[-1].append(tag)
            elif tag.name == "endif":
                tags = [*opened.pop(), tag]
                arms = [Arm(tag, Span(tag.span.end, later.span.start)) for tag, later in pairwise(tags)]
                self.branches.append(Branch(Span(tags[0].span.start, tag.span.end), tuple(arms)))
            elif tag.name == "endfor":
                first = opened.pop()[0]
                self.loops.append(self._loop(first, tag))

    def _loop(self, first: Tag, last: Tag) -> ForLoop:
        tokens = first.tokens
        names = [token.text if token.kind == "name" else "" for token in tokens]
        at = names.index("in")
        end = next((i for i, name in enumerate(names) if i > at and name in ("if", "recursive")), len(tokens))
        whole = Span(first.span.start, last.span.end)
        return ForLoop(whole, first, self.text(tokens[:at]), self.text(tokens[at + 1 : end]))

    def text(self, tokens: Sequence[LaidToken]) -> str:
        """The source text of a run of tokens."""
        return self.source.slice(self._span(tokens[0].start, tokens[-1].end)) if tokens else ""

    def around(self, offset: int) -> list[Branch]:
        """The branches with an arm that holds a byte, innermost first."""
        found = [branch for branch in self.branches if branch.arm_at(offset) is not None]
        return sorted(found, key=lambda branch: len(branch.span))

    def loops_around(self, offset: int) -> list[ForLoop]:
        """The loops around a byte, innermost first."""
        found = [loop for loop in self.loops if loop.tag.span.end <= offset < loop.span.end]
        return sorted(found, key=lambda loop: len(loop.span))

    @cached_property
    def names(self) -> frozenset[str]:
        """Every name that stands in a tag or a printed expression, keywords included."""
        return frozenset([token.text for token in self.layout.tokens if token.kind == "name"])

    def operands(self, tag: Tag) -> list[Span]:
        """The parts of a condition that `and`, `or` and round brackets join; what stands behind `not` goes with it."""
        found: list[Span] = []
        if tag.tokens:
            self._operands(tag.tokens, found)
        return list(dict.fromkeys(found))

    def _operands(self, tokens: Sequence[LaidToken], found: list[Span]) -> None:
        found.append(self._span(tokens[0].start, tokens[-1].end))
        parts = _split(tokens)
        if len(parts) > 1:
            for part in parts:
                self._operands(part, found)
        elif _bracketed(tokens):
            self._operands(tokens[1:-1], found)

    def conjuncts(self, tag: Tag) -> list[Span]:
        """The parts of a condition that `and` joins, at its top."""
        return [self._span(part[0].start, part[-1].end) for part in _split(tag.tokens, ("and",))]


def _split(tokens: Sequence[LaidToken], words: Sequence[str] = ("and", "or")) -> list[list[LaidToken]]:
    parts: list[list[LaidToken]] = [[]]
    depth = 0
    for token in tokens:
        if token.kind == "operator" and token.text in "([{":
            depth += 1
        elif token.kind == "operator" and token.text in ")]}":
            depth -= 1
        if depth == 0 and token.kind == "name" and token.text in ("and", "or"):
            if token.text not in words:
                return [list(tokens)]
            parts.append([])
        else:
            parts[-1].append(token)
    return [part for part in parts if part]


def _bracketed(tokens: Sequence[LaidToken]) -> bool:
    """Whether one pair of round brackets stands around all of it."""
    depth = 0
    for index, token in enumerate(tokens):
        if token.kind == "operator":
            depth += (token.text in "([{") - (token.text in ")]}")
        if depth == 0:
            return index == len(tokens) - 1 and tokens[0].text == "(" and index > 1
    return False
