"""Number constants: Go's syntax, and the types that can hold each value."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from templatefix.gotemplate.strconv import quote
from templatefix.gotemplate.strings import unquote_char

_MAX_INT = (1 << 63) - 1
_MIN_INT = -(1 << 63)
_MAX_UINT = (1 << 64) - 1
_BASES = {"b": 2, "o": 8, "x": 16}
_DECIMAL = re.compile(r"[+-]?(?:[0-9_]*\.?[0-9_]*)(?:[eE][+-]?[0-9][0-9_]*)?")
_HEXADECIMAL = re.compile(r"[+-]?0[xX][0-9a-fA-F_]*\.?[0-9a-fA-F_]*[pP][+-]?[0-9][0-9_]*")
_FLOAT_TOKEN = re.compile(
    r"[+-]?(?:0[xX][0-9a-fA-F_]*(?:\.[0-9a-fA-F_]*)?(?:[pP][+-]?[0-9_]*)?"
    r"|[0-9_]*(?:\.[0-9_]*)?(?:[eEpP][+-]?[0-9_]*)?)"
)


class Number(NamedTuple):
    """A constant's value in each type that can hold it, None in the others."""

    int_value: int | None
    uint_value: int | None
    float_value: float | None
    complex_value: complex | None


class NumberError(ValueError):
    """A constant that Go refuses, with Go's reason."""


def parse_char(text: str) -> Number:
    """The value of a character constant, single quotes included. Raises QuoteError or NumberError."""
    code, _, end = unquote_char(text, 1, "'")
    if text[end:] != "'":
        raise NumberError(f"malformed character constant: {text}")
    return Number(code, code, float(code), None)


def parse_number(text: str) -> Number:
    """The value of a simple or imaginary number. Raises NumberError."""
    if text.endswith("i"):
        imaginary = parse_float(text[:-1])
        if isinstance(imaginary, float):
            return _simplified(complex(0, imaginary))
    integer = _parse_integer(text)
    int_value = uint_value = None
    if integer is not None:
        if integer == 0 or (text[0] not in "+-" and integer <= _MAX_UINT):
            uint_value = integer
        if _MIN_INT <= integer <= _MAX_INT:
            int_value = integer
    if int_value is not None:
        return Number(int_value, uint_value, float(int_value), None)
    if uint_value is not None:
        return Number(None, uint_value, float(uint_value), None)
    value = parse_float(text)
    if not isinstance(value, float):
        raise NumberError(f"illegal number syntax: {quote(text)}")
    if not any(char in ".eEpP" for char in text):
        raise NumberError(f"integer overflow: {quote(text)}")
    return Number(_as_int(value), _as_uint(value), value, None)


def parse_complex(text: str) -> Number:
    """The value of `1+2i`, as Go's scanner of such pairs reads it. Raises NumberError."""
    real = _FLOAT_TOKEN.match(text)
    assert real is not None  # the pattern matches the empty string
    imaginary = _FLOAT_TOKEN.match(text, real.end() + 1)
    signed = text[real.end() : real.end() + 1] in ("+", "-")
    # Without digits, Go's scanner takes the i for the beginning of "inf" and misses it afterwards.
    bare = text[real.end() + 1 : real.end() + 2] == "i"
    if not signed or bare or imaginary is None or text[imaginary.end() : imaginary.end() + 1] != "i":
        raise NumberError("syntax error scanning complex number")
    parts = []
    for part in (real[0], text[real.end() : imaginary.end()]):
        value = parse_float(part)
        if not isinstance(value, float):
            raise NumberError(f"strconv.ParseFloat: parsing {quote(part)}: {value}")
        parts.append(value)
    return _simplified(complex(parts[0], parts[1]))


def parse_float(text: str) -> float | str:
    """The float that `strconv.ParseFloat` reads, or its reason: `invalid syntax`, `value out of range`.

    Only what a template's number token can hold counts; names such as `inf` do not.
    """
    is_hex = _HEXADECIMAL.fullmatch(text) is not None
    if not is_hex and _DECIMAL.fullmatch(text) is None:
        return "invalid syntax"
    mantissa = re.split("[pP]" if is_hex else "[eE]", text)[0]
    digits = mantissa.lstrip("+-")[2:] if is_hex else mantissa
    if not any(char.isalnum() for char in digits) or ("_" in text and not _underscores_ok(text)):
        return "invalid syntax"
    plain = text.replace("_", "")
    try:
        value = float.fromhex(plain) if is_hex else float(plain)
    except OverflowError:
        return "value out of range"
    return "value out of range" if math.isinf(value) else value


def _parse_integer(text: str) -> int | None:
    """The integer in Go's syntax of base 0, of any size; None where it is none."""
    negative = text[:1] == "-"
    body = text[1:] if text[:1] in ("+", "-") else text
    base = 10
    digits = body
    if body[:1] == "0":
        base = _BASES.get(body[1:2].lower(), 8) if len(body) >= 3 else 8
        digits = body[2:] if len(body) >= 3 and body[1].lower() in _BASES else body[1:]
    if not body or ("_" in body and not _underscores_ok(body)):
        return None
    try:
        value = int(digits.replace("_", "") or "0", base)
    except ValueError:
        return None
    return -value if negative else value


def _underscores_ok(text: str) -> bool:
    """Whether every underscore stands between digits; a base prefix counts as one."""
    body = text.lstrip("+-")
    digits = "0123456789"
    if body[:1] == "0" and body[1:2].lower() in _BASES:
        digits += "abcdefABCDEF" if body[1] in "xX" else ""
        body = "0" + body[2:]
    return all(
        body[index - 1 : index] in digits and body[index - 1 : index] and body[index + 1 : index + 2] in digits
        for index, char in enumerate(body)
        if char == "_" and body[index + 1 : index + 2]
    ) and not body.endswith("_")


def _simplified(value: complex) -> Number:
    if value.imag != 0:
        return Number(None, None, None, value)
    return Number(_as_int(value.real), _as_uint(value.real), value.real, value)


def _as_int(value: float) -> int | None:
    return int(value) if value == math.floor(value) and _MIN_INT <= value <= _MAX_INT else None


def _as_uint(value: float) -> int | None:
    return int(value) if value == math.floor(value) and 0 <= value <= _MAX_UINT else None
