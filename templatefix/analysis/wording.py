"""The template's own words in a prompt, and where they stand in the template."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from templatefix.chat.rendering import Piece
from templatefix.gotemplate.source import Source, Span

_MARKS: Final = re.compile(r"<[^<>\s]{1,60}>|\[[^\[\]\s]{1,60}\]")
_WORD: Final = re.compile(r"[^\W\d_]{2,}")


def is_words(piece: Piece) -> bool:
    """Whether a piece is text of the template that is not blank."""
    return piece.origin is None and bool(piece.text.strip())


def words(text: str) -> list[str]:
    """The words of a text, marks such as `<|eot_id|>` apart."""
    return _WORD.findall(_MARKS.sub(" ", text))


def words_span(source: Source, piece: Piece) -> Span:
    """Where the words of a piece stand: without white space around them, the last paragraph of several."""
    if source.slice(piece.span) != piece.text:
        return piece.span
    text = piece.text.rstrip()
    start = max(text.rfind("\n\n") + 2, text.rfind("\r\n\r\n") + 4) if "\n\n" in text or "\r\n\r\n" in text else 0
    start += len(text[start:]) - len(text[start:].lstrip())
    if not text[start:]:
        return piece.span
    before = len(text[:start].encode("utf-8", "surrogateescape"))
    size = len(text[start:].encode("utf-8", "surrogateescape"))
    return Span(piece.span.start + before, piece.span.start + before + size)


def labels(pieces: Sequence[Piece]) -> tuple[list[Piece], list[Piece]]:
    """The template's pieces before and behind a message's text, among those of the message.

    What stands in front of other data, such as tool definitions, belongs to that data. Without the message's text all
    pieces count as before it.
    """
    before: list[Piece] = []
    behind: list[Piece] = []
    seen = False
    for piece in pieces:
        if piece.origin is not None and piece.origin.kind == "message" and piece.origin.field == "content":
            seen = True
        elif piece.origin is not None and piece.origin.kind in ("tool", "tools", "system"):
            before = before if seen else []
        elif piece.origin is None:
            (behind if seen else before).append(piece)
    return before, behind


def joined(pieces: Sequence[Piece]) -> str:
    """The text of pieces, without white space around it."""
    return "".join([piece.text for piece in pieces]).strip()
