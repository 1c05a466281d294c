"""Run the statements of a Jinja chat template on abstract values: what is printed, and what the variables become."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from jinja2 import nodes

from templatefix.analysis.jinjatree_blocks import Blocks
from templatefix.analysis.jinjatree_expressions import Evaluator, Raised, State
from templatefix.analysis.jinjatree_values import (
    NOTHING,
    UNDEFINED,
    UNPLACED,
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
    text,
    unknown,
)
from templatefix.analysis.reading import TAIL, Place, SuspectKind, TooComplex
from templatefix.gotemplate.source import Span

DONE: Final = ("#", "done")  # whether this turn of a loop was left by continue or break
BROKEN: Final = ("#", "broken")  # whether the loop was left by break
NEVER: Final = constant(False)
ROUNDS: Final = 24  # turns of a loop until its variables are settled
_CALLS: Final = 40  # macros within macros


@dataclass
class Record:
    """What the runs saw."""

    places: set[Place] = field(default_factory=set)
    flips: set[int] = field(default_factory=set)  # the branches that can take another arm later on
    raw: dict[int, int] = field(default_factory=dict)  # what an expression was ever made of


def _placed(items: Sequence[Item], tag: Span) -> list[Item]:
    """Things that are printed by a tag now."""
    found: list[Item] = []
    for item in items:
        if item.span is UNPLACED:
            parts = tuple([tuple(_placed(part, tag)) for part in item.parts])
            item = replace(item, span=tag, parts=parts)
        found.append(item)
    return found


class Walker(Evaluator):
    """One run of a template under assumptions."""

    def __init__(self, blocks: Blocks, assumptions: Assumptions, record: Record) -> None:
        super().__init__(blocks.layout, assumptions)
        self.blocks = blocks
        self.record = record
        self.raw = record.raw
        self.calls: tuple[int, ...] = ()
        self.truths: dict[int, set[bool | None]] = {}  # of the branches, in the run of one message
        self.state[DONE] = self.state[BROKEN] = NEVER

    def run(self) -> tuple[Item, ...]:
        """Run the whole template and look for what stands behind the messages. Raises TooComplex."""
        try:
            items = self.body(self.blocks.tree.body)
        except Raised:
            return ()
        self._behind(items, False)
        return tuple(items)

    # -- places -------------------------------------------------------------------------------------------------------

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

    def _behind(self, items: Sequence[Item], seen: bool) -> bool:
        for item in items:
            if item.kind == "messages":
                if seen:
                    self.suspect(item, "behind")
                # System messages stand first in every conversation: a loop that prints only these does not grow.
                seen = seen or any(turn.decider != "system" for part in item.parts for turn in part)
                continue
            if item.moves and not seen:
                self.suspect(item)
            if item.parts:
                arms = [self._behind(part, seen) for part in item.parts]  # every arm has to be looked into
                seen = any(arms)
            elif seen and holds((item,)):
                self.suspect(item, "behind")
        return seen

    # -- lists of statements ------------------------------------------------------------------------------------------

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
        inner = tuple(self.body(rest))
        self.join_states(before, dict(self.state), done)
        span = self.blocks.branches[id(node)].span if id(node) in self.blocks.branches else self.tag
        return self.choice(done, (), inner, span)

    def choice(self, cond: Value, first: tuple[Item, ...], second: tuple[Item, ...], span: Span) -> list[Item]:
        """One of two things that are printed, as a condition decides."""
        mine, theirs = keys(first), keys(second)
        if mine == theirs:
            return list(first)
        flags, raw, size = cond.flags, cond.raw, 1
        for item in (*first, *second):
            flags |= item.flags
            raw |= item.raw
            size += item.size
        key = self.short(("if", cond.key, mine, theirs))
        return [Item("if", span, self.via, key, "", flags, raw, cond.moves, (first, second), cond.key, size)]

    def _joined_arms(self, cond: Value, arms: Sequence[tuple[Item, ...]], span: Span) -> list[Item]:
        return self.choice(cond, arms[0], arms[1], span) if len(arms) == 2 else list(arms[0])

    def _statement(self, node: nodes.Node) -> list[Item]:
        self.budget -= 1
        if self.budget < 0:
            raise TooComplex
        found = _STATEMENTS.get(type(node))
        if found is None:
            raise TooComplex
        return found(self, node) or []

    def _output(self, node: nodes.Output) -> list[Item]:
        items: list[Item] = []
        for child in node.nodes:
            self.tag = self.blocks.layout.tag(child.lineno)
            items += _placed(self.items(self.evaluate(child)), self.blocks.layout.tag(child.lineno))
        return items

    def _at(self, node: nodes.Node) -> None:
        self.tag = self.blocks.layout.tag(node.lineno)

    # -- branches -----------------------------------------------------------------------------------------------------

    def _if(self, node: nodes.If) -> list[Item]:
        return self._arms((node, *node.elif_), 0, node.else_)

    def _arms(self, tests: Sequence[nodes.If], at: int, otherwise: Sequence[nodes.Node]) -> list[Item]:
        if at == len(tests):
            return self.body(otherwise)
        node = tests[at]
        self._at(node)
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
            found = self._either_way(value, first, second, self.blocks.branches[id(node)].span)
        finally:
            self.via = outside
        return self._joined_arms(value, found, self.blocks.branches[id(node)].span)

    def _either_way(
        self, cond: Value, first: Callable[[], list[Item]], second: Callable[[], list[Item]], span: Span
    ) -> list[tuple[Item, ...]]:
        """What both arms print, and the state joined; of an arm that ends the template nothing."""
        before = dict(self.state)
        printed: list[tuple[Item, ...]] = []
        states: list[State] = []
        known = self.assumed.get(cond.key)
        for truth, arm in ((True, first), (False, second)):
            self.restore(before)
            self.assumed[cond.key] = truth
            try:
                items = tuple(arm())
                states.append(dict(self.state))
                printed.append(items)
            except Raised:
                continue
            finally:
                if known is None:
                    del self.assumed[cond.key]
                else:
                    self.assumed[cond.key] = known
        if not printed:
            raise Raised
        if len(printed) == 2:
            self.tag = span
            self.join_states(states[0], states[1], cond)
        return printed

    # -- variables ----------------------------------------------------------------------------------------------------

    def _assign(self, node: nodes.Assign) -> None:
        self._at(node)
        self.assign(node.target, self.evaluate(node.node))

    def assign(self, target: nodes.Node, value: Value) -> None:
        """Set a variable, several, or a member of a namespace."""
        if isinstance(target, nodes.Name):
            self.state[self.scope[-1], target.name] = value
        elif isinstance(target, nodes.NSRef):
            self._member(self.lookup(target.name), target.attr, value)
        elif isinstance(target, nodes.Tuple):
            known = value.shape == "list" and len(value.inner) == len(target.items)
            for index, each in enumerate(target.items):
                own = value.inner[index] if known else opaque(self.short(("item", value.key, index)), (value,))
                self.assign(each, own)
        else:
            raise TooComplex

    def _member(self, space: Value, name: str, value: Value) -> None:
        if space.shape == "namespace":
            self.state[space.inner, name] = value
            return
        for slot in [slot for slot in self.state if slot[1] == name and isinstance(slot[0], tuple)]:
            self.state[slot] = merge(self.state[slot], value, self.short(("some", value.key, self.state[slot].key)))

    def _assign_block(self, node: nodes.AssignBlock) -> None:
        value = self.printed(self.body(node.body))
        self._at(node)
        self.assign(node.target, self.filtered(node.filter, value) if node.filter is not None else value)

    def printed(self, items: Sequence[Item]) -> Value:
        """Things that were printed as a text."""
        key = self.short(("text", keys(items)))
        found = text(items, key)
        return found if found.is_known else replace(found, key=key)

    def _filter_block(self, node: nodes.FilterBlock) -> list[Item]:
        value = self.printed(self.body(node.body))
        self._at(node)
        if isinstance(node.filter.node, nodes.Filter):
            raise TooComplex  # filters in a row
        return _placed(self.items(self.filtered(node.filter, value)), self.tag)

    def _with(self, node: nodes.With) -> list[Item]:
        values = [self.evaluate(each) for each in node.values]
        outer = self.scope
        self.scope = (*outer, ("with", id(node)))
        for target, value in zip(node.targets, values, strict=True):
            self.assign(target, value)
        try:
            return self.body(node.body)
        finally:
            self.scope = outer

    def _expression(self, node: nodes.ExprStmt) -> None:
        self._at(node)
        self.evaluate(node.node)

    # -- macros -------------------------------------------------------------------------------------------------------

    def _macro(self, node: nodes.Macro) -> None:
        found = Value(("macro", id(node), self.scope), "macro", truth=True, inner=(node, self.scope))
        self.state[self.scope[-1], node.name] = found

    def macro(self, called: Value, node: nodes.Call) -> Value:
        """What a macro prints, as a text."""
        given = [self.evaluate(each) for each in node.args]
        named = {each.key: self.evaluate(each.value) for each in node.kwargs}
        if node.dyn_args is not None or node.dyn_kwargs is not None:
            return self._unread(called, [*given, *named.values()])
        return self.call_macro(called, given, named, None)

    def call_macro(
        self, called: Value, given: Sequence[Value], named: Mapping[str, Value], caller: Value | None
    ) -> Value:
        """Run a macro on values."""
        macro, scope = called.inner
        if id(macro) in self.calls:
            return self._unread(called, [*given, *named.values()])
        if len(self.calls) >= _CALLS:
            raise TooComplex
        outer, calls, tag = self.scope, self.calls, self.tag
        own = ("macro", id(macro), len(calls))
        self.calls = (*calls, id(macro))
        self._clear(own)
        self.scope = (*scope, own)
        first = len(macro.args) - len(macro.defaults)
        done, broken = self.state[DONE], self.state[BROKEN]
        self.state[DONE] = self.state[BROKEN] = NEVER
        try:
            for index, argument in enumerate(macro.args):
                if index < len(given):
                    value = given[index]
                elif argument.name in named:
                    value = named[argument.name]
                else:
                    value = self.evaluate(macro.defaults[index - first]) if index >= first else NOTHING
                self.state[own, argument.name] = value
            if caller is not None:
                self.state[own, "caller"] = caller
            return self.printed(self.body(macro.body))
        finally:
            self._clear(own)
            self.scope, self.calls, self.tag = outer, calls, tag
            self.state[DONE], self.state[BROKEN] = done, broken

    def _unread(self, called: Value, given: Sequence[Value]) -> Value:
        """A macro within itself: whatever it reads may be in its text, and whatever it sets may be anything."""
        macro, _ = called.inner
        read = [*given]
        names, targets = self.blocks.uses(macro)
        for name in names:
            value = self.lookup(name)
            read.append(value)
            if value.shape == "namespace":
                read += [member for slot, member in self.state.items() if slot[0] == value.inner]
        key = self.short(("recursive", id(macro), *[value.key for value in read]))
        found = opaque(key, read)
        for space, name in targets:
            self._member(self.lookup(space), name, replace(found, key=self.short((key, name))))
        return replace(found, shape="string")

    def _call_block(self, node: nodes.CallBlock) -> list[Item]:
        self._at(node)
        caller = Value(("macro", id(node), self.scope), "macro", truth=True, inner=(node, self.scope))
        called = self.evaluate(node.call.node)
        given = [self.evaluate(each) for each in node.call.args]
        named = {each.key: self.evaluate(each.value) for each in node.call.kwargs}
        if called.shape != "macro" or node.call.dyn_args is not None or node.call.dyn_kwargs is not None:
            raise TooComplex
        return _placed(self.items(self.call_macro(called, given, named, caller)), self.blocks.layout.tag(node.lineno))

    def _clear(self, scope: Hashable) -> None:
        for slot in [slot for slot in self.state if slot[0] == scope]:
            del self.state[slot]

    # -- loops --------------------------------------------------------------------------------------------------------

    def _continue(self, node: nodes.Node) -> None:
        self.state[DONE] = constant(True)

    def _break(self, node: nodes.Node) -> None:
        self.state[DONE] = self.state[BROKEN] = constant(True)

    def _for(self, node: nodes.For) -> list[Item]:
        self._at(node)
        coll = self.evaluate(node.iter)
        if coll.shape in ("messages", "numbers"):
            return self.messages_loop(node, coll)
        if coll.truth is False or coll.known is None or coll.known is UNDEFINED:
            return self.body(node.else_)
        saved = (self.state[DONE], self.state[BROKEN])
        outside = self.via
        self.via = (outside, id(node))
        try:
            if coll.shape == "list" and len(coll.inner) <= ROUNDS:
                return self._unrolled(node, coll)
            items = self._looped(node, coll)
            other = tuple(self.body(node.else_)) if node.else_ and coll.truth is None else ()
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

    def _unrolled(self, node: nodes.For, coll: Value) -> list[Item]:
        items: list[Item] = []
        for index, element in enumerate(coll.inner):
            view = View(("list", coll.key, index), constant(index), coll.flags)
            broken = self.state[BROKEN]
            if broken.truth is True:
                break
            before = dict(self.state)
            self.state[DONE] = NEVER
            inner = tuple(self.turn(node, element, view))
            if broken.truth is None:
                self.join_states(before, dict(self.state), broken)
                items += self.choice(broken, (), inner, self.blocks.branches[id(node)].span)
            else:
                items += inner
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
        for _ in range(ROUNDS):
            before = dict(self.state)
            self.state[DONE] = self.state[BROKEN] = NEVER
            items = tuple(self.turn(node, element, view))
            after = dict(self.state)
            if not self.widen(before, node, coll.flags & TAIL):
                self._seal(entry, after, node, coll, items)
                return items
        raise TooComplex

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
        self._clear(own)
        self.scope = (*outer, own)
        self.state[own, "loop"] = Value(("view", view.key), "loop", truth=True, inner=view)
        try:
            self.assign(node.target, element)
            if node.test is None:
                return self.body(node.body)
            return self._filtered_turn(node)
        finally:
            self.scope = outer
            self._clear(own)

    def _filtered_turn(self, node: nodes.For) -> list[Item]:
        cond = self.condition(node.test)  # type: ignore[arg-type]
        if cond.truth is not None:
            return self.body(node.body) if cond.truth else []
        if cond.moves:
            self.record.flips.add(id(node))
        span = self.blocks.branches[id(node)].span
        found = self._either_way(cond, lambda: self.body(node.body), list, span)
        return self._joined_arms(cond, found, span)

    @abstractmethod
    def messages_loop(self, node: nodes.For, coll: Value) -> list[Item]:
        """Run a loop over the conversation, or over a part of it."""

    # -- states -------------------------------------------------------------------------------------------------------

    def restore(self, state: State) -> None:
        """Go back to a state."""
        self.state.clear()
        self.state.update(state)

    def join_states(self, first: State, second: State, cond: Value) -> None:
        """Go on with either of two states, as a condition decides."""
        joined: State = {}
        for slot in {**first, **second}:
            mine, theirs = first.get(slot), second.get(slot)
            if mine is None or theirs is None:
                mine, theirs = self._in(first, slot), self._in(second, slot)
            joined[slot] = mine if mine is theirs or mine.key == theirs.key else self.either(cond, mine, theirs)
        self.restore(joined)

    def join_either(self, other: State, node: nodes.Node) -> None:
        """Go on with the state or with another, as what comes next decides."""
        for slot, value in other.items():
            mine = self.state.get(slot)
            if mine is None or mine.key != value.key:
                key = self.short(("next", id(node), slot, mine and mine.key, value.key))
                self.state[slot] = merge(NOTHING if mine is None else mine, value, key)

    def _in(self, state: State, slot: tuple[Hashable, str]) -> Value:
        found = state.get(slot)
        if found is not None or slot[0] not in self.scope:
            return found if found is not None else NOTHING
        # A variable that one arm alone sets is that of the scope around in the other.
        for place in reversed(self.scope[: self.scope.index(slot[0])]):
            found = state.get((place, slot[1]))
            if found is not None:
                return found
        return self.globals.get(slot[1], NOTHING)

    def widen(self, before: State, node: nodes.Node, flags: int) -> bool:
        """Join the state with the one before a turn of a loop: what changed is any of its values from now on.

        Says whether the join told anything new.
        """
        changed = False
        after = dict(self.state)
        for slot, new in after.items():
            if slot == DONE:
                self.state[slot] = before[slot]
                continue
            value = before.get(slot, NOTHING)
            if new.key != value.key:
                joined = merge(value, new, ("widened", id(node), slot), flags)
                changed = changed or joined != value
                self.state[slot] = joined
        return changed


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
