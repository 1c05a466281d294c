"""Strings with runs do what strings do, and each character keeps its place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from templatefix.chat.jinja_text import LONGEST, Text, TooLong, join_texts, literal
from templatefix.gotemplate.source import Span

WORDS = st.lists(st.text("ab ,\n", max_size=6), max_size=5)
PLACES = ("strip", "lstrip", "rstrip", "upper", "lower", "title", "capitalize", "splitlines")


def text_of(parts: list[str]) -> Text:
    return join_texts([literal(part, Span(index, index + 1)) for index, part in enumerate(parts)])


def places(text: str) -> list[int]:
    assert isinstance(text, Text)
    assert sum(size for size, _ in text.runs) == len(text)
    return [mark.span.start for part, mark in text.parts() for _ in part if mark.span is not None]


@given(WORDS, st.sampled_from([None, ",", " ", "a", "ab"]), st.integers(-1, 3), st.text("ab,", max_size=3))
def test_as_strings_do(parts: list[str], sep: str | None, count: int, new: str) -> None:
    text, plain = text_of(parts), "".join(parts)
    for name in PLACES:
        assert getattr(text, name)() == getattr(plain, name)()
    assert text.split(sep, count) == plain.split(sep, count)
    assert text.rsplit(sep, count) == plain.rsplit(sep, count)
    assert text.replace(sep or "b", new, count) == plain.replace(sep or "b", new, count)
    assert text.removeprefix(new) == plain.removeprefix(new)
    assert text.removesuffix(new) == plain.removesuffix(new)
    assert (text[count:], text[:count], text[::-1]) == (plain[count:], plain[:count], plain[::-1])
    assert (text + new, new + text, text * 3) == (plain + new, new + plain, plain * 3)
    assert text.join([new, new]) == plain.join([new, new])


@given(WORDS, st.sampled_from([None, ",", "a"]))
def test_characters_keep_their_places(parts: list[str], sep: str | None) -> None:
    text = text_of(parts)
    whole = places(text)
    assert whole == [index for index, part in enumerate(parts) for _ in part]
    start = len(text) - len(str.lstrip(text))
    assert places(text.lstrip()) == whole[start:]
    assert [places(text[index])[0] for index in range(len(text))] == whole
    at = 0
    for word in text.split(sep):
        at = str.find(text, word, at)
        assert places(word) == whole[at : at + len(word)]
        at += len(word)
    assert places(text * 2) == whole * 2
    assert places(join_texts([text, text])) == whole * 2


def test_neighbours_from_one_place_are_one_run() -> None:
    text = literal("abc", Span(0, 5))
    assert len((text[:1] + text[1:]).runs) == 1


def test_strings_stay_below_a_length() -> None:
    text = literal("ab" * 1000, Span(0, 1))
    with pytest.raises(TooLong):
        text * LONGEST
    with pytest.raises(TooLong):
        text.replace("a", text * 1000)
    with pytest.raises(ValueError, match="plain places such as"):
        literal("{:>1000000000}", Span(0, 1)).format("a")
    assert literal("{} {1} {x}!", Span(0, 1)).format("a", "b", x="c") == "a b c!"
