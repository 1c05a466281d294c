"""Which characters Go counts as letters and digits, by the Unicode version that Go 1.27 knows (17.0)."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right

# Letters and digits that Unicode 14 to 17 added: unassigned for a Python that is older (3.10 knows 13.0). Hexadecimal
# code points, each a single one or a range.
_ADDED = """
    870-887 889-88f 8b5 8c8-8c9 c5c-c5d cdc-cdd 170d 171f 1b4c 1c89-1c8a 2c2f 2c5f 9ffd-9fff a7c0-a7c1 a7cb-a7dc
    a7f1-a7f4 10570-1057a 1057c-1058a 1058c-10592 10594-10595 10597-105a1 105a3-105b1 105b3-105b9 105bb-105bc
    105c0-105f3 10780-10785 10787-107b0 107b2-107ba 10940-10959 10d40-10d65 10d6f-10d85 10ec2-10ec7 10f70-10f81
    11071-11072 11075 1123f-11240 11380-11389 1138b 1138e 11390-113b5 113b7 113d1 113d3 116d0-116e3 11740-11746
    11ab0-11abf 11bc0-11be0 11bf0-11bf9 11db0-11ddb 11de0-11de9 11f02 11f04-11f10 11f12-11f33 11f50-11f59 12f90-12ff0
    1342f 13441-13446 13460-143fa 16100-1611d 16130-16139 16a70-16abe 16ac0-16ac9 16d40-16d6c 16d70-16d79 16ea0-16eb8
    16ebb-16ed3 16ff2-16ff3 187f8-187ff 18cff 18d09-18d1e 18d80-18df2 1aff0-1aff3 1aff5-1affb 1affd-1affe 1b11f-1b122
    1b132 1b155 1ccf0-1ccf9 1df00-1df1e 1df25-1df2a 1e030-1e06d 1e290-1e2ad 1e4d0-1e4eb 1e4f0-1e4f9 1e5d0-1e5ed
    1e5f0-1e5fa 1e6c0-1e6de 1e6e0-1e6e2 1e6e4-1e6e5 1e6e7-1e6ed 1e6f0-1e6f4 1e6fe-1e6ff 1e7e0-1e7e6 1e7e8-1e7eb
    1e7ed-1e7ee 1e7f0-1e7fe 2a6de-2a6df 2b735-2b73f 2cea2-2cead 2ebf0-2ee5d 31350-33479
"""
_RANGES = [
    (int(first, 16), int(last or first, 16)) for first, _, last in (item.partition("-") for item in _ADDED.split())
]
_FIRSTS = [first for first, _ in _RANGES]


def is_alphanumeric(char: str) -> bool:
    """Whether a character may stand in an identifier: a letter, a decimal digit or `_`."""
    if char.isascii():
        return char == "_" or char.isalnum()
    category = unicodedata.category(char)
    if category != "Cn":
        return category[0] == "L" or category == "Nd"
    place = bisect_right(_FIRSTS, ord(char)) - 1
    return place >= 0 and ord(char) <= _RANGES[place][1]
