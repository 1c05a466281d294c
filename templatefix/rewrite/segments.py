"""Where a template's tool text stands: nodes that print definitions, the words around them, how to cut them out."""

from __future__ import annotations

import re
from dataclasses import dataclass

from templatefix.gotemplate.edits import Edit
from templatefix.gotemplate.nodes import (
    ActionNode,
    BranchNode,
    FieldNode,
    IfNode,
    ListNode,
    Node,
    RangeNode,
    TemplateNode,
    TextNode,
    WithNode,
)
from templatefix.gotemplate.visitor import walk
from templatefix.rewrite.decisions import Decision
from templatefix.rewrite.layout import Layout, is_blank
from templatefix.rewrite.operands import conjuncts, path_of, single
from templatefix.rewrite.said import Said
from templatefix.rewrite.surgery import Surgeon
from templatefix.rewrite.words import split_text

_MARK_LINE = re.compile(r"\s*(\[[^\[\]]+\]|<[^<>]+>|#+ .*)\s*$")


@dataclass(frozen=True)
class Segment:
    """The tool text of one place: what to put elsewhere and how to take it away from here."""

    carrier: Node  # the outermost node that prints definitions and nothing of a message
    nodes: tuple[Node, ...]  # what moves (the last may be text of which a part stays)
    text: str  # template text, white space at its ends as printed
    plain: str  # the words of it that are text
    label: str  # words between it and the message's text
    frame: str  # words behind the message's text that only this arm has
    gate: BranchNode | None  # the branch that holds both this and the message's text
    start: int
    end: int


class Segments:
    """Finds the tool text of one template."""

    def __init__(self, layout: Layout, surgeon: Surgeon, said: Said) -> None:
        self.layout = layout
        self.surgeon = surgeon
        self.said = said

    def carriers(self) -> list[Node]:
        """The outermost nodes that print definitions and nothing of a message or of the system text."""
        found: list[Node] = []
        for node in self.layout.nodes:
            if self.layout.in_define(node) and self.layout.loop_of(node) is None:
                continue  # it is printed where the named template is called
            if self._prints_definitions(node) and not any(each.span.contains(node.span) for each in found):
                found.append(self._climb(node))
        return list({id(node): node for node in found}.values())

    def _prints_definitions(self, node: Node) -> bool:
        if isinstance(node, ActionNode):
            return not node.pipe.decl and self.layout.names(node.pipe, "Tools")
        if isinstance(node, TemplateNode):
            return self.layout.calls_tools(node)
        if isinstance(node, (RangeNode, WithNode)) and self.layout.names(node.pipe, "Tools"):
            return any(
                isinstance(each, ActionNode) and not each.pipe.decl and not _is_name(each) for each in walk(node.list)
            )
        return False

    def _climb(self, node: Node) -> Node:
        while True:
            owner = self.layout.place(node).owner
            if not isinstance(owner, (IfNode, WithNode)):
                return node
            if self.layout.prints_message(owner) or self.layout.prints_system(owner):
                return node
            arm = self.layout.place(node).list
            alone = all(each is node or is_blank(each) for each in arm.nodes)
            if not self.for_tools(node) and (not alone or self._serves_a_role(owner)):
                return node
            node = owner

    @staticmethod
    def _serves_a_role(branch: BranchNode) -> bool:
        return any(path_of(each)[-1:] == ("Role",) for each in walk(branch.pipe))

    def gates(self, node: Node) -> list[BranchNode]:
        """The branches in and around a node whose conditions ask for what follows."""
        return [branch for branch in self.branches(node) if self.layout.moving(branch.pipe)]

    def branches(self, node: Node) -> list[BranchNode]:
        """The branches in and around a node."""
        around: list[Node] = [*walk(node), *[owner for owner, _ in self.layout.ancestors(node)]]
        return [n for n in around if isinstance(n, (IfNode, WithNode))]

    def segment(self, carrier: Node) -> Segment | None:
        """The tool text around a carrier; None where conditions of its own keep it where it is."""
        place = self.layout.place(carrier)
        owner = place.owner
        shared = isinstance(owner, IfNode) and self.layout.prints_message(owner) and self.for_tools(carrier)
        if not shared:
            inner = self._inside(carrier)
            if inner is None or not inner.nodes:
                return None
            start, end = inner.nodes[0].span.start, inner.nodes[-1].span.end
            label = self._label_behind(carrier, inner)
            end -= len(label.encode("utf-8", "surrogateescape"))
            text = self.surgeon.text_of(start, end)
            return Segment(carrier, inner.nodes, text, _plain(inner), label, "", None, start, end)
        assert isinstance(owner, IfNode)
        return self._in_arm(carrier, owner, place.list, place.index)

    def _label_behind(self, carrier: Node, inner: ListNode) -> str:
        """The end of the tool text where it introduces the message's text that follows."""
        place = self.layout.place(carrier)
        following = place.list.nodes[place.index + 1 : place.index + 2]
        last = inner.nodes[-1]
        if not isinstance(last, TextNode) or not following or not self._belongs_to_message(following[0]):
            return ""
        label = split_label(last.text)[1]
        return label if label.strip() and not self._ends_turns(label.strip(), carrier) else ""

    def _ends_turns(self, mark: str, carrier: Node) -> bool:
        """Whether a mark stands elsewhere too: it closes the block then, and does not introduce a message."""
        elsewhere = [n for n in self.layout.nodes if isinstance(n, TextNode) and not carrier.span.contains(n.span)]
        return bool(_MARK_LINE.match(mark)) and any(mark in node.text for node in elsewhere)

    def for_tools(self, carrier: Node) -> bool:
        """Whether the arm that holds a carrier is taken with tools only."""
        for owner, arm in self.layout.ancestors(carrier):
            if isinstance(owner, RangeNode):
                return False
            if isinstance(owner, IfNode) and self.layout.arm_requires_tools(owner, arm):
                return True
        return False

    def _inside(self, carrier: Node) -> ListNode | None:
        """The list inside the gates that a carrier brings with it."""
        around = ListNode(carrier.span, carrier.pos, (carrier,))
        while isinstance(carrier, IfNode):
            if not self._prints_in(carrier.list):
                return None
            if not all(self._strippable(part) for part in conjuncts(carrier.pipe)):
                return around if not self.layout.moving(carrier.pipe) else None
            around = carrier.list
            inner = [node for node in carrier.list.nodes if not (isinstance(node, TextNode) and not node.text.strip())]
            if len(inner) != 1 or not isinstance(inner[0], IfNode):
                break
            carrier = inner[0]
        return around

    def _prints_in(self, nodes: ListNode) -> bool:
        return any(self._prints_definitions(node) for node in walk(nodes))

    def _strippable(self, part: Node) -> bool:
        """Whether a condition need not be asked any more at another place."""
        operand = single(part) or part
        return (
            self.layout.is_tools(operand)
            or self.layout.truth(part, True) is True
            or self.layout.moving(part)
            or self.said.decision(part) is Decision.SAID
            or any(path_of(each)[-1:] == ("Role",) for each in walk(part))
        )

    def _in_arm(self, carrier: Node, owner: IfNode, arm: ListNode, index: int) -> Segment:
        first = index
        while first > 0 and not self._belongs_to_message(arm.nodes[first - 1]):
            first -= 1
        last = index
        while last + 1 < len(arm.nodes) and not self._belongs_to_message(arm.nodes[last + 1]):
            last += 1
        start = arm.nodes[first].span.start + self._shared_head(owner, arm, first)
        end, label, frame = arm.nodes[last].span.end, "", ""
        if last + 1 < len(arm.nodes):
            tail = arm.nodes[last]
            if isinstance(tail, TextNode) and last > index:
                words, label = split_label(tail.text)
                end = tail.span.start + len(words.encode("utf-8", "surrogateescape"))
            frame = self._frame(owner, arm, arm.nodes[last + 1 :])
        text = self.surgeon.text_of(start, end)
        nodes = arm.nodes[first : last + 1]
        return Segment(
            carrier, nodes, text, _plain(ListNode(arm.span, arm.pos, nodes)), label, frame, owner, start, end
        )

    def _belongs_to_message(self, node: Node) -> bool:
        return self.layout.prints_message(node) or self.layout.prints_system(node)

    def _shared_head(self, owner: IfNode, arm: ListNode, first: int) -> int:
        """How many bytes of header the other arm opens with as well."""
        other = self.other_arm(owner, arm)
        node = arm.nodes[first]
        if first or other is None or not other.nodes or not isinstance(node, TextNode):
            return 0
        twin = other.nodes[0]
        if isinstance(twin, IfNode) and twin.chained and twin.list.nodes:
            twin = twin.list.nodes[0]
        if not isinstance(twin, TextNode):
            return 0
        head = twin.text if node.text.startswith(twin.text) else ""
        return len(head.encode("utf-8", "surrogateescape")) if head.strip() else 0

    @staticmethod
    def other_arm(owner: IfNode, arm: ListNode) -> ListNode | None:
        """The arm of an if that is not the given one."""
        return owner.else_list if arm is owner.list else owner.list

    def _frame(self, owner: IfNode, arm: ListNode, rest: tuple[Node, ...]) -> str:
        """The words behind the message's text that the other arm does not say."""
        other = self.other_arm(owner, arm)
        mine = "".join([node.text for node in rest if isinstance(node, TextNode)])
        theirs = "" if other is None else "".join([n.text for n in walk(other) if isinstance(n, TextNode)])
        known = set(split_text(theirs))
        return "" if all(word in known for word in split_text(mine)) else mine.strip()

    def arm_of(self, segment: Segment) -> ListNode:
        """The list that holds a segment."""
        return self.layout.place(segment.carrier).list

    def _unsaid(self, segment: Segment) -> list[str]:
        """What a carrier says elsewhere than in the text that moves."""
        kept = segment.carrier.else_list if isinstance(segment.carrier, IfNode) else None
        return [
            node.text.strip()
            for node in walk(segment.carrier)
            if isinstance(node, TextNode)
            and not segment.start <= node.span.start < segment.end
            and (kept is None or not kept.span.contains(node.span))
        ]

    def remove(self, segment: Segment) -> tuple[list[Edit], list[str]] | None:
        """Take a segment away and leave the message as it is without tools; the words given up with it."""
        if segment.gate is None:
            carrier = segment.carrier
            other = None
            if isinstance(carrier, IfNode):
                other = carrier.else_list if self._prints_in(carrier.list) else carrier.list
            dropped = [text for text in (segment.label.strip("\r\n"), *self._unsaid(segment)) if text.strip()]
            if isinstance(carrier, BranchNode):
                return self.surgeon.keep_arm(carrier, other), dropped
            return self.surgeon.cut(carrier.span.start, carrier.span.end), dropped
        gate = segment.gate
        assert isinstance(gate, IfNode)
        other = self.other_arm(gate, self.arm_of(segment))
        if other is None or not self.layout.prints_message(ListNode(other.span, other.pos, other.nodes)):
            return self.surgeon.cut(segment.start, segment.end), []
        dropped = [text for text in (segment.label.lstrip("\r\n"), segment.frame) if text.strip()]
        return self.surgeon.keep_arm(gate, other), dropped


def split_label(text: str) -> tuple[str, str]:
    """Cut the text between tools and message into what speaks of the tools and what introduces the message."""
    stripped = text.rstrip()
    if not stripped:
        return "", text
    at = stripped.rfind("\n") + 1
    line = stripped[at:].strip()
    if (line.endswith(":") and len(line) <= 40) or (_MARK_LINE.match(line) and not line.startswith(("[/", "</"))):
        before = text[:at].rstrip(" \t\r\n")
        return before, text[len(before) :]
    return stripped, text[len(stripped) :]


def _is_name(action: ActionNode) -> bool:
    operand = single(action.pipe)
    return operand is not None and path_of(operand)[-1:] == ("Name",) and isinstance(operand, FieldNode)


def _plain(nodes: ListNode) -> str:
    return "".join([node.text for node in walk(nodes) if isinstance(node, TextNode)])
