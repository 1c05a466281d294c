"""Which characters Go counts as letters, digits and printable."""

from __future__ import annotations

import unicodedata

_PRINTED = frozenset("LMNPS")


def is_alphanumeric(char: str) -> bool:
    """Whether a character may stand in an identifier: a letter, a decimal digit or `_`."""
    if char.isascii():
        return char == "_" or char.isalnum()
    category = unicodedata.category(char)
    return category[0] == "L" or category == "Nd"


def is_print(char: str) -> bool:
    """Whether Go prints a character as it is: letters, marks, numbers, punctuation, symbols and the blank."""
    if char.isascii():
        return " " <= char <= "~"
    return unicodedata.category(char)[0] in _PRINTED
