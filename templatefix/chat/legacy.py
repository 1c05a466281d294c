"""What Ollama does to the trees of templates that do not know `.Messages`."""

from __future__ import annotations

import dataclasses

from templatefix.gotemplate.deep import run_deep
from templatefix.gotemplate.nodes import (
    ActionNode,
    BranchNode,
    CommandNode,
    FieldNode,
    IfNode,
    ListNode,
    Node,
    PipeNode,
    RangeNode,
    WithNode,
)
from templatefix.gotemplate.source import Span


def with_response(root: ListNode) -> ListNode:
    """The list with `{{ .Response }}` at its end, as Ollama adds it to templates with neither messages nor response."""
    end = root.span.end
    span = Span(end, end)
    field = FieldNode(span, 0, ("Response",))
    action = ActionNode(span, 0, PipeNode(span, 0, (), False, (CommandNode(span, 0, (field,)),)))
    return dataclasses.replace(root, nodes=(*root.nodes, action))


class CutFailed(Exception):
    """A template that Ollama cannot cut: `.Response` stands in an arm that has an else arm behind it."""


def cut_at_response(root: ListNode, depth: int) -> ListNode:
    """The list for the last exchange: everything after the first `.Response` is left out.

    Ollama makes a template of its own of it, which knows neither the other definitions nor functions beyond Go's.
    `depth` is how deep the list nests. Raises CutFailed.
    """
    cutter = _Cutter()
    return run_deep(depth, lambda: cutter.visit_list(root))


class _Cutter:
    """Copies a tree up to and with the first operand `.Response`; conditions are not looked at."""

    def __init__(self) -> None:
        self.cut = False

    def visit(self, node: Node) -> Node | None:
        if isinstance(node, FieldNode) and "Response" in node.ident:
            self.cut = True  # one that follows in the same action stays as well
            return node
        if self.cut:
            return None
        if isinstance(node, (IfNode, WithNode, RangeNode)):
            return self.visit_branch(node)
        if isinstance(node, ActionNode):
            pipe = self.visit_pipe(node.pipe)
            return None if pipe is None else dataclasses.replace(node, pipe=pipe)
        if isinstance(node, PipeNode):
            return self.visit_pipe(node)
        return node

    def visit_list(self, node: ListNode) -> ListNode:
        if self.cut:
            # Ollama's own code gives up here with a failed conversion, which the server answers as an error.
            raise CutFailed("interface conversion: parse.Node is nil, not *parse.ListNode")
        kept = tuple(n for n in map(self.visit, node.nodes) if n is not None)
        return dataclasses.replace(node, nodes=kept)

    def visit_branch(self, node: BranchNode) -> BranchNode:
        body = self.visit_list(node.list)
        otherwise = None if node.else_list is None else self.visit_list(node.else_list)
        return dataclasses.replace(node, list=body, else_list=otherwise)

    def visit_pipe(self, node: PipeNode) -> PipeNode | None:
        commands = []
        for command in node.cmds:
            args = tuple(a for a in map(self.visit, command.args) if a is not None)
            if not args:
                return None
            commands.append(dataclasses.replace(command, args=args))
        return dataclasses.replace(node, cmds=tuple(commands))
