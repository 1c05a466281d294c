"""How wide a text is on a terminal, and texts cut to a width."""

from __future__ import annotations

import unicodedata

TAB = "    "  # as tabs are shown, so that what stands below them stays below them


def readable(text: str) -> str:
    """The text without anything that a terminal would act on, or could not show."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def cells(char: str) -> int:
    """The columns that a character takes: two for wide ones, none for marks that stand on the one before."""
    if char == "\t":
        return len(TAB)
    if char.isascii():
        return 1
    if unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def width(text: str) -> int:
    """The columns that a text takes."""
    return len(text) if text.isascii() and "\t" not in text else sum(map(cells, text))


def fitted(text: str, room: int) -> str:
    """The text if it fits, else its end behind a mark: of names and paths, the end tells most."""
    if width(text) <= room:
        return text
    return "…" + text[back(text, len(text), room - 1) :]


def back(text: str, index: int, room: int) -> int:
    """How far back from an index a number of columns reaches, as an index."""
    while index and cells(text[index - 1]) <= room:
        index -= 1
        room -= cells(text[index])
    return index


def ahead(text: str, index: int, room: int) -> int:
    """How far ahead of an index a number of columns reaches, as an index."""
    while index < len(text) and cells(text[index]) <= room:
        room -= cells(text[index])
        index += 1
    return index
