"""Edits of conditions: what asks for the last message is replaced, widened or limited to requests without tools."""

from __future__ import annotations

from dataclasses import dataclass

from templatefix.gotemplate.edits import Edit
from templatefix.gotemplate.nodes import BranchNode, Node, PipeNode, RangeNode
from templatefix.gotemplate.source import Span
from templatefix.rewrite.layout import Layout
from templatefix.rewrite.operands import call_of, single
from templatefix.rewrite.surgery import Surgeon


@dataclass(frozen=True, slots=True)
class Counter:
    """A variable that holds a position in a loop over the messages, and the edits that bring it about."""

    name: str
    edits: tuple[Edit, ...]


class Conditions:
    """Makes edits of conditions in one template."""

    def __init__(self, layout: Layout, surgeon: Surgeon) -> None:
        self.layout = layout
        self.surgeon = surgeon
        self.source = layout.source

    def text(self, node: Node) -> str:
        """A part of a condition as an operand."""
        text = self.source.slice(node.span)
        if isinstance(node, PipeNode) and not text.startswith("("):
            return text if single(node) is not None else f"({text})"
        return text

    def widen(self, branch: BranchNode) -> list[Edit]:
        """Let a branch be taken whether or not the message is the last, when tools are given."""
        edits: list[Edit] = []
        for part in self.layout.moving_parts(branch.pipe):
            if self._is_beside_tools(branch.pipe, part):
                edits += self.drop(branch.pipe, part)
            else:
                edits.append(self.put(branch.pipe, part, f"or $.Tools {self.text(part)}"))
        return edits

    def never(self, branch: BranchNode) -> list[Edit]:
        """Let a branch be taken without tools only."""
        return [
            self.put(branch.pipe, part, f"and (not $.Tools) {self.text(part)}")
            for part in self.layout.moving_parts(branch.pipe)
        ]

    def at_first(self, branch: BranchNode, first: str) -> list[Edit]:
        """Let a branch be taken at the first user turn when tools are given, and as before otherwise."""
        edits: list[Edit] = []
        for part in self.layout.moving_parts(branch.pipe):
            if self._is_beside_tools(branch.pipe, part):
                edits.append(self.put(branch.pipe, part, first))
            else:
                either = f"or (and $.Tools ({first})) (and (not $.Tools) {self.text(part)})"
                edits.append(self.put(branch.pipe, part, either))
        return edits

    def free(self, branch: BranchNode, part: Node) -> list[Edit]:
        """Ask a part of a condition that asks for nothing that follows only where no tools are given."""
        call = call_of(branch.pipe)
        if self.layout.moving(part):
            return []
        # What asks for the place is edited as well: it has to stay a part of its own.
        if call is not None and len(call[1]) > 2 and self._is_beside_tools(branch.pipe, part):
            return self.drop(branch.pipe, part)
        return [self.put(branch.pipe, part, f"or $.Tools {self.text(part)}")]

    def put(self, pipe: PipeNode, part: Node, text: str) -> Edit:
        """Put an expression in the place of a part of a condition."""
        if part is pipe:
            start = pipe.cmds[0].span.start  # behind a declaration
            return Edit(Span(start, pipe.cmds[-1].span.end), text)
        return Edit(part.span, f"({text})")

    def drop(self, pipe: PipeNode, part: Node) -> list[Edit]:
        """Take a conjunct away."""
        call = call_of(pipe)
        assert call is not None
        rest = [arg for arg in call[1] if arg is not part]
        if len(rest) == 1:
            return [self.put(pipe, pipe, self.source.slice(_bare(rest[0])))]
        start = part.span.start
        while self.surgeon.data[start - 1 : start].isspace():
            start -= 1
        return [Edit(Span(start, part.span.end), "")]

    def _is_beside_tools(self, pipe: PipeNode, part: Node) -> bool:
        """Whether the tools are asked for in the same conjunction as a part."""
        call = call_of(pipe)
        if call is None or call[0] != "and" or not any(arg is part for arg in call[1]):
            return False
        return any(self.layout.requires_tools(arg) for arg in call[1] if arg is not part)

    def opening(self, loop: RangeNode) -> str:
        """How an action in front of a loop opens: on a line of its own where the loop trims what is before it."""
        return "\n{{- " if self.surgeon.trims_left(loop.open) else "{{ "

    # Positions

    def index_of(self, loop: RangeNode) -> Counter:
        """The index of the message in a loop, declared where the loop has none."""
        decl = loop.pipe.decl
        if len(decl) == 2 and decl[0].ident[0] != "$_":
            return Counter(decl[0].ident[0], ())
        name = self.layout.fresh("$i")
        if len(decl) == 2:
            return Counter(name, (Edit(decl[0].span, name),))
        if len(decl) == 1:
            return Counter(name, (Edit(Span(decl[0].span.start, decl[0].span.start), f"{name}, "),))
        start = loop.pipe.span.start
        return Counter(name, (Edit(Span(start, start), f"{name}, $_ := "),))

    def first_of(self, loop: RangeNode, role: str) -> Counter:
        """The index of the first message of a role, found by a loop of its own in front of a loop."""
        name = self.layout.fresh("$first")
        index, message = self.layout.fresh("$n"), self.layout.fresh("$m")
        messages = self.source.slice(Span(loop.pipe.cmds[0].span.start, loop.pipe.cmds[-1].span.end))
        left = self.opening(loop)
        line = "\n" if left.startswith("\n") else ""
        text = (
            f"{left}{name} := -1 }}}}{line}"
            f"{{{{- range {index}, {message} := {messages} }}}}{line}"
            f'{{{{- if and (lt {name} 0) (eq {message}.Role "{role}") }}}}{{{{ {name} = {index} }}}}{{{{ end }}}}{line}'
            "{{- end }}"
        )
        return Counter(name, tuple(self.surgeon.insert(loop.span.start, text)))


def _bare(node: Node) -> Span:
    """A part's span without its parentheses."""
    if isinstance(node, PipeNode):
        return Span(node.cmds[0].span.start, node.cmds[-1].span.end)
    return node.span
