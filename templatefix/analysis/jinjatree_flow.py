"""Run a Jinja chat template's loops over the conversation: what is printed for each kind of message, and what changes.

A loop over the conversation is run once for each role that a message can have and each role that may follow, and where
the message may be the last one of a request, as that. What is printed for it as the last and as one that others follow
is compared; text that only the last message has, behind all the rest, is the generation tail and may change.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace

from jinja2 import nodes

from templatefix.analysis.jinjatree_ahead import Ahead, looks_ahead
from templatefix.analysis.jinjatree_compare import changed_items
from templatefix.analysis.jinjatree_joins import BROKEN, DONE, NEVER, ROUNDS
from templatefix.analysis.jinjatree_numbers import distance, is_integer, plus
from templatefix.analysis.jinjatree_state import Raised, Slot, State
from templatefix.analysis.jinjatree_values import (
    Frame,
    Item,
    LastOf,
    Part,
    Value,
    Via,
    View,
    constant,
    integer,
    keys,
    merge,
    message,
    moving,
    unknown,
)
from templatefix.analysis.jinjatree_walker import Walker
from templatefix.analysis.reading import DATA, TAIL, TooComplex


class Flow(Walker):
    """One run of a template under assumptions."""

    def messages_loop(self, node: nodes.For, coll: Value) -> list[Item]:
        """Run a loop over the conversation, over a part of it, or over places in it."""
        if coll.truth is False:
            return self.otherwise(node)
        part: Part = coll.inner if coll.shape == "messages" else coll.inner[0]
        if self.frame is not None and looks_ahead(node, part, self.frame):
            return Ahead(self, node, coll, self.frame).run()
        return Turns(self, node, coll).run()


@dataclass(frozen=True, slots=True)
class Turn:
    """One kind of message in a loop over the conversation."""

    role: str
    index: Value  # of the message in the conversation
    position: Value  # what the loop counts
    key: Hashable  # of the message


class Turns:
    """A loop over the conversation, or over a part of it."""

    def __init__(self, flow: Flow, node: nodes.For, coll: Value) -> None:
        self.flow = flow
        self.node = node
        self.coll = coll
        self.part: Part = coll.inner if coll.shape == "messages" else coll.inner[0]
        # What a loop counts is what passes its own test, too.
        own = (("", "if", (), True),) if node.test is not None else ()
        self.counted = replace(self.part, tests=(*self.part.tests, *own))
        self.assumed = flow.assumptions
        self.nested = flow.frame is not None
        self.whole = self.part.offset.is_known and not self.part.backwards and not self.nested
        self.ends: list[State] = []  # what the variables can be when the loop is done
        self.printed: list[Item] = []
        # By whether a message is there at once, and may be added, and its key: whether it passes the tests of the loop.
        self.passing: dict[tuple[bool, bool, Hashable], set[bool | None]] = {}
        self.steps: dict[Slot, dict[str, set[int | None]]] = {}  # how far from its own place a role sets a variable

    def run(self) -> list[Item]:
        """Run the body for every kind of message and set the variables to what they are behind the loop."""
        flow = self.flow
        outer_frame, outside = flow.frame, flow.via
        saved = (flow.state[DONE], flow.state[BROKEN])
        flow.state[BROKEN] = NEVER
        flow.via = (outside, id(self.node))
        start = dict(flow.state)
        try:
            for turn in self._opening():
                self._turn(turn)
            if not self.ends:
                self.ends.append(start)
            opening_ends, opening_printed = list(self.ends), list(self.printed)
            for _ in range(ROUNDS):
                self.ends, self.printed = list(opening_ends), list(opening_printed)
                before = dict(flow.state)
                found = [self._turn(turn, before) for turn in self._later()]
                if not any(found):
                    break
            else:
                raise TooComplex
            self._leave(start)
            flow.frame = outer_frame
            items = flow.or_otherwise(self.node, self._all(outside), start, self._empty())
        finally:
            flow.frame, flow.via = outer_frame, outside
        flow.state[DONE], flow.state[BROKEN] = saved
        return items

    def _all(self, outside: Via) -> tuple[Item, ...]:
        flow = self.flow
        turns = tuple([turn for turn in self.printed if turn.parts[0]])
        if not turns:
            return ()
        size = sum(turn.size for turn in turns)
        span = flow.blocks.branches[id(self.node)].span
        key = flow.short(("messages", id(self.node), self.coll.key, keys(turns)))
        # Text that is printed for a message stays with it, as what the message says does.
        raw = DATA if any(turn.decider != "last" for turn in turns) else 0
        for item in turns:
            raw |= item.raw
        return (Item("messages", span, outside, key, "", TAIL, raw, not self.whole, (turns,), None, size),)

    def _empty(self) -> Value:
        # Whether the loop has no turn.
        if self.coll.truth is True and self.node.test is None:
            return NEVER
        if any(there and passes == {True} for (there, _, _), passes in self.passing.items()):
            return NEVER
        key = self.flow.short(("empty", id(self.node), self.coll.key))
        kinds = [added for (_, added, _), passes in self.passing.items() if passes != {False}]
        return unknown(key, TAIL if any(kinds) else 0, None if kinds else True, DATA)

    # -- the messages -------------------------------------------------------------------------------------------------

    def _opening(self) -> Iterator[Turn]:
        # The messages of the first request.
        if not self.whole:
            return
        for place, role in enumerate(self.flow.conversation.opening):
            if place >= self.part.offset.known:
                yield self._made(role, constant(place), ("first", place))

    def _later(self) -> Iterator[Turn]:
        opening = len(self.flow.conversation.opening)
        if not self.whole:
            yield from (self._made(role, self._anywhere(role, place), None) for place, role in self._openers())
        for role in self.assumed.roles:
            # An answer comes next, then what the next request ends with.
            low = opening + (0 if role == "assistant" else 1)
            yield self._made(role, self._anywhere(role, low), None)

    def _openers(self) -> list[tuple[int, str]]:
        return [(0, role) for role in self.flow.conversation.opening if role not in self.assumed.roles]

    def _anywhere(self, role: str, low: int) -> Value:
        key = ("index", id(self.node), role)
        flags = TAIL if self.nested or self.part.backwards else 0
        return integer(key, low if self.whole else 0, None, flags, 0, key)

    def _made(self, role: str, index: Value, key: Hashable) -> Turn:
        if self.counted.tests:
            position = integer(("position", id(self.node), role, index.key), 0, None, index.flags)
        elif self.part.backwards or not self.part.offset.is_known:
            position = integer(("position", id(self.node), role), 0, None, TAIL)
        else:
            position = plus(index, self.part.offset, -1)
        return Turn(role, index, position, key or ("message", id(self.node), role))

    # -- one message --------------------------------------------------------------------------------------------------

    def _turn(self, turn: Turn, base: State | None = None) -> bool:
        # Run a message as one that others follow and, where it may be the last one, as the last. With a base, any
        # message may come next: the state is joined with it.
        flow = self.flow
        entry = dict(flow.state)
        may_be_last = self.whole and turn.role in self.assumed.ends
        last = self._body(turn, 1, 1, None, self.assumed.calls(turn.role, None)[0]) if may_be_last else None
        last_truths = dict(flow.truths)
        if last is not None:
            self._note(turn, entry)
            self.ends.append(dict(flow.state))
            self._print(turn, last)
        follows: list[State] = []
        for role, calls in self._following(turn.role):
            flow.restore(entry)
            # A user's message is followed by an answer, and no request ends with one.
            low = 1 if role is None else 3 if role == "assistant" and not self.assumed.answered else 2
            later = self._body(turn, low, None, role, calls)
            if later is None:
                continue
            self._note(turn, entry)
            follows.append(dict(flow.state))
            self._print(turn, later)
            # Results that belong together come together: none of them is the last where another follows.
            if last is not None and not (turn.role == role == "tool") and not (turn.role == "assistant" and not calls):
                self._compare(last, later, last_truths)
        if not follows:
            flow.restore(entry)
            return False
        flow.restore(follows[0])
        for state in follows[1:]:
            flow.join_either(state, self.node)
        if not self.whole:
            self.ends.append(dict(flow.state))
        return False if base is None else flow.widen(entry, self.node, 0)

    def _following(self, role: str) -> Iterator[tuple[str | None, bool | None]]:
        if not self.whole:
            yield None, None
            return
        for following in self.assumed.following(role):
            for calls in self.assumed.calls(role, following):
                yield following, calls

    def _note(self, turn: Turn, entry: State) -> None:
        # What a role leaves as it is counts as well: then the variable is not the place of the last of that role.
        for slot, value in self.flow.state.items():
            before = entry.get(slot)
            if before is None or before.key != value.key or slot in self.steps:
                low, high = distance(value, turn.index) if is_integer(value) else (None, None)
                step = low if low == high and (before is None or before.key != value.key) else None
                if step is not None or before is None or before.key != value.key:
                    self.steps.setdefault(slot, {}).setdefault(turn.role, set()).add(step)
                elif turn.role in self.steps[slot]:
                    self.steps[slot][turn.role].add(None)

    def _last_of(self, slot: Slot) -> LastOf | None:
        told = self.steps.get(slot, {})
        if len(told) != 1 or not self.whole or self.part.tests or self.part.drop:
            return None
        if self.part.offset.known >= len(self.flow.conversation.opening):
            return None  # the first of that role may be among those left out
        ((role, steps),) = told.items()
        (step, *others) = steps
        return LastOf(role, step) if step is not None and not others else None

    def _print(self, turn: Turn, items: tuple[Item, ...]) -> None:
        flow = self.flow
        if not self.nested:
            flow.scan(items)
        raw = flags = size = 0
        for item in items:
            raw |= item.raw
            flags |= item.flags
            size += item.size
        span = flow.blocks.branches[id(self.node)].span
        key = flow.short((turn.role, keys(items)))
        self.printed.append(Item("turn", span, flow.via, key, "", flags, raw, False, (items,), self._when(turn), size))

    def _when(self, turn: Turn) -> str:
        # When there is a message of the kind: from the start, as the last one, later, or after many others.
        frame = self.flow.frame
        if frame is not None and frame.high == 1:
            return "last"
        opening = self.flow.conversation.opening
        if turn.role not in self.assumed.roles or (self.whole and turn.index.is_known):
            return "start"
        offset = self.part.offset
        return "later" if offset.is_known and offset.known <= len(opening) else "far"

    def _body(
        self, turn: Turn, low: int, high: int | None, following: str | None, calls: bool | None
    ) -> tuple[Item, ...] | None:
        """What is printed for a message; None where the template ends itself."""
        flow = self.flow
        flow.state[DONE] = NEVER
        flow.truths = {}
        broken = flow.state[BROKEN]
        if broken.truth is True:
            return ()
        one = message(turn.key, (turn.role,), TAIL if self.nested else 0)
        roles = () if following is None else (following,)
        flow.frame = Frame(turn.index, one, low, high, roles, self.nested or self.part.backwards, calls)
        before = dict(flow.state)
        try:
            items = self._kept(turn, one)
        except Raised:
            if broken.truth is False:
                return None
            flow.restore(before)
            flow.state[BROKEN] = constant(True)  # else there is nothing
            return ()
        if broken.truth is None:
            flow.join_states(before, dict(flow.state), broken)
            items = tuple(flow.choice(broken, (), items, flow.blocks.branches[id(self.node)].span))
        return items

    def _kept(self, turn: Turn, one: Value) -> tuple[Item, ...]:
        # The messages that are left out at the end, and those that do not pass the tests of the part.
        flow, frame = self.flow, self.flow.frame
        assert frame is not None
        cond: Value | None = None
        left: bool | None = True
        if self.part.drop:
            left = None
            if frame.low > self.part.drop or (frame.high is not None and frame.high <= self.part.drop):
                left = frame.low > self.part.drop
            if left is False:
                self._note_passing(turn, False)
                return ()
            cond = unknown(("left", id(self.node), turn.role), TAIL) if left is None else None
        kept = flow.conversation.kept(self.part, one)
        if kept is False:
            self._note_passing(turn, False)
            return ()
        if kept is None:
            cond = unknown(("kept", id(self.node), turn.key), 0, None, DATA)
        view = View(("turn", id(self.node), turn.role), turn.position, TAIL, frame, self.counted)
        element = one if self.coll.shape == "messages" else plus(turn.index, self.coll.inner[1], -1)
        before = dict(flow.state)
        try:
            items = tuple(flow.turn(self.node, element, view))
        except Raised:
            if cond is None:
                raise
            flow.restore(before)  # so it is left out
            return ()
        finally:
            passed = flow.passed.truth
            self._note_passing(turn, passed if left and kept else passed and None)
        if cond is None:
            return items
        flow.join_states(before, dict(flow.state), cond)
        return tuple(flow.choice(cond, (), items, flow.blocks.branches[id(self.node)].span))

    def _note_passing(self, turn: Turn, passes: bool | None) -> None:
        # A message of the first request is always there, and so is one of its role where the part is the whole.
        conversation = self.flow.conversation
        every = self.part.offset.known == 0 and not self.part.drop
        first = self.whole and turn.index.is_known
        there = first or (not self.whole and every and turn.role in conversation.opening)
        added = not first and turn.role in self.assumed.roles
        self.passing.setdefault((there, added, turn.key), set()).add(passes)

    # -- what is left -------------------------------------------------------------------------------------------------

    def _leave(self, start: State) -> None:
        # A variable is the same at every request only if it is so behind every message that can be the last.
        flow = self.flow
        if not self.whole:
            self.ends.append(dict(start))
        settled = self.ends[0]
        state: State = {}
        for slot in dict.fromkeys(slot for end in self.ends for slot in end):
            values = [end.get(slot) for end in self.ends]
            value = settled.get(slot)
            key = ("after", id(self.node), slot)
            if any(each is None or value is None or each.key != value.key for each in values):
                present = [each for each in values if each is not None]
                value = present[0]
                for each in present[1:]:
                    value = merge(value, each, key)
                value = moving(value, key)
                last = self._last_of(slot)
                value = value if last is None else replace(value, inner=last)
            assert value is not None
            state[slot] = value
        flow.restore(state)

    def _compare(
        self, last: tuple[Item, ...], later: tuple[Item, ...], last_truths: dict[int, set[bool | None]]
    ) -> None:
        flow = self.flow
        for branch, truths in flow.truths.items():
            if branch in last_truths and last_truths[branch] != truths:
                flow.record.flips.add(branch)
        for item in changed_items(last, later):
            flow.suspect(item, "gate")
