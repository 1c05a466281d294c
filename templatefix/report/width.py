"""How wide a text is on a terminal, and texts cut to a width."""

from __future__ import annotations

import unicodedata


def cells(char: str) -> int:
    """The columns that a character takes: two for wide ones, none for marks that stand on the one before."""
    if char.isascii():
        return 1
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def width(text: str) -> int:
    """The columns that a text takes."""
    return len(text) if text.isascii() else sum(map(cells, text))


def fitted(text: str, room: int) -> str:
    """The text if it fits, else its end behind a mark: of names and paths, the end tells most."""
    if width(text) <= room:
        return text
    begin = len(text)
    left = room - 1
    while begin and cells(text[begin - 1]) <= left:
        begin -= 1
        left -= cells(text[begin])
    return "…" + text[begin:]
