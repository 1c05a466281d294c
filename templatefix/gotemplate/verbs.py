"""One operand under one verb of Printf: numbers, strings and bytes with flags, width and precision."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from templatefix.gotemplate.printable import is_print
from templatefix.gotemplate.strconv import (
    MAX_RUNE,
    REPLACEMENT,
    can_backquote,
    format_float,
    quote,
    quote_rune,
    runes,
)
from templatefix.gotemplate.values import to_bytes

_UINT64: Final = (1 << 64) - 1
_BASES: Final = {"v": "d", "d": "d", "b": "b", "o": "o", "O": "o", "x": "x", "X": "X"}
_FLOAT_PRECISIONS: Final = {"v": -1, "b": -1, "g": -1, "G": -1, "x": -1, "X": -1, "f": 6, "e": 6, "E": 6, "F": 6}


@dataclass(frozen=True, slots=True)
class Directive:
    """What stands between the percent sign and the verb; `plus_v` and `sharp_v` are the flags of %+v and %#v."""

    plus: bool = False
    minus: bool = False
    sharp: bool = False
    space: bool = False
    zero: bool = False
    width: int | None = None
    precision: int | None = None
    plus_v: bool = False
    sharp_v: bool = False


PLAIN: Final = Directive()


def pad(text: str, spec: Directive, zero: bool = True) -> str:
    """The text brought to the width, counted in runes; `zero` lets the flag 0 fill with zeros."""
    if not spec.width:
        return text
    filling = _filling(spec.width - len(runes(text)), spec, zero)
    return text + filling if spec.minus else filling + text


def _filling(count: int, spec: Directive, zero: bool = True) -> str:
    return ("0" if zero and spec.zero and not spec.minus else " ") * count


def _truncated(text: str, spec: Directive) -> str:
    return text if spec.precision is None else runes(text)[: spec.precision]


def format_bool(value: bool, verb: str, spec: Directive) -> str | None:
    """A bool, or None for a verb that bools do not take."""
    return pad("true" if value else "false", spec) if verb in ("t", "v") else None


def format_string(text: str, verb: str, spec: Directive) -> str | None:
    """A string, or None for a verb that strings do not take."""
    if verb == "s" or (verb == "v" and not spec.sharp_v):
        return text if spec is PLAIN else pad(_truncated(text, spec), spec)
    if verb in ("q", "v"):
        text = _truncated(text, spec)
        if spec.sharp and can_backquote(text):
            return pad(f"`{text}`", spec)
        return pad(quote(text, spec.plus), spec)
    if verb in ("x", "X"):
        return _format_hex(to_bytes(text), verb, spec)
    return None


def _format_hex(data: bytes, verb: str, spec: Directive) -> str:
    prefix = "0" + verb if spec.sharp else ""
    data = data[: spec.precision]
    if not data:
        return _filling(spec.width or 0, spec)
    digits = data.hex(" ").replace(" ", " " + prefix) if spec.space else data.hex()
    return pad(prefix + (digits.upper() if verb == "X" else digits), spec)


def format_integer(value: int, signed: bool, verb: str, spec: Directive) -> str | None:
    """An integer, or None for a verb that integers do not take."""
    base = _BASES.get(verb)
    if base is not None:
        if verb == "v" and spec.sharp_v and not signed:
            return format_hex_word(value, True, spec)
        return _format_digits(value, base, verb, spec)
    if verb == "c":
        return pad(_rune(value), spec)
    if verb == "q":
        return pad(quote_rune(_rune(value), spec.plus), spec)
    if verb == "U":
        return _format_unicode(value & _UINT64, spec)
    return None


def format_hex_word(value: int, prefixed: bool, spec: Directive) -> str:
    """An unsigned integer as %#v writes it, with or without `0x`."""
    return _format_digits(value, "x", "v", spec if spec.sharp == prefixed else replace(spec, sharp=prefixed))


def _rune(value: int) -> str:
    code = value & _UINT64
    return REPLACEMENT if code > MAX_RUNE or 0xD800 <= code < 0xE000 else chr(code)


def _format_digits(value: int, base: str, verb: str, spec: Directive) -> str:
    sign = "-" if value < 0 else "+" if spec.plus else " " if spec.space else ""
    if spec is PLAIN and base == "d":
        return str(int(value))
    digits = format(abs(int(value)), base)
    if spec.precision is not None:
        if spec.precision == 0 and value == 0:
            return " " * (spec.width or 0)
        digits = digits.rjust(spec.precision, "0")
    elif spec.zero and not spec.minus and spec.width is not None:
        digits = digits.rjust(spec.width - len(sign), "0")
    if spec.sharp:
        if base == "o":
            digits = digits if digits.startswith("0") else "0" + digits
        elif base != "d":
            digits = "0" + base + digits
    if verb == "O":
        digits = "0o" + digits
    return pad(sign + digits, spec, zero=False)


def _format_unicode(code: int, spec: Directive) -> str:
    text = f"U+{code:0{max(spec.precision or 4, 4)}X}"
    if spec.sharp and code <= MAX_RUNE and is_print(chr(code)):
        text += f" '{chr(code)}'"
    return pad(text, spec, zero=False)


def format_floating(value: float, verb: str, spec: Directive) -> str | None:
    """A float64, or None for a verb that floats do not take."""
    precision = _FLOAT_PRECISIONS.get(verb)
    if precision is None:
        return None
    if spec.precision is not None:
        precision = spec.precision
    verb = {"v": "g", "F": "f"}.get(verb, verb)
    number = format_float(value, verb, precision)
    if spec is PLAIN:
        return number
    sign = number[0] if number[0] in "+-" else ""
    number = number[len(sign) :]
    shown = sign if sign == "-" else "+" if spec.plus else " " if spec.space else ""
    if number in ("NaN", "Inf"):
        # An infinity always shows its sign.
        return pad((shown or sign) + number, spec, zero=False)
    if spec.sharp and verb != "b":
        number = _with_point(number, verb, precision)
    missing = (spec.width or 0) - len(shown) - len(number)
    if shown and spec.zero and not spec.minus and missing > 0:
        return shown + "0" * missing + number
    return pad(shown + number, spec)


def _with_point(number: str, verb: str, precision: int) -> str:
    """The flag #: always a point, and for %g and %x the zeros that the precision asks for (6 if it does not)."""
    missing = (6 if precision == -1 else precision) if verb in "gGx" else 0
    exponent_marks = "pP" if verb in "xX" else "eEpP"
    cut = next((i for i, char in enumerate(number) if char in exponent_marks), len(number))
    body, tail = number[:cut], number[cut:]
    # The x of 0x counts as a digit too.
    missing -= len(body.replace(".", "").lstrip("0"))
    if "." not in body:
        if body == "0":
            missing -= 1
        body += "."
    return body + "0" * missing + tail


def format_complex(value: complex, verb: str, spec: Directive) -> str | None:
    """A complex128, or None for a verb that it does not take."""
    real = format_floating(value.real, verb, spec)
    imaginary = format_floating(value.imag, verb, replace(spec, plus=True))
    return f"({real}{imaginary}i)" if real is not None else None


def format_bytes(data: bytes, verb: str, spec: Directive) -> str | None:
    """Bytes under a verb that takes them as text, or None for another verb."""
    if verb in ("x", "X"):
        return _format_hex(data, verb, spec)
    if verb not in ("s", "q"):
        return None
    return format_string(data.decode("utf-8", "surrogateescape"), verb, spec)
