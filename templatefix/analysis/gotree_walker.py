"""Run the nodes of a Go chat template on abstract values: what is printed, and what the variables become."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Final

from templatefix.analysis.gotree_expressions import Evaluator, Scope
from templatefix.analysis.gotree_items import (
    BROKEN,
    DONE,
    NEVER,
    ROUNDS,
    Item,
    Record,
    State,
    Suspect,
    Via,
    grows,
    holds,
    keys,
    prints_always,
    stays,
)
from templatefix.analysis.gotree_values import Assumptions, Frame, Value, constant, integer, merge, root, unknown
from templatefix.analysis.reading import TAIL, SuspectKind, TooComplex
from templatefix.gotemplate.nodes import (
    ActionNode,
    BlockNode,
    BreakNode,
    ContinueNode,
    IfNode,
    ListNode,
    Node,
    RangeNode,
    TemplateNode,
    TextNode,
    WithNode,
)
from templatefix.gotemplate.parser import Tree
from templatefix.gotemplate.source import Span

_BUDGET: Final = 200_000  # nodes run
_NESTING: Final = 40  # templates that call each other


class Walker(ABC):
    """One run of a template under assumptions."""

    def __init__(self, tree: Tree, assumptions: Assumptions, record: Record) -> None:
        self.tree = tree
        self.assumptions = assumptions
        self.record = record
        self.state: State = {DONE: NEVER, BROKEN: NEVER, "$": root(assumptions)}
        self.via: Via = None
        self.calls: tuple[str, ...] = ()
        self.frame: Frame | None = None
        self.budget = _BUDGET
        self.outside: dict[int, Suspect] = {}  # places outside the conversation
        self.ids: dict[Hashable, int] = {}  # short names for long keys
        self.evaluator = Evaluator(assumptions, record.raw, self.state, self.ids)

    def run(self) -> tuple[Item, ...]:
        """Run the whole template and look for what stands behind the messages. Raises TooComplex."""
        items = self.body(self.tree.root, Scope(self.state["$"], {"$": "$"}))
        self._outside(items, (), False)
        return tuple(items)

    # -- places -------------------------------------------------------------------------------------------------------

    def suspect(self, node: Node, kind: SuspectKind, shown: Span | None = None) -> None:
        """Note a place whose output can change, and where that is `shown` if not within it."""
        if self.frame is None and kind != "behind":
            # Behind the conversation it would be part of the generation tail, which may change.
            self.outside.setdefault(id(node), Suspect(node, None, kind, shown))
            return
        role = self.frame.message.role if self.frame is not None else None
        self.record.suspects.setdefault((id(node), role, kind, shown), Suspect(node, role, kind, shown))

    def _outside(self, items: Sequence[Item], grown: tuple[Item, ...], kept: bool) -> tuple[Item, ...]:
        """Note what moves outside the conversation, where something behind has to be kept, and what it moves itself.

        `grown` are the loops before that print more when messages are added; gives those before what follows. `kept`
        says whether something behind the items has to be kept.
        """
        behind = [kept]
        for item in reversed(items[1:]):
            behind.append(behind[-1] or stays(item))
        for item, more in zip(items, reversed(behind), strict=False):
            outside = self.outside.get(id(item.node))
            if outside is not None and (more or not grown):
                self.record.suspects.setdefault((id(item.node), None, outside.kind, outside.shown), outside)
            if item.kind == "messages":
                if stays(item):
                    self._pushed(item, grown)
                grown = (*grown, item) if grows(item) and item not in grown else grown
            elif item.kind == "range":
                more = more or stays(item)
                first, grown = grown, self._arms_outside(item, grown, more)
                if len(grown) > len(first):
                    self._arms_outside(item, grown, more)  # the next turn stands behind this one
            elif item.kind == "if":
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
            if prints_always(loop):
                # What stands between moves with it.
                start, end = loop.node.span.end, item.node.span.end
                self.suspect(item.node, "behind", Span(start, end) if start < end else None)
            else:
                found = Suspect(loop.node, None, "loop", item.node.span)
                self.record.suspects.setdefault((id(loop.node), None, found.kind, found.shown), found)

    # -- lists and branches -------------------------------------------------------------------------------------------

    def body(self, nodes: ListNode, scope: Scope) -> list[Item]:
        """Run a list of nodes in a scope: what it prints."""
        return self._nodes(nodes.nodes, scope)

    def _nodes(self, nodes: Sequence[Node], scope: Scope) -> list[Item]:
        items: list[Item] = []
        for position, node in enumerate(nodes):
            items += self._node(node, scope)
            done = self.state[DONE]
            if done.truth is True:
                break
            if done.truth is None and position + 1 < len(nodes):
                items += self._unless(done, node, nodes[position + 1 :], scope)
                break
        return items

    def _unless(self, done: Value, node: Node, rest: Sequence[Node], scope: Scope) -> list[Item]:
        # What follows a `continue` that may or may not have been met.
        before = dict(self.state)
        self.state[DONE] = NEVER
        inner = tuple(self._nodes(rest, scope))
        self.merge_states(before, dict(self.state), node, done)
        if done.moves and inner:
            spans = [item.node.span for item in inner]
            shown = Span(min(span.start for span in spans), max(span.end for span in spans))
            self.suspect(node, "gate", shown)
        return (
            [Item("if", node, self.via, ("unless", self.short((done.key, keys(inner)))), 0, ((), inner))]
            if inner
            else []
        )

    def _node(self, node: Node, scope: Scope) -> list[Item]:
        self.budget -= 1
        if self.budget < 0:
            raise TooComplex
        if isinstance(node, TextNode):
            return [Item("text", node, self.via, ("text", node.text))] if node.text else []
        if isinstance(node, ActionNode):
            return self._action(node, scope)
        if isinstance(node, RangeNode):
            return self._range(node, scope)
        if isinstance(node, (IfNode, WithNode)):
            return self._branch(node, scope)
        if isinstance(node, (TemplateNode, BlockNode)):
            return self._template(node, scope)
        if isinstance(node, (BreakNode, ContinueNode)):
            self.state[DONE] = constant(True)
            if isinstance(node, BreakNode):
                self.state[BROKEN] = constant(True)
        return []

    def _action(self, node: ActionNode, scope: Scope) -> list[Item]:
        value = self.evaluator.pipe(node.pipe, scope, self.frame)
        if node.pipe.decl:
            return []
        if value.moves:
            self.suspect(node, "value")
        if value.known == "":
            return []
        key = ("text", value.known) if isinstance(value.known, str) else ("print", value.key)
        return [Item("print", node, self.via, key, value.raw)]

    def _branch(self, node: IfNode | WithNode, scope: Scope) -> list[Item]:
        inner = scope.child()
        value = self.evaluator.pipe(node.pipe, inner, self.frame)
        self.record.truths.setdefault(id(node.pipe), set()).add(value.truth)
        arms: list[tuple[ListNode | None, Scope]] = [(node.list, inner), (node.else_list, inner)]
        if isinstance(node, WithNode):
            arms[0] = (node.list, inner.at(value))
        outside = self.via
        if value.truth is not None:
            arm = 0 if value.truth else 1
            nodes, arm_scope = arms[arm]
            self.via = (outside, node)
            items = self.body(nodes, arm_scope.child()) if nodes is not None else []
            self.via = outside
            return items
        before = dict(self.state)
        printed: list[tuple[Item, ...]] = []
        states: list[State] = []
        for nodes, arm_scope in arms:
            self.restore(before)
            self.via = (outside, node)
            printed.append(tuple(self.body(nodes, arm_scope.child())) if nodes is not None else ())
            states.append(dict(self.state))
        self.via = outside
        self.merge_states(states[0], states[1], node, value)
        if keys(printed[0]) == keys(printed[1]):
            return list(printed[0])
        if value.moves:
            self.suspect(node, "gate")
        key = ("if", self.short((value.key, keys(printed[0]), keys(printed[1]))))
        return [Item("if", node, outside, key, value.raw, tuple(printed))]

    def _template(self, node: TemplateNode | BlockNode, scope: Scope) -> list[Item]:
        body = self.tree.templates.get(node.name)
        value = self.evaluator.pipe(node.pipe, scope, self.frame) if node.pipe is not None else constant(None)
        if body is None:
            return []
        if len(self.calls) > _NESTING:
            raise TooComplex
        if node.name in self.calls:
            if value.moves:
                self.suspect(node, "value")
            return [Item("print", node, self.via, (id(node), value.key), value.raw)]
        slot = ("$", id(node))
        self.state[slot] = value
        outer = self.calls
        self.calls = (*outer, node.name)
        items = self.body(body, Scope(value, {"$": slot}))
        self.calls = outer
        return items

    # -- loops --------------------------------------------------------------------------------------------------------

    def _range(self, node: RangeNode, scope: Scope) -> list[Item]:
        coll = self.evaluator.range_pipe(node.pipe, scope, self.frame)
        if coll.shape == "messages":
            return self._messages(node, coll, scope)
        if coll.truth is False:
            return list(self._otherwise(node, scope))
        saved = (self.state[DONE], self.state[BROKEN])
        outside = self.via
        entry = dict(self.state)
        element = unknown(("each", coll.key, id(node)), coll.flags, None, "other", coll.raw)
        position = integer(("position", coll.key, id(node)), 0, None, coll.flags & TAIL)
        self.via = (outside, node)
        for _ in range(ROUNDS):
            before = dict(self.state)
            self.state[DONE] = self.state[BROKEN] = NEVER
            items = tuple(self.body(node.list, self.bind(node, scope, position, element)))
            after = dict(self.state)
            broken = after[BROKEN]
            self.state[BROKEN] = saved[1]
            if not self.widen(before, node, (coll.flags | broken.flags) & TAIL):
                break
        else:
            raise TooComplex
        self._seal(entry, after, node, coll)
        other: tuple[Item, ...] = ()
        if node.else_list is not None and coll.truth is None:
            looped = dict(self.state)
            self.restore(entry)
            other = self._otherwise(node, scope)
            self.merge_states(looped, dict(self.state), node, coll)
        self.via = outside
        self.state[DONE], self.state[BROKEN] = saved
        if not items and not other:
            return []
        if coll.moves or broken.moves:
            self.suspect(node, "loop")
        key = ("range", self.short((id(node), coll.key, broken.key, keys(items), keys(other))))
        return [Item("range", node, outside, key, coll.raw, (items, other))]

    def _seal(self, entry: State, after: State, node: Node, coll: Value) -> None:
        # What a variable has become hangs on all that the loop started with and did: its key says so.
        changed = [slot for slot, value in self.state.items() if entry[slot].key != value.key]
        told = tuple([(slot, entry[slot].key, after[slot].key) for slot in changed])
        key = self.short((id(node), coll.key, after[BROKEN].key, told))
        for slot in changed:
            self.state[slot] = replace(self.state[slot], key=("looped", key, slot))

    def _otherwise(self, node: RangeNode, scope: Scope) -> tuple[Item, ...]:
        """What the `else` of a loop prints."""
        if node.else_list is None:
            return ()
        done = self.state[DONE].key
        items = tuple(self.body(node.else_list, scope.child()))
        if self.state[DONE].key != done:
            raise TooComplex  # for Go, `continue` leaves the loop around here, but `break` this one
        return items

    def _messages(self, node: RangeNode, coll: Value, scope: Scope) -> list[Item]:
        """Run a loop over the conversation, and its `else` where it may have no turn."""
        if node.else_list is None or coll.truth is True or self._reaches(coll):
            return self.conversation(node, coll, scope)
        entry, outside = dict(self.state), self.via
        items = tuple(self.conversation(node, coll, scope))
        looped = dict(self.state)
        self.restore(entry)
        self.via = (outside, node)
        other = self._otherwise(node, scope)
        self.via = outside
        empty = unknown(("empty", coll.key), TAIL)
        self.merge_states(looped, dict(self.state), node, empty)
        if not other:
            return list(items)
        self.suspect(node, "loop")
        key = ("if", self.short((empty.key, keys(items), keys(other))))
        return [Item("if", node, outside, key, coll.raw, (items, other))]

    def _reaches(self, coll: Value) -> bool:
        # Whether the part of the conversation holds a message of each request.
        start = coll.offset
        if start is None:
            return False
        if self.frame is not None and start.key == self.frame.index.key:
            return True
        return start.high is not None and start.high < (1 if self.assumptions.system is False else 2)

    @abstractmethod
    def conversation(self, node: RangeNode, coll: Value, scope: Scope) -> list[Item]:
        """Run a loop over the conversation, or over a part of it."""

    def bind(self, node: RangeNode, scope: Scope, position: Value, element: Value) -> Scope:
        """A scope for one turn of a loop, its variables set."""
        inner = scope.child().at(element)
        values = [element] if len(node.pipe.decl) == 1 else [position, element]
        for variable, value in zip(node.pipe.decl, values, strict=False):
            if node.pipe.is_assign:
                self.state[inner.slots.get(variable.ident[0], variable.ident[0])] = value
            else:
                slot = (variable.ident[0], id(variable))
                inner.slots[variable.ident[0]] = slot
                self.state[slot] = value
        return inner

    def short(self, key: Hashable) -> int:
        """A short name for a key that holds other keys: the same for equal keys."""
        return self.ids.setdefault(key, len(self.ids))

    # -- states -------------------------------------------------------------------------------------------------------

    def restore(self, state: State) -> None:
        """Go back to a state."""
        self.state.clear()
        self.state.update(state)

    def merge_states(self, first: State, second: State, node: Node, cond: Value) -> None:
        """Go on with either of two states, as a condition of `node` decides."""
        merged: State = {}
        for slot, value in first.items():
            other = second.get(slot)
            if other is not None:
                key = ("either", self.short((id(node), slot, cond.key, value.key, other.key)))
                merged[slot] = merge(value, other, key, cond.flags & TAIL)
        self.restore(merged)

    def widen(self, before: State, node: Node, flags: int) -> bool:
        """Join the state with the one before a turn of a loop: what changed is any of its values from now on.

        Says whether the join told anything new.
        """
        changed = False
        after = dict(self.state)
        self.state.clear()
        for slot, value in before.items():
            if slot == DONE:
                self.state[slot] = value
                continue
            new = after.get(slot, value)
            joined = value
            if new.key != value.key:
                joined = merge(value, new, ("loop", id(node), slot), flags)
                # Bounds that go on growing would never settle.
                low = joined.low if joined.low == value.low else None
                high = joined.high if joined.high == value.high else None
                joined = replace(joined, low=low, high=high)
                changed = changed or joined.key != value.key or joined != value
            self.state[slot] = joined
        return changed
