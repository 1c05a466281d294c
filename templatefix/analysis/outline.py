"""A template as an outline: one row a construct, without the blanks and comments that change nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from templatefix.chat.go import GoChatTemplate
from templatefix.chat.rendering import ChatTemplate
from templatefix.gotemplate.nodes import (
    BlockNode,
    BranchNode,
    CommentNode,
    DefineNode,
    ElseNode,
    IfNode,
    ListNode,
    Node,
    RangeNode,
    TextNode,
)
from templatefix.gotemplate.printer import go_string

MAIN = ""  # the name of what stands outside every definition


@dataclass(frozen=True, slots=True)
class Row:
    """A construct: text of the template, an action, or the head or end of a block."""

    text: str
    line: int  # of the template, from 1


def outline(template: ChatTemplate) -> dict[str, tuple[Row, ...]]:
    """The rows of each named part, in order of writing; `MAIN` is the template itself.

    Text is taken without the blanks around it, so that two templates that differ in layout alone have the same rows.
    A language without a tree of ours gives its lines.
    """
    if not isinstance(template, GoChatTemplate):
        lines = enumerate(template.source.text.splitlines(), 1)
        return {MAIN: tuple(Row(" ".join(line.split()), number) for number, line in lines if line.strip())}
    parts: dict[str, list[Row]] = {}
    for name, node, head in _walk(template.tree.root):
        if text := head or _text(node):
            parts.setdefault(name, []).append(Row(text, template.source.position(node.span.start).line))
    return {name: tuple(rows) for name, rows in parts.items()}


def _walk(root: ListNode) -> Iterator[tuple[str, Node, str]]:
    """Every construct in order, with the part that it stands in and, for blocks, its head as text; iterative."""
    todo: list[tuple[str, Node, str]] = [(MAIN, root, "")]
    while todo:
        part, node, head = todo.pop()
        following: list[tuple[str, Node, str]] = []
        if isinstance(node, ListNode):
            following = [(part, child, "") for child in node.nodes]
        elif isinstance(node, BranchNode) and not head:
            following = [(part, node, _head(node)), (part, node.list, "")]
            if node.else_list is not None:
                following += [(part, node.else_node or node.else_list, "{{else}}"), (part, node.else_list, "")]
            following.append((part, node.end, ""))
        elif isinstance(node, (DefineNode, BlockNode)) and not head:
            if isinstance(node, BlockNode):
                yield part, node, f"{{{{block {node.name} {go_string(node.pipe)}}}}}"
            following = [(node.name, node.list, "")]
        else:
            yield part, node, head
        todo += reversed(following)


def _head(node: BranchNode) -> str:
    word = "if" if isinstance(node, IfNode) else "range" if isinstance(node, RangeNode) else "with"
    return f"{{{{{word} {go_string(node.pipe)}}}}}"


def _text(node: Node) -> str:
    if isinstance(node, TextNode):
        return " ".join(node.text.split())
    return "" if isinstance(node, (CommentNode, ElseNode)) else go_string(node)
