"""The shape of trees: what Go's trees do not show, such as spans, comments, definitions, chains, depth."""

from __future__ import annotations

import gc
from random import Random
from typing import Any, TypeVar

import pytest
from gotemplate.strategies import templates
from hypothesis import given
from support.trees import FUNCTIONS

from templatefix.gotemplate import nodes as n
from templatefix.gotemplate.errors import ParseError
from templatefix.gotemplate.parser import MAX_BLOCKS, Tree, parse
from templatefix.gotemplate.printer import go_string
from templatefix.gotemplate.source import Source, Span
from templatefix.gotemplate.visitor import children, walk

N = TypeVar("N", bound=n.Node)


def found(text: str, kind: type[N]) -> list[tuple[str, N]]:
    """The nodes of a kind with the text of their spans."""
    tree = parse(text, FUNCTIONS)
    return [(tree.source.slice(node.span), node) for node in walk(tree.root) if isinstance(node, kind)]


def spans(text: str, kind: type[n.Node]) -> list[str]:
    return [piece for piece, _ in found(text, kind)]


def test_text_knows_what_trim_markers_removed() -> None:
    source = Source("a \n{{- .B -}}\t c {{/* d */}}e")
    pieces = [node for node in parse(source).root.nodes if isinstance(node, n.TextNode)]
    assert [(node.text, source.slice(node.span), source.slice(node.raw)) for node in pieces] == [
        ("a", "a", "a \n"),
        ("c ", "c ", "\t c "),
        ("e", "e", "e"),
    ]


def test_text_that_is_trimmed_away_makes_no_node() -> None:
    assert [type(node) for node in parse("{{.A -}} \n {{- .B}}").root.nodes] == [n.ActionNode, n.ActionNode]


def test_spans_of_operands_and_pipelines() -> None:
    text = "é{{- $x := ( index .A.B 1 ).C | printf `%v` $.D -}}"
    assert spans(text, n.ActionNode) == ["{{- $x := ( index .A.B 1 ).C | printf `%v` $.D -}}"]
    assert spans(text, n.PipeNode) == ["$x := ( index .A.B 1 ).C | printf `%v` $.D", "( index .A.B 1 )"]
    assert spans(text, n.CommandNode) == ["( index .A.B 1 ).C", "index .A.B 1", "printf `%v` $.D"]
    assert spans(text, n.ChainNode) == ["( index .A.B 1 ).C"]
    assert spans(text, n.FieldNode) == [".A.B"]
    assert spans(text, n.VariableNode) == ["$x", "$.D"]
    assert spans(text, n.NumberNode) == ["1"]
    assert spans(text, n.StringNode) == ["`%v`"]


def test_spans_of_a_chain() -> None:
    text = "<{{if .A}}a{{ else if .B }}b{{- else}}c{{ end }}>"
    [(outer_text, outer), (inner_text, inner)] = found(text, n.IfNode)
    assert outer_text == "{{if .A}}a{{ else if .B }}b{{- else}}c{{ end }}"
    assert inner_text == "{{ else if .B }}b{{- else}}c"
    assert (outer.chained, inner.chained) == (False, True)
    assert outer.else_node is not None
    assert outer.else_node.span == inner.open
    assert outer.else_list is not None
    assert outer.else_list.nodes == (inner,)
    assert outer.end is inner.end
    source = Source(text)
    assert [source.slice(span) for span in (outer.open, inner.open, outer.end.span)] == [
        "{{if .A}}",
        "{{ else if .B }}",
        "{{ end }}",
    ]
    assert spans(text, n.ElseNode) == ["{{ else if .B }}", "{{- else}}"]
    assert spans(text, n.EndNode) == ["{{ end }}"]
    assert spans(text, n.ListNode) == [text, "a", inner_text, "b", "c"]


def test_lists_run_from_action_to_action() -> None:
    text = "{{with .A -}} x {{- else -}}\n{{- end}}"
    assert spans(text, n.ListNode) == [text, " x ", "\n"]


def test_definitions_and_blocks_stand_where_they_are_written() -> None:
    tree = parse('{{define "a"}}A{{end}}t{{block `b` .X}}B{{end}}{{template "a" .}}{{template "a"}}')
    define, _, block, call, bare = tree.root.nodes
    assert isinstance(define, n.DefineNode)
    assert (define.name, tree.source.slice(define.open), tree.source.slice(define.end.span)) == (
        "a",
        '{{define "a"}}',
        "{{end}}",
    )
    assert tree.templates["a"] is define.list
    assert isinstance(block, n.BlockNode)
    assert (block.name, go_string(block.pipe), tree.source.slice(block.open)) == ("b", ".X", "{{block `b` .X}}")
    assert tree.templates["b"] is block.list
    assert tree.templates[""] is tree.root
    assert isinstance(call, n.TemplateNode)
    assert call.pipe is not None
    assert isinstance(bare, n.TemplateNode)
    assert bare.pipe is None


def test_empty_definitions_yield_to_others() -> None:
    tree = parse('{{define "a"}} {{/* c */}}{{end}}{{define "a"}}A{{end}}{{define "a"}}\n{{end}}')
    assert go_string(tree.templates["a"]) == "A"


def test_a_template_that_defines_its_own_name() -> None:
    tree = parse('{{define ""}}main{{end}}\n')
    assert go_string(tree.templates[""]) == "main"
    assert go_string(tree.root) == "\n"


def test_comments_are_nodes() -> None:
    [(_, first), (_, second)] = found("{{/* a */}}x{{- /* b\n */ -}} ", n.CommentNode)
    assert (first.text, second.text) == ("/* a */", "/* b\n */")
    assert spans("{{/* a */}}x{{- /* b\n */ -}} ", n.CommentNode) == ["{{/* a */}}", "{{- /* b\n */ -}}"]


@pytest.mark.parametrize(
    ("text", "depth"),
    [
        ("x", 0),
        ("{{if .A}}{{end}}", 1),
        ("{{if .A}}{{else if .B}}{{end}}", 2),
        ("{{range .A}}{{with .B}}{{end}}{{end}}{{if .C}}{{end}}", 2),
        ("{{((.A))}}", 2),
        ("{{if .A}}{{(.B)}}{{end}}", 2),
        ('{{define "a"}}{{if .A}}{{end}}{{end}}', 2),
    ],
)
def test_depth(text: str, depth: int) -> None:
    assert parse(text).depth == depth


def test_ten_thousand_blocks() -> None:
    tree = parse("{{if .A}}" * 10_000 + "x" + "{{end}}" * 10_000)
    assert tree.depth == 10_000
    assert sum(isinstance(node, n.IfNode) for node in walk(tree.root)) == 10_000
    assert go_string(tree.root) == tree.source.text


def test_long_templates_leave_the_collector_as_it_was() -> None:
    assert gc.isenabled()
    assert len(parse("{{.A}}\n" * 20_000).root.nodes) == 40_000
    assert gc.isenabled()
    with pytest.raises(ParseError, match=r"^template: :20001: unexpected EOF$"):
        parse("{{if .A}}\n" * 20_000)
    assert gc.isenabled()


def test_blocks_have_a_limit() -> None:
    assert parse("{{if .A}}" + "{{else if .A}}" * (MAX_BLOCKS - 1) + "{{end}}").depth == MAX_BLOCKS
    with pytest.raises(ParseError, match=r"^template: :1: blocks nested deeper than 20000$"):
        parse("{{range .A}}" * (MAX_BLOCKS + 1) + "{{end}}" * (MAX_BLOCKS + 1))


def test_parentheses_have_go_s_limit() -> None:
    assert parse("{{" + "(" * 10_000 + "1" + ")" * 10_000 + "}}").depth == 10_000
    with pytest.raises(ParseError, match=r"^template: :1: max expression depth exceeded$"):
        parse("{{" + "(" * 10_001 + "1" + ")" * 10_001 + "}}")


def assert_spans_nest(tree: Tree) -> None:
    """Every node lies within its parent, and behind its elder sibling."""
    for parent in walk(tree.root):
        done = parent.span.start
        for child in children(parent):
            # An else list that is a chained branch opens with the else action, which is a node of its own as well.
            start = child.span.start if not isinstance(parent, n.BranchNode) else max(done, child.span.start)
            assert done <= start <= child.span.end <= parent.span.end, (parent, child)
            done = child.span.end if not isinstance(child, n.ElseNode) else child.span.start


def test_spans_nest_in_the_corpus(corpus: dict[str, dict[str, Any]]) -> None:
    for row in corpus.values():
        assert_spans_nest(parse(row["template"], FUNCTIONS))


@given(templates(wild=0.1))
def test_spans_nest(template: str) -> None:
    assert_spans_nest(parse(template, FUNCTIONS))


@given(templates(wild=0.1))
def test_top_level_spans_and_trimmed_space_cover_the_source(template: str) -> None:
    tree = parse(template, FUNCTIONS)
    data = tree.source.data
    done = 0
    for node in tree.root.nodes:
        span = node.raw if isinstance(node, n.TextNode) else node.span
        assert data[done : span.start].strip(b" \t\r\n") == b""
        done = span.end
    assert data[done:].strip(b" \t\r\n") == b""


@given(templates(wild=0.1))
def test_spans_are_what_is_printed(template: str) -> None:
    tree = parse(template, FUNCTIONS)
    for node in walk(tree.root):
        if isinstance(node, n.TextNode):
            assert tree.source.slice(node.span) == node.text
        elif isinstance(node, (n.FieldNode, n.VariableNode, n.IdentifierNode, n.NumberNode, n.StringNode)):
            assert tree.source.slice(node.span) == go_string(node)


def test_no_noise_makes_it_crash() -> None:
    random = Random(7)
    alphabet = [
        "{{",
        "}}",
        "-",
        " ",
        "if",
        "end",
        "else",
        ".",
        "$",
        "(",
        ")",
        "|",
        '"',
        "`",
        "'",
        "\\",
        "\n",
        "1",
        "é",
        "\udcff",
    ]
    accepted = 0
    errors: list[ParseError] = []
    for _ in range(2_000):
        try:
            accepted += bool(parse("".join(random.choices(alphabet, k=random.randrange(30)))))
        except ParseError as error:
            errors.append(error)
    assert accepted
    assert errors
    for refusal in errors:
        assert refusal.source is not None
        assert refusal.span is not None
        assert Span(0, len(refusal.source.data)).contains(refusal.span)
        assert refusal.explain().startswith("template:")
