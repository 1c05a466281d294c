"""Run a Go chat template on abstract values: what it prints for each kind of message, and what of that can change.

A loop over the conversation is run once for each role that a message can have, and twice where the message may be the
last one: as the last, and as one that others follow. What the two runs print is compared; text that only the last
message has, behind all the rest, is the generation tail and may change.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any, Final, Literal, TypeAlias

from templatefix.analysis.gotree_expressions import Evaluator, Scope
from templatefix.analysis.gotree_values import (
    DATA,
    SYSTEM,
    TAIL,
    TOOLS,
    Assumptions,
    Frame,
    Role,
    Value,
    constant,
    integer,
    merge,
    message,
    moving,
    root,
    unknown,
)
from templatefix.gotemplate.nodes import (
    ActionNode,
    BlockNode,
    BranchNode,
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

Via: TypeAlias = "tuple[Via, BranchNode] | None"  # the innermost branch, linked to those around it
State = dict[Hashable, Value]

_DONE: Final = "#done"  # this iteration was left by continue or break
_BROKEN: Final = "#broken"  # the loop was left by break
_NEVER: Final = constant(False)
_ROUNDS: Final = 6
_BUDGET: Final = 200_000  # nodes run
_NESTING: Final = 40
_MANY: Final = 1000  # things printed for one message, beyond which only the first that changes is named


@dataclass(frozen=True, slots=True)
class Item:
    """Something that is printed: text, a value, or a choice or repetition of such things."""

    kind: Literal["text", "print", "if", "range", "messages", "turn"]
    node: Node
    via: Via  # the branches that led here
    key: Any  # hashable; equal keys print the same on the same conversation
    flags: int  # what it depends on
    raw: int  # what it holds
    parts: tuple[tuple[Item, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Suspect:
    """A place where what is printed for a message can change when others follow."""

    node: Node  # the branch, action, loop or text
    role: Role | None  # of the message it is printed for; None outside the conversation
    kind: Literal["gate", "value", "loop", "behind"]
    raw: int  # what stands there: TOOLS, SYSTEM, DATA


@dataclass
class Record:
    """What the runs saw of each node, by its id."""

    raw: dict[int, int] = field(default_factory=dict)  # of an expression: what it is made of
    truths: dict[int, set[bool | None]] = field(default_factory=dict)  # of a condition
    roles: dict[int, set[Role | None]] = field(default_factory=dict)  # of a list: for whom it runs
    suspects: dict[tuple[int, Role | None, str], Suspect] = field(default_factory=dict)


def branches(via: Via) -> tuple[BranchNode, ...]:
    """The branches of a path, outermost first."""
    found: list[BranchNode] = []
    while via is not None:
        via, branch = via
        found.append(branch)
    return tuple(reversed(found))


def flatten(items: Sequence[Item]) -> Iterator[Item]:
    """All items, inner ones after the one that holds them."""
    for item in items:
        yield item
        for part in item.parts:
            yield from flatten(part)


def holds(items: Sequence[Item]) -> int:
    """What items print: TOOLS, SYSTEM, DATA."""
    raw = 0
    for item in flatten(items):
        if item.kind == "print":
            raw |= item.raw
    return raw & (TOOLS | SYSTEM | DATA)


class TooComplex(Exception):
    """A template that cannot be read: loops in loops, or templates that call each other many times over."""


class Flow:
    """One run of a template under assumptions."""

    def __init__(self, tree: Tree, assumptions: Assumptions, record: Record) -> None:
        self.tree = tree
        self.assumptions = assumptions
        self.record = record
        self.state: State = {_DONE: _NEVER, _BROKEN: _NEVER, "$": root(assumptions)}
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
        self._behind(items, False)
        return tuple(items)

    # -- places -------------------------------------------------------------------------------------------------------

    def suspect(self, node: Node, kind: Literal["gate", "value", "loop", "behind"], raw: int = 0) -> None:
        """Note a place whose output can change; `raw` says what stands there."""
        if self.frame is None and kind != "behind":
            # Behind the conversation it would be part of the generation tail, which may change.
            self.outside.setdefault(id(node), Suspect(node, None, kind, raw))
            return
        role = self.frame.message.role if self.frame is not None else None
        self.record.suspects.setdefault((id(node), role, kind), Suspect(node, role, kind, raw))

    def _behind(self, items: Sequence[Item], seen: bool) -> bool:
        for item in items:
            outside = self.outside.get(id(item.node))
            if outside is not None and not seen:
                self.record.suspects.setdefault((id(item.node), None, outside.kind), outside)
            if item.kind == "messages":
                if seen:
                    self.suspect(item.node, "behind", holds((item,)))
                # System messages stand first in every conversation: a loop that prints only these does not grow.
                seen = seen or any(turn.key[0] != "system" for part in item.parts for turn in part)
            elif item.kind == "if":
                arms = [self._behind(part, seen) for part in item.parts]  # every arm has to be looked into
                seen = any(arms)
            elif seen and holds((item,)):
                self.suspect(item.node, "behind", holds((item,)))
        return seen

    # -- lists and branches -------------------------------------------------------------------------------------------

    def body(self, nodes: ListNode, scope: Scope) -> list[Item]:
        """Run a list of nodes in a scope: what it prints."""
        role = self.frame.message.role if self.frame is not None else None
        self.record.roles.setdefault(id(nodes), set()).add(role)
        return self._nodes(nodes.nodes, scope)

    def _nodes(self, nodes: Sequence[Node], scope: Scope) -> list[Item]:
        items: list[Item] = []
        for position, node in enumerate(nodes):
            items += self._node(node, scope)
            done = self.state[_DONE]
            if done.truth is True:
                break
            if done.truth is None and position + 1 < len(nodes):
                items += self._unless(done, node, nodes[position + 1 :], scope)
                break
        return items

    def _unless(self, done: Value, node: Node, rest: Sequence[Node], scope: Scope) -> list[Item]:
        # What follows a `continue` that may or may not have been met.
        before = dict(self.state)
        self.state[_DONE] = _NEVER
        inner = tuple(self._nodes(rest, scope))
        self.merge_states(before, dict(self.state), node, done)
        if done.moves and inner:
            self.suspect(node, "gate", holds(inner))
        return (
            [Item("if", node, self.via, ("unless", self.short((done.key, _keys(inner)))), done.flags, 0, ((), inner))]
            if inner
            else []
        )

    def _node(self, node: Node, scope: Scope) -> list[Item]:
        self.budget -= 1
        if self.budget < 0:
            raise TooComplex
        if isinstance(node, TextNode):
            return [Item("text", node, self.via, ("text", node.text), 0, 0)] if node.text else []
        if isinstance(node, ActionNode):
            return self._action(node, scope)
        if isinstance(node, RangeNode):
            return self._range(node, scope)
        if isinstance(node, (IfNode, WithNode)):
            return self._branch(node, scope)
        if isinstance(node, (TemplateNode, BlockNode)):
            return self._template(node, scope)
        if isinstance(node, (BreakNode, ContinueNode)):
            self.state[_DONE] = constant(True)
            if isinstance(node, BreakNode):
                self.state[_BROKEN] = constant(True)
        return []

    def _action(self, node: ActionNode, scope: Scope) -> list[Item]:
        value = self.evaluator.pipe(node.pipe, scope, self.frame)
        if node.pipe.decl:
            return []
        if value.moves:
            self.suspect(node, "value", value.raw & (TOOLS | SYSTEM | DATA))
        if value.known == "":
            return []
        key = ("text", value.known) if isinstance(value.known, str) else ("print", value.key)
        return [Item("print", node, self.via, key, value.flags, value.raw)]

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
        if _keys(printed[0]) == _keys(printed[1]):
            return list(printed[0])
        if value.moves:
            self.suspect(node, "gate", holds(printed[0]) | holds(printed[1]))
        key = ("if", self.short((value.key, _keys(printed[0]), _keys(printed[1]))))
        return [Item("if", node, outside, key, value.flags, value.raw, tuple(printed))]

    def _template(self, node: TemplateNode | BlockNode, scope: Scope) -> list[Item]:
        body = self.tree.templates.get(node.name)
        value = self.evaluator.pipe(node.pipe, scope, self.frame) if node.pipe is not None else constant(None)
        if body is None:
            return []
        if node.name in self.calls or len(self.calls) > _NESTING:
            if value.moves:
                self.suspect(node, "value", value.raw & (TOOLS | SYSTEM | DATA))
            return [Item("print", node, self.via, (id(node), value.key), value.flags, value.raw)]
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
            return _Conversation(self, node, coll, scope).run()
        if coll.truth is False:
            return self.body(node.else_list, scope.child()) if node.else_list is not None else []
        saved = (self.state[_DONE], self.state[_BROKEN])
        outside = self.via
        element = unknown(("each", coll.key, id(node)), coll.flags, None, "other", coll.raw)
        position = integer(("position", coll.key, id(node)), 0, None, coll.flags & TAIL)
        self.via = (outside, node)
        items: tuple[Item, ...] = ()
        for _ in range(_ROUNDS):
            before = dict(self.state)
            self.state[_DONE] = self.state[_BROKEN] = _NEVER
            items = tuple(self.body(node.list, self.bind(node, scope, position, element)))
            if not self.widen(before, node, coll.flags & TAIL):
                break
        self.via = (outside, node)
        other = (
            tuple(self.body(node.else_list, scope.child())) if node.else_list is not None and coll.truth is None else ()
        )
        self.via = outside
        self.state[_DONE], self.state[_BROKEN] = saved
        if not items and not other:
            return []
        if coll.moves:
            self.suspect(node, "loop", holds(items))
        key = ("range", self.short((id(node), coll.key, _keys(items), _keys(other))))
        return [Item("range", node, outside, key, coll.flags, coll.raw, (items, other))]

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
            if slot == _DONE:
                self.state[slot] = value
                continue
            new = after.get(slot, value)
            joined = value
            if new.key != value.key:
                joined = merge(value, new, ("loop", id(node), slot), flags)
                changed = changed or joined.key != value.key or joined != value
            self.state[slot] = joined
        return changed


def _keys(items: Sequence[Item]) -> tuple[Hashable, ...]:
    return tuple([item.key for item in items])


@dataclass(frozen=True, slots=True)
class Turn:
    """One kind of message in a loop over the conversation."""

    role: Role
    index: Value  # of the message in the conversation
    position: Value  # what the loop counts
    may_be_last: bool


class _Conversation:
    """A loop over the conversation, or over a part of it."""

    def __init__(self, flow: Flow, node: RangeNode, coll: Value, scope: Scope) -> None:
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
        saved = (flow.state[_DONE], flow.state[_BROKEN])
        flow.state[_BROKEN] = _NEVER
        flow.via = (outside, self.node)
        start = dict(flow.state)
        for turn in self._opening():
            self._turn(turn)
        settled = self.ends[0] if self.whole and not self.nested else start
        opening_ends, opening_printed = list(self.ends), list(self.printed)
        for _ in range(_ROUNDS):
            self.ends, self.printed = list(opening_ends), list(opening_printed)
            before = dict(flow.state)
            changed = False
            for turn in self._later():
                changed = self._turn(turn, before) or changed
            if not changed:
                break
        self._leave(start, settled)
        flow.frame, flow.via = outer_frame, outside
        flow.state[_DONE], flow.state[_BROKEN] = saved
        turns = tuple([turn for turn in self.printed if turn.parts[0]])
        if not turns:
            return []
        if self.nested:
            flow.suspect(self.node, "loop", holds(turns))
        key = ("messages", id(self.node), self.coll.key, _keys(turns))
        return [Item("messages", self.node, outside, key, 0, 0, (turns,))]

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
        self.printed.append(Item("turn", self.node, self.flow.via, (turn.role, _keys(items)), 0, 0, (items,)))

    def _body(self, turn: Turn, low: int, high: int | None) -> tuple[Item, ...]:
        flow = self.flow
        flow.state[_DONE] = _NEVER
        broken = flow.state[_BROKEN]
        if broken.truth is True:
            return ()
        place = message(("message", id(self.node), turn.role, turn.index.key), turn.role)
        flow.frame = Frame(turn.index, place, low, high)
        before = dict(flow.state)
        items = tuple(flow.body(self.node.list, flow.bind(self.node, self.scope, turn.position, place)))
        if broken.truth is None:
            flow.merge_states(before, dict(flow.state), self.node, broken)
            key = ("unless", flow.short((broken.key, _keys(items))))
            items = (Item("if", self.node, flow.via, key, broken.flags, 0, ((), items)),) if items else ()
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
        while end and _is_tail(mine[end - 1], ids):
            end -= 1
        if not end:
            return
        if end > _MANY:
            self.flow.suspect(self._gate(mine[0]), "gate", holds(mine))
            return
        # By node, for equal texts that stand at many places are slow to match.
        old, new = ([(id(item.node), item.key) for item in items] for items in (mine[:end], theirs))
        for tag, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
            if tag == "equal" or (i1 == end and i1 == i2) or _keys(mine[i1:i2]) == _keys(theirs[j1:j2]):
                continue
            changed = [*mine[i1:i2], *theirs[j1:j2]]
            self.flow.suspect(self._gate(changed[0]), "gate", holds(changed))

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
