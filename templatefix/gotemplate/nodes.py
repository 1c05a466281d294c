"""The nodes of a parsed Go template, with Go's names, and the spans that Go drops.

Every node knows the bytes it was written in (`span`, delimiters included where it is an action) and Go's own position
(`pos`, a byte offset that Go's error sentences are built on). White space that a trim marker removes belongs to no
node but lies within a text node's `raw` span. Nodes are compared by identity: two that read the same are not the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from templatefix.gotemplate.source import Span


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """What all nodes have."""

    span: Span  # bytes of the source that the node was read from
    pos: int  # Go's Pos: the byte offset that Go's execution errors name


@dataclass(frozen=True, slots=True, eq=False)
class TextNode(Node):
    """Text outside actions. `span` covers what is printed."""

    text: str  # what is printed
    raw: Span  # the text as written, trimmed white space included


@dataclass(frozen=True, slots=True, eq=False)
class CommentNode(Node):
    """`{{/* … */}}`, delimiters included in the span."""

    text: str  # from /* to */


@dataclass(frozen=True, slots=True, eq=False)
class BoolNode(Node):
    """`true` or `false`."""

    value: bool


@dataclass(frozen=True, slots=True, eq=False)
class NilNode(Node):
    """`nil`."""


@dataclass(frozen=True, slots=True, eq=False)
class DotNode(Node):
    """`.`"""


@dataclass(frozen=True, slots=True, eq=False)
class NumberNode(Node):
    """A number or character constant; each `*_value` is None where Go's IsInt, IsUint, … is false."""

    text: str  # as written
    int_value: int | None  # fits int64
    uint_value: int | None  # fits uint64
    float_value: float | None
    complex_value: complex | None
    is_char: bool  # written as 'x'


@dataclass(frozen=True, slots=True, eq=False)
class StringNode(Node):
    """A quoted or raw string constant."""

    quoted: str  # as written, quotes included
    value: str  # unquoted


@dataclass(frozen=True, slots=True, eq=False)
class FieldNode(Node):
    """`.A.B`: fields of dot."""

    ident: tuple[str, ...]  # ("A", "B")


@dataclass(frozen=True, slots=True, eq=False)
class VariableNode(Node):
    """`$x.A`: a variable and fields of it."""

    ident: tuple[str, ...]  # ("$x", "A")


@dataclass(frozen=True, slots=True, eq=False)
class IdentifierNode(Node):
    """The name of a function."""

    ident: str


@dataclass(frozen=True, slots=True, eq=False)
class ChainNode(Node):
    """`(pipe).A.B`: fields of a parenthesised pipeline (or of another operand)."""

    node: Node
    field: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class CommandNode(Node):
    """One command of a pipeline: an operand, or a function or method with arguments."""

    args: tuple[Node, ...]


@dataclass(frozen=True, slots=True, eq=False)
class PipeNode(Node):
    """A pipeline. In parentheses, the span holds them."""

    decl: tuple[VariableNode, ...]  # the variables on the left of := or =
    is_assign: bool  # written with =
    cmds: tuple[CommandNode, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ListNode(Node):
    """The nodes of a template or a block's body; the span runs from the action before to the one after."""

    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ActionNode(Node):
    """`{{ pipe }}`."""

    pipe: PipeNode


@dataclass(frozen=True, slots=True, eq=False)
class ElseNode(Node):
    """`{{ else }}`, or the whole `{{ else if … }}` / `{{ else with … }}` action."""


@dataclass(frozen=True, slots=True, eq=False)
class EndNode(Node):
    """`{{ end }}`."""


@dataclass(frozen=True, slots=True, eq=False)
class BranchNode(Node):
    """What `if`, `range` and `with` have in common.

    `{{ else if x }}` is, as in Go, an else list with one IfNode in it. That inner node is `chained`: its `open` is the
    whole `{{ else if x }}` action (also found as the outer node's `else_node`), its `end` is the `{{ end }}` that all
    of the chain share, and its span stops before that.
    """

    open: Span  # the opening action, delimiters included
    pipe: PipeNode
    list: ListNode
    else_node: ElseNode | None
    else_list: ListNode | None
    end: EndNode
    chained: bool


@dataclass(frozen=True, slots=True, eq=False)
class IfNode(BranchNode):
    """`{{ if pipe }} list {{ else }} else_list {{ end }}`."""


@dataclass(frozen=True, slots=True, eq=False)
class RangeNode(BranchNode):
    """`{{ range pipe }} list {{ else }} else_list {{ end }}`."""


@dataclass(frozen=True, slots=True, eq=False)
class WithNode(BranchNode):
    """`{{ with pipe }} list {{ else }} else_list {{ end }}`."""


@dataclass(frozen=True, slots=True, eq=False)
class BreakNode(Node):
    """`{{ break }}`."""


@dataclass(frozen=True, slots=True, eq=False)
class ContinueNode(Node):
    """`{{ continue }}`."""


@dataclass(frozen=True, slots=True, eq=False)
class TemplateNode(Node):
    """`{{ template "name" pipe }}`."""

    name: str
    pipe: PipeNode | None


@dataclass(frozen=True, slots=True, eq=False)
class DefineNode(Node):
    """`{{ define "name" }} list {{ end }}`; Go keeps no node for it."""

    name: str
    open: Span
    list: ListNode
    end: EndNode


@dataclass(frozen=True, slots=True, eq=False)
class BlockNode(Node):
    """`{{ block "name" pipe }} list {{ end }}`: a definition, executed where it stands."""

    name: str
    open: Span
    pipe: PipeNode
    list: ListNode
    end: EndNode


Operand: TypeAlias = (
    BoolNode
    | NilNode
    | DotNode
    | NumberNode
    | StringNode
    | FieldNode
    | VariableNode
    | IdentifierNode
    | ChainNode
    | PipeNode
)
