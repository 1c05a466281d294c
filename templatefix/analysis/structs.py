"""Data printed in a language's own notation where a model expects JSON, and what `json` can print instead."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from templatefix.chat.rendering import Piece, is_of_tools
from templatefix.gotemplate.nodes import (
    ActionNode,
    ChainNode,
    DotNode,
    FieldNode,
    IdentifierNode,
    Node,
    PipeNode,
    StringNode,
    VariableNode,
)
from templatefix.gotemplate.parser import Tree
from templatefix.gotemplate.source import Span
from templatefix.gotemplate.visitor import walk

_STRUCT = re.compile(r'&?\[?\{[^"}\s]')
_AS_TEXT = frozenset({"print", "printf", "html"})  # of one value, they give its text
_MAKE_TEXT = _AS_TEXT | {"println", "js", "urlquery", "json", "currentDate"}
_FORMATS: tuple[list[str], ...] = ([], ["%v"], ["%+v"], ["%s"])  # that print one value and nothing else


def is_struct(piece: Piece) -> bool:
    """Whether a piece prints a tool, a call, or a part of one, and not as text or JSON."""
    if not _STRUCT.match(piece.text) or not is_of_tools(piece.origin):
        return False
    try:
        json.loads(piece.text)
    except ValueError:
        return True
    return False


def is_silent(piece: Piece) -> bool:
    """Whether a tag of a Jinja template prints an object of a tool or a call: on llama-server that gives no text."""
    if piece.text or piece.origin is None or piece.origin.field in ("name", "description"):
        return False  # these are texts, which may be empty
    return is_of_tools(piece.origin)


def is_list_of_parts(piece: Piece) -> bool:
    """Whether a message's text stands there as the list of parts that it came as, in Python's notation."""
    origin = piece.origin
    return origin is not None and origin.field == "content" and piece.text.startswith("[{'type': 'text', ")


def datum_printed(tree: Tree, span: Span) -> Node | None:
    """The expression whose value the action at `span` prints, and nothing else; None where it prints made-up text."""
    action = next((n for n in walk(tree.root) if isinstance(n, ActionNode) and n.span == span), None)
    if action is None or action.pipe.decl:
        return None
    operands = list(_operands(action.pipe))
    names = {node.ident for node in operands if isinstance(node, IdentifierNode)}
    data = [node for node in operands if isinstance(node, (FieldNode, VariableNode, ChainNode, DotNode))]
    if any(_is_text(tree, node) for node in data if isinstance(node, VariableNode)):
        return None
    if len(operands) == 1:
        return data[0] if data else None
    if not names & _MAKE_TEXT:
        return action.pipe
    formats = [node.value for node in operands if isinstance(node, StringNode)]
    whole = len(data) == 1 and len(operands) == 1 + len(formats) + sum(isinstance(n, IdentifierNode) for n in operands)
    return data[0] if whole and names <= _AS_TEXT and formats in _FORMATS else None


def _operands(pipe: PipeNode) -> Iterator[Node]:
    for command in pipe.cmds:
        for argument in command.args:
            if isinstance(argument, PipeNode):
                yield from _operands(argument)
            else:
                yield argument


def _is_text(tree: Tree, variable: VariableNode, seen: frozenset[str] = frozenset()) -> bool:
    """Whether a variable may hold text made of a datum instead of the datum."""
    name = variable.ident[0]
    if name == "$" or name in seen:
        return False
    assigned = [n for n in walk(tree.root) if isinstance(n, PipeNode) and any(d.ident[0] == name for d in n.decl)]
    operands = [operand for pipe in assigned for operand in _operands(pipe)]
    return any(
        (isinstance(node, IdentifierNode) and node.ident in _MAKE_TEXT)
        or (isinstance(node, VariableNode) and _is_text(tree, node, seen | {name}))
        for node in operands
    )
