"""Go's fmt: Print, Println and Printf of the values that a template sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from templatefix.gotemplate.operands import AddressPrinted, format_operand, format_value
from templatefix.gotemplate.values import kind_of, type_of
from templatefix.gotemplate.verbs import PLAIN, Directive

__all__ = ["AddressPrinted", "format_value", "sprint", "sprintf", "sprintln"]

_FLAGS: Final = {"#": "sharp", "0": "zero", "+": "plus", "-": "minus", " ": "space"}
_LARGEST: Final = 1_000_000


def sprint(args: Sequence[Any]) -> str:
    """Sprint: a blank between two operands of which neither is a string. Raises AddressPrinted."""
    parts: list[str] = []
    after_string = True
    for arg in args:
        is_string = isinstance(arg, str)
        if not is_string and not after_string:
            parts.append(" ")
        parts.append(format_value(arg))
        after_string = is_string
    return "".join(parts)


def sprintln(args: Sequence[Any]) -> str:
    """Sprintln: a blank between all operands and a line feed at the end. Raises AddressPrinted."""
    return " ".join([format_value(arg) for arg in args]) + "\n"


def sprintf(format: str, args: Sequence[Any]) -> str:
    """Sprintf; a nil interface is None (or INVALID). Raises AddressPrinted."""
    return _Formatter(format, args).run()


class _Formatter:
    """One walk over a format string: where it stands in the format and in the arguments."""

    def __init__(self, format: str, args: Sequence[Any]) -> None:
        self.format = format
        self.args = args
        self.place = 0
        self.number = 0  # of the next argument
        self.reordered = False  # an index was used, so unused arguments are no error
        self.good_index = True  # in the present directive
        self.parts: list[str] = []

    def run(self) -> str:
        format, end = self.format, len(self.format)
        while self.place < end:
            percent = format.find("%", self.place)
            if percent < 0:
                self.parts.append(format[self.place :])
                break
            self.parts.append(format[self.place : percent])
            self.place = percent + 1
            self._directive()
        if not self.reordered and self.number < len(self.args):
            self.parts.append(f"%!(EXTRA {', '.join([_described(arg) for arg in self.args[self.number :]])})")
        return "".join(self.parts)

    def _peek(self) -> str:
        return self.format[self.place : self.place + 1]

    def _directive(self) -> None:
        self.good_index = True
        flags: dict[str, bool] = {}
        while (flag := _FLAGS.get(self._peek())) is not None:
            flags[flag] = True
            self.place += 1
        char = self._peek()
        if "a" <= char <= "z" and self.number < len(self.args):
            self.place += 1
            self._operand(char, Directive(**flags) if flags else PLAIN)
            return
        spec = self._sized(Directive(**flags))
        if self.place >= len(self.format):
            self.parts.append("%!(NOVERB)")
            return
        verb = self._peek()
        self.place += 1
        if "\ud800" <= verb <= "\udfff":
            verb = "\ufffd"
        if verb == "%":
            self.parts.append("%")
        elif not self.good_index:
            self.parts.append(f"%!{verb}(BADINDEX)")
        elif self.number >= len(self.args):
            self.parts.append(f"%!{verb}(MISSING)")
        else:
            self._operand(verb, spec)

    def _operand(self, verb: str, spec: Directive) -> None:
        if verb in ("v", "w") and (spec.sharp or spec.plus):
            spec = replace(spec, sharp=False, plus=False, sharp_v=spec.sharp, plus_v=spec.plus)
        self.parts.append(format_operand(self.args[self.number], verb, spec))
        self.number += 1

    def _sized(self, spec: Directive) -> Directive:
        """Reads argument indexes, width and precision."""
        indexed = self._index()
        if self._peek() == "*":
            self.place += 1
            width = self._number_argument("%!(BADWIDTH)")
            if width is not None and width < 0:
                spec = replace(spec, minus=True, zero=False)
                width = -width
            indexed = False
        else:
            width = self._digits()
            if indexed and width is not None:
                self.good_index = False
        precision = None
        if self._peek() == "." and self.place + 1 < len(self.format):
            self.place += 1
            if indexed:
                self.good_index = False
            indexed = self._index()
            if self._peek() == "*":
                self.place += 1
                precision = self._number_argument("%!(BADPREC)", least=0)
                indexed = False
            else:
                precision = self._digits() or 0
        if not indexed:
            self._index()
        return replace(spec, width=width, precision=precision)

    def _digits(self) -> int | None:
        """A number in the format; one that is far too large swallows the rest of the format."""
        number, self.place = _parse_digits(self.format, self.place, len(self.format))
        return number

    def _number_argument(self, error: str, least: int = -_LARGEST) -> int | None:
        """The next argument as a width or precision."""
        number = None
        if self.number < len(self.args):
            arg = self.args[self.number]
            self.number += 1
            if kind_of(arg) in ("int", "uint") and least <= arg <= _LARGEST:
                number = int(arg)
        if number is None:
            self.parts.append(error)
        return number

    def _index(self) -> bool:
        """Reads an argument index such as `[3]`; whether there was a number."""
        if self._peek() != "[":
            return False
        self.reordered = True
        start = self.place
        close = self.format.find("]", start)
        if len(self.format) - start < 3 or close < 0:
            self.place += 1
            self.good_index = False
            return False
        self.place = close + 1
        number, stop = _parse_digits(self.format, start + 1, close)
        if number is None or stop != close:
            self.good_index = False
            return False
        if 1 <= number <= len(self.args):
            self.number = number - 1
        else:
            self.good_index = False
        return True


def _parse_digits(text: str, start: int, end: int) -> tuple[int | None, int]:
    number: int | None = None
    place = start
    while place < end and "0" <= text[place] <= "9":
        number = number or 0
        if number > _LARGEST:
            return None, end
        number = number * 10 + int(text[place])
        place += 1
    return number, place


def _described(arg: Any) -> str:
    return "<nil>" if kind_of(arg) in ("invalid", "interface") else f"{type_of(arg).name}={format_value(arg)}"
