"""Edits that may mend a template, the best first; the proof decides which of them is right."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from templatefix.analysis.stability import LoopRun, Step
from templatefix.gotemplate.edits import Edit
from templatefix.gotemplate.nodes import ActionNode, BranchNode, IfNode, Node, RangeNode, TextNode
from templatefix.gotemplate.parser import Tree
from templatefix.gotemplate.source import Span
from templatefix.gotemplate.visitor import walk
from templatefix.rewrite.conditions import Conditions
from templatefix.rewrite.destinations import Destinations, Move
from templatefix.rewrite.layout import Layout
from templatefix.rewrite.operands import conjuncts, single
from templatefix.rewrite.said import Said
from templatefix.rewrite.segments import Segment, Segments
from templatefix.rewrite.standing import words_between_marks
from templatefix.rewrite.surgery import Surgeon
from templatefix.rewrite.trailing import Trailing

Placement = Literal["system", "first-user"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to change a template."""

    edits: tuple[Edit, ...]
    dropped: tuple[str, ...]  # text given up
    added: tuple[str, ...]  # text that is new
    placement: Placement | None  # where it puts the tools; None: it does not move them
    what: str  # for people


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why something could not be mended, and where."""

    reason: str
    span: Span


def culprits(runs: Sequence[LoopRun]) -> list[Span]:
    """The template nodes at which prompts part from the ones before, or print tools behind the messages."""
    found: dict[Span, None] = {}
    for run in runs:
        for index in run.lost:
            step = run.steps[index]
            if index and step.kept_bytes < run.needed(index - 1):
                for side in (run.steps[index - 1], step):
                    span = _span_at(side, step.kept_bytes)
                    if span is not None:
                        found[span] = None
            if run.tools_behind(index):
                for each in step.passes:
                    found[step.rendering.pieces[each.first].span] = None
    return list(found)


def _span_at(step: Step, offset: int) -> Span | None:
    index = bisect_right(step.offsets, offset) - 1
    pieces = step.rendering.pieces
    return pieces[index].span if 0 <= index < len(pieces) else None


class Candidates:
    """Proposes changes to one template."""

    def __init__(self, tree: Tree, runs: Sequence[LoopRun], placement: Placement) -> None:
        self.layout = Layout(tree)
        self.surgeon = Surgeon(tree)
        self.conditions = Conditions(self.layout, self.surgeon)
        self.said = Said(self.layout)
        self.segments = Segments(self.layout, self.surgeon, self.said)
        self.destinations = Destinations(self.layout, self.surgeon, self.conditions)
        self.trailing = Trailing(self.layout, self.surgeon, self.conditions)
        self.placement = placement
        self.runs = runs
        self.obstacles: list[Obstacle] = []
        self.certain: list[Obstacle] = []  # that no trial gets round
        nodes = [self.layout.at(span) for span in culprits(runs)]
        self.culprits = [place for node in nodes if node is not None for place in self.layout.called_at(node)]

    def propose(self) -> Iterator[Candidate]:
        """All changes worth a try."""
        gates = self._gates()
        carriers = self.segments.carriers()
        moving = [c for c in carriers if self._moves(c, gates)]
        if moving:
            yield from self._tools(moving, gates)
        others = [gate for gate in gates if not self.layout.prints_tools(gate)]
        for gate in others:
            if self.layout.prints_system(gate):
                yield from self._system(gate)
        for gate in others:
            yield from self._words(gate)
        if not moving:
            yield from self._closed_blocks(carriers)
        for gate in gates:
            if self.layout.prints_tools(gate):
                yield from self._words(gate)

    def _moves(self, carrier: Node, gates: list[BranchNode]) -> bool:
        """Whether a carrier prints tools at a place that changes, behind the messages, or at several messages."""
        if any(any(gate is each for each in gates) for gate in self.segments.gates(carrier)) or self._trails(carrier):
            return True
        repeated = any(step.tools > 1 for run in self.runs for step in run.steps)
        return repeated and self.layout.loop_of(carrier) is not None

    def _gates(self) -> list[BranchNode]:
        """The branches around the culprits whose conditions ask for what follows, in the order of the source."""
        found: dict[int, BranchNode] = {}
        for node in self.culprits:
            for gate in self.segments.gates(node):
                found.setdefault(id(gate), gate)
        return sorted(found.values(), key=lambda gate: gate.span)

    def _trails(self, carrier: Node) -> bool:
        """Whether a carrier prints tools behind the messages."""
        return self._loop_before(carrier) is not None and any(carrier.span.contains(n.span) for n in self.culprits)

    def _loop_before(self, carrier: Node) -> RangeNode | None:
        for loop in self.layout.loops:
            if loop.span.end <= carrier.span.start and not self.layout.exclusive(loop, carrier):
                return loop
        return None

    def _main_loop(self, carrier: Node) -> RangeNode | None:
        """The loop over the messages that a carrier belongs to."""
        return self.layout.loop_of(carrier) or self._loop_before(carrier)

    # Tool text

    def _tools(self, carriers: list[Node], gates: list[BranchNode]) -> Iterator[Candidate]:
        self.certain += [
            Obstacle("this prints without tools as well, and without tools every prompt has to stay as it is", c.span)
            for c in carriers
            if isinstance(c, ActionNode) and self._loop_before(c) is not None and not self.segments.for_tools(c)
        ]
        if self.placement == "system":
            yield from self._behind(carriers)
            yield from self._moved(carriers)
        yield from self._first_user(carriers, gates)

    def _behind(self, carriers: list[Node]) -> Iterator[Candidate]:
        """Tools behind the messages that stand there with the system text."""
        loop = self._loop_before(carriers[0])
        move = None if loop is None else self.trailing.in_front(loop)
        if isinstance(move, Move):
            yield Candidate(move.edits, (), move.added, "system", f"tool text moved {move.what}")
        elif move is not None:
            self.obstacles.append(Obstacle(move, carriers[0].span))

    def _moved(self, carriers: list[Node]) -> Iterator[Candidate]:
        loop = self._main_loop(carriers[0])
        segments = [self.segments.segment(carrier) for carrier in carriers]
        if loop is None or segments[0] is None:
            self.obstacles.append(
                Obstacle("the tool text depends on conditions of the message it stands with", carriers[0].span)
            )
            return
        for move in self.destinations.moves(segments[0], loop):
            for removal, dropped in self._removals([s for s in segments if s is not None]):
                yield Candidate((*move.edits, *removal), dropped, move.added, "system", f"tool text moved {move.what}")

    def _removals(self, segments: list[Segment]) -> Iterator[tuple[list[Edit], tuple[str, ...]]]:
        """Ways to take tool text away: with its frame kept at every user turn, or with the message left bare."""
        if len(segments) == 1 and segments[0].frame and segments[0].gate is not None:
            segment = segments[0]
            widened = self.conditions.widen(segment.gate) if segment.gate is not None else []
            yield [*self.surgeon.cut(segment.start, segment.end), *widened], ()
        edits: list[Edit] = []
        dropped: list[str] = []
        for segment in segments:
            removal = self.segments.remove(segment)
            if removal is None:
                return
            edits += removal[0]
            dropped += removal[1]
        yield edits, tuple(dropped)

    def _first_user(self, carriers: list[Node], gates: list[BranchNode]) -> Iterator[Candidate]:
        loop = self.layout.loop_of(carriers[0])
        if loop is None:
            self.obstacles.append(Obstacle("the tool text stands outside the user's turns", carriers[0].span))
            return
        at_first = {id(g): g for c in carriers for g in self.segments.gates(c)}
        for gate in gates:
            if self.layout.prints_system(gate):
                at_first.setdefault(id(gate), gate)
        segments = [self.segments.segment(carrier) for carrier in carriers]
        first, edits = self._first(loop)
        edits += self._whatever_is_said(carriers)
        framed = segments[0]
        if framed is not None and framed.frame and framed.gate is not None:
            # The instructions at the first turn, the frame round the text at every turn.
            text = f"{{{{ if {first} }}}}{framed.text}{{{{ end }}}}"
            split = [*edits, *self.conditions.widen(framed.gate), *self.surgeon.replace(framed.start, framed.end, text)]
            for gate in at_first.values():
                if gate is not framed.gate:
                    split += self.conditions.at_first(gate, first)
            yield Candidate(tuple(split), (), (), "first-user", "tool text fixed at the first user turn")
        everywhere = {**at_first, **{id(gate): gate for gate in gates}}
        whens = (first, f"not ({first})")
        if any(gate.else_list is not None and self.layout.prints_tools(gate.else_list) for gate in gates):
            whens = whens[::-1]  # the arm that is taken where the message is not the last
        for chosen in (at_first, everywhere):
            for when in whens:
                plain = list(edits)
                for gate in chosen.values():
                    plain += self.conditions.at_first(gate, when)
                yield Candidate(tuple(plain), (), (), "first-user", "tool text fixed at the first user turn")

    def _whatever_is_said(self, carriers: list[Node]) -> list[Edit]:
        """Let branches round tool text alone, or in it, be taken whatever the message says when tools are given."""
        branches = {id(b): b for c in carriers for b in self.segments.branches(c) if not self.layout.prints_message(b)}
        return [e for b in branches.values() for part in self.said.parts(b) for e in self.conditions.free(b, part)]

    def _first(self, loop: RangeNode) -> tuple[str, list[Edit]]:
        index = self.conditions.index_of(loop)
        first = self.conditions.first_of(loop, "user")
        return f"eq {index.name} {first.name}", [*first.edits, *index.edits]

    # System text

    def _system(self, gate: BranchNode) -> Iterator[Candidate]:
        loop = self.layout.loop_of(gate)
        if loop is None:
            return
        first, edits = self._first(loop)
        for when in (first, f"not ({first})"):
            fixed = (*edits, *self.conditions.at_first(gate, when))
            yield Candidate(fixed, (), (), None, "system text fixed at the first user turn")

    # Words

    def _words(self, gate: BranchNode) -> Iterator[Candidate]:
        words = tuple([n.text.strip() for n in walk(gate.list) if isinstance(n, TextNode) and n.text.strip()])
        yield Candidate(tuple(self.conditions.widen(gate)), (), words, None, "words said at every turn")
        gone = words_between_marks(words)
        yield Candidate(tuple(self.conditions.never(gate)), gone, (), None, "words dropped when tools are given")

    # Tools that need a system message

    def _closed_blocks(self, carriers: list[Node]) -> Iterator[Candidate]:
        if all(step.tools for run in self.runs for step in run.steps):
            return
        for carrier in carriers:
            loop = self.layout.loop_of(carrier)
            if loop is not None:
                for move in self.destinations.beside_system_arm(carrier, loop):
                    yield Candidate(move.edits, (), move.added, "system", f"tool text {move.what}")
                continue
            for owner, arm in self.layout.ancestors(carrier):
                if not isinstance(owner, IfNode) or arm is not owner.list:
                    continue
                if any(self.layout.is_system(single(part) or part) for part in conjuncts(owner.pipe)):
                    printed = [
                        n for n in walk(owner.list) if isinstance(n, ActionNode) and self.layout.prints_system(n)
                    ]
                    tools = ".Tools" if self.layout.dot_is_root(owner) else "$.Tools"
                    edits: list[Edit] = []
                    if len(printed) == 1:
                        edits = self.destinations.widen_system(owner, printed[0], printed[0], tools)
                    added = self.destinations.block_text(owner)
                    yield Candidate(tuple(edits), (), added, "system", "system block opened for tools alone")
