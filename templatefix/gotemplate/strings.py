"""Go's quoted strings and characters: read as Go reads them.

Bytes that are not UTF-8 ride in Python strings as lone surrogates (PEP 383).
"""

from __future__ import annotations

import re

from templatefix.gotemplate.printable import is_print

REPLACEMENT = 0xFFFD  # what Go decodes a byte to that is not UTF-8

_SIMPLE = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, "\\": 92}
_HEX_DIGITS = {"x": 2, "u": 4, "U": 8}
_HEX = re.compile(r"[0-9a-fA-F]+")
_OCTAL = re.compile(r"[0-7]{3}")
_STRAY = re.compile("[\udc80-\udcff]")


class QuoteError(ValueError):
    """A constant that Go calls `invalid syntax`."""

    def __init__(self) -> None:
        super().__init__("invalid syntax")


def is_stray_byte(char: str) -> bool:
    """Whether a character stands for a byte that is not UTF-8."""
    return "\udc80" <= char <= "\udcff"


def unquote(quoted: str) -> str:
    """The value of a string constant in double quotes or back quotes, which are known to be there.

    Raises QuoteError for an escape that Go does not know.
    """
    inner = quoted[1:-1]
    if quoted[0] == "`":
        return inner.replace("\r", "")
    if "\\" not in inner:
        return inner if inner.isascii() else _STRAY.sub("\ufffd", inner)
    data = bytearray()
    index = 0
    while index < len(inner):
        code, is_byte, index = unquote_char(inner, index, '"')
        data += bytes((code,)) if is_byte else chr(code).encode()
    return data.decode("utf-8", "surrogateescape")


def unquote_char(text: str, index: int, quote: str) -> tuple[int, bool, int]:
    """The character or escape at `index`: its code, whether it stands for one byte, and the index behind it.

    Raises QuoteError where there is none, and for a bare `quote`.
    """
    char = text[index : index + 1]
    if char in ("", quote):
        raise QuoteError
    if char != "\\":
        return (REPLACEMENT if is_stray_byte(char) else ord(char)), False, index + 1
    char = text[index + 1 : index + 2]
    index += 2
    if char in _SIMPLE:
        return _SIMPLE[char], False, index
    if char in _HEX_DIGITS:
        end = index + _HEX_DIGITS[char]
        return _hex_escape(text[index:end], end - index, char == "x"), char == "x", end
    if char == quote:
        return ord(char), False, index
    octal = _OCTAL.match(text, index - 1)
    if octal is None or int(octal[0], 8) > 255:
        raise QuoteError
    return int(octal[0], 8), True, octal.end()


def _hex_escape(digits: str, count: int, is_byte: bool) -> int:
    if len(digits) != count or _HEX.fullmatch(digits) is None:
        raise QuoteError
    code = int(digits, 16)
    if not is_byte and (code > 0x10FFFF or 0xD800 <= code <= 0xDFFF):
        raise QuoteError
    return code


def describe_char(char: str) -> str:
    """A character as `%#U` prints it: `U+00E9 'é'`."""
    if is_stray_byte(char):
        char = chr(REPLACEMENT)
    name = f"U+{ord(char):04X}"
    return f"{name} '{char}'" if is_print(char) else name
