"""A template's text with byte offsets, lines and columns; the only place that converts between them."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A half-open range of bytes (UTF-8) in a template, as Go counts them."""

    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start

    def contains(self, other: Span) -> bool:
        """Whether `other` lies within this span."""
        return self.start <= other.start and other.end <= self.end


@dataclass(frozen=True, slots=True)
class Position:
    """A place for people: line and column are 1-based, the column in code points; offset is in bytes."""

    line: int
    column: int
    offset: int


class Source:
    """The text of a template.

    Bytes that are not UTF-8 are carried as lone surrogates (PEP 383), so that the text encodes back to the very
    bytes it came from.
    """

    def __init__(self, text: str, name: str = "") -> None:
        self.text = text
        self.name = name

    @classmethod
    def from_bytes(cls, data: bytes, name: str = "") -> Source:
        """Make a source of raw bytes; invalid UTF-8 survives the round trip."""
        return cls(data.decode("utf-8", "surrogateescape"), name)

    @cached_property
    def data(self) -> bytes:
        """The text as bytes of UTF-8."""
        return self.text.encode("utf-8", "surrogateescape")

    @cached_property
    def _byte_offsets(self) -> list[int] | None:
        # None for ASCII text, where characters and bytes coincide.
        if self.text.isascii():
            return None
        offsets = [0]
        total = 0
        for char in self.text:
            code = ord(char)
            total += 1 if code < 0x80 or 0xDC80 <= code <= 0xDCFF else 2 if code < 0x800 else 3 if code < 0x10000 else 4
            offsets.append(total)
        return offsets

    @cached_property
    def _line_starts(self) -> list[int]:
        starts = [0]
        index = self.data.find(b"\n")
        while index >= 0:
            starts.append(index + 1)
            index = self.data.find(b"\n", index + 1)
        return starts

    def byte_offset(self, char_index: int) -> int:
        """The byte offset of a character index."""
        offsets = self._byte_offsets
        return char_index if offsets is None else offsets[char_index]

    def char_index(self, byte_offset: int) -> int:
        """The character index of a byte offset (of the character that holds it)."""
        offsets = self._byte_offsets
        return byte_offset if offsets is None else bisect_right(offsets, byte_offset) - 1

    def slice(self, span: Span) -> str:
        """The text of a span."""
        if self._byte_offsets is None:
            return self.text[span.start : span.end]
        return self.data[span.start : span.end].decode("utf-8", "surrogateescape")

    def position(self, offset: int) -> Position:
        """Line and column of a byte offset."""
        line = bisect_right(self._line_starts, offset) - 1
        start = self._line_starts[line]
        column = len(self.data[start:offset].decode("utf-8", "surrogateescape"))
        return Position(line + 1, column + 1, offset)

    def line(self, number: int) -> str:
        """The text of a 1-based line, without its line break."""
        start = self._line_starts[number - 1]
        end = self._line_starts[number] if number < len(self._line_starts) else len(self.data)
        return self.data[start:end].decode("utf-8", "surrogateescape").rstrip("\r\n")
