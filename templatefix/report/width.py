"""How wide a text is on a terminal, and texts cut to a width."""

from __future__ import annotations

import textwrap
import unicodedata

WIDTH = 80  # columns of a text
TAB = "    "  # as tabs are shown, so that what stands below them stays below them


def readable(text: str) -> str:
    """The text without anything that a terminal would act on, or could not show."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def wrapped(text: str, first: str = "", then: str | None = None, *, whole: bool = True) -> list[str]:
    """The text in lines that begin with `first` and `then`, which is `first` if None.

    With `whole`, a word that is wider than a line stays in one piece.
    """
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=first if then is None else then,
        break_on_hyphens=False,
        break_long_words=not whole,
    )


def counted(count: int, word: str) -> str:
    """A number with its word."""
    return f"{count} {word}{'' if count == 1 else 's'}"


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
