"""Walking a tree."""

from __future__ import annotations

from templatefix.gotemplate.nodes import FieldNode, TextNode
from templatefix.gotemplate.parser import parse
from templatefix.gotemplate.visitor import children, walk


def test_walk_meets_nodes_in_the_order_of_the_source() -> None:
    tree = parse(
        'a{{if eq .A (len .B).C}}b{{else if .D}}c{{else}}d{{end}}{{define "x"}}{{.E}}{{end}}{{block "y" .F}}e{{end}}'
    )
    met = [
        node.text if isinstance(node, TextNode) else "." + ".".join(node.ident)
        for node in walk(tree.root)
        if isinstance(node, (TextNode, FieldNode))
    ]
    assert met == ["a", ".A", ".B", "b", ".D", "c", "d", ".E", ".F", "e"]


def test_children_of_branches() -> None:
    branch = parse("{{range $i, $x := .A}}b{{else}}c{{end}}").root.nodes[0]
    assert [type(node).__name__ for node in children(branch)] == [
        "PipeNode",
        "ListNode",
        "ElseNode",
        "ListNode",
        "EndNode",
    ]


def test_the_end_of_a_chain_is_met_once() -> None:
    names = [type(node).__name__ for node in walk(parse("{{if .A}}{{else if .B}}{{else if .C}}{{end}}").root)]
    assert names.count("EndNode") == 1
    assert names.count("ElseNode") == 2
    assert names.count("IfNode") == 3
