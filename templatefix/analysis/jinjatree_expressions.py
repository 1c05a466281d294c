"""Evaluate the expressions of a Jinja chat template on abstract values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from jinja2 import nodes

from templatefix.analysis.jinjatree_calls import Caller
from templatefix.analysis.jinjatree_functions import MAPPING_METHODS, METHODS, is_text, negated, worked
from templatefix.analysis.jinjatree_messages import truth_of
from templatefix.analysis.jinjatree_numbers import is_integer, known_integer, negative, plus
from templatefix.analysis.jinjatree_state import UNROLLED, Raised
from templatefix.analysis.jinjatree_values import (
    NOTHING,
    UNDEFINED,
    UNKNOWN,
    Part,
    Shape,
    Value,
    constant,
    opaque,
    retruthed,
    strings,
    unknown,
)
from templatefix.analysis.reading import TooComplex


class Evaluator(Caller):
    """Expressions, in the state of a run."""

    def evaluate(self, node: nodes.Node) -> Value:
        """The value of an expression. Raises Raised and TooComplex."""
        return self._by(_CASES.get(type(node)), node)

    def _by(self, case: Callable[[Any, Any], Value] | None, node: nodes.Node) -> Value:
        self.spend(1)
        if case is None:
            raise TooComplex
        value = case(self, node)
        if value.raw:
            self.raw[id(node)] = self.raw.get(id(node), 0) | value.raw
        return value

    def condition(self, node: nodes.Node) -> Value:
        """The truth of a condition, known where a branch around has decided it; as a value it may be another."""
        return self._decided(self._by(_TRUTHS.get(type(node)) or _CASES.get(type(node)), node))

    def _decided(self, value: Value) -> Value:
        if value.truth is None and value.key in self.assumed:
            return retruthed(value, self.assumed[value.key])
        return value

    def _const(self, node: nodes.Const) -> Value:
        found = self.constants.get(id(node))
        if found is None:
            span = self.layout.literal(node.lineno) if isinstance(node.value, str) else None
            found = self.constants[id(node)] = constant(node.value, 0, span)
        return found

    def _data(self, node: nodes.TemplateData) -> Value:
        found = self.constants.get(id(node))
        if found is None:
            span = self.layout.span(node.lineno, node.lineno + len(node.data))
            found = self.constants[id(node)] = constant(node.data, 0, span)
        return found

    def _name(self, node: nodes.Name) -> Value:
        return self.lookup(node.name)

    def _getattr(self, node: nodes.Getattr) -> Value:
        value = self.evaluate(node.node)
        if (value.shape in ("dict", "message") and node.attr in MAPPING_METHODS) or (
            isinstance(value.known, str) and node.attr in METHODS
        ):
            return opaque(self.short(("method", value.key, node.attr)), (value,), True)
        return self.attribute(value, node.attr)

    def _getitem(self, node: nodes.Getitem) -> Value:
        value = self.evaluate(node.node)
        if isinstance(node.arg, nodes.Slice):
            return self._sliced(value, node.arg)
        return self.item(value, self.evaluate(node.arg))

    def _sliced(self, value: Value, node: nodes.Slice) -> Value:
        start, stop, step = (
            self.evaluate(one) if one is not None else constant(None) for one in (node.start, node.stop, node.step)
        )
        given = (start.known, stop.known, step.known)
        if value.shape == "messages" and isinstance(value.inner, Part):
            found = self._part(value.inner, start, stop, step)
            if found is not None:
                return self.conversation.part(found, self.frame)
        elif UNKNOWN not in given and (isinstance(value.known, str) or value.shape == "list"):
            whole = value.known if isinstance(value.known, str) else value.inner
            some = worked(whole.__getitem__, slice(*given))
            if isinstance(some, str):
                return constant(some, value.raw, value.span)
            if some is not UNKNOWN:
                return self.listed(some, node, value.raw)
        key = self.short(("slice", value.key, start.key, stop.key, step.key))
        found_value = opaque(key, (value, start, stop, step))
        return replace(found_value, shape="string") if is_text(value) else found_value

    @staticmethod
    def _part(part: Part, start: Value, stop: Value, step: Value) -> Part | None:
        if step.known == -1 and start.known is None and stop.known is None:
            return replace(part, backwards=not part.backwards)
        if step.known not in (None, 1) or part.backwards or part.tests:
            return None
        drop = 0
        if stop.known is not None:
            if known_integer(stop) is None or stop.known >= 0:
                return None
            drop = -stop.known
        if start.known is None:
            return replace(part, drop=part.drop + drop)
        if not is_integer(start) or (start.is_known and start.known < 0):
            return None
        return replace(part, offset=plus(start, part.offset), drop=part.drop + drop)

    def _either_side(self, node: nodes.And | nodes.Or) -> Value:
        """`a and b`, `a or b`: one of the two."""
        decisive = isinstance(node, nodes.Or)
        sides = self._sides(node, decisive, lambda side: self._decided(self.evaluate(side)))
        if isinstance(sides, Value):
            return sides
        left, right = sides
        if left.key == right.key:
            return left
        flags, raw = left.flags | right.flags, left.raw | right.raw
        if decisive and right.known == "" and left.shape in ("text", "optional"):
            return replace(left, shape="text", raw=raw)
        key = self.short(("or" if decisive else "and", left.key, right.key))
        shape: Shape = left.shape if left.shape == right.shape and left.shape in ("string", "row") else "other"
        if decisive and left.shape == "row" and right.shape == "list" and not right.inner:
            shape = "row"
        elif is_text(right) and left.shape == "string":
            shape = "string"
        return unknown(key, flags, decisive if right.truth is decisive else None, raw, shape)

    def _truth_of_either(self, node: nodes.And | nodes.Or) -> Value:
        """`a and b`, `a or b` where nothing but the truth is asked for."""
        decisive = isinstance(node, nodes.Or)
        sides = self._sides(node, decisive, self.condition)
        if isinstance(sides, Value):
            return sides
        left, right = sides
        if left.key == right.key:
            return left
        flags, raw = left.flags | right.flags, left.raw | right.raw
        if right.truth is decisive:
            return constant(decisive, raw)
        if right.truth is not None:
            return unknown(left.key, left.flags, None, raw)
        return unknown(self.short(("or" if decisive else "and", left.key, right.key)), flags, None, raw)

    def _sides(
        self, node: nodes.And | nodes.Or, decisive: bool, evaluate: Callable[[nodes.Node], Value]
    ) -> Value | tuple[Value, Value]:
        """The side that it is, or both where it can be either."""
        left = evaluate(node.left)
        if left.truth is decisive:
            return left
        if left.truth is not None:
            return evaluate(node.right)
        before = self.assumed.get(left.key)
        self.assumed[left.key] = not decisive
        try:
            return left, evaluate(node.right)
        except Raised:
            return retruthed(left, decisive)
        finally:
            self.forget(left.key, before)

    def _not(self, node: nodes.Not) -> Value:
        return negated(self.condition(node.node))

    def _compare(self, node: nodes.Compare) -> Value:
        first = self.evaluate(node.expr)
        results: list[Value] = []
        for operand in node.ops:
            second = self.evaluate(operand.expr)
            results.append(self._compared(operand.op, first, second))
            first = second
        if len(results) == 1 or any(result.truth is False for result in results):
            return next((result for result in results if result.truth is False), results[0])
        if all(result.truth for result in results):
            return results[0]
        return opaque(self.short(("all", *[result.key for result in results])), results)

    def _compared(self, operator: str, first: Value, second: Value) -> Value:
        raw = first.raw | second.raw
        if operator in ("in", "notin"):
            truth = self._within(first, second)
            truth = truth if truth is None or operator == "in" else not truth
        else:
            truth = self._equal(first, second) if operator in ("eq", "ne") else None
            truth = truth if truth is None or operator == "eq" else not truth
            if truth is None:
                truth = truth_of(operator, first, second)
        if truth is not None:
            return constant(truth, raw)
        plain = {"ne": "eq", "notin": "in"}.get(operator, operator)
        pair = (first.key, second.key)
        if plain == "eq" and first.is_known:
            pair = (second.key, first.key)
        found = unknown(self.short((plain, *pair)), first.flags | second.flags, None, raw)
        return negated(found) if plain != operator else found

    @staticmethod
    def _equal(first: Value, second: Value) -> bool | None:
        if first.is_known and second.is_known:
            return bool(first.known == second.known) and (first.known is UNDEFINED) == (second.known is UNDEFINED)
        if first.key == second.key:
            return True
        for one, other in ((first, second), (second, first)):
            if other.is_known:
                few = strings(one)
                if few and other.known not in few:
                    return False
                if one.truth is True and not other.known and not isinstance(other.known, (int, float)):
                    return False
                if other.known is None and (is_text(one) or one.shape in ("messages", "row", "list")):
                    return False
                if one.shape == "message":
                    return False
        return None

    def _within(self, one: Value, many: Value) -> bool | None:
        if many.shape == "list":
            found = [self._equal(one, each) for each in many.inner]
            if any(found):
                return True
            few = strings(one)
            wanted = [each.known for each in many.inner]
            if few and all(word in wanted for word in few):
                return True
            return None if None in found else False
        if isinstance(one.known, str):
            if isinstance(many.known, str):
                return one.known in many.known
            if many.shape == "part":
                return one.known in ("type", "text")
            if many.shape == "message":
                member = self.attribute(many, one.known)
                return False if member.known is UNDEFINED else True if member.truth or one.known == "content" else None
        return False if many.truth is False and many.is_known else None

    def _cond(self, node: nodes.CondExpr) -> Value:
        cond = self.condition(node.test)
        if cond.truth is not None:
            chosen = node.expr1 if cond.truth else node.expr2
            return self.evaluate(chosen) if chosen is not None else NOTHING
        found: list[Value] = []
        for truth, arm in ((True, node.expr1), (False, node.expr2)):
            before = self.assumed.get(cond.key)
            self.assumed[cond.key] = truth
            try:
                found.append(self.evaluate(arm) if arm is not None else NOTHING)
            except Raised:
                pass
            finally:
                self.forget(cond.key, before)
        if not found:
            raise Raised
        if len(found) == 1:
            return found[0]
        return self.either(cond, found[0], found[1])

    def _add(self, node: nodes.Add) -> Value:
        first, second = self.evaluate(node.left), self.evaluate(node.right)
        if is_text(first) or is_text(second):
            return self.joined((first, second))
        if is_integer(first) and is_integer(second):
            return self.sealed(plus(first, second))
        if first.shape == "list" and second.shape == "list" and len(first.inner) + len(second.inner) <= UNROLLED:
            return self.listed((*first.inner, *second.inner), node)
        truth = True if (first.truth or second.truth) and not first.is_known else None
        return opaque(self.short(("add", first.key, second.key)), (first, second), truth)

    def _sub(self, node: nodes.Sub) -> Value:
        first, second = self.evaluate(node.left), self.evaluate(node.right)
        if is_integer(first) and is_integer(second):
            return self.sealed(plus(first, second, -1))
        return opaque(self.short(("sub", first.key, second.key)), (first, second))

    def _reckoned(self, node: nodes.BinExpr) -> Value:
        first, second = self.evaluate(node.left), self.evaluate(node.right)
        if first.is_known and second.is_known and isinstance(node, (nodes.Mod, nodes.Mul)):
            one, other = known_integer(first), known_integer(second)
            if one is not None and other is not None and abs(one) < 1 << 31 and 0 < other < 1 << 31:
                return constant(one % other if isinstance(node, nodes.Mod) else one * other, first.raw | second.raw)
        return opaque(self.short((type(node).__name__, first.key, second.key)), (first, second))

    def _neg(self, node: nodes.Neg) -> Value:
        value = self.evaluate(node.node)
        return self.sealed(negative(value)) if is_integer(value) else opaque(self.short(("neg", value.key)), (value,))

    def _pos(self, node: nodes.Pos) -> Value:
        return self.evaluate(node.node)

    def _concat(self, node: nodes.Concat) -> Value:
        return self.joined([self.evaluate(each) for each in node.nodes])

    def _list(self, node: nodes.List | nodes.Tuple) -> Value:
        return self.listed([self.evaluate(each) for each in node.items], node)

    def _dict(self, node: nodes.Dict) -> Value:
        return self.mapped([(self.evaluate(pair.key), self.evaluate(pair.value)) for pair in node.items])


_CASES: Final[Mapping[type[nodes.Node], Callable[[Any, Any], Value]]] = {
    nodes.Const: Evaluator._const,
    nodes.TemplateData: Evaluator._data,
    nodes.Name: Evaluator._name,
    nodes.Getattr: Evaluator._getattr,
    nodes.Getitem: Evaluator._getitem,
    nodes.And: Evaluator._either_side,
    nodes.Or: Evaluator._either_side,
    nodes.Not: Evaluator._not,
    nodes.Compare: Evaluator._compare,
    nodes.CondExpr: Evaluator._cond,
    nodes.Add: Evaluator._add,
    nodes.Sub: Evaluator._sub,
    **dict.fromkeys((nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Mod, nodes.Pow), Evaluator._reckoned),
    nodes.Neg: Evaluator._neg,
    nodes.Pos: Evaluator._pos,
    nodes.Concat: Evaluator._concat,
    nodes.List: Evaluator._list,
    nodes.Tuple: Evaluator._list,
    nodes.Dict: Evaluator._dict,
    nodes.Filter: Evaluator._filter,
    nodes.Test: Evaluator._test,
    nodes.Call: Evaluator._call,
}
_TRUTHS: Final[Mapping[type[nodes.Node], Callable[[Any, Any], Value]]] = {
    nodes.And: Evaluator._truth_of_either,
    nodes.Or: Evaluator._truth_of_either,
}
