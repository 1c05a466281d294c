"""Tokens: what they are, and that they join to the source."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from gotemplate.strategies import any_template
from hypothesis import given
from hypothesis import strategies as st

from templatefix.gotemplate.lexer import gaps, lex
from templatefix.gotemplate.source import Source


def tokens(text: str) -> list[tuple[str, str]]:
    source = Source(text)
    data = source.data
    return [
        (token.kind.name, data[token.start : token.end].decode("utf-8", "surrogateescape"))
        for token in gaps(lex(source))
    ]


CASES: dict[str, list[tuple[str, str]]] = {
    "": [],
    "a { b } c": [("TEXT", "a { b } c")],
    "a {{.B}} c": [("TEXT", "a "), ("LEFT", "{{"), ("FIELD", ".B"), ("RIGHT", "}}"), ("TEXT", " c")],
    "a \n{{- .B -}}\t\n c": [
        *[("TEXT", "a"), ("TRIMMED", " \n"), ("LEFT", "{{- "), ("FIELD", ".B")],
        *[("RIGHT", " -}}"), ("TRIMMED", "\t\n "), ("TEXT", "c")],
    ],
    "{{-  .B  -}} {{- /* c */ -}} ": [
        *[("LEFT", "{{- "), ("SPACE", " "), ("FIELD", ".B"), ("SPACE", " "), ("RIGHT", " -}}"), ("TRIMMED", " ")],
        *[("COMMENT", "{{- /* c */ -}}"), ("TRIMMED", " ")],
    ],
    "{{-3}}": [("LEFT", "{{"), ("NUMBER", "-3"), ("RIGHT", "}}")],
    "{{- -}}": [("LEFT", "{{- "), ("NUMBER", "-"), ("RIGHT", "}}")],
    '{{if eq $x.A.B 1.5 \'c\' "s\\"" `r\n` | not}}': [
        *[("LEFT", "{{"), ("IF", "if"), ("SPACE", " "), ("IDENTIFIER", "eq"), ("SPACE", " "), ("VARIABLE", "$x")],
        *[("FIELD", ".A"), ("FIELD", ".B"), ("SPACE", " "), ("NUMBER", "1.5"), ("SPACE", " ")],
        *[("CHAR_CONSTANT", "'c'"), ("SPACE", " "), ("STRING", '"s\\""'), ("SPACE", " "), ("RAW_STRING", "`r\n`")],
        *[("SPACE", " "), ("PIPE", "|"), ("SPACE", " "), ("IDENTIFIER", "not"), ("RIGHT", "}}")],
    ],
    "{{$i,$é:=(.)}}": [
        *[("LEFT", "{{"), ("VARIABLE", "$i"), ("CHAR", ","), ("VARIABLE", "$é"), ("DECLARE", ":=")],
        *[("LEFT_PAREN", "("), ("DOT", "."), ("RIGHT_PAREN", ")"), ("RIGHT", "}}")],
    ],
    "{{1+2i 0x1F .5 1_0}}": [
        *[("LEFT", "{{"), ("COMPLEX", "1+2i"), ("SPACE", " "), ("NUMBER", "0x1F"), ("SPACE", " ")],
        *[("NUMBER", ".5"), ("SPACE", " "), ("NUMBER", "1_0"), ("RIGHT", "}}")],
    ],
    "{{true nil endx end}}": [
        *[("LEFT", "{{"), ("BOOL", "true"), ("SPACE", " "), ("NIL", "nil"), ("SPACE", " ")],
        *[("IDENTIFIER", "endx"), ("SPACE", " "), ("END", "end"), ("RIGHT", "}}")],
    ],
    "a{{ .B }": [
        ("TEXT", "a"),
        ("LEFT", "{{"),
        ("SPACE", " "),
        ("FIELD", ".B"),
        ("SPACE", " "),
        ("CHAR", "}"),
        ("ERROR", ""),
    ],
    "a{{ 'b }} c": [("TEXT", "a"), ("LEFT", "{{"), ("SPACE", " "), ("ERROR", "'b }} c")],
    "a {{/* b": [("TEXT", "a "), ("ERROR", "{{/* b")],
}


@pytest.mark.parametrize("text", CASES, ids=ascii)
def test_tokens(text: str) -> None:
    assert tokens(text) == CASES[text]


def assert_lossless(text: str) -> None:
    assert "".join(piece for _, piece in tokens(text)) == text


def test_corpus_is_lossless(corpus: dict[str, dict[str, Any]], rejected: list[dict[str, Any]]) -> None:
    for row in [*corpus.values(), *rejected]:
        assert_lossless(row["template"])


@given(st.randoms(use_true_random=False))
def test_lossless(random: Random) -> None:
    assert_lossless(any_template(random))


@given(st.text(alphabet="{}-/* \n\t.$a(é)\"'`|:=,1_xi\udcff\\😀!"))
def test_lossless_on_noise(text: str) -> None:
    assert_lossless(text)


@given(st.binary(max_size=60))
def test_bytes_that_are_not_utf8_survive(noise: bytes) -> None:
    data = b"a" + noise + b"{{`" + noise.replace(b"`", b"") + b"`}}" + noise
    source = Source.from_bytes(data)
    assert source.data == data
    assert b"".join(source.data[token.start : token.end] for token in gaps(lex(source))) == data


@pytest.mark.parametrize(
    ("text", "error", "at"),
    [
        ("{{ a\u00a0 }}", "bad character U+00A0", 3),
        ("{{ é.ü! }}", "bad character U+0021 '!'", 5),
        ("{{ ٣٤x }}", "", 0),
        ("{{ \u00b2 }}", "unrecognized character in action: U+00B2 '²'", 3),  # numeric, but no digit
        ("{{ \U00010ee0 }}", "unrecognized character in action: U+10EE0", 3),
        ("{{ \u0870 }}", "", 0),  # a letter since Unicode 14, unknown to Python 3.10
        ("{{ \U000323af }}", "", 0),  # a letter since Unicode 15
        ("{{ 1é }}", 'bad number syntax: "1é"', 3),
        ("{{ \udcff }}", "unrecognized character in action: U+FFFD '\ufffd'", 3),
    ],
)
def test_letters_and_faults(text: str, error: str, at: int) -> None:
    lexed = lex(Source(text))
    assert lexed.error == error
    if error:
        assert lexed.tokens[-1][1] == at
