"""Run a Go chat template on abstract values: what it prints for each kind of message, and what of that can change.

A loop over the conversation is run once for each role that a message can have, and twice where the message may be the
last one: as the last, and as one that others follow. What the two runs print is compared; text that only the last
message has, behind all the rest, is the generation tail and may change.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final

from templatefix.analysis.gotree_expressions import Scope
from templatefix.analysis.gotree_items import BROKEN, DONE, NEVER, ROUNDS, Item, State, branches, flatten, keys
from templatefix.analysis.gotree_values import Frame, Role, Value, constant, integer, merge, message, moving
from templatefix.analysis.gotree_walker import Walker
from templatefix.analysis.reading import DATA, SYSTEM, TAIL, TOOLS, TooComplex
from templatefix.gotemplate.nodes import Node, RangeNode, TextNode

_MANY: Final = 1000  # things printed for one message, beyond which only the first that changes is named


class Flow(Walker):
    """One run of a template under assumptions."""

    def conversation(self, node: RangeNode, coll: Value, scope: Scope) -> list[Item]:
        """Run a loop over the conversation, or over a part of it."""
        return Conversation(self, node, coll, scope).run()


@dataclass(frozen=True, slots=True)
class Turn:
    """One kind of message in a loop over the conversation."""

    role: Role
    index: Value  # of the message in the conversation
    position: Value  # what the loop counts
    may_be_last: bool


class Conversation:
    """A loop over the conversation, or over a part of it."""

    def __init__(self, flow: Walker, node: RangeNode, coll: Value, scope: Scope) -> None:
        self.flow = flow
        self.node = node
        self.coll = coll
        self.scope = scope
        self.whole = coll.offset is not None and coll.offset.known == 0
        self.nested = flow.frame is not None
        self.ends: list[State] = []  # what the variables can be when the loop is done
        self.printed: list[Item] = []

    def run(self) -> list[Item]:
        """Run the body for every kind of message and set the variables to what they are behind the loop."""
        flow = self.flow
        outer_frame, outside = flow.frame, flow.via
        saved = (flow.state[DONE], flow.state[BROKEN])
        flow.state[BROKEN] = NEVER
        flow.via = (outside, self.node)
        start = dict(flow.state)
        for turn in self._opening():
            self._turn(turn)
        settled = self.ends[0] if self.whole and not self.nested else start
        opening_ends, opening_printed = list(self.ends), list(self.printed)
        for _ in range(ROUNDS):
            self.ends, self.printed = list(opening_ends), list(opening_printed)
            before = dict(flow.state)
            changed = False
            for turn in self._later():
                changed = self._turn(turn, before) or changed
            if not changed:
                break
        else:
            raise TooComplex
        self._leave(start, settled)
        flow.frame, flow.via = outer_frame, outside
        flow.state[DONE], flow.state[BROKEN] = saved
        turns = tuple([turn for turn in self.printed if turn.parts[0]])
        if not turns:
            return []
        if self.nested:
            flow.suspect(self.node, "loop")
        key = ("messages", id(self.node), self.coll.key, keys(turns))
        return [Item("messages", self.node, outside, key, 0, (turns,))]

    def _opening(self) -> Iterator[Turn]:
        # The messages of the first request: at most one system message, then a user's.
        if not self.whole:
            return
        place = 0
        if self.flow.assumptions.system is not False:
            yield Turn("system", constant(0), constant(0), False)
            place = 1
        yield Turn("user", constant(place), constant(place), True)

    def _later(self) -> Iterator[Turn]:
        first = 0 if self.flow.assumptions.system is False else 1  # the first user's place
        with_tools = self.flow.assumptions.tools is not False
        start = self.coll.offset
        if first and not self.whole and (start is None or start.low is None or start.low <= 0):
            yield Turn("system", constant(0), constant(0), False)
        roles: tuple[Role, ...] = ("user", "assistant", "tool") if with_tools else ("user", "assistant")
        for role in roles:
            key = ("index", id(self.node), role)
            # An answer comes next, then what the next request ends with.
            low = first + (1 if role == "assistant" else 2)
            index = integer(key, low if self.whole else 0, None, 0, key)
            position = index if self.whole else integer(("position", id(self.node), role), 0, None, 0)
            yield Turn(role, index, position, role != "assistant")

    def _turn(self, turn: Turn, base: State | None = None) -> bool:
        # Run a message as one that others follow and, where it may be the last one, as the last. With a base, any
        # message may come next: the state is joined with it.
        flow = self.flow
        entry = dict(flow.state)
        # A user's message is followed by an answer, and no request ends with one.
        later = self._body(turn, 3 if turn.role == "user" else 2, None)
        follows = dict(flow.state)
        self._print(turn, later)
        if turn.may_be_last:
            flow.restore(entry)
            last = self._body(turn, 1, 1)
            self.ends.append(dict(flow.state))
            self._print(turn, last)
            self._compare(last, later)
        flow.restore(follows)
        if base is None:
            return False
        return flow.widen(entry, self.node, 0)

    def _print(self, turn: Turn, items: tuple[Item, ...]) -> None:
        key = (self._when(turn), turn.role, keys(items))
        self.printed.append(Item("turn", self.node, self.flow.via, key, 0, (items,)))

    def _when(self, turn: Turn) -> str:
        # When there is a message of the kind: from the start, as the last one, later, or after many others.
        frame = self.flow.frame
        if frame is not None and frame.high == 1:
            return "last"
        if turn.role == "system" or (self.whole and turn.index.is_known):
            return "start"
        start = self.coll.offset
        return "later" if start is not None and start.high is not None and start.high <= 2 else "far"

    def _body(self, turn: Turn, low: int, high: int | None) -> tuple[Item, ...]:
        flow = self.flow
        flow.state[DONE] = NEVER
        broken = flow.state[BROKEN]
        if broken.truth is True:
            return ()
        place = message(("message", id(self.node), turn.role, turn.index.key), turn.role)
        flow.frame = Frame(turn.index, place, low, high)
        before = dict(flow.state)
        items = tuple(flow.body(self.node.list, flow.bind(self.node, self.scope, turn.position, place)))
        if broken.truth is None:
            if broken.moves and items:
                flow.suspect(self.node, "loop")
            flow.merge_states(before, dict(flow.state), self.node, broken)
            key = ("unless", flow.short((broken.key, keys(items))))
            items = (Item("if", self.node, flow.via, key, 0, ((), items)),) if items else ()
        return items

    def _leave(self, start: State, settled: State) -> None:
        # A variable is the same at every step only if it is so behind every message that can be the last.
        flow = self.flow
        ends = self.ends if self.whole and not self.nested else [*self.ends, dict(flow.state)]
        state: State = {}
        for slot in start:
            value = settled[slot]
            if any(end[slot].key != value.key for end in ends):
                for end in ends:
                    value = merge(value, end[slot], ("after", id(self.node), slot))
                value = moving(value, ("after", id(self.node), slot))
            state[slot] = value
        flow.restore(state)

    def _compare(self, last: tuple[Item, ...], later: tuple[Item, ...]) -> None:
        same = 0
        while same < min(len(last), len(later)) and last[same].key == later[same].key:
            same += 1
        mine, theirs = last[same:], later[same:]
        ids = {id(item.node) for item in flatten(later)}
        end = len(mine)
        for at in range(len(mine) - 1, -1, -1):
            if not _is_tail(mine[at], ids):
                break
            if not any(id(item.node) in ids for item in flatten((mine[at],))):
                end = at  # white space that stays goes with what it stands behind
        if not end:
            return
        if end > _MANY:
            self.flow.suspect(self._gate(mine[0]), "gate")
            return
        # By node, for equal texts that stand at many places are slow to match.
        old, new = ([(id(item.node), item.key) for item in items] for items in (mine[:end], theirs))
        for tag, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
            if tag == "equal" or (i1 == end and i1 == i2) or keys(mine[i1:i2]) == keys(theirs[j1:j2]):
                continue
            changed = [*mine[i1:i2], *theirs[j1:j2]]
            self.flow.suspect(self._gate(changed[0]), "gate")

    def _gate(self, item: Item) -> Node:
        record = self.flow.record
        for branch in branches(item.via):
            pipe = id(branch.pipe)
            # A condition that was always true, such as `.Messages`, does not flip.
            if record.raw.get(pipe, 0) & TAIL and len(record.truths.get(pipe, ())) > 1:
                return branch
        return item.node


def _is_tail(item: Item, others: set[int]) -> bool:
    # Text of the template that only the last message has, or white space.
    for inner in flatten((item,)):
        if inner.kind == "print" and inner.raw & (TOOLS | SYSTEM | DATA):
            return False
        if id(inner.node) in others and not (isinstance(inner.node, TextNode) and not inner.node.text.strip()):
            return False
    return True
