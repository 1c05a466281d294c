"""Edits: what is outside them never moves."""

from __future__ import annotations

from random import Random

import pytest
from gotemplate.strategies import templates
from hypothesis import given
from hypothesis import strategies as st
from support.trees import FUNCTIONS

from templatefix.gotemplate import nodes as n
from templatefix.gotemplate.edits import Edit, apply_edits
from templatefix.gotemplate.parser import parse
from templatefix.gotemplate.source import Source, Span
from templatefix.gotemplate.visitor import walk


@pytest.mark.parametrize(
    ("edits", "result"),
    [
        ([], "aé日z"),
        ([(0, 1, "")], "é日z"),
        ([(1, 3, "E")], "aE日z"),
        ([(6, 6, "!"), (7, 7, "?"), (0, 0, "<")], "<aé日!z?"),
        ([(1, 3, "x"), (3, 6, "y")], "axyz"),
        ([(3, 3, "1"), (1, 3, "x"), (3, 6, "y"), (1, 1, "0"), (3, 3, "2")], "a0x12yz"),
        ([(0, 7, "\udcff")], "\udcff"),
    ],
)
def test_apply(edits: list[tuple[int, int, str]], result: str) -> None:
    assert apply_edits("aé日z", [Edit(Span(start, end), text) for start, end, text in edits]) == result


@pytest.mark.parametrize(
    ("edits", "reason"),
    [
        ([(0, 8)], "the edit of bytes 0 to 8 lies outside the template of 7 bytes"),
        ([(-1, 0)], "the edit of bytes -1 to 0 lies outside the template of 7 bytes"),
        ([(3, 1)], "the edit of bytes 3 to 1 lies outside the template of 7 bytes"),
        ([(0, 2)], "the edit of bytes 0 to 2 cuts a character in two"),
        ([(4, 6)], "the edit of bytes 4 to 6 cuts a character in two"),
        ([(0, 3), (1, 6)], "the edit of bytes 1 to 6 overlaps the one before, which ends at 3"),
        ([(1, 6), (3, 3)], "the edit of bytes 3 to 3 overlaps the one before, which ends at 6"),
        ([(1, 3), (1, 3)], "the edit of bytes 1 to 3 overlaps the one before, which ends at 3"),
    ],
)
def test_refused(edits: list[tuple[int, int]], reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{reason}$"):
        apply_edits(Source("aé日z"), [Edit(Span(start, end), "") for start, end in edits])


@st.composite
def edited(draw: st.DrawFn) -> tuple[bytes, list[Edit]]:
    """Bytes, and edits at places that cut no character."""
    text = draw(st.text(alphabet="aé日😀\n\udcff{", max_size=30))
    source = Source(text)
    places = sorted({source.byte_offset(draw(st.integers(0, len(text)))) for _ in range(draw(st.integers(0, 8)))})
    pairs = zip(places[::2], places[1::2], strict=False)
    return source.data, [Edit(Span(start, end), draw(st.text(alphabet="xé", max_size=4))) for start, end in pairs]


@given(edited(), st.randoms())
def test_bytes_outside_edits_stay(case: tuple[bytes, list[Edit]], random: Random) -> None:
    data, edits = case
    shuffled = edits.copy()
    random.shuffle(shuffled)
    result = apply_edits(Source.from_bytes(data), shuffled).encode("utf-8", "surrogateescape")
    # Take the replacements out again: what is left over is the source without the spans.
    for edit in reversed(edits):
        data = data[: edit.span.start] + data[edit.span.end :]
    shift = 0
    for edit in edits:
        replacement = edit.replacement.encode()
        at = edit.span.start + shift
        assert result[at : at + len(replacement)] == replacement
        result = result[:at] + result[at + len(replacement) :]
        shift -= len(edit.span)
    assert result == data


@given(templates())
def test_replacing_nodes_by_themselves_changes_nothing(template: str) -> None:
    tree = parse(template, FUNCTIONS)
    fields = [node for node in walk(tree.root) if isinstance(node, (n.FieldNode, n.TextNode))]
    edits = [Edit(node.span, tree.source.slice(node.span)) for node in fields]
    assert apply_edits(tree.source, edits) == template


@given(templates())
def test_an_edited_field_is_what_the_parser_finds(template: str) -> None:
    tree = parse(template, FUNCTIONS)
    fields = [node for node in walk(tree.root) if isinstance(node, n.FieldNode)]
    renamed = parse(apply_edits(tree.source, [Edit(node.span, ".Other") for node in fields]), FUNCTIONS)
    assert [node.ident for node in walk(renamed.root) if isinstance(node, n.FieldNode)] == [("Other",)] * len(fields)
