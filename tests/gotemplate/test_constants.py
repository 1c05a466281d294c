"""Constants: the values that Go 1.27.3's parse package gives them."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable

import pytest

from templatefix.gotemplate.nodes import ActionNode, Node, NumberNode, StringNode
from templatefix.gotemplate.numbers import Number, NumberError, parse_char, parse_complex, parse_number
from templatefix.gotemplate.parser import parse
from templatefix.gotemplate.strings import QuoteError, describe_char, unquote

# As written: the int64, uint64, float64 and complex128 that Go's NumberNode holds.
NUMBERS: list[tuple[str, int | None, int | None, float | None, complex | None]] = [
    ("0", 0, 0, 0.0, None),
    ("-0", 0, 0, 0.0, None),
    ("+0", 0, 0, 0.0, None),
    ("+1", 1, None, 1.0, None),
    ("-1", -1, None, -1.0, None),
    ("1_000", 1000, 1000, 1000.0, None),
    ("0x1F", 31, 31, 31.0, None),
    ("0X_1f", 31, 31, 31.0, None),
    ("0b101", 5, 5, 5.0, None),
    ("0O17", 15, 15, 15.0, None),
    ("017", 15, 15, 15.0, None),
    ("-017", -15, None, -15.0, None),
    ("0_1", 1, 1, 1.0, None),
    ("9223372036854775807", 9223372036854775807, 9223372036854775807, 2.0**63, None),
    ("9223372036854775808", None, 9223372036854775808, 2.0**63, None),
    ("-9223372036854775808", -9223372036854775808, None, -(2.0**63), None),
    ("18446744073709551615", None, 18446744073709551615, 2.0**64, None),
    ("9007199254740993", 9007199254740993, 9007199254740993, 9007199254740992.0, None),
    ("1.", 1, 1, 1.0, None),
    ("-1.0", -1, None, -1.0, None),
    ("1.5", None, None, 1.5, None),
    (".5", None, None, 0.5, None),
    ("1E+3", 1000, 1000, 1000.0, None),
    ("1e-3", None, None, 0.001, None),
    ("1e18", 10**18, 10**18, 1e18, None),
    ("1e19", None, 10**19, 1e19, None),
    ("1e20", None, None, 1e20, None),
    ("1_0.5e1_0", 105000000000, 105000000000, 105000000000.0, None),
    ("0x1p4", 16, 16, 16.0, None),
    ("0x1.8p-2", None, None, 0.375, None),
    ("0X.8P1", 1, 1, 1.0, None),
    ("0x1p63", None, 2**63, 2.0**63, None),
    ("0x1p64", None, None, 2.0**64, None),
    ("0x1p-1074", None, None, 5e-324, None),
    ("9223372036854775807.0", None, 2**63, 2.0**63, None),
    ("1i", None, None, None, 1j),
    ("0i", 0, 0, 0.0, 0j),
    ("0x1p2i", None, None, None, 4j),
    ("017i", None, None, None, 17j),
    ("1+2i", None, None, None, 1 + 2j),
    ("1+0i", 1, 1, 1.0, 1 + 0j),
    ("-1.5-2e3i", None, None, None, -1.5 - 2000j),
    ("1e19+0i", None, 10**19, 1e19, 1e19 + 0j),
    ("0x1p2+1i", None, None, None, 4 + 1j),
    ("'a'", 97, 97, 97.0, None),
    ("'\\n'", 10, 10, 10.0, None),
    ("'\\''", 39, 39, 39.0, None),
    ("'\"'", 34, 34, 34.0, None),
    ("'é'", 233, 233, 233.0, None),
    ("'\\u65e5'", 26085, 26085, 26085.0, None),
    ("'\\xff'", 255, 255, 255.0, None),
    ("'\\377'", 255, 255, 255.0, None),
    ("'\\U0001F600'", 128512, 128512, 128512.0, None),
    ("'\udcff'", 0xFFFD, 0xFFFD, 65533.0, None),
]


def operand(text: str) -> Node:
    action = parse("{{" + text + "}}").root.nodes[0]
    assert isinstance(action, ActionNode)
    return action.pipe.cmds[0].args[0]


@pytest.mark.parametrize(("text", "integer", "unsigned", "number", "pair"), NUMBERS, ids=lambda value: ascii(value))
def test_numbers(
    text: str, integer: int | None, unsigned: int | None, number: float | None, pair: complex | None
) -> None:
    node = operand(text)
    assert isinstance(node, NumberNode)
    assert (node.text, node.is_char) == (text, text.startswith("'"))
    assert (node.int_value, node.uint_value) == (integer, unsigned)
    assert (node.float_value, node.complex_value) == (number, pair)
    assert node.float_value is None or math.copysign(1, node.float_value) == math.copysign(1, number or 0.0)
    assert node.complex_value is None or cmath.isfinite(node.complex_value)


@pytest.mark.parametrize(
    ("read", "text", "reason"),
    [
        (parse_number, "1_", 'illegal number syntax: "1_"'),
        (parse_number, "1__0", 'illegal number syntax: "1__0"'),
        (parse_number, "0x", 'illegal number syntax: "0x"'),
        (parse_number, "0x1.8", 'illegal number syntax: "0x1.8"'),
        (parse_number, "0b12", 'illegal number syntax: "0b12"'),
        (parse_number, "0b1i", 'illegal number syntax: "0b1i"'),
        (parse_number, "1e", 'illegal number syntax: "1e"'),
        (parse_number, "1e999", 'illegal number syntax: "1e999"'),
        (parse_number, "0x1p99999", 'illegal number syntax: "0x1p99999"'),
        (parse_number, "08", 'integer overflow: "08"'),
        (parse_number, "-9223372036854775809", 'integer overflow: "-9223372036854775809"'),
        (parse_number, "18446744073709551616", 'integer overflow: "18446744073709551616"'),
        (parse_complex, "1-i", "syntax error scanning complex number"),
        (parse_complex, "0b1+1i", "syntax error scanning complex number"),
        (parse_complex, "0x1+2i", 'strconv.ParseFloat: parsing "0x1": invalid syntax'),
        (parse_complex, "1e999+1i", 'strconv.ParseFloat: parsing "1e999": value out of range'),
        (parse_complex, "1+._i", 'strconv.ParseFloat: parsing "+._": invalid syntax'),
        (parse_char, "'ab'", "malformed character constant: 'ab'"),
    ],
)
def test_refused_numbers(read: Callable[[str], Number], text: str, reason: str) -> None:
    with pytest.raises(NumberError) as caught:
        read(text)
    assert str(caught.value) == reason


@pytest.mark.parametrize(
    ("quoted", "value"),
    [
        ('""', ""),
        ('"a b"', "a b"),
        ('"é日"', "é日"),
        (r'"\a\b\f\n\r\t\v\\\""', '\a\b\f\n\r\t\v\\"'),
        (r'"\x41\101\u00e9\U0001F600"', "AAé😀"),
        (r'"\xc3\xa9"', "é"),  # two bytes that make a character
        (r'"\xff"', "\udcff"),
        ('"\udcff"', "\ufffd"),
        ('"\\n\udcff"', "\n\ufffd"),
        ("`a\\n`", "a\\n"),
        ("`a\r\nb`", "a\nb"),
        ("`\udcff`", "\udcff"),
    ],
    ids=ascii,
)
def test_strings(quoted: str, value: str) -> None:
    node = operand(quoted)
    assert isinstance(node, StringNode)
    assert (node.quoted, node.value) == (quoted, value)


@pytest.mark.parametrize("inner", [r"\q", r"\'", r"\x4", r"\x4g", r"\400", r"\18", r"\ud800", r"\U00110000", r"\u12"])
def test_refused_strings(inner: str) -> None:
    with pytest.raises(QuoteError, match=r"^invalid syntax$"):
        unquote(f'"{inner}"')


@pytest.mark.parametrize("text", ["''", r"'\q'", "'\\\"'", r"'\400'"])
def test_refused_characters(text: str) -> None:
    with pytest.raises(QuoteError, match=r"^invalid syntax$"):
        parse_char(text)


@pytest.mark.parametrize(
    ("char", "shown"),
    [("}", "U+007D '}'"), ("\t", "U+0009"), ("é", "U+00E9 'é'"), ("\u00a0", "U+00A0"), ("😀", "U+1F600 '😀'")],
)
def test_characters_in_sentences(char: str, shown: str) -> None:
    assert describe_char(char) == shown
