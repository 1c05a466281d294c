"""Filters, tests and calls in a Jinja chat template, on abstract values."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Final

from jinja2 import nodes

from templatefix.analysis.jinjatree_functions import METHODS, applied, is_text, kept_truth, tested
from templatefix.analysis.jinjatree_numbers import is_integer, known_integer, plus
from templatefix.analysis.jinjatree_state import UNROLLED, Holder, Raised
from templatefix.analysis.jinjatree_values import (
    LISTS,
    SPACES,
    UNKNOWN,
    Part,
    Value,
    View,
    constant,
    integer,
    opaque,
    unknown,
)
from templatefix.analysis.reading import DATE, TooComplex

_DEFAULTS: Final = (("default_value", constant("")), ("boolean", constant(False)))  # what `default` takes


class Caller(Holder):
    """What a run does beside operators."""

    def _filter(self, node: nodes.Filter) -> Value:
        value = self.evaluate(node.node) if node.node is not None else self.block
        arguments = self._arguments(node)
        if value.shape == "messages":
            return self._of_messages(node.name, value, arguments)
        return self.sealed(applied(node.name, value, arguments))

    def _arguments(self, node: nodes.Filter | nodes.Test | nodes.Call) -> list[Value]:
        """What is given; of what is given by name, or all at once, only what it hangs on is told."""
        found = [self.evaluate(each) for each in node.args]
        named = {str(each.key): self.evaluate(each.value) for each in node.kwargs}
        if isinstance(node, nodes.Filter) and node.name in ("default", "d"):
            found += [named.pop(name, value) for name, value in _DEFAULTS[len(found) :]] if named else []
        found += [self._given(name, value) for name, value in named.items()]
        if node.dyn_args is not None:
            found.append(self._given("*", self.evaluate(node.dyn_args)))
        if node.dyn_kwargs is not None:
            found.append(self._given("**", self.evaluate(node.dyn_kwargs)))
        return found

    def _given(self, name: str, value: Value) -> Value:
        return opaque(self.short(("given", name, value.key)), (value,))

    def _of_messages(self, name: str, value: Value, arguments: Sequence[Value]) -> Value:
        part: Part = value.inner
        if name in ("length", "count"):
            return self.conversation.length(part, self.frame)
        if name in ("first", "last"):
            return self.conversation.member(part, constant(0 if name == "first" else -1), self.frame)
        if name == "list":
            return value
        if name == "reverse":
            return self.conversation.part(replace(part, backwards=not part.backwards), self.frame)
        if name in ("selectattr", "rejectattr") and arguments and isinstance(arguments[0].known, str):
            test = arguments[1].known if len(arguments) > 1 else ""
            if isinstance(test, str):
                tests = (*part.tests, (arguments[0].known, test, tuple(arguments[2:]), name == "selectattr"))
                return self.conversation.part(replace(part, tests=tests), self.frame)
        if name in ("default", "d", "string", "safe"):
            return value
        key = self.short(("of", name, value.key, *[argument.key for argument in arguments]))
        found = opaque(key, (value, *arguments), kept_truth(name, value, arguments))
        if self.frame is not None and self.frame.low == self.frame.high and not self.frame.nested:
            # What it is made of is all there.
            return replace(found, key=self.short((key, self.frame.message.key)), flags=0)
        return found

    def _test(self, node: nodes.Test) -> Value:
        value = self.evaluate(node.node)
        return self.sealed(tested(node.name, value, self._arguments(node)))

    def _call(self, node: nodes.Call) -> Value:
        if isinstance(node.node, nodes.Getattr):
            holder = self.evaluate(node.node.node)
            if holder.shape not in ("namespace", "dict") or node.node.attr in METHODS:
                return self._method(holder, node.node.attr, node)
        called = self.evaluate(node.node)
        if called.shape in ("loop", "other"):
            raise TooComplex  # the body of the loop once more, or one of several macros
        if called.shape == "macro":
            return self.macro(called, node)
        if called.shape == "function":
            return self._function(called.inner, node)
        if called.raw >= LISTS:
            raise TooComplex  # it may be the `append` of a list
        return opaque(self.short(("call", called.key, id(node))), (called, *self._arguments(node)))

    def _method(self, holder: Value, name: str, node: nodes.Call) -> Value:
        arguments = self._arguments(node)
        if holder.shape == "loop":
            view: View = holder.inner
            key = self.short(("of loop", name, view.key, view.position.key, *[each.key for each in arguments]))
            return opaque(key, (replace(view.position, flags=view.position.flags | view.flags), *arguments))
        if name == "append":
            self._append(holder, arguments, _is_path(node.node))
            return constant(None)
        if name == "get" and arguments and isinstance(arguments[0].known, str) and holder.shape in ("message", "dict"):
            member = self.attribute(holder, arguments[0].known)
            return self.sealed(applied("default", member, arguments[1:] or [constant(None)]))
        if name == "get":
            return opaque(self.short(("get", holder.key, *[a.key for a in arguments])), (holder, *arguments))
        return self.sealed(applied(name, holder, arguments))

    def _append(self, holder: Value, arguments: Sequence[Value], kept: bool) -> None:
        # A list is changed wherever it is kept. Lists with one key can be two that the same place has made.
        if holder.is_known:
            return
        if holder.raw < LISTS or holder.raw & SPACES or holder.shape == "row":
            raise TooComplex  # it may be a list of the server's, or one that nobody has by name
        places = sum(self._counted(value, holder) for value in self.state.values())
        grown: Value | None = None
        if kept and places == 1 and holder.shape == "list" and len(holder.inner) < UNROLLED and len(arguments) == 1:
            grown = self.listed((*holder.inner, arguments[0]), None, holder.raw)
        self.grow(holder, arguments, grown)

    def _counted(self, value: Value, holder: Value) -> int:
        """How often a value holds a list like the one that grows."""
        self.spend(1)
        if value.key == holder.key:
            return 1
        if value.raw < LISTS or value.shape not in ("list", "dict"):
            return 0
        return sum(self._counted(each, holder) for each in _members(value))

    def grow(self, holder: Value, arguments: Sequence[Value], grown: Value | None = None) -> None:
        """Something is appended to a list, wherever it may be kept; `grown` if it is known what the list becomes."""
        self.appends += 1
        for slot, value in list(self.state.items()):
            if value.raw >= LISTS:
                self.state[slot] = self._grown(value, holder, arguments, grown)

    def _grown(self, value: Value, holder: Value, arguments: Sequence[Value], grown: Value | None) -> Value:
        self.spend(1)
        if value.raw < LISTS or value.is_known or is_text(value):
            return value
        if value.key == holder.key and grown is not None:
            return grown
        sure = holder.shape == "list" and value.shape == "list" and value.key != holder.key
        if value.shape == "dict" or sure:
            inner = [self._grown(each, holder, arguments, grown) for each in _members(value)]
            if all(one is other for one, other in zip(inner, _members(value), strict=True)):
                return value
            if value.shape == "list":
                return self.listed(inner, None, value.raw)
            return self.mapped([(constant(name), one) for (name, _), one in zip(value.inner, inner, strict=True)])
        if not value.raw & holder.raw & -LISTS:
            return value
        key = self.short(("append", value.key, holder.key, *[argument.key for argument in arguments]))
        return opaque(key, (value, holder, *arguments), value.truth or None)

    def _function(self, name: str, node: nodes.Call) -> Value:
        if name == "raise_exception":
            raise Raised
        if name == "namespace":
            return self._namespace(node)
        arguments = self._arguments(node)
        if name == "range" and 0 < len(arguments) < 4:
            return self._range(node, arguments)
        key = self.short((name, *[argument.key for argument in arguments]))
        found = opaque(key, arguments, True)
        if name == "strftime_now":
            return unknown(key, found.flags, True, found.raw | DATE, "string")
        return found

    def _namespace(self, node: nodes.Call) -> Value:
        place = ("namespace", id(node), self.scope)
        members: dict[str, Value] = {}
        for each in (*node.args, node.dyn_args):
            if each is not None:
                members |= self._members(each)
        members |= {each.key: self.evaluate(each.value) for each in node.kwargs}
        members |= self._members(node.dyn_kwargs) if node.dyn_kwargs is not None else {}
        if place in self.spaces and any(
            _may_be(value, place) for (space, _), value in self.state.items() if space != place
        ):
            raise TooComplex  # the one that was made here before is kept beside it
        self.spaces[place] = None
        for slot in [slot for slot in self.state if slot[0] == place]:
            del self.state[slot]
        self.state.update({(place, name): value for name, value in members.items()})
        return Value(self.short(place), "namespace", truth=True, raw=SPACES, inner=place)

    def _members(self, node: nodes.Node) -> dict[str, Value]:
        value = self.evaluate(node)
        if value.shape != "dict":
            raise TooComplex
        return dict(value.inner)

    def _range(self, node: nodes.Call, arguments: Sequence[Value]) -> Value:
        start, stop = (constant(0), arguments[0]) if len(arguments) == 1 else (arguments[0], arguments[1])
        step = arguments[2] if len(arguments) > 2 else constant(1)
        known = [known_integer(value) for value in (start, stop, step)]
        if None not in known and step.known != 0:
            numbers = range(start.known, stop.known, step.known)
            if not numbers[UNROLLED:]:  # whose length may be more than Python counts
                return self.listed([constant(number, start.raw | stop.raw) for number in numbers], node)
        if step.known == 1 and isinstance(stop.inner, Part) and is_integer(start) and not stop.inner.tests:
            part: Part = stop.inner
            rest = replace(part, offset=plus(start, part.offset))
            found = self.conversation.part(rest, self.frame)
            return replace(found, key=self.short(("numbers", found.key)), shape="numbers", inner=(rest, part.offset))
        key = self.short(("range", start.key, stop.key, step.key))
        found = opaque(key, (start, stop, step))
        ints = is_integer(start) and is_integer(stop)
        each = integer(("each", key), None, None, found.flags, found.raw)
        if ints and isinstance(step.known, int) and step.known > 0:
            high = None if stop.high is None else stop.high - 1
            each = integer(("each", key), start.low, high, found.flags, found.raw)
        elif ints and isinstance(step.known, int):
            above = (None, start.above[1])
            base = start.base
            low = None if stop.low is None else stop.low + 1
            each = Value(("each", key), "scalar", UNKNOWN, None, found.flags, found.raw, low, start.high, base, above)
        return replace(found, shape="range", inner=each)

    @abstractmethod
    def macro(self, called: Value, node: nodes.Call) -> Value:
        """What a macro prints, as a text."""


def _may_be(value: Value, place: Hashable) -> bool:
    """Whether a value may be, or hold, the namespace of a place."""
    return bool(value.raw & SPACES) and not is_text(value) and (value.shape != "namespace" or value.inner == place)


def _is_path(node: nodes.Node) -> bool:
    """Whether a method is one of a variable, or of a member of one, and not of something made on the spot."""
    each = node
    while isinstance(each, (nodes.Getattr, nodes.Getitem)):
        each = each.node
    return isinstance(each, nodes.Name)


def _members(value: Value) -> Sequence[Value]:
    return value.inner if value.shape == "list" else [member for _, member in value.inner]
