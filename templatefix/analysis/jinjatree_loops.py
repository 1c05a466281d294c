"""Run the loops of a Jinja chat template on abstract values: turn by turn, or once for any turn, and their `else`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from jinja2 import nodes

from templatefix.analysis.jinjatree_blocks import Blocks
from templatefix.analysis.jinjatree_joins import BROKEN, DONE, NEVER, ROUNDS
from templatefix.analysis.jinjatree_macros import Printer
from templatefix.analysis.jinjatree_state import Raised, Slot, State
from templatefix.analysis.jinjatree_values import (
    LISTS,
    UNDEFINED,
    Assumptions,
    Item,
    Value,
    View,
    constant,
    integer,
    keys,
    merge,
    opaque,
    unknown,
)
from templatefix.analysis.reading import TAIL, Place, TooComplex


@dataclass
class Record:
    """What the runs saw."""

    places: set[Place] = field(default_factory=set)
    flips: set[int] = field(default_factory=set)  # the branches that can take another arm later on
    raw: dict[int, int] = field(default_factory=dict)  # what an expression was ever made of


ALWAYS: Final = constant(True)


class Looper(Printer):
    """A run that goes through loops."""

    def __init__(self, blocks: Blocks, assumptions: Assumptions, record: Record) -> None:
        super().__init__(blocks.layout, assumptions)
        self.blocks = blocks
        self.record = record
        self.raw = record.raw
        self.calls: tuple[int, ...] = ()
        self.looped: dict[int, dict[Slot, Value]] = {}  # by the ids of loops: what their variables became
        self.truths: dict[int, set[bool | None]] = {}  # of the branches, in the run of one message
        self.passed = ALWAYS  # the test of a loop for the turn that was run last
        self.tests: list[Value] = []  # and for all its turns
        self.left = NEVER  # whether the loop that was run last may be left by break
        self.state[DONE] = self.state[BROKEN] = NEVER

    def loop(self, node: nodes.For) -> list[Item]:
        """Run a loop. Raises TooComplex where `continue` or `break` may lead to its `else`, as in jinja2 they do."""
        self.at(node)
        if node.else_ and _leaves(node.body):
            raise TooComplex
        coll = self.evaluate(node.iter)
        if coll.shape in ("messages", "numbers"):
            return self.messages_loop(node, coll)
        if coll.truth is False or coll.known is None or coll.known is UNDEFINED:
            return self.otherwise(node)
        entry = dict(self.state)
        saved = (self.state[DONE], self.state[BROKEN])
        outside = self.via
        self.via = (outside, id(node))
        self.tests = []
        try:
            if coll.shape == "list" and len(coll.inner) <= ROUNDS:
                left, items = NEVER, tuple(self._unrolled(node, coll))
                empty = self._all_fail(node, self.tests)
                return self.or_otherwise(node, items, entry, empty)
            self.left = NEVER
            items = self._looped(node, coll)
            left, empty = self.left, NEVER
            if node.test is not None or coll.truth is None:
                empty = opaque(self.short(("empty", coll.key, id(node))), (coll, *self.tests))
            other = tuple(self.or_otherwise(node, (), entry, empty))
        finally:
            self.via = outside
            self.state[DONE], self.state[BROKEN] = saved
        if not items and not other:
            return []
        key = self.short(("loop", id(node), coll.key, left.key, keys(items), keys(other)))
        flags, raw, size = coll.flags | left.flags, coll.raw, 1
        for item in (*items, *other):
            flags |= item.flags
            raw |= item.raw
            size += item.size
        span = self.blocks.branches[id(node)].span
        moves = coll.moves or left.moves
        return [Item("loop", span, outside, key, "", flags, raw, moves, (items, other), coll.key, size)]

    def _all_fail(self, node: nodes.For, tests: Sequence[Value]) -> Value:
        # Whether a loop over values that are known has no turn.
        if node.test is None or any(test.truth for test in tests):
            return NEVER
        failed = all(test.truth is False for test in tests)
        return opaque(self.short(("fail", *[test.key for test in tests])), tests, failed or None)

    def otherwise(self, node: nodes.For) -> list[Item]:
        """What the `else` of a loop prints."""
        if not node.else_:
            return []
        outer = self.scope
        done = self.state[DONE].key
        self.scope = (*outer, ("else", id(node)))
        try:
            items = self.body(node.else_)
        finally:
            self.clear(self.scope[-1])
            self.scope = outer
        if self.state[DONE].key != done:
            raise TooComplex  # which leaves the loop around
        return items

    def or_otherwise(self, node: nodes.For, items: tuple[Item, ...], entry: State, empty: Value) -> list[Item]:
        """What a loop has printed, or its `else` where it had no turn; the state joined."""
        if not node.else_ or empty.truth is False:
            return list(items)
        looped = dict(self.state)
        self.restore(entry)
        self.state[DONE] = NEVER
        try:
            other = tuple(self.otherwise(node))
        except Raised:
            if empty.truth:
                raise
            self.restore(looped)
            return list(items)
        if empty.truth:
            return list(other)
        if empty.moves:
            self.record.flips.add(id(node))
        self.join_states(dict(self.state), looped, empty)
        return self.choice(empty, other, items, self.blocks.branches[id(node)].span)

    def _unrolled(self, node: nodes.For, coll: Value) -> list[Item]:
        items: list[Item] = []
        appends = self.appends
        tests: list[Value] = []
        for index, element in enumerate(coll.inner):
            if self.appends != appends and element.raw >= LISTS:
                raise TooComplex  # it may have grown since
            view = View(("list", coll.key, index), constant(index), coll.flags)
            broken = self.state[BROKEN]
            if broken.truth is True:
                break
            before = dict(self.state)
            self.state[DONE] = NEVER
            try:
                inner = tuple(self.turn(node, element, view))
            except Raised:
                if broken.truth is False:
                    raise
                self.restore(before)
                break  # what is left is that it was left before
            tests.append(self.passed)
            if broken.truth is None:
                self.join_states(before, dict(self.state), broken)
                items += self.choice(broken, (), inner, self.blocks.branches[id(node)].span)
            else:
                items += inner
        self.tests = tests
        return items

    def _looped(self, node: nodes.For, coll: Value) -> tuple[Item, ...]:
        element: Value
        if coll.shape == "range":
            element = replace(coll.inner, key=("each", coll.key, id(node)))
        else:
            parts = isinstance(coll.key, tuple) and coll.key[0] == "field" and coll.key[2] == "content"
            element = unknown(("each", coll.key, id(node)), coll.flags, None, coll.raw, "part" if parts else "other")
        position = integer(("position", coll.key, id(node)), 0, None, coll.flags & TAIL)
        view = View(("loop", coll.key, id(node)), position, coll.flags & TAIL)
        entry = dict(self.state)
        self._expect(node)
        for _ in range(ROUNDS):
            before = dict(self.state)
            self.state[DONE] = self.state[BROKEN] = NEVER
            try:
                items = tuple(self.turn(node, element, view))
            except Raised:
                if coll.truth:
                    raise
                self.restore(entry)  # so it has no turn
                return ()
            self.tests = [self.passed]
            after = dict(self.state)
            self.left = after[BROKEN]
            if not self.widen(before, node, (coll.flags | self.left.flags) & TAIL):
                self._seal(entry, after, node, coll, items)
                self.looped[id(node)] = {slot: v for slot, v in before.items() if v.key == ("widened", id(node), slot)}
                return items
        raise TooComplex

    def _expect(self, node: nodes.For) -> None:
        # What the loop has made of its variables before, it will most likely make of them again: a pass less.
        for slot, value in self.looped.get(id(node), {}).items():
            here = self.state.get(slot)
            if here is not None and not value.flags & ~here.flags:
                self.state[slot] = merge(here, value, ("widened", id(node), slot))

    def _seal(self, entry: State, after: State, node: nodes.For, coll: Value, items: tuple[Item, ...]) -> None:
        # What a variable has become hangs on all that the loop started with and did: its key says so.
        changed = [slot for slot, value in self.state.items() if slot not in entry or entry[slot].key != value.key]
        if not changed:
            return
        told = tuple(
            [(slot, entry[slot].key if slot in entry else None, after[slot].key) for slot in changed if slot in after]
        )
        key = self.short(("looped", id(node), coll.key, after[BROKEN].key, told, keys(items)))
        for slot in changed:
            self.state[slot] = replace(self.state[slot], key=self.short((key, slot)))

    def turn(self, node: nodes.For, element: Value, view: View) -> list[Item]:
        """Run the body of a loop once."""
        outer = self.scope
        own = ("for", id(node), len(outer))
        self.clear(own)
        self.scope = (*outer, own)
        self.state[own, "loop"] = Value(("view", view.key), "loop", truth=True, inner=view)
        try:
            self.assign(node.target, element)
            if node.test is None:
                try:
                    return self.body(node.body)
                finally:
                    self.passed = ALWAYS
            return self._filtered_turn(node)
        finally:
            self.scope = outer
            self.clear(own)

    def _filtered_turn(self, node: nodes.For) -> list[Item]:
        cond = self.condition(node.test)  # type: ignore[arg-type]
        try:
            return self._tested_turn(node, cond)
        finally:
            self.passed = cond

    def _tested_turn(self, node: nodes.For, cond: Value) -> list[Item]:
        if cond.truth is not None:
            return self.body(node.body) if cond.truth else []
        if cond.moves:
            self.record.flips.add(id(node))
        span = self.blocks.branches[id(node)].span
        found = self.either_way(cond, lambda: self.body(node.body), list, span)
        return self.joined_arms(cond, found, span)

    @abstractmethod
    def messages_loop(self, node: nodes.For, coll: Value) -> list[Item]:
        """Run a loop over the conversation, or over a part of it."""


def _leaves(statements: Sequence[nodes.Node]) -> bool:
    """Whether there is a `continue` or `break` anywhere in statements."""
    kinds = (nodes.Continue, nodes.Break)
    return any(isinstance(each, kinds) or any(each.find_all(kinds)) for each in statements)
