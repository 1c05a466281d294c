"""Cuts and insertions mind trim markers: what is left prints what it printed."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from templatefix.chat.go import GoChatTemplate
from templatefix.chat.request import Request
from templatefix.gotemplate.edits import apply_edits
from templatefix.gotemplate.nodes import IfNode
from templatefix.gotemplate.parser import parse
from templatefix.gotemplate.visitor import walk
from templatefix.rewrite.surgery import Surgeon

TEXTS = st.text(alphabet="ab \n\té", max_size=5)
LEFT = st.sampled_from(["{{ ", "{{- "])
RIGHT = st.sampled_from([" }}", " -}}"])


@st.composite
def actions(draw: st.DrawFn, word: str) -> str:
    return draw(LEFT) + word + draw(RIGHT)


@st.composite
def branches(draw: st.DrawFn, inner: st.SearchStrategy[str]) -> str:
    text = draw(actions("if .Think")) + draw(inner)
    if draw(st.booleans()):
        text += draw(actions("else if .IsThinkSet")) + draw(inner)
    if draw(st.booleans()):
        text += draw(actions("else")) + draw(inner)
    return text + draw(actions("end"))


NOTES = actions("/* note */").map(lambda text: text.replace("{{ /", "{{/").replace("/ }}", "/}}"))
LEAVES = st.one_of(TEXTS, actions('"x"'), NOTES)
BODIES = st.recursive(
    st.lists(LEAVES, max_size=3).map("".join),
    lambda inner: st.lists(st.one_of(LEAVES, branches(inner)), max_size=3).map("".join),
    max_leaves=8,
)
TEMPLATES = st.lists(st.one_of(LEAVES, branches(BODIES)), min_size=1, max_size=6).map("".join)


def printed(text: str, think: bool | None) -> str:
    template = GoChatTemplate(text + "{{ range .Messages }}{{ end }}")
    return template.render(Request((), (), think)).text


@settings(max_examples=200, deadline=None)
@given(TEMPLATES)
def test_a_branch_gives_way_to_one_of_its_arms(text: str) -> None:
    tree = parse(text)
    surgeon = Surgeon(tree)
    for node in walk(tree.root):
        if not isinstance(node, IfNode) or node.chained:
            continue
        # The outermost branches ask for .Think alone; inner ones are reached only if that holds.
        with_arm = apply_edits(text, surgeon.keep_arm(node, node.list))
        assert printed(with_arm, True) == printed(text, True)
        without = apply_edits(text, surgeon.keep_arm(node, node.else_list))
        assert printed(without, None) == printed(text, None)
        assert printed(without, False) == printed(text, False)


@settings(max_examples=200, deadline=None)
@given(TEMPLATES, st.data())
def test_what_is_inserted_is_printed_and_nothing_else_changes(text: str, data: st.DataObject) -> None:
    tree = parse(text)
    nodes = list(tree.root.nodes)
    if not nodes:
        return
    node = data.draw(st.sampled_from(nodes))
    at = data.draw(st.sampled_from([node.span.start, node.span.end]))
    added = data.draw(st.sampled_from(["Q", " Q ", "\nQ\n", '{{ "Q" }}', "{{ if .Nope }}{{ end }}Q"]))
    after = printed(apply_edits(text, Surgeon(tree).insert(at, added)), None)
    bare = added.replace('{{ "Q" }}', "Q").replace("{{ if .Nope }}{{ end }}", "")
    assert after.count("Q") == 1
    assert bare in after
    assert after.replace(bare, "", 1) == printed(text, None)


def test_eaten_white_space_goes_with_the_marker_that_ate_it() -> None:
    text = "head\n\n{{- if .Think }}\n  tools\n{{- else }}\n\nplain\n{{- end }}\n\ntail"
    tree = parse(text)
    node = tree.root.nodes[1]
    assert isinstance(node, IfNode)
    assert apply_edits(text, Surgeon(tree).keep_arm(node, node.else_list)) == "head\n\nplain\n\ntail"


def test_a_neighbours_marker_does_not_eat_what_was_printed() -> None:
    text = 'head {{ if .Think }}x{{ end }}{{- "y" }}'
    tree = parse(text)
    node = tree.root.nodes[1]
    assert apply_edits(text, Surgeon(tree).cut(node.span.start, node.span.end)) == 'head {{ "y" }}'


def test_the_first_arm_of_a_chain_goes() -> None:
    text = "{{- if .Think }}a{{- else if .IsThinkSet }}b{{ else }}c{{ end }}"
    tree = parse(text)
    node = tree.root.nodes[0]
    assert isinstance(node, IfNode)
    kept = apply_edits(text, Surgeon(tree).keep_arm(node, node.else_list))
    assert kept == "{{- if .IsThinkSet }}b{{ else }}c{{ end }}"
