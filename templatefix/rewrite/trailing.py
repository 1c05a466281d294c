"""System blocks behind the messages: when tools are given they stand in front of them, as they are."""

from __future__ import annotations

from templatefix.gotemplate.edits import Edit
from templatefix.gotemplate.nodes import BranchNode, Node, RangeNode
from templatefix.gotemplate.source import Span
from templatefix.gotemplate.visitor import walk
from templatefix.rewrite.conditions import Conditions
from templatefix.rewrite.destinations import Move
from templatefix.rewrite.layout import Layout
from templatefix.rewrite.operands import path_of
from templatefix.rewrite.surgery import Surgeon


class Trailing:
    """Finds the blocks behind the messages of one template."""

    def __init__(self, layout: Layout, surgeon: Surgeon, conditions: Conditions) -> None:
        self.layout = layout
        self.surgeon = surgeon
        self.conditions = conditions

    def blocks(self, loop: RangeNode) -> list[Node]:
        """The nodes behind a loop that print the system text or tools, in order; none if no system text is there."""
        arm = self.layout.place(loop)
        behind = arm.list.nodes[arm.index + 1 :]
        found = [n for n in behind if self.layout.prints_system(n) or self.layout.prints_tools(n)]
        return found if any(self.layout.prints_system(node) for node in found) else []

    def in_front(self, loop: RangeNode) -> Move | str | None:
        """The blocks put in front of a loop when tools are given; why not; None where there are none of the kind."""
        blocks = self.blocks(loop)
        if not blocks:
            return None
        branches = [node for node in blocks if isinstance(node, BranchNode)]
        if len(branches) < len(blocks):
            return "the system text behind the messages stands in no branch of its own"
        if any(self._prints_messages(node) for node in blocks):
            return "the system block behind the messages prints messages as well"
        if not self._means_the_same(blocks, loop):
            return "the system block behind the messages uses variables that are set after they begin"
        tools = ".Tools" if self.layout.dot_is_root(loop) else "$.Tools"
        text = "".join([self.surgeon.text_of(node.span.start, node.span.end) for node in blocks])
        opening = self.conditions.opening(loop)
        edits = self.surgeon.insert(loop.span.start, f"{opening}if {tools} }}}}{text}{{{{ end }}}}")
        for node in branches:
            edits += self._without_tools_only(node, tools)
        return Move(tuple(edits), (), "in front of the messages with its system block")

    def _without_tools_only(self, node: BranchNode, tools: str) -> list[Edit]:
        if self.layout.requires_tools(node.pipe) and node.else_list is None:
            return self.surgeon.cut(node.span.start, node.span.end)
        left = "{{- " if self.surgeon.trims_left(node.open) else "{{ "
        right = " -}}" if self.surgeon.trims_right(node.end.span) else " }}"
        return [
            Edit(Span(node.span.start, node.span.start), f"{left}if not {tools} }}}}"),
            Edit(Span(node.span.end, node.span.end), f"{{{{ end{right}"),
        ]

    def _prints_messages(self, node: Node) -> bool:
        named = any(path_of(each)[:1] == ("Messages",) for each in walk(node))
        return named or self.layout.prints_message(node)

    def _means_the_same(self, blocks: list[Node], loop: RangeNode) -> bool:
        """Whether all variables of the blocks have their values in front of a loop already."""
        for name in self.layout.free_variables(blocks):
            pipes = self.layout.variables.get(name, [])
            if not pipes or any(pipe.span.end > loop.span.start for pipe in pipes):
                return False
        return True
