"""Reading operands, calls and conditions of pipelines."""

from __future__ import annotations

from templatefix.gotemplate.nodes import (
    ChainNode,
    FieldNode,
    IdentifierNode,
    Node,
    PipeNode,
    StringNode,
    VariableNode,
)


def path_of(node: Node) -> tuple[str, ...]:
    """The fields that an operand names: `.A.B`, `$.A.B` and `$x.A.B` give A, B (and `$x`, unless it is `$`)."""
    if isinstance(node, FieldNode):
        return node.ident
    if isinstance(node, VariableNode):
        return node.ident[1:] if node.ident[0] == "$" else node.ident
    if isinstance(node, ChainNode):
        return (*path_of(node.node), *node.field)
    return ()


def single(pipe: Node | None) -> Node | None:
    """The only operand of a pipeline that is nothing but an operand (in parentheses or not)."""
    while isinstance(pipe, PipeNode):
        if len(pipe.cmds) != 1 or len(pipe.cmds[0].args) != 1:
            return None
        pipe = pipe.cmds[0].args[0]
    return pipe


def call_of(node: Node | None) -> tuple[str, tuple[Node, ...]] | None:
    """Name and arguments of a pipeline that is one function call."""
    while isinstance(node, PipeNode):
        if len(node.cmds) != 1:
            return None
        args = node.cmds[0].args
        if len(args) == 1:
            node = args[0]
            continue
        if isinstance(args[0], IdentifierNode):
            return args[0].ident, args[1:]
        return None
    return None


def single_value(pipe: PipeNode) -> Node | None:
    """The only operand on the right of an assignment."""
    return single(without_decl(pipe))


def without_decl(pipe: PipeNode) -> PipeNode:
    """A pipeline without its declaration."""
    return PipeNode(pipe.span, pipe.pos, (), False, pipe.cmds)


def conjuncts(pipe: Node) -> list[Node]:
    """The parts of a condition that must all hold."""
    call = call_of(pipe)
    if call is not None and call[0] == "and":
        return [part for arg in call[1] for part in conjuncts(arg)]
    return [pipe]


def asked_roles(part: Node) -> set[str]:
    """The roles that a condition compares with."""
    call = call_of(part)
    if call is None:
        return set()
    name, args = call
    if name == "or":
        return {role for arg in args for role in asked_roles(arg)}
    if name == "eq" and any(path_of(arg)[-1:] == ("Role",) for arg in args):
        return {arg.value for arg in args if isinstance(arg, StringNode)}
    return set()
