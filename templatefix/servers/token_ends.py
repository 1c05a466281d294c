"""Prompts as engines take them, and where tokens end in them, from the pieces that an engine shows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate


def piece_size(piece: str | Sequence[int]) -> int:
    """Bytes of a piece: text, or numbers where it is no whole text."""
    return len(piece.encode()) if isinstance(piece, str) else len(piece)


def token_ends(sizes: Sequence[int], lead: int, size: int) -> list[int]:
    """Ends in bytes of a prompt of `size` bytes; the first `lead` tokens were put in front and end at 0."""
    ends = list(accumulate(sizes[lead:]))
    total = ends[-1] if ends else 0
    if total == size + 1:  # vocabularies of SentencePiece's kind put a blank in front
        ends = [end - 1 for end in ends]
    elif total != size:  # a normalising vocabulary: its pieces are not the text, places are near enough
        ends = [end * size // max(total, 1) for end in ends]
    return [0] * min(lead, len(sizes)) + ends


def sendable(text: str) -> str:
    """The text as JSON can carry it: bytes that are not UTF-8 become U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return text
