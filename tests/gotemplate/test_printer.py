"""How Go prints nodes and names their places; whole trees are compared in test_acceptance.py."""

from __future__ import annotations

import pytest

from templatefix.gotemplate.nodes import CommentNode, DefineNode, ElseNode, EndNode, Node
from templatefix.gotemplate.parser import parse
from templatefix.gotemplate.printer import error_context, go_string
from templatefix.gotemplate.source import Source
from templatefix.gotemplate.visitor import walk


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("a {{- .A  |len -}} b", "a{{.A | len}}b"),
        ("{{ if  .A }}a{{ else  if .B }}b{{ end }}", "{{if .A}}a{{else}}{{if .B}}b{{end}}{{end}}"),
        ("{{range $i,$x:=.A}}{{break}}{{else}}{{end}}", "{{range $i, $x := .A}}{{break}}{{else}}{{end}}"),
        ("{{ ( .A ).B }}{{ print ( len  `x` ) 0x1F 'a' }}", "{{(.A).B}}{{print (len `x`) 0x1F 'a'}}"),
        ('{{block `b\t` .}}x{{end}}{{template "é"}}', '{{template "b\\t" .}}{{template "é"}}'),
        ('{{/* c */}}{{define "d"}}x{{end}}y', "y"),
    ],
)
def test_printed_as_go_does(text: str, printed: str) -> None:
    assert go_string(parse(text).root) == printed


def test_nodes_that_go_drops() -> None:
    tree = parse('{{/* c */}}{{define "d"}}x{{end}}{{if .A}}{{else}}{{end}}')
    shown = {type(node): go_string(node) for node in walk(tree.root)}
    assert (shown[CommentNode], shown[DefineNode]) == ("{{/* c */}}", '{{define "d"}}')
    assert (shown[ElseNode], shown[EndNode]) == ("{{else}}", "{{end}}")


def places(source: Source) -> list[tuple[str, str]]:
    nodes: list[Node] = [node for node in walk(parse(source).root) if type(node).__name__ == "FieldNode"]
    return [error_context(source, node) for node in nodes]


def test_places_count_bytes_from_zero() -> None:
    # A longer path stands, for Go, where its second part does.
    assert places(Source("é{{.A}}\n日{{.B.C}}{{.D}}", "t")) == [("t:1:4", ".A"), ("t:2:7", ".B.C"), ("t:2:13", ".D")]
