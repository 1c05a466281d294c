"""Macros of a Jinja chat template, and other things that are printed into a text."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from jinja2 import nodes

from templatefix.analysis.jinjatree_blocks import Blocks
from templatefix.analysis.jinjatree_joins import BROKEN, DONE, NEVER, Joiner
from templatefix.analysis.jinjatree_values import (
    NOTHING,
    SPACES,
    UNPLACED,
    Item,
    Value,
    constant,
    keys,
    merge,
    opaque,
    text,
)
from templatefix.analysis.reading import TAIL, TooComplex
from templatefix.gotemplate.source import Span

_CALLS: Final = 40  # macros within macros


def placed(items: Sequence[Item], tag: Span) -> list[Item]:
    """Things that are printed by a tag now."""
    found: list[Item] = []
    for item in items:
        if item.span is UNPLACED:
            parts = tuple([tuple(placed(part, tag)) for part in item.parts])
            item = replace(item, span=tag, parts=parts)
        found.append(item)
    return found


class Printer(Joiner):
    """A run that prints into texts."""

    blocks: Blocks
    calls: tuple[int, ...]

    @abstractmethod
    def body(self, statements: Sequence[nodes.Node]) -> list[Item]:
        """Run statements: what they print."""

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
        for slot in [(each, name) for each in self.spaces]:  # it may be any
            before = self.state.get(slot, NOTHING)
            key = self.short(("some", space.key, value.key, before.key))
            self.state[slot] = merge(before, value, key, space.flags & TAIL)

    def printed(self, items: Sequence[Item]) -> Value:
        """Things that were printed as a text."""
        key = self.short(("text", keys(items)))
        found = text(items, key)
        return found if found.is_known else replace(found, key=key)

    def _enclosed(self, node: nodes.Node, statements: Sequence[nodes.Node]) -> Value:
        """What a block prints; the variables that are set in it are its own."""
        outer = self.scope
        own = ("block", id(node), len(outer))
        self.clear(own)
        self.scope = (*outer, own)
        try:
            value = self.printed(self.body(statements))
        finally:
            self.scope = outer
            self.clear(own)
        if self.state[DONE].truth is not False:
            raise TooComplex  # what a `continue` leaves is neither printed nor set
        return value

    def _assign_block(self, node: nodes.AssignBlock) -> None:
        value = self._enclosed(node, node.body)
        self.at(node)
        self.assign(node.target, self._through(node.filter, value) if node.filter is not None else value)

    def _filter_block(self, node: nodes.FilterBlock) -> list[Item]:
        value = self._enclosed(node, node.body)
        self.at(node)
        return placed(self.items(self._through(node.filter, value)), self.tag)

    def _through(self, node: nodes.Filter, value: Value) -> Value:
        """What a block printed, through the filters of its tag."""
        outer, self.block = self.block, value
        try:
            return self.evaluate(node)
        finally:
            self.block = outer

    def _macro(self, node: nodes.Macro) -> None:
        found = Value(("macro", id(node), self.scope), "macro", truth=True, inner=(node, self.scope))
        self.state[self.scope[-1], node.name] = found

    def macro(self, called: Value, node: nodes.Call) -> Value:
        """What a macro prints, as a text."""
        given = [self.evaluate(each) for each in node.args]
        named = {each.key: self.evaluate(each.value) for each in node.kwargs}
        unseen = [self.evaluate(each) for each in (node.dyn_args, node.dyn_kwargs) if each is not None]
        if unseen:
            return self._unread(called, [*given, *named.values(), *unseen])
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
        self.clear(own)
        self.scope = (*scope, own)
        first = len(macro.args) - len(macro.defaults)
        done, broken = self.state[DONE], self.state[BROKEN]
        self.state[DONE] = self.state[BROKEN] = NEVER
        try:
            passed = {**dict(zip([argument.name for argument in macro.args], given, strict=False)), **named}
            for argument in macro.args:
                self.state[own, argument.name] = passed.get(argument.name, NOTHING)
            for index, argument in enumerate(macro.args[first:]):
                if argument.name not in passed:
                    self.state[own, argument.name] = self.evaluate(macro.defaults[index])
            self._beyond(own, macro, given, named, caller)
            return self.printed(self.body(macro.body))
        finally:
            self.clear(own)
            self.scope, self.calls, self.tag = outer, calls, tag
            self.state[DONE], self.state[BROKEN] = done, broken

    def _beyond(
        self,
        own: Hashable,
        macro: nodes.Macro | nodes.CallBlock,
        given: Sequence[Value],
        named: Mapping[str, Value],
        caller: Value | None,
    ) -> None:
        """What a macro is given beside its parameters."""
        names = [argument.name for argument in macro.args]
        others = {name: value for name, value in named.items() if name not in names}
        if caller is not None:
            others["caller"] = caller
        beyond = {"varargs": self.listed(given[len(names) :])}
        if "caller" in self.blocks.uses(macro)[0]:
            beyond["caller"] = others.pop("caller", NOTHING)
        beyond["kwargs"] = self.mapped([(constant(name), value) for name, value in others.items()])
        for name, value in beyond.items():
            if name not in names:
                self.state[own, name] = value

    def _unread(self, called: Value, given: Sequence[Value]) -> Value:
        """A macro within itself: whatever it reads may be in its text, and whatever it sets may be anything."""
        macro, _ = called.inner
        read = [*given]
        names, targets = self.blocks.uses(macro)
        passed_on = self.blocks.passed_on(macro)
        for name in names:
            value = self.lookup(name)
            if value.shape not in ("namespace", "other") or not value.raw & SPACES:
                read.append(value)
                continue
            read.append(value if name in passed_on else replace(value, raw=value.raw & ~SPACES))
            spaces = (value.inner,) if value.shape == "namespace" else self.spaces
            read += [member for (space, _), member in self.state.items() if space in spaces]
        key = self.short(("recursive", id(macro), *[value.key for value in read]))
        found = opaque(key, read)
        if self.blocks.appends(macro):
            self.grow(found, (found,))
        for space, name in targets:
            self._member(self.lookup(space), name, replace(found, key=self.short((key, name))))
        # Whatever tag of it prints it.
        span = self.blocks.span(macro)
        item = Item("print", span, self.via, ("print", key), "", found.flags, found.raw, found.moves)
        return text((item,), key)

    def _call_block(self, node: nodes.CallBlock) -> list[Item]:
        self.at(node)
        caller = Value(("macro", id(node), self.scope), "macro", truth=True, inner=(node, self.scope))
        called = self.evaluate(node.call.node)
        given = [self.evaluate(each) for each in node.call.args]
        named = {each.key: self.evaluate(each.value) for each in node.call.kwargs}
        if called.shape != "macro" or node.call.dyn_args is not None or node.call.dyn_kwargs is not None:
            raise TooComplex
        return placed(self.items(self.call_macro(called, given, named, caller)), self.blocks.tag(node.lineno))

    def at(self, node: nodes.Node) -> None:
        """Come to a statement."""
        self.tag = self.blocks.tag(node.lineno)
