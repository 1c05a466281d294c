"""Changes to a template's text: spans replaced, every byte outside them kept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from templatefix.gotemplate.source import Source, Span


@dataclass(frozen=True, slots=True)
class Edit:
    """One span and the text that takes its place; an empty span inserts."""

    span: Span
    replacement: str


def apply_edits(source: Source | str, edits: Iterable[Edit]) -> str:
    """The text with all edits made; insertions at one place stay in the order given.

    Raises ValueError where a span lies outside the source, cuts a character in two, or overlaps another (an insertion
    strictly inside a replaced span overlaps it; at either edge it does not).
    """
    if isinstance(source, str):
        source = Source(source)
    data = source.data
    pieces: list[bytes] = []
    done = 0
    for edit in sorted(edits, key=lambda edit: (edit.span.start, edit.span.end)):
        start, end = edit.span.start, edit.span.end
        if not 0 <= start <= end <= len(data):
            raise ValueError(f"the edit of bytes {start} to {end} lies outside the template of {len(data)} bytes")
        if start < done:
            raise ValueError(f"the edit of bytes {start} to {end} overlaps the one before, which ends at {done}")
        if _cuts_character(source, start) or _cuts_character(source, end):
            raise ValueError(f"the edit of bytes {start} to {end} cuts a character in two")
        pieces += (data[done:start], edit.replacement.encode("utf-8", "surrogateescape"))
        done = end
    pieces.append(data[done:])
    return b"".join(pieces).decode("utf-8", "surrogateescape")


def _cuts_character(source: Source, offset: int) -> bool:
    return source.byte_offset(source.char_index(offset)) != offset
