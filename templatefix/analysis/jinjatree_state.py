"""The state of an abstract run of a Jinja chat template: variables, members of values, and what values print."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from jinja2 import nodes

from templatefix.analysis.jinjatree_functions import METHODS, is_text
from templatefix.analysis.jinjatree_messages import Conversation, truth_of
from templatefix.analysis.jinjatree_numbers import is_integer, known_integer, plus
from templatefix.analysis.jinjatree_values import (
    EMPTY,
    LISTS,
    NOTHING,
    SPACES,
    UNDEFINED,
    UNPLACED,
    Assumptions,
    Frame,
    Item,
    LastOf,
    Part,
    Scope,
    Value,
    Via,
    View,
    constant,
    integer,
    keys,
    merge,
    opaque,
    retruthed,
    text,
    unknown,
)
from templatefix.analysis.reading import DATA, DATE, TAIL, TOOLS, TooComplex
from templatefix.chat.jinja_layout import Layout
from templatefix.gotemplate.source import Span

Slot: TypeAlias = tuple[Hashable, str]  # where a variable is kept, and its name
State: TypeAlias = "dict[Slot, Value]"

UNROLLED: Final = 24  # items of a list that are looked at one by one
_BUDGET: Final = 100_000  # nodes evaluated


class Raised(Exception):
    """The template ends itself here, so nothing is printed."""


class Holder(ABC):
    """Where a run stands, and what it knows."""

    def __init__(self, layout: Layout, assumptions: Assumptions) -> None:
        self.layout = layout
        self.assumptions = assumptions
        self.conversation = Conversation(assumptions)
        self.state: State = {}
        self.scope: Scope = ("top",)
        self.frame: Frame | None = None
        self.via: Via = None
        self.tag = Span(0, 0)  # the tag at hand
        self.budget = _BUDGET
        self.ids: dict[Hashable, int] = {}
        self.assumed: dict[Hashable, bool] = {}  # what the branches around have decided
        self.block = EMPTY  # what a block printed whose tag has filters
        self.constants: dict[int, Value] = {}  # by the ids of their nodes
        self.raw: dict[int, int] = {}  # of a node: what it was ever made of
        self.lists: dict[int, int] = {}  # of a node that makes lists: its bit
        self.appends = 0  # to lists, so far
        self.spaces: dict[Hashable, None] = {}  # where the namespaces that were made keep their members
        self.globals = self._globals()

    def _globals(self) -> dict[str, Value]:
        found: dict[str, Value] = {}
        for name, value in self.assumptions.given.items():
            if name in ("datetime", "date_string"):
                found[name] = unknown(("given", name), 0, True, DATE, "string")
            elif value is None or isinstance(value, (str, int, float)):
                found[name] = constant(value)
            else:
                found[name] = unknown(("given", name), 0, None, 0, "other")
        if self.assumptions.think is None:
            found["enable_thinking"] = unknown(("given", "enable_thinking"))
        found["messages"] = self.conversation.whole()
        if self.assumptions.tools:
            found["tools"] = Value("tools", "row", truth=True, raw=TOOLS)
        for name in ("raise_exception", "strftime_now", "namespace", "range", "dict"):
            found[name] = Value(("function", name), "function", truth=True, inner=name)
        return found

    def spend(self, work: int) -> None:
        """Work was done. Raises TooComplex where it is too much."""
        self.budget -= work
        if self.budget < 0:
            raise TooComplex

    def short(self, key: Hashable) -> Hashable:
        """A short name for a key that holds other keys: the same for equal keys."""
        return ("#", self.ids.setdefault(key, len(self.ids)))

    def sealed(self, value: Value) -> Value:
        """The value with a short key."""
        key = value.key
        if isinstance(key, tuple) and key[0] in ("apply", "default", "is", "defined", "plus", "minus", "neg", "at"):
            return replace(value, key=self.short(key))
        return value

    def lookup(self, name: str) -> Value:
        """A variable."""
        for place in reversed(self.scope):
            value = self.state.get((place, name))
            if value is not None:
                return self._seen(value)
        return self.globals.get(name, NOTHING)

    def _seen(self, value: Value) -> Value:
        """A variable, with what the message at hand says about it."""
        frame = self.frame
        if not isinstance(value.inner, LastOf) or frame is None or frame.nested:
            return value
        role, step = value.inner.role, value.inner.step
        here = plus(frame.index, constant(step))
        if frame.message.among == (role,) and frame.high == 1:
            return replace(here, raw=here.raw | value.raw)
        if frame.next_roles == (role,):
            return replace(value, base=frame.index.base or frame.index.key, above=(step + 1, None))
        if frame.message.among == (role,):
            return replace(value, base=frame.index.base or frame.index.key, above=(step, None))
        return value

    def forget(self, key: Hashable, before: bool | None) -> None:
        """Take a condition no longer for decided, or for decided as it was before."""
        if before is None:
            del self.assumed[key]
        else:
            self.assumed[key] = before

    @abstractmethod
    def evaluate(self, node: nodes.Node) -> Value:
        """The value of an expression. Raises Raised and TooComplex."""

    # -- members ------------------------------------------------------------------------------------------------------

    def attribute(self, value: Value, name: str) -> Value:
        """A member by its name."""
        if value.is_known and value.shape != "text":
            return NOTHING
        if value.shape == "message":
            return self.conversation.field(value, name, self.frame)
        if value.shape == "loop":
            return self.sealed(self.loop_member(value.inner, name))
        if value.shape == "namespace":
            return self._seen(self.state.get((value.inner, name), NOTHING))
        if value.shape == "part":
            key = ("member", value.key, name)
            return constant("text") if name == "type" else self._text_of_part(key, value) if name == "text" else NOTHING
        if value.shape == "list" and name != "append":
            return NOTHING
        if value.shape == "dict":
            return next((member for key, member in value.inner if key == name), NOTHING)
        # What may be one of several namespaces has the member of any.
        members = [self.state.get((space, name), NOTHING) for space in self.spaces] if value.raw & SPACES else []
        return opaque(self.short(("member", value.key, name, *[each.key for each in members])), (value, *members))

    @staticmethod
    def _text_of_part(key: Hashable, value: Value) -> Value:
        return unknown(key, value.flags, None, value.raw, "string")

    def loop_member(self, view: View, name: str) -> Value:
        """A member of `loop`."""
        key = ("apply", "loop", view.key, name)
        frame, part = view.frame, view.part
        if name in ("index0", "index"):
            return view.position if name == "index0" else plus(view.position, constant(1))
        if name == "first" and is_integer(view.position):
            truth = truth_of("eq", view.position, constant(0))
            return constant(truth) if truth is not None else unknown(key, view.position.flags)
        if frame is None or part is None or self.frame is not frame:
            if name in ("length", "revindex", "revindex0"):
                return integer(key, 0, None, view.flags, view.flags)
            if name in ("first", "last"):
                return unknown(key, view.flags if name == "last" else view.position.flags)
            flags = view.flags if name == "nextitem" else view.position.flags
            return unknown(key, flags, None, 0, "other")
        return self._loop_of_messages(view, frame, part, name)

    def _loop_of_messages(self, view: View, frame: Frame, part: Part, name: str) -> Value:
        key = ("apply", "loop", view.key, name)
        settled = frame.low == frame.high
        if part.tests or part.backwards or frame.nested:
            sure = settled and not frame.nested and not part.backwards
            if name == "last" and sure:
                return constant(True, TAIL)
            if name == "previtem":
                return unknown(key, 0 if part.tests and not part.backwards else TAIL, None, DATA, "other")
            flags = 0 if sure else TAIL
            if name in ("length", "revindex", "revindex0"):
                return integer(key, 0, None, flags, TAIL)
            return unknown(key, flags, None, TAIL, "other")
        if name == "length":
            return self.conversation.length(part, frame)
        if name in ("revindex", "revindex0"):
            left = plus(self.conversation.length(part, frame), view.position, -1)
            return left if name == "revindex" else plus(left, constant(1), -1)
        if name == "last":
            truth = None if part.drop else False if frame.low > 1 else True if frame.high == 1 else None
            return constant(truth, TAIL) if truth is not None else unknown(key, TAIL)
        if name == "nextitem":
            return self.conversation.at(plus(frame.index, constant(1)), frame) if not part.drop else unknown(key, TAIL)
        if name == "previtem":
            if view.position.known == 0:
                return NOTHING
            return self.conversation.at(plus(frame.index, constant(-1)), frame)
        if name == "first":
            return unknown(key)
        return unknown(key, 0, None, 0, "other")

    def item(self, value: Value, index: Value) -> Value:
        """A member by its number or name."""
        if isinstance(index.known, str):
            member = self.attribute(value, index.known)
            if member.known is not UNDEFINED or index.known not in METHODS:
                return member
            return opaque(self.short(("item", value.key, index.key)), (value,))
        if value.shape == "messages":
            if not is_integer(index):
                index = unknown(index.key, index.flags, None, index.raw)
            return self.conversation.member(value.inner, index, self.frame)
        if value.shape == "list" and known_integer(index) is not None:
            return value.inner[index.known] if -len(value.inner) <= index.known < len(value.inner) else NOTHING
        if value.is_known and not isinstance(value.known, str):
            return NOTHING
        if value.raw & SPACES and value.shape not in ("list", "dict"):
            members = [member for (space, _), member in self.state.items() if space in self.spaces]
            key = self.short(("item", value.key, index.key, *[member.key for member in members]))
            return opaque(key, (value, index, *members))
        found = opaque(self.short(("item", value.key, index.key)), (value, index))
        if is_text(value) or (isinstance(index.known, int) and value.truth is True and value.shape == "other"):
            return replace(found, shape="string" if is_text(value) else "other")
        return found

    # -- texts and lists ----------------------------------------------------------------------------------------------

    def items(self, value: Value) -> tuple[Item, ...]:
        """What a value prints."""
        if value.shape in ("text", "optional"):
            return value.inner or ()
        if value.is_known:
            if value.known is None or value.known is UNDEFINED or value.known == "":
                return ()
            words = str(value.known)
            kind = "print" if value.raw else "text"
            return (Item(kind, value.span or UNPLACED, self.via, ("text", words), words, 0, value.raw),)  # type: ignore[arg-type]
        if value.shape in ("macro", "function"):
            return ()
        key: Hashable = ("print", value.key)
        if value.shape == "loop":
            value = replace(value, flags=value.flags | value.inner.flags)
        elif value.shape == "namespace":
            members = [(slot[1], member) for slot, member in self.state.items() if slot[0] == value.inner]
            key = self.short(("print", value.key, *[(name, member.key) for name, member in members]))
            value = opaque(key, [value, *[member for _, member in members]])
        return (Item("print", UNPLACED, self.via, key, "", value.flags, value.raw, value.moves),)

    def either(self, cond: Value, first: Value, second: Value) -> Value:
        """One of two values, as a condition decides; of texts the parts stay known."""
        if first.key == second.key:
            return first
        sure = is_text(first) and is_text(second)
        if sure or (_prints_text(first) and _prints_text(second)):
            parts = (tuple(self.items(first)), tuple(self.items(second)))
            names = (keys(parts[0]), keys(parts[1]))
            key = self.short(("if", cond.key, names))
            flags, raw = first.flags | second.flags, first.raw | second.raw
            size = 1 + sum(item.size for part in parts for item in part)
            flags, raw = flags | cond.flags, raw | cond.raw
            item = Item("if", UNPLACED, self.via, key, "", flags, raw, cond.moves, parts, cond.key, size, self.tag)
            found = retruthed(text((item,), key), first.truth if first.truth == second.truth else None)
            return found if sure or found.shape != "text" else replace(found, shape="optional")
        return merge(first, second, self.short(("either", cond.key, first.key, second.key)), cond.flags & TAIL)

    def joined(self, values: Sequence[Value]) -> Value:
        """Texts in a row."""
        found = [item for value in values for item in self.items(value)]
        made = text(found, self.short(("joined", keys(found))))
        return made if made.is_known else replace(made, key=self.short(("text", keys(found))))

    def listed(self, values: Sequence[Value], node: nodes.Node | None = None, raw: int = 0) -> Value:
        """A list of values; of a node, if it makes a new one, else of what the list was made of."""
        if node is not None:
            raw |= self.lists.setdefault(id(node), LISTS << len(self.lists))
        # Like lists are not the same: what is appended to one is not in the other.
        key = self.short(("list", raw & -LISTS, *[value.key for value in values]))
        found = opaque(key, values, bool(values))
        found = replace(found, raw=found.raw | raw)
        return replace(found, shape="list", inner=tuple(values)) if len(values) <= 10 * UNROLLED else found

    def mapped(self, members: Sequence[tuple[Value, Value]]) -> Value:
        """An object."""
        key = self.short(("dict", *[(name.key, value.key) for name, value in members]))
        found = opaque(key, [value for pair in members for value in pair], bool(members))
        if all(isinstance(name.known, str) for name, _ in members):
            # Of two members with one name the last counts.
            return replace(found, shape="dict", inner=tuple({name.known: value for name, value in members}.items()))
        return found


def _prints_text(value: Value) -> bool:
    """Whether a value is a text, or undefined."""
    return is_text(value) or value.known is UNDEFINED or value.shape == "optional"
