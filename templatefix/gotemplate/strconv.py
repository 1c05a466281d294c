"""Numbers and quoted strings as Go's strconv writes them."""

from __future__ import annotations

import math
import re
from typing import Final

from templatefix.gotemplate.printable import is_print
from templatefix.gotemplate.values import from_bytes, to_bytes

MAX_RUNE: Final = 0x10FFFF
REPLACEMENT: Final = "\ufffd"

# PEP 383: a byte that is not UTF-8 is held as the code point U+DC00 + byte.
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_PLAIN: Final = re.compile(r"[ !#-\[\]-~]*\Z")
_SIMPLE_ESCAPES: Final = {
    "\a": r"\a",
    "\b": r"\b",
    "\f": r"\f",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
}


def has_surrogates(text: str) -> bool:
    """Whether a string holds bytes that are not UTF-8."""
    return not text.isascii() and _SURROGATE.search(text) is not None


def runes(text: str) -> str:
    """The text with one character a rune: bytes that only together make a character are joined."""
    return from_bytes(to_bytes(text)) if has_surrogates(text) else text


def valid_utf8(text: str) -> str:
    """The text with U+FFFD for each byte that is not UTF-8."""
    return _SURROGATE.sub(REPLACEMENT, runes(text))


def quote(text: str, ascii_only: bool = False) -> str:
    """A string as a double-quoted Go literal; with `ascii_only` every other character is escaped."""
    if _PLAIN.match(text):
        return f'"{text}"'
    return '"' + "".join([_escape_rune(char, '"', ascii_only) for char in runes(text)]) + '"'


def quote_rune(char: str, ascii_only: bool = False) -> str:
    """A rune as a single-quoted Go literal; a surrogate is no rune and becomes U+FFFD."""
    if _SURROGATE.match(char):
        char = REPLACEMENT
    return "'" + _escape_rune(char, "'", ascii_only) + "'"


def _escape_rune(char: str, quote_char: str, ascii_only: bool) -> str:
    if char == quote_char or char == "\\":
        return "\\" + char
    if (char.isascii() or not ascii_only) and is_print(char):
        return char
    if char in _SIMPLE_ESCAPES:
        return _SIMPLE_ESCAPES[char]
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def can_backquote(text: str) -> bool:
    """Whether a string can stand between back quotes: valid UTF-8, no back quote, no control character but tab."""
    return not any(
        char in "`\x7f\ufeff" or (char < " " and char != "\t") or _SURROGATE.match(char) is not None
        for char in runes(text)
    )


def format_float(value: float, verb: str, precision: int = -1) -> str:
    """A float64 by one of the verbs e, E, f, g, G, b, x, X; precision -1 is the fewest digits that tell it apart."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    value = abs(value)
    if verb == "b":
        return sign + _binary(value)
    if verb in "xX":
        text = _hexadecimal(value, precision)
        return sign + (text.upper() if verb == "X" else text)
    lower = verb.lower()
    if lower == "e":
        text = _scientific(*_shortest(value)) if precision < 0 else f"{value:.{precision}e}"
    elif lower == "f":
        text = _positional(*_shortest(value)) if precision < 0 else f"{value:.{precision}f}"
    else:
        text = _general(value, precision)
    return sign + (text.upper() if verb.isupper() else text)


def _shortest(value: float) -> tuple[str, int]:
    """The fewest significant digits, without zeros at either end, and the place of the point before or behind them."""
    mantissa, _, exponent = repr(value).partition("e")
    whole, _, fraction = mantissa.partition(".")
    return _digits(whole + fraction, len(whole) + int(exponent or 0))


def _digits(digits: str, point: int) -> tuple[str, int]:
    stripped = digits.lstrip("0")
    if not stripped:
        return "", 0
    return stripped.rstrip("0"), point - (len(digits) - len(stripped))


def _scientific(digits: str, point: int) -> str:
    if not digits:
        return "0e+00"
    exponent = point - 1
    fraction = "." + digits[1:] if len(digits) > 1 else ""
    return f"{digits[0]}{fraction}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def _positional(digits: str, point: int) -> str:
    if point <= 0:
        return "0." + "0" * -point + digits if digits else "0"
    if len(digits) <= point:
        return digits + "0" * (point - len(digits))
    return digits[:point] + "." + digits[point:]


def _general(value: float, precision: int) -> str:
    if precision < 0:
        digits, point = _shortest(value)
        limit = 6
    else:
        mantissa, _, exponent = f"{value:.{max(precision, 1) - 1}e}".partition("e")
        digits, point = _digits(mantissa.replace(".", ""), int(exponent) + 1)
        limit = max(precision, 1)
        if limit > len(digits) >= point:
            limit = len(digits)
    if point - 1 < -4 or point - 1 >= limit:
        return _scientific(digits, point)
    return _positional(digits, point)


def _binary(value: float) -> str:
    if value == 0:
        return "0p-1074"
    mantissa, exponent = math.frexp(value)
    # Subnormal numbers share the least exponent.
    shift = max(exponent - 53, -1074)
    return f"{int(math.ldexp(mantissa, exponent - shift))}p{shift:+d}"


def _hexadecimal(value: float, precision: int) -> str:
    fraction, exponent = math.frexp(value)
    mantissa, exponent = int(fraction * (1 << 53)), exponent - 1
    if not mantissa:
        exponent = 0
    places = 13
    if 0 <= precision < 13:
        drop = 52 - 4 * precision
        mantissa, rest = mantissa >> drop, mantissa & ((1 << drop) - 1)
        half = 1 << (drop - 1)
        if rest > half or (rest == half and mantissa & 1):
            mantissa += 1
        places = precision
        if mantissa >> (4 * places) > 1:
            mantissa >>= 1
            exponent += 1
    digits = f"{mantissa & ((1 << 4 * places) - 1):0{places}x}" if places else ""
    digits = digits.rstrip("0") if precision < 0 else digits.ljust(precision, "0")
    point = "." + digits if digits else ""
    return f"0x{mantissa >> 4 * places}{point}p{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
