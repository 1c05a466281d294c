"""Run the statements of a Jinja chat template on abstract values: what is printed, and what the variables become."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from jinja2 import nodes

from templatefix.analysis.jinjatree_joins import BROKEN, DONE, NEVER
from templatefix.analysis.jinjatree_loops import Looper
from templatefix.analysis.jinjatree_macros import placed
from templatefix.analysis.jinjatree_state import Raised
from templatefix.analysis.jinjatree_values import (
    Item,
    Value,
    constant,
    holds,
)
from templatefix.analysis.reading import TAIL, Place, SuspectKind, TooComplex
from templatefix.gotemplate.source import Span


class Walker(Looper):
    """One run of a template under assumptions."""

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
    nodes.For: Walker.loop,
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
