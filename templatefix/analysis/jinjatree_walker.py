"""Run the statements of a Jinja chat template on abstract values: what is printed, and what the variables become."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from jinja2 import nodes

from templatefix.analysis.jinjatree_blocks import Blocks
from templatefix.analysis.jinjatree_joins import BROKEN, DONE, NEVER, ROUNDS
from templatefix.analysis.jinjatree_macros import Printer, placed
from templatefix.analysis.jinjatree_state import Raised, Slot, State
from templatefix.analysis.jinjatree_values import (
    LISTS,
    UNDEFINED,
    Assumptions,
    Item,
    Value,
    View,
    constant,
    holds,
    integer,
    keys,
    merge,
    opaque,
    unknown,
)
from templatefix.analysis.reading import TAIL, Place, SuspectKind, TooComplex
from templatefix.gotemplate.source import Span


@dataclass
class Record:
    """What the runs saw."""

    places: set[Place] = field(default_factory=set)
    flips: set[int] = field(default_factory=set)  # the branches that can take another arm later on
    raw: dict[int, int] = field(default_factory=dict)  # what an expression was ever made of


ALWAYS: Final = constant(True)


class Walker(Printer):
    """One run of a template under assumptions."""

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
        self.state[DONE] = self.state[BROKEN] = NEVER

    def run(self) -> tuple[Item, ...]:
        """Run the whole template and look for what stands behind the messages. Raises TooComplex."""
        try:
            items = self.body(self.blocks.tree.body)
        except Raised:
            return ()
        self._outside(items, (), False)
        return tuple(items)

    def suspect(self, item: Item, kind: SuspectKind | None = None) -> None:
        """Note what can change, by the outermost branch that decides about it."""
        found = kind or ("gate" if item.kind == "if" else "value" if item.kind == "print" else "loop")
        span = self._gate(item)
        self.record.places.add(Place(span, found, None if span.contains(item.span) else item.span))

    def _gate(self, item: Item) -> Span:
        gate: Span | None = item.site
        via = item.via
        while via is not None:
            via, branch = via
            if branch in self.record.flips:
                gate = self.blocks.branches[branch].span
        return gate if gate is not None else item.span

    def scan(self, items: Sequence[Item]) -> None:
        """Note what of the things printed for a message moves."""
        for item in items:
            if item.moves:
                self.suspect(item)
            elif item.flags & TAIL:
                for part in item.parts:
                    self.scan(part)

    def _outside(self, items: Sequence[Item], grown: tuple[Item, ...], kept: bool) -> tuple[Item, ...]:
        """Note what moves outside the conversation, where something behind has to be kept, and what it moves itself.

        `grown` are the loops before that print more when messages are added; gives those before what follows. `kept`
        says whether something behind the items has to be kept.
        """
        behind = [kept]
        for item in reversed(items[1:]):
            behind.append(behind[-1] or _stays(item))
        for item, more in zip(items, reversed(behind), strict=False):
            if item.moves and (more or not grown):
                self.suspect(item)
            if item.kind == "messages":
                if _stays(item):
                    self._pushed(item, grown)
                grown = (*grown, item) if _grows(item) and item not in grown else grown
            elif item.kind == "loop":
                more = more or _stays(item)
                first, grown = grown, self._arms_outside(item, grown, more)
                if len(grown) > len(first):
                    self._arms_outside(item, grown, more)  # the next turn stands behind this one
            elif item.parts:
                grown = self._arms_outside(item, grown, more)
            elif holds((item,)):
                self._pushed(item, grown)
        return grown

    def _arms_outside(self, item: Item, grown: tuple[Item, ...], kept: bool) -> tuple[Item, ...]:
        # Every arm has to be looked into.
        found = [each for part in item.parts for each in self._outside(part, grown, kept)]
        return (*grown, *[each for index, each in enumerate(found) if each not in (*grown, *found[:index])])

    def _pushed(self, item: Item, grown: tuple[Item, ...]) -> None:
        # What stands behind loops that go on printing. Of one that prints now and then, the loop itself is the place.
        for loop in grown:
            if any(turn.decider == "later" and _prints(turn.parts[0]) for part in loop.parts for turn in part):
                span = self._gate(item)
                start, end = loop.span.end, max(span.end, item.span.end)
                # What stands between moves with it.
                self.record.places.add(Place(span, "behind", Span(start, end) if start < end else item.span))
            else:
                self.record.places.add(Place(loop.span, "loop", item.span))

    def body(self, statements: Sequence[nodes.Node]) -> list[Item]:
        """Run statements: what they print."""
        items: list[Item] = []
        for position, node in enumerate(statements):
            items += self._statement(node)
            done = self.state[DONE]
            if done.truth is True:
                break
            if done.truth is None and position + 1 < len(statements):
                items += self._unless(done, node, statements[position + 1 :])
                break
        return items

    def _unless(self, done: Value, node: nodes.Node, rest: Sequence[nodes.Node]) -> list[Item]:
        # What follows a `continue` that may or may not have been met.
        before = dict(self.state)
        self.state[DONE] = NEVER
        try:
            inner = tuple(self.body(rest))
        except Raised:
            self.restore(before)
            self.state[DONE] = constant(True)  # else there is nothing
            return []
        self.join_states(before, dict(self.state), done)
        span = self.blocks.branches[id(node)].span if id(node) in self.blocks.branches else self.tag
        return self.choice(done, (), inner, span)

    def _statement(self, node: nodes.Node) -> list[Item]:
        self.spend(1)
        found = _STATEMENTS.get(type(node))
        if found is None:
            raise TooComplex
        return found(self, node) or []

    def _output(self, node: nodes.Output) -> list[Item]:
        items: list[Item] = []
        for child in node.nodes:
            tag = self.tag = self.blocks.tag(child.lineno)
            items += placed(self.items(self.evaluate(child)), tag)
        return items

    def _if(self, node: nodes.If) -> list[Item]:
        return self._arms((node, *node.elif_), 0, node.else_)

    def _arms(self, tests: Sequence[nodes.If], at: int, otherwise: Sequence[nodes.Node]) -> list[Item]:
        if at == len(tests):
            return self.body(otherwise)
        node = tests[at]
        self.at(node)
        value = self.condition(node.test)
        self.truths.setdefault(id(node), set()).add(value.truth)
        outside = self.via
        self.via = (outside, id(node))
        try:
            if value.truth is not None:
                return self.body(node.body) if value.truth else self._arms(tests, at + 1, otherwise)
            if value.moves:
                self.record.flips.add(id(node))
            first = lambda: self.body(node.body)  # noqa: E731
            second = lambda: self._arms(tests, at + 1, otherwise)  # noqa: E731
            found = self.either_way(value, first, second, self.blocks.branches[id(node)].span)
        finally:
            self.via = outside
        return self.joined_arms(value, found, self.blocks.branches[id(node)].span)

    def _assign(self, node: nodes.Assign) -> None:
        self.at(node)
        self.assign(node.target, self.evaluate(node.node))

    def _with(self, node: nodes.With) -> list[Item]:
        values = [self.evaluate(each) for each in node.values]
        outer = self.scope
        own = ("with", id(node), len(outer))
        self.clear(own)
        self.scope = (*outer, own)
        for target, value in zip(node.targets, values, strict=True):
            self.assign(target, value)
        try:
            return self.body(node.body)
        finally:
            self.scope = outer
            self.clear(own)

    def _expression(self, node: nodes.ExprStmt) -> None:
        self.at(node)
        self.evaluate(node.node)

    def _continue(self, node: nodes.Node) -> None:
        self.state[DONE] = constant(True)

    def _break(self, node: nodes.Node) -> None:
        self.state[DONE] = self.state[BROKEN] = constant(True)

    def _for(self, node: nodes.For) -> list[Item]:
        self.at(node)
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
                items = tuple(self._unrolled(node, coll))
                empty = self._all_fail(node, self.tests)
                return self.or_otherwise(node, items, entry, empty)
            items = self._looped(node, coll)
            empty = NEVER
            if node.test is not None or coll.truth is None:
                empty = opaque(self.short(("empty", coll.key, id(node))), (coll, *self.tests))
            other = tuple(self.or_otherwise(node, (), entry, empty))
        finally:
            self.via = outside
            self.state[DONE], self.state[BROKEN] = saved
        if not items and not other:
            return []
        key = self.short(("loop", id(node), coll.key, keys(items), keys(other)))
        flags, raw, size = coll.flags, coll.raw, 1
        for item in (*items, *other):
            flags |= item.flags
            raw |= item.raw
            size += item.size
        span = self.blocks.branches[id(node)].span
        return [Item("loop", span, outside, key, "", flags, raw, coll.moves, (items, other), coll.key, size)]

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
            if not self.widen(before, node, coll.flags & TAIL):
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
        key = self.short(("looped", id(node), coll.key, told, keys(items)))
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


def _grows(loop: Item) -> bool:
    """Whether a loop over the conversation prints something for messages that are added."""
    return any(turn.decider in ("later", "far") for part in loop.parts for turn in part)


def _stays(item: Item) -> bool:
    """Whether any of what is printed has to be kept, as a generation tail has not."""
    if item.kind == "turn" and item.decider != "last":
        return True
    return bool(holds((item,))) if not item.parts else any(_stays(inner) for part in item.parts for inner in part)


def _prints(items: Sequence[Item]) -> bool:
    """Whether something is printed for sure."""
    return any(item.kind in ("text", "print") for item in items)


_STATEMENTS: Final[Mapping[type[nodes.Node], Callable[[Any, Any], list[Item] | None]]] = {
    nodes.Output: Walker._output,
    nodes.If: Walker._if,
    nodes.For: Walker._for,
    nodes.Assign: Walker._assign,
    nodes.AssignBlock: Walker._assign_block,
    nodes.Macro: Walker._macro,
    nodes.CallBlock: Walker._call_block,
    nodes.FilterBlock: Walker._filter_block,
    nodes.With: Walker._with,
    nodes.ExprStmt: Walker._expression,
    nodes.Continue: Walker._continue,
    nodes.Break: Walker._break,
}
