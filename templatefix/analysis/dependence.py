"""What of a Go template depends on messages that come later, found by reading its tree."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from templatefix.analysis.gotree_flow import Flow
from templatefix.analysis.gotree_items import Item, Record, Suspect, Via, branches, flatten
from templatefix.analysis.gotree_values import Assumptions
from templatefix.analysis.reading import TAIL, Place, Site
from templatefix.gotemplate.deep import run_deep
from templatefix.gotemplate.nodes import (
    ActionNode,
    BlockNode,
    BranchNode,
    DefineNode,
    ListNode,
    Node,
    NumberNode,
    RangeNode,
    TemplateNode,
)
from templatefix.gotemplate.parser import Tree
from templatefix.gotemplate.source import Span
from templatefix.gotemplate.visitor import walk

_FEW, _MANY = 4, 400  # messages
_COUNTS = 12  # the fixed loops pass the small ones anyway


@dataclass(frozen=True)
class TreeReading:
    """A tree read on abstract conversations."""

    tree: Tree
    record: Record
    printed: tuple[tuple[Item, ...], ...]  # by the runs with and without a system message

    @cached_property
    def suspects(self) -> tuple[Suspect, ...]:
        """Places that can render differently when messages are added, in the order of the source; no inner ones."""
        found: list[Suspect] = []
        for suspect in sorted(self.record.suspects.values(), key=lambda s: (s.node.span.start, -s.node.span.end)):
            # A branch of another branch that flips for a message says nothing new.
            if not any(
                outer.node.span.contains(suspect.node.span) for outer in found if outer.node is not suspect.node
            ):
                found.append(suspect)
        return tuple(found)

    @property
    def places(self) -> tuple[Place, ...]:
        """The suspects' places."""
        return tuple([Place(suspect.node.span, suspect.kind, suspect.shown) for suspect in self.suspects])

    def raw(self, node: Node) -> int:
        """What the value of an expression was ever made of: TAIL, TOOLS, SYSTEM, DATA, DATE."""
        return self.record.raw.get(id(node), 0)

    def flips(self, branch: BranchNode) -> bool:
        """Whether a branch can take another arm for the same message when others follow."""
        truths = self.record.truths.get(id(branch.pipe), set())
        # A condition that was true in every run, such as `.Messages`, does not flip.
        undecided = len(truths) > 1 or None in truths
        return undecided and not isinstance(branch, RangeNode) and bool(self.raw(branch.pipe) & TAIL)

    @cached_property
    def _vias(self) -> dict[Span, Via]:
        vias: dict[Span, Via] = {}
        bodies: dict[str, ListNode] = {}
        calls: dict[str, list[Via]] = {}
        stack: list[tuple[ListNode, Via]] = [(self.tree.root, None)]
        while stack or bodies:
            if not stack:
                # The body of a definition stands where it is called from, if that is one place.
                name, body = bodies.popitem()
                stack.append((body, calls[name][0] if len(calls.get(name, ())) == 1 else None))
            nodes, via = stack.pop()
            for node in nodes.nodes:
                vias[node.span] = via
                if isinstance(node, BranchNode):
                    stack += [(arm, (via, node)) for arm in (node.list, node.else_list) if arm is not None]
                elif isinstance(node, DefineNode):
                    bodies[node.name] = node.list
                elif isinstance(node, BlockNode):
                    stack.append((node.list, via))
                elif isinstance(node, TemplateNode):
                    calls.setdefault(node.name, []).append(via)
        return vias

    def via(self, span: Span) -> tuple[BranchNode, ...]:
        """The branches around a node, outermost first."""
        return branches(self._vias.get(span))

    def gate(self, span: Span) -> BranchNode | None:
        """The outermost branch around a node that can flip."""
        return next((branch for branch in self.via(span) if self.flips(branch)), None)

    def conditions(self, span: Span, without: int = 0) -> tuple[BranchNode, ...]:
        """Each `if` and `with` around a node, outermost first; not those whose pipeline is made of one of `without`."""
        return tuple([b for b in self.via(span) if not isinstance(b, RangeNode) and not self.raw(b.pipe) & without])

    def loops(self, span: Span) -> tuple[BranchNode, ...]:
        """The loops around a node, outermost first."""
        return tuple([branch for branch in self.via(span) if isinstance(branch, RangeNode)])

    def condition_on(self, span: Span, what: int) -> BranchNode | None:
        """The outermost `if` or `with` around a node whose condition is made of one of `what`."""
        return next((branch for branch in self.conditions(span) if self.raw(branch.pipe) & what), None)

    def first_on(self, what: int) -> Site | None:
        """The first action or branch whose pipeline is made of one of `what`."""
        for node in walk(self.tree.root):
            if isinstance(node, (ActionNode, BranchNode)) and self.raw(node.pipe) & what:
                return Site(node.span, node.open if isinstance(node, BranchNode) else node.span)
        return None

    @cached_property
    def conversation(self) -> Span | None:
        """The opening action of the last loop that prints the messages."""
        items = flatten(self.printed[0])
        loops = [item.node for item in items if item.kind == "messages" and isinstance(item.node, RangeNode)]
        return loops[-1].open if loops else None

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Numbers of messages at which a condition may turn: the integers of the template that are no small ones."""
        found = {node.int_value for node in walk(self.tree.root) if isinstance(node, NumberNode) and node.int_value}
        return tuple(sorted(number for number in found if _FEW < number <= _MANY))[-_COUNTS:]


def read(tree: Tree, think: bool = False, thoughts: bool = False, tools: bool = True) -> TreeReading:
    """Read a tree; `think` as the server would set it, `thoughts` if earlier turns may hold thinking.

    Raises TooComplex.
    """
    record = Record()
    printed = []
    for system in (True, False):
        flow = Flow(tree, Assumptions(tools, system, think, thoughts), record)
        printed.append(run_deep(tree.depth, flow.run))
    return TreeReading(tree, record, tuple(printed))
