"""A prompt as a table of its pieces: which bytes, from where in the template, from which datum of the request."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from templatefix.chat.rendering import Origin, Piece, Rendering
from templatefix.gotemplate.source import Position
from templatefix.report.width import ahead, back, width

_WIDTH = 100  # of a row; a text that is longer is cut in the middle
_LEAST = 24  # columns of text, however wide the rest


def pieces_text(rendering: Rendering, position: Callable[[int], Position]) -> str:
    """The table, and a line with the sum; `position` gives the place of a byte of the template."""
    rows = [("bytes", "place", "from", "text"), *_rows(rendering.pieces, position)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    room = max(_WIDTH - sum(widths) - 6, _LEAST)
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), _cut(row[3], room)])
        for row in rows
    ]
    lines.append(f"{len(rendering.data)} bytes in {len(rows) - 1} pieces")
    return "\n".join(lines) + "\n"


def _rows(pieces: tuple[Piece, ...], position: Callable[[int], Position]) -> Iterator[tuple[str, str, str, str]]:
    at = 0
    for piece in pieces:
        size = len(piece.text.encode("utf-8", "surrogateescape"))
        if size:
            place = position(piece.span.start)
            yield f"{at}-{at + size}", f"{place.line}:{place.column}", _from(piece), _quoted(piece.text)
        at += size


def _from(piece: Piece) -> str:
    if piece.origin is not None:
        return _datum(piece.origin)
    return "template" if piece.message is None else f"template, for messages[{piece.message}]"


def _datum(origin: Origin) -> str:
    field = f".{origin.field}" if origin.field else ""
    if origin.kind == "tools":
        return f"tools{field}"
    if origin.kind == "tool":
        return f"tools[{origin.index}]{field}"
    where = f"messages[{origin.index}]" if origin.index >= 0 else "system text"
    return where + field if origin.kind == "message" else f"system text ({where})" if origin.index >= 0 else where


def _quoted(text: str) -> str:
    readable = text.encode("utf-8", "backslashreplace").decode()
    escaped = "".join(char if char.isprintable() and char != "\\" else ascii(char)[1:-1] for char in readable)
    return f'"{escaped}"'


def _cut(text: str, room: int) -> str:
    if width(text) <= room:
        return text
    head = (room - 1) // 2
    return f"{text[: ahead(text, 0, head)]}…{text[back(text, len(text), room - 1 - head) :]}"
