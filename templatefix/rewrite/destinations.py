"""Where tool text can stand for good: in the system block, in one of its own, or in front of the first turn."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from templatefix.gotemplate.edits import Edit
from templatefix.gotemplate.nodes import (
    ActionNode,
    BranchNode,
    DotNode,
    IfNode,
    ListNode,
    Node,
    RangeNode,
    TextNode,
    VariableNode,
    WithNode,
)
from templatefix.gotemplate.source import Span
from templatefix.gotemplate.visitor import walk
from templatefix.rewrite.conditions import Conditions
from templatefix.rewrite.layout import Layout, is_blank, is_block
from templatefix.rewrite.markup import Markup
from templatefix.rewrite.operands import asked_roles, call_of, conjuncts, single, single_value
from templatefix.rewrite.segments import Segment
from templatefix.rewrite.surgery import Surgeon

_MARK = re.compile(r"<[^<>\s]+>|\[/?[^\[\]\s]+\]")
_END_MARK = re.compile(r"\s*(?:<[^<>\s]+>|\[/[^\[\]\s]+\])\s*$")


@dataclass(frozen=True, slots=True)
class Move:
    """Edits that put tool text at a place."""

    edits: tuple[Edit, ...]
    added: tuple[str, ...]
    what: str  # for people: "in the system block"


class Destinations:
    """Finds places in one template."""

    def __init__(self, layout: Layout, surgeon: Surgeon, conditions: Conditions) -> None:
        self.layout = layout
        self.surgeon = surgeon
        self.conditions = conditions
        self.markup = Markup(layout)

    def moves(self, segment: Segment, loop: RangeNode) -> Iterator[Move]:
        """All places for a segment, the best first."""
        inside = list(self._in_system_block(segment, loop))
        front = [*self._before_loop(segment, loop), *self._at_loop_head(segment, loop)]
        outside = self.layout.loop_of(segment.carrier) is None
        alone = is_block(segment.plain) and (
            outside or self._opens_arm(segment) or self._is_turn(segment, loop) or not self._has_system_block(loop)
        )
        yield from [*front, *inside] if alone else [*inside, *front]

    def _opens_arm(self, segment: Segment) -> bool:
        """Whether nothing is printed in front of a segment in the turn it stands in."""
        place = self.layout.place(segment.carrier)
        return all(is_blank(node) for node in place.list.nodes[: place.index])

    def _is_turn(self, segment: Segment, loop: RangeNode) -> bool:
        """Whether a segment opens as the system block does: inside it would be a block in a block."""
        mark, printed = _MARK.match(segment.plain.strip()), self._system_action(loop)
        return (
            mark is not None
            and printed is not None
            and mark[0] in _MARK.findall(self.markup.text_before(printed, None))
        )

    def _has_system_block(self, loop: RangeNode) -> bool:
        """Whether marks close the system text in front of a loop."""
        printed = self._system_action(loop)
        if printed is None:
            return bool(self._tool_parts(loop))
        place = self.layout.place(self._unit(printed))
        return self._closing(place.list, place.index)

    # The system block

    def _in_system_block(self, segment: Segment, loop: RangeNode) -> Iterator[Move]:
        for part in self._tool_parts(loop):
            if self._in_scope(segment, part, False):
                yield self._into_part(segment, part)
        printed = self._system_action(loop)
        if printed is not None and self._in_scope(segment, printed, False):
            yield from self._behind_system(segment, printed, loop)
        yield from self._in_role_arm(segment, loop)
        yield from self._new_block(segment, loop)

    def _before(self, node: Node, loop: RangeNode) -> bool:
        return node.span.end <= loop.span.start and not self.layout.exclusive(node, loop)

    def _tool_parts(self, loop: RangeNode) -> list[IfNode]:
        """The branches in front of a loop that are taken when tools are given, the last first."""
        found = [
            node
            for node in self.layout.nodes
            if isinstance(node, IfNode)
            and self.layout.asks_only_tools(node.pipe)
            and node.list.nodes
            and self._before(node, loop)
            and self.layout.loop_of(node) is None
            and not any(
                isinstance(owner, IfNode) and self._needs_system(owner) for owner, _ in self.layout.ancestors(node)
            )
        ]
        return found[::-1]

    def _needs_system(self, branch: IfNode) -> bool:
        return any(self.layout.is_system(single(part) or part) for part in conjuncts(branch.pipe))

    def _system_action(self, loop: RangeNode) -> ActionNode | None:
        """The last action in front of a loop that prints the system text."""
        found = [
            node
            for node in self.layout.nodes
            if isinstance(node, ActionNode)
            and not node.pipe.decl
            and self.layout.prints_system(node)
            and (self._before(node, loop) or self._fixed_in_loop(node, loop))
        ]
        before = [node for node in found if self._before(node, loop)]
        return next(iter([*before[-1:], *found]), None)

    def _fixed_in_loop(self, node: Node, loop: RangeNode) -> bool:
        """Whether a node in a loop stands under conditions that ask for nothing that follows, and serves no role."""
        if self.layout.loop_of(node) is not loop or self.layout.roles(node) is not None:
            return False
        branches = [owner for owner, _ in self.layout.ancestors(node) if isinstance(owner, IfNode)]
        return not any(self.layout.moving(branch.pipe) for branch in branches)

    def _in_scope(self, segment: Segment, place: Node, in_loop: bool) -> bool:
        """Whether the variables and fields that a segment names mean the same at a place."""
        if any(self._dot_fields(node) for node in segment.nodes) and self.layout.loop_of(segment.carrier) is not None:
            return False
        for name in self.layout.free_variables(segment.nodes):
            pipes = self.layout.variables.get(name, [])
            if not pipes or any(
                self.layout.loop_of_pipe(pipe) is not None or pipe.span.end > place.span.start for pipe in pipes
            ):
                return False
        return self.layout.in_define(place) == self.layout.in_define(segment.carrier)

    def _dot_fields(self, node: Node) -> bool:
        """Whether a node uses dot, outside of branches that set it anew."""
        if isinstance(node, BranchNode) and not isinstance(node, IfNode):
            return self._dot_fields_of(node.pipe)
        if isinstance(node, IfNode):
            inner = [*node.list.nodes, *(node.else_list.nodes if node.else_list else ())]
            return self._dot_fields_of(node.pipe) or any(self._dot_fields(each) for each in inner)
        return self._dot_fields_of(node)

    @staticmethod
    def _dot_fields_of(node: Node) -> bool:
        return any(type(each).__name__ in ("FieldNode", "DotNode") for each in walk(node))

    def _text(self, segment: Segment, place: Node) -> str:
        """A segment's text as it must be written at a place: `$.Tools` where dot is not the request's data."""
        if self.layout.dot_is_root(place) or not self.layout.dot_is_root(segment.carrier):
            return segment.text
        return re.sub(r"(?<![\w$).])\.(Tools|System|Messages)\b", r"$.\1", segment.text)

    def _into_part(self, segment: Segment, part: IfNode) -> Move:
        last = part.list.nodes[-1]
        text = _separated(_printed_end(last), self._text(segment, last).rstrip())
        return Move(tuple(self.surgeon.insert(last.span.end, text)), (), "at the end of the system block's tool part")

    def _behind_system(self, segment: Segment, printed: ActionNode, loop: RangeNode) -> Iterator[Move]:
        unit = self._unit(printed)
        place = self.layout.place(unit)
        owner = place.owner
        dollar = self.surgeon.source.slice(printed.pipe.span).startswith("$")
        tools = "$.Tools" if dollar or not self.layout.dot_is_root(printed) else ".Tools"
        system = "$.System" if tools.startswith("$") else ".System"
        body = self._text(segment, unit).strip()
        closed = self._closing(place.list, place.index)
        gap = "" if closed else "\n"
        spaced = _ends_in_space(unit)
        lead = "" if spaced else f"{{{{ if {system} }}}}\n\n{{{{ end }}}}"
        if isinstance(unit, IfNode) and unit.else_list is not None:
            lead = "\n\n"  # words of its own stand there without a system text
        text = f"{{{{ if {tools} }}}}{lead}{body}{gap}{{{{ end }}}}"
        edits = self.surgeon.insert(unit.span.end, text)
        added: tuple[str, ...] = ()
        if isinstance(owner, IfNode) and place.list is owner.list and self._needs_system(owner):
            if owner.else_list is not None:
                yield from self._in_all_arms(segment, owner, edits, tools)
                return
            edits = [*self.widen_system(owner, printed, unit, tools), *edits]
            added = self.block_text(owner)
        if isinstance(owner, WithNode) and place.list is owner.list and self.layout.is_system(single_value(owner.pipe)):
            if owner.else_list is not None:
                yield from self._in_all_arms(segment, owner, edits, tools)
                return
            if self.surgeon.trims_right(printed.span) or not self._prints_dot_once(owner, printed):
                return
            edits = self._as_if(owner, printed, text)
            added = self.block_text(owner)
        yield Move(tuple(edits), added, "behind the system text")

    def _prints_dot_once(self, block: WithNode, printed: ActionNode) -> bool:
        """Whether a block over the system text uses it at one place only."""
        declared = {variable.ident[0] for variable in block.pipe.decl}
        return not any(
            isinstance(node, DotNode) or (isinstance(node, VariableNode) and node.ident[0] in declared)
            for node in walk(block.list)
            if not printed.span.contains(node.span)
        )

    def _as_if(self, block: WithNode, printed: ActionNode, text: str) -> list[Edit]:
        """`{{ with .System }} … {{ . }} …` as a branch that opens with tools alone as well, `text` behind the words."""
        dollar = "" if self.layout.dot_is_root(block) else "$"
        start = block.open.start + self.surgeon.data[block.open.start : block.open.end].index(b"with")
        opening = Edit(Span(start, block.pipe.span.end), f"if or {dollar}.System {dollar}.Tools")
        system = f"{self._open(printed)}if {dollar}.System }}}}{{{{ {dollar}.System }}}}{{{{ end }}}}"
        return [opening, Edit(printed.span, system + text)]

    @staticmethod
    def block_text(block: BranchNode) -> tuple[str, ...]:
        """What a block says besides the system text and what branches in it say."""
        return tuple([node.text for node in block.list.nodes if isinstance(node, TextNode) and node.text.strip()])

    def widen_system(self, block: IfNode, printed: ActionNode, unit: Node, tools: str) -> list[Edit]:
        """Open a block that needs a system text with tools alone as well."""
        edits: list[Edit] = []
        for part in conjuncts(block.pipe):
            if self.layout.is_system(single(part) or part):
                edits.append(
                    self.conditions.put(block.pipe, part, f"or {self.surgeon.source.slice(part.span)} {tools}")
                )
        if unit is printed:
            system = self.surgeon.source.slice(printed.pipe.span)
            system = "$.System" if system.startswith("$") else ".System"
            edits.append(Edit(Span(printed.span.start, printed.span.start), f"{self._open(printed)}if {system} }}}}"))
            if self.surgeon.trims_left(printed.span):
                edits.append(Edit(Span(printed.span.start + 2, printed.span.start + 3), ""))
            edits.append(Edit(Span(printed.span.end, printed.span.end), "{{ end }}"))
        return edits

    def _open(self, node: Node) -> str:
        return "{{- " if self.surgeon.trims_left(node.span) else "{{ "

    def _unit(self, printed: ActionNode) -> Node:
        """The system text with the branch that prints it and nothing else."""
        unit: Node = printed
        while True:
            place = self.layout.place(unit)
            owner = place.owner
            if not isinstance(owner, IfNode) or place.list is not owner.list or not self._needs_system(owner):
                return unit
            others = [node for node in place.list.nodes if node is not unit]
            if any(not isinstance(n, TextNode) or n.text.strip() for n in others):
                return unit
            if owner.else_list is not None and not self._only_words(owner.else_list):
                return unit
            unit = owner

    @staticmethod
    def _only_words(nodes: ListNode) -> bool:
        """Whether a list prints plain words, no marks."""
        texts = [node.text for node in nodes.nodes if isinstance(node, TextNode)]
        return len(texts) == len(nodes.nodes) and not any(_MARK.search(text) for text in texts)

    def _closing(self, nodes: ListNode, index: int) -> bool:
        """Whether text that closes the block follows in the same list, in front of the messages."""
        for node in nodes.nodes[index + 1 :]:
            if any(loop is node for loop in self.layout.loops):
                return False
            if isinstance(node, TextNode) and node.text.strip():
                return True
        return False

    def _in_all_arms(self, segment: Segment, block: BranchNode, edits: list[Edit], tools: str) -> Iterator[Move]:
        others = self._in_other_arms(segment, block, tools)
        if others is not None:
            yield Move((*edits, *others), (), "in all forms of the system block")

    def _in_other_arms(self, segment: Segment, block: BranchNode, tools: str) -> list[Edit] | None:
        """The text at the end of each arm but the first that is taken when tools are given; None where it cannot be."""
        if block.else_list is None or not block.else_list.nodes:
            return None
        chained = block.else_list.nodes[0]
        if not isinstance(chained, IfNode) or not chained.chained:
            return self._at_end(segment, block.else_list, tools)
        here = self._at_end(segment, chained.list, tools)
        if here is None or self.layout.truth(chained.pipe, True) is True:
            return here
        others = self._in_other_arms(segment, chained, tools)
        return None if others is None else [*here, *others]

    def _at_end(self, segment: Segment, arm: ListNode, tools: str) -> list[Edit] | None:
        last = arm.nodes[-1] if arm.nodes else None
        if not isinstance(last, TextNode):
            return None
        mark = _END_MARK.search(last.text)
        cut = len((last.text if mark is None else last.text[: mark.start()]).encode("utf-8", "surrogateescape"))
        text = f"{{{{ if {tools} }}}}\n\n{self._text(segment, last).strip()}{{{{ end }}}}"
        return self.surgeon.insert(last.span.start + cut, text)

    # A system block of the loop's own

    def _in_role_arm(self, segment: Segment, loop: RangeNode) -> Iterator[Move]:
        """Into the arm that prints system messages, or in a block of the same form where none comes first."""
        if not self._in_scope(segment, loop, True):
            return
        for node in self.layout.nodes:
            if not isinstance(node, IfNode) or self.layout.loop_of(node) is not loop:
                continue
            if not any(self._asks_role(part, "system") for part in conjuncts(node.pipe)):
                continue
            content = [n for n in node.list.nodes if isinstance(n, ActionNode) and self.layout.prints_message(n)]
            if len(content) != 1 or not all(isinstance(n, TextNode) for n in node.list.nodes if n is not content[0]):
                continue
            at = next(i for i, n in enumerate(node.list.nodes) if n is content[0])
            head = "".join([n.text for n in node.list.nodes[:at] if isinstance(n, TextNode)])
            tail = "".join([n.text for n in node.list.nodes[at + 1 :] if isinstance(n, TextNode)])
            body = self._text(segment, content[0]).strip()
            flag, edits = self._flag(loop)
            inner = f"{{{{ if and $.Tools {flag} }}}}\n\n{body}{{{{ {flag} = false }}}}{{{{ end }}}}"
            edits += self.surgeon.insert(content[0].span.end, inner)
            opening = f'{self.conditions.opening(loop)}if and $.Tools {flag} (ne .Role "system") }}}}'
            front = f"{opening}{head.lstrip()}{body}{tail.rstrip(' ')}{{{{ {flag} = false }}}}{{{{ end }}}}"
            edits += self.surgeon.insert(loop.open.end, front)
            yield Move(tuple(edits), (head, tail), "in the system message, or in one of its own")
            return

    def beside_system_arm(self, carrier: Node, loop: RangeNode) -> Iterator[Move]:
        """For tools that stand with system messages: the same in a block in front where there is no system message."""
        arm = next(
            (
                owner
                for owner, arm in self.layout.ancestors(carrier)
                if isinstance(owner, IfNode)
                and arm is owner.list
                and any(self._asks_role(part, "system") for part in conjuncts(owner.pipe))
            ),
            None,
        )
        content = self.markup.content(loop, "system", arm)
        if arm is None or content is None or not arm.list.nodes:
            return
        inside = any(node is content for node in arm.list.nodes)
        words = [carrier] if inside else list(arm.list.nodes)
        head = self.markup.text_before(content, arm).replace("{role}", "system")
        tail = self.markup.text_after(content if inside else arm, skip=carrier if inside else None)
        body = self.surgeon.text_of(words[0].span.start, words[-1].span.end).strip()
        flag, edits = self._flag(loop)
        opening = f'{self.conditions.opening(loop)}if and $.Tools {flag} (ne .Role "system") }}}}'
        front = f"{opening}{{{{ {flag} = false }}}}{head.lstrip()}{body}{tail}{{{{ end }}}}"
        edits += self.surgeon.insert(loop.open.end, front)
        left = "{{- " if self.surgeon.data[carrier.span.start : carrier.span.start + 3] == b"{{-" else "{{ "
        edits.append(
            Edit(Span(carrier.span.start, carrier.span.start), f"{left}if {flag} }}}}{{{{ {flag} = false }}}}")
        )
        edits.append(Edit(Span(carrier.span.end, carrier.span.end), "{{ end }}"))
        yield Move(tuple(edits), (head, tail), "printed in a system block of its own where there is no system message")

    @staticmethod
    def _asks_role(part: Node, role: str) -> bool:
        call = call_of(part)
        return call is not None and call[0] == "eq" and role in asked_roles(part) and len(call[1]) == 2

    def _flag(self, loop: RangeNode) -> tuple[str, list[Edit]]:
        """A variable that holds until the tools have been printed."""
        name = self.layout.fresh("$pending")
        left = self.conditions.opening(loop)
        return name, self.surgeon.insert(loop.span.start, f"{left}{name} := true }}}}")

    # In front of the turns

    def _before_loop(self, segment: Segment, loop: RangeNode) -> Iterator[Move]:
        """Between the system block and the first turn, for text that stood behind the loop."""
        if self.layout.loop_of(segment.carrier) is not None or self._system_action(loop) is None:
            return
        if not self._in_scope(segment, loop, False):
            return
        tools = ".Tools" if self.layout.dot_is_root(loop) else "$.Tools"
        text = f"{self.conditions.opening(loop)}if {tools} }}}}{self._text(segment, loop).lstrip()}{{{{ end }}}}"
        yield Move(tuple(self.surgeon.insert(loop.span.start, text)), (), "in front of the first turn")

    def _at_loop_head(self, segment: Segment, loop: RangeNode) -> Iterator[Move]:
        """In front of the first message that is not a system message."""
        if not self._in_scope(segment, loop, True):
            return
        flag, edits = self._flag(loop)
        first = loop.list.nodes[0] if loop.list.nodes else loop
        body = self._text(segment, first)
        behind = body[len(body.rstrip()) :].lstrip(" ") if is_block(segment.plain) else ""  # turns may end with a line
        text = body.strip() + ("\n" if body[:1] in "\r\n" else behind)
        left = self.conditions.opening(loop)
        opening = f'{left}if and $.Tools {flag} (ne .Role "system") }}}}{{{{ {flag} = false }}}}'
        edits += self.surgeon.insert(loop.open.end, f"{opening}{text}{{{{ end }}}}")
        yield Move(tuple(edits), (), "in front of the first turn")

    # A block of its own

    def _new_block(self, segment: Segment, loop: RangeNode) -> Iterator[Move]:
        """A system block made of the marks around a user's text, in front of the loop."""
        if not self._in_scope(segment, loop, False):
            return
        marks = self.markup.marks(loop)
        if marks is None:
            return
        head, tail = marks
        tools = ".Tools" if self.layout.dot_is_root(loop) else "$.Tools"
        body = self._text(segment, loop).strip()
        text = f"{self.conditions.opening(loop)}if {tools} }}}}{head}{body}{tail}{{{{ end }}}}"
        yield Move(tuple(self.surgeon.insert(loop.span.start, text)), (head, tail), "in a system block of its own")


def _printed_end(node: Node) -> str:
    return node.text[-2:] if isinstance(node, TextNode) else "x"


def _separated(before: str, text: str) -> str:
    """Text with a blank line in front of it, unless there is one."""
    if before.endswith("\n\n"):
        return text.lstrip("\r\n")
    if text[:1].isspace():
        return text
    return ("\n" if before.endswith("\n") else "\n\n") + text


def _ends_in_space(node: Node) -> bool:
    """Whether what a unit prints ends in white space."""
    while isinstance(node, IfNode) and node.list.nodes:
        node = node.list.nodes[-1]
    return isinstance(node, TextNode) and node.text[-1:].isspace()
