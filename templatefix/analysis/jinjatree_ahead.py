"""A loop, within the turn of one message, over the messages behind it.

Behind a message that others follow stand at least those up to where the next request ends: they are the same at every
later request. What lies beyond may come or not.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from jinja2 import nodes

from templatefix.analysis.jinjatree_joins import BROKEN, DONE, NEVER, ROUNDS
from templatefix.analysis.jinjatree_numbers import distance, plus
from templatefix.analysis.jinjatree_state import Raised, State
from templatefix.analysis.jinjatree_values import (
    Frame,
    Item,
    Part,
    Value,
    View,
    constant,
    integer,
    keys,
    merge,
    message,
    moving,
)
from templatefix.analysis.jinjatree_walker import Walker
from templatefix.analysis.reading import TAIL, TooComplex


def looks_ahead(node: nodes.For, part: Part, frame: Frame | None) -> bool:
    """Whether a loop goes over what stands right behind the message at hand, and leaves nothing out."""
    if (
        node.test is not None
        or frame is None
        or frame.nested
        or not frame.next_roles
        or part.tests
        or part.backwards
        or part.drop
    ):
        return False
    return distance(part.offset, frame.index) == (1, 1)


class Ahead:
    """One such loop."""

    def __init__(self, flow: Walker, node: nodes.For, coll: Value, frame: Frame) -> None:
        self.flow = flow
        self.node = node
        self.coll = coll
        self.frame = frame
        self.part: Part = coll.inner if coll.shape == "messages" else coll.inner[0]
        self.near: list[Item] = []  # printed for the messages that are there for sure
        self.far: list[Item] = []  # and for those beyond

    def run(self) -> list[Item]:
        """Run the body for the messages that are there for sure, then for any others."""
        flow = self.flow
        saved = (flow.state[DONE], flow.state[BROKEN])
        outside = flow.via
        flow.state[BROKEN] = NEVER
        flow.via = (outside, id(self.node))
        entry = dict(flow.state)
        try:
            end = self._first(self.frame.next_roles[0])
            ends = [dict(flow.state)]
            if flow.state[BROKEN].truth is not True:
                ends += self._beyond(end)
            self._leave(entry, ends)
        finally:
            flow.frame, flow.via = self.frame, outside
        flow.state[DONE], flow.state[BROKEN] = saved
        found = []
        span = flow.blocks.branches[id(self.node)].span
        for items, moves in ((self.near, False), (self.far, True)):
            if items:
                flags, raw, size = TAIL if moves else 0, 0, 1
                for item in items:
                    flags, raw, size = flags | item.flags, raw | item.raw, size + item.size
                key = flow.short(("ahead", id(self.node), moves, self.coll.key, keys(items)))
                found.append(Item("loop", span, outside, key, "", flags, raw, moves, (tuple(items),), None, size))
        return found

    def _first(self, role: str) -> str:
        """Up to where the next request ends; the role of its last message."""
        flow, assumed = self.flow, self.flow.assumptions
        place = plus(self.frame.index, constant(1))
        self._one(role, place, ("near", self.frame.message.key, 1), self.near, False)
        if role != "assistant" or assumed.answered:
            if role == "tool":
                self._results(False)
            return role
        before = dict(flow.state)
        states: list[State] = []
        for following in assumed.following(role):
            flow.restore(before)
            self._some(following, self.near, False)
            if following == "tool":
                self._results(False)
            states.append(dict(flow.state))
        flow.restore(states[0])
        for state in states[1:]:
            flow.join_either(state, self.node)
        return "any" if len(states) > 1 else assumed.following(role)[0]

    def _results(self, beyond: bool) -> None:
        # A call may have several results.
        for _ in range(ROUNDS):
            before = dict(self.flow.state)
            self._some("tool", self.far if beyond else self.near, beyond)
            if not self.flow.widen(before, self.node, 0):
                return
        raise TooComplex

    def _beyond(self, end: str) -> list[State]:
        flow, assumed = self.flow, self.flow.assumptions
        before = dict(flow.state)
        states: list[State] = []
        roles = assumed.roles if end == "any" else [r for r in assumed.following(end) if not r == end == "tool"]
        for role in roles:
            flow.restore(before)
            self._some(role, self.far, True)
            states.append(dict(flow.state))
        flow.restore(states[0])
        for state in states[1:]:
            flow.join_either(state, self.node)
        for _ in range(ROUNDS):
            start = dict(flow.state)
            if flow.state[BROKEN].truth is True:
                return states
            told = []
            for role in assumed.roles:
                entry = dict(flow.state)
                self._some(role, self.far, True)
                told.append(flow.widen(entry, self.node, TAIL))
            if not any(told) and all(flow.state[slot].key == value.key for slot, value in start.items()):
                return [*states, dict(flow.state)]
        raise TooComplex

    def _some(self, role: str, items: list[Item], beyond: bool) -> None:
        key = ("ahead", id(self.node), self.frame.message.key, role)
        flags = TAIL if beyond else 0
        self._one(role, integer(key, self.frame.index.low, None, flags, 0, key), key, items, beyond)

    def _one(self, role: str, index: Value, key: Hashable, items: list[Item], beyond: bool) -> None:
        flow = self.flow
        flow.state[DONE] = NEVER
        one = message(key, (role,), TAIL if beyond else 0)
        position = plus(index, self.part.offset, -1)
        flow.frame = Frame(index, one, 1, None, (), True)
        view = View(("turn", id(self.node), role), position, TAIL, flow.frame, self.part)
        element = one if self.coll.shape == "messages" else plus(index, self.coll.inner[1], -1)
        before = dict(flow.state)
        try:
            found = flow.turn(self.node, element, view)
        except Raised:
            flow.restore(before)
            return
        known = {item.key for item in items}
        items += [item for item in found if item.key not in known]

    def _leave(self, entry: State, ends: list[State]) -> None:
        flow = self.flow
        state: State = {}
        for slot, value in ends[0].items():
            others = [end[slot] for end in ends[1:] if slot in end and end[slot].key != value.key]
            if slot in entry and value.key == entry[slot].key and not others:
                state[slot] = value
                continue
            key = flow.short(
                ("behind", id(self.node), slot, self.coll.key, entry.get(slot) and entry[slot].key, value.key)
            )
            found = value
            for other in others:
                found = merge(found, other, key, TAIL)
            state[slot] = moving(found, key) if others else replace(value, key=value.key if value.is_known else key)
        flow.restore(state)
