"""Both arms of what may go either way in a Jinja chat template: what is printed, and the state joined."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Final

from jinja2 import nodes

from templatefix.analysis.jinjatree_expressions import Evaluator
from templatefix.analysis.jinjatree_state import Raised, State
from templatefix.analysis.jinjatree_values import (
    NOTHING,
    Item,
    Value,
    constant,
    keys,
    merge,
)
from templatefix.gotemplate.source import Span

DONE: Final = ("#", "done")  # whether this turn of a loop was left by continue or break
BROKEN: Final = ("#", "broken")  # whether the loop was left by break
_SLOTS: Final = 32  # variables that cost as much to join as a node to evaluate
NEVER: Final = constant(False)
ROUNDS: Final = 24  # turns of a loop until its variables are settled


class Joiner(Evaluator):
    """A run that goes on with either of two states."""

    def restore(self, state: State) -> None:
        """Go back to a state."""
        self.state.clear()
        self.state.update(state)

    def join_states(self, first: State, second: State, cond: Value) -> None:
        """Go on with either of two states, as a condition decides."""
        self.spend(len(first) // _SLOTS)
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

    def clear(self, scope: Hashable) -> None:
        """Forget what is kept in a scope."""
        for slot in [slot for slot in self.state if slot[0] == scope]:
            del self.state[slot]

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

    def joined_arms(self, cond: Value, arms: Sequence[tuple[Item, ...]], span: Span) -> list[Item]:
        """What the arms print that do not end the template."""
        return self.choice(cond, arms[0], arms[1], span) if len(arms) == 2 else list(arms[0])

    def either_way(
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
                self.forget(cond.key, known)
        if not printed:
            raise Raised
        if len(printed) == 2:
            self.tag = span
            self.join_states(states[0], states[1], cond)
        return printed
