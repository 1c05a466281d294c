"""Evaluate the expressions of a Jinja chat template on abstract values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

from jinja2 import nodes

from templatefix.analysis.jinjatree_functions import METHODS, applied, is_text, negated, tested
from templatefix.analysis.jinjatree_messages import Conversation, truth_of
from templatefix.analysis.jinjatree_numbers import is_integer, known_integer, negative, plus
from templatefix.analysis.jinjatree_values import (
    EMPTY,
    NOTHING,
    UNDEFINED,
    UNKNOWN,
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
    strings,
    text,
    unknown,
)
from templatefix.analysis.reading import DATA, DATE, TAIL, TOOLS, TooComplex
from templatefix.chat.jinja_layout import Layout
from templatefix.gotemplate.source import Span

State: TypeAlias = "dict[tuple[Hashable, str], Value]"  # of variables, by where they are kept

_BUDGET: Final = 150_000  # nodes evaluated
_UNROLLED: Final = 24  # items of a list that are looked at one by one


class Raised(Exception):
    """The template ends itself here, so nothing is printed."""


class Evaluator(ABC):
    """Expressions, in the state of a run."""

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
        self.raw: dict[int, int] = {}  # of a node: what it was ever made of
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

    def short(self, key: Hashable) -> Hashable:
        """A short name for a key that holds other keys: the same for equal keys."""
        return ("#", self.ids.setdefault(key, len(self.ids)))

    def sealed(self, value: Value) -> Value:
        """The value with a short key."""
        key = value.key
        if isinstance(key, tuple) and key[0] in ("apply", "default", "is", "defined", "plus", "minus", "neg", "at"):
            return replace(value, key=self.short(key))
        return value

    # -- dispatch -----------------------------------------------------------------------------------------------------

    def evaluate(self, node: nodes.Node) -> Value:
        """The value of an expression. Raises Raised and TooComplex."""
        self.budget -= 1
        if self.budget < 0:
            raise TooComplex
        found = _CASES.get(type(node))
        if found is None:
            raise TooComplex
        value = found(self, node)
        if value.raw:
            self.raw[id(node)] = self.raw.get(id(node), 0) | value.raw
        return value

    def condition(self, node: nodes.Node) -> Value:
        """The value of a condition, known where a branch around has decided it."""
        value = self.evaluate(node)
        if value.truth is None and value.key in self.assumed:
            return retruthed(value, self.assumed[value.key])
        return value

    def _const(self, node: nodes.Const) -> Value:
        if isinstance(node.value, str):
            return constant(node.value, 0, self.layout.literal(node.lineno))
        return constant(node.value)

    def _data(self, node: nodes.TemplateData) -> Value:
        return constant(node.data, 0, self.layout.span(node.lineno, node.lineno + len(node.data)))

    def _name(self, node: nodes.Name) -> Value:
        return self.lookup(node.name)

    def lookup(self, name: str) -> Value:
        """A variable."""
        for place in reversed(self.scope):
            value = self.state.get((place, name))
            if value is not None:
                return self._seen(value)
        return self.globals.get(name, NOTHING)

    # -- members ------------------------------------------------------------------------------------------------------

    def _getattr(self, node: nodes.Getattr) -> Value:
        return self.attribute(self.evaluate(node.node), node.attr)

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
        if value.shape == "list":
            return NOTHING
        if value.shape == "dict":
            return next((member for key, member in value.inner if key == name), NOTHING)
        return opaque(self.short(("member", value.key, name)), (value,))

    @staticmethod
    def _text_of_part(key: Hashable, value: Value) -> Value:
        return unknown(key, value.flags, None, value.raw, "string")

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

    def _getitem(self, node: nodes.Getitem) -> Value:
        value = self.evaluate(node.node)
        if isinstance(node.arg, nodes.Slice):
            return self._sliced(value, node.arg)
        return self.item(value, self.evaluate(node.arg))

    def item(self, value: Value, index: Value) -> Value:
        """A member by its number or name."""
        if isinstance(index.known, str):
            return self.attribute(value, index.known)
        if value.shape == "messages":
            if not is_integer(index):
                index = unknown(index.key, index.flags, None, index.raw)
            return self.conversation.member(value.inner, index, self.frame)
        if value.shape == "list" and known_integer(index) is not None:
            return value.inner[index.known] if -len(value.inner) <= index.known < len(value.inner) else NOTHING
        if value.is_known and not isinstance(value.known, str):
            return NOTHING
        found = opaque(self.short(("item", value.key, index.key)), (value, index))
        if is_text(value) or (isinstance(index.known, int) and value.truth is True and value.shape == "other"):
            return replace(found, shape="string" if is_text(value) else "other")
        return found

    def _sliced(self, value: Value, node: nodes.Slice) -> Value:
        start, stop, step = (
            self.evaluate(one) if one is not None else constant(None) for one in (node.start, node.stop, node.step)
        )
        given = (start.known, stop.known, step.known)
        if value.shape == "messages" and isinstance(value.inner, Part):
            found = self._part(value.inner, start, stop, step)
            if found is not None:
                return self.conversation.part(found, self.frame)
        elif isinstance(value.known, str) and UNKNOWN not in given and 0 not in given[2:]:
            return constant(value.known[slice(*given)], value.raw, value.span)
        elif value.shape == "list" and UNKNOWN not in given and 0 not in given[2:]:
            return self._listed(value.inner[slice(*given)])
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

    # -- operators ----------------------------------------------------------------------------------------------------

    def _and(self, node: nodes.And) -> Value:
        return self._both(node, False)

    def _or(self, node: nodes.Or) -> Value:
        return self._both(node, True)

    def _both(self, node: nodes.And | nodes.Or, decisive: bool) -> Value:
        left = self.condition(node.left)
        if left.truth is decisive:
            return left
        if left.truth is not None:
            return self.condition(node.right)
        before = self.assumed.get(left.key)
        self.assumed[left.key] = not decisive
        try:
            right = self.condition(node.right)
        except Raised:
            return retruthed(left, decisive)
        finally:
            if before is None:
                del self.assumed[left.key]
        key = self.short(("or" if decisive else "and", left.key, right.key))
        if left.key == right.key:
            return left
        if right.truth is decisive:
            return replace(constant(decisive, left.raw | right.raw), flags=0)
        if decisive and right.truth is False and (left.shape in ("row", "string") or is_text(left)):
            # `x or ''`, `x or []`: what is there if it is there
            return replace(left, raw=left.raw | right.raw)
        if not decisive and right.truth is True:
            return unknown(left.key, left.flags, None, left.raw | right.raw)
        flags, raw = left.flags | right.flags, left.raw | right.raw
        shape = left.shape if left.shape == right.shape and left.shape in ("string", "row") else "other"
        return unknown(key, flags, None, raw, shape)

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
                if before is None:
                    del self.assumed[cond.key]
        if not found:
            raise Raised
        if len(found) == 1:
            return found[0]
        return self.either(cond, found[0], found[1])

    def either(self, cond: Value, first: Value, second: Value) -> Value:
        """One of two values, as a condition decides; of texts the parts stay known."""
        if first.key == second.key:
            return first
        if all(is_text(value) or value.known is UNDEFINED for value in (first, second)) and (
            is_text(first) or is_text(second)
        ):
            parts = (tuple(self.items(first)), tuple(self.items(second)))
            names = (keys(parts[0]), keys(parts[1]))
            key = self.short(("if", cond.key, names))
            flags, raw = first.flags | second.flags, first.raw | second.raw
            size = 1 + sum(item.size for part in parts for item in part)
            flags, raw = flags | cond.flags, raw | cond.raw
            item = Item("if", UNPLACED, self.via, key, "", flags, raw, cond.moves, parts, cond.key, size, self.tag)
            return retruthed(text((item,), key), first.truth if first.truth == second.truth else None)
        return merge(first, second, self.short(("either", cond.key, first.key, second.key)), cond.flags & TAIL)

    def _add(self, node: nodes.Add) -> Value:
        first, second = self.evaluate(node.left), self.evaluate(node.right)
        if is_text(first) or is_text(second):
            return self._joined((first, second))
        if is_integer(first) and is_integer(second):
            return self.sealed(plus(first, second))
        if first.shape == "list" and second.shape == "list" and len(first.inner) + len(second.inner) <= _UNROLLED:
            return self._listed((*first.inner, *second.inner))
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
        return self._joined([self.evaluate(each) for each in node.nodes])

    def _joined(self, values: Sequence[Value]) -> Value:
        found = [item for value in values for item in self.items(value)]
        made = text(found, self.short(("joined", keys(found))))
        return made if made.is_known else replace(made, key=self.short(("text", keys(found))))

    def _list(self, node: nodes.List | nodes.Tuple) -> Value:
        return self._listed([self.evaluate(each) for each in node.items])

    def _listed(self, values: Sequence[Value]) -> Value:
        found = opaque(self.short(("list", *[value.key for value in values])), values, bool(values))
        return replace(found, shape="list", inner=tuple(values)) if len(values) <= 10 * _UNROLLED else found

    def _dict(self, node: nodes.Dict) -> Value:
        members = [(self.evaluate(pair.key), self.evaluate(pair.value)) for pair in node.items]
        key = self.short(("dict", *[(name.key, value.key) for name, value in members]))
        found = opaque(key, [value for pair in members for value in pair], bool(members))
        if all(isinstance(name.known, str) for name, _ in members):
            return replace(found, shape="dict", inner=tuple((name.known, value) for name, value in members))
        return found

    # -- what is printed ----------------------------------------------------------------------------------------------

    def items(self, value: Value) -> tuple[Item, ...]:
        """What a value prints."""
        if value.shape == "text":
            return value.inner or ()
        if value.is_known:
            if value.known is None or value.known is UNDEFINED or value.known == "":
                return ()
            words = str(value.known)
            kind = "print" if value.raw else "text"
            return (Item(kind, value.span or UNPLACED, self.via, ("text", words), words, 0, value.raw),)  # type: ignore[arg-type]
        if value.shape in ("namespace", "macro", "function", "dict", "loop"):
            return ()
        key = ("print", value.key)
        return (Item("print", UNPLACED, self.via, key, "", value.flags, value.raw, value.moves),)

    # -- filters, tests, calls ----------------------------------------------------------------------------------------

    def _filter(self, node: nodes.Filter) -> Value:
        value = self.evaluate(node.node) if node.node is not None else EMPTY
        return self.filtered(node, value)

    def filtered(self, node: nodes.Filter, value: Value) -> Value:
        """A filter on a value."""
        arguments = self._arguments(node)
        if value.shape == "messages":
            return self._of_messages(node.name, value, arguments)
        return self.sealed(applied(node.name, value, arguments))

    def _arguments(self, node: nodes.Filter | nodes.Test | nodes.Call) -> list[Value]:
        found = [self.evaluate(each) for each in node.args]
        found += [self.evaluate(each.value) for each in node.kwargs]
        return found + [self.evaluate(each) for each in (node.dyn_args, node.dyn_kwargs) if each is not None]

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
            wanted = name == "selectattr"
            tests = (*part.tests, (arguments[0].known, str(test), tuple(arguments[2:]), wanted))
            return self.conversation.part(replace(part, tests=tests), self.frame)
        if name in ("default", "d", "string", "safe"):
            return value
        key = self.short(("of", name, value.key, *[argument.key for argument in arguments]))
        found = opaque(key, (value, *arguments), value.truth)
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
        if called.shape == "macro":
            return self.macro(called, node)
        if called.shape == "function":
            return self._function(called.inner, node)
        return opaque(self.short(("call", called.key, id(node))), (called, *self._arguments(node)))

    def _method(self, holder: Value, name: str, node: nodes.Call) -> Value:
        arguments = self._arguments(node)
        if holder.shape == "loop":
            return opaque(self.short(("cycle", holder.inner.position.key)), (holder.inner.position, *arguments))
        if name == "append":
            return self._append(holder, arguments)
        if name == "get" and arguments and isinstance(arguments[0].known, str) and holder.shape in ("message", "dict"):
            member = self.attribute(holder, arguments[0].known)
            return self.sealed(applied("default", member, arguments[1:] or [constant(None)]))
        if name == "get":
            return opaque(self.short(("get", holder.key, *[a.key for a in arguments])), (holder, *arguments))
        return self.sealed(applied(name, holder, arguments))

    def _append(self, holder: Value, arguments: Sequence[Value]) -> Value:
        # The list is changed wherever it is kept.
        grown = opaque(self.short(("append", holder.key, *[a.key for a in arguments])), (holder, *arguments), True)
        if holder.shape == "list" and len(holder.inner) < _UNROLLED and len(arguments) == 1:
            grown = self._listed((*holder.inner, arguments[0]))
        for slot, value in list(self.state.items()):
            if value.key == holder.key:
                self.state[slot] = grown
        return constant(None)

    def _function(self, name: str, node: nodes.Call) -> Value:
        if name == "raise_exception":
            raise Raised
        if name == "namespace":
            return self._namespace(node)
        arguments = self._arguments(node)
        if name == "range":
            return self._range(arguments)
        key = self.short((name, *[argument.key for argument in arguments]))
        found = opaque(key, arguments, True)
        if name == "strftime_now":
            return unknown(key, found.flags, True, found.raw | DATE, "string")
        return found

    def _namespace(self, node: nodes.Call) -> Value:
        place = ("namespace", id(node), self.scope)
        members = {each.key: self.evaluate(each.value) for each in node.kwargs}
        for slot in [slot for slot in self.state if slot[0] == place]:
            del self.state[slot]
        self.state.update({(place, name): value for name, value in members.items()})
        return Value(self.short(place), "namespace", truth=True, inner=place)

    def _range(self, arguments: Sequence[Value]) -> Value:
        start, stop = (constant(0), arguments[0]) if len(arguments) == 1 else (arguments[0], arguments[1])
        step = arguments[2] if len(arguments) > 2 else constant(1)
        known = [known_integer(value) for value in (start, stop, step)]
        if None not in known and step.known != 0:
            numbers = range(start.known, stop.known, step.known)
            if len(numbers) <= _UNROLLED:
                return self._listed([constant(number, start.raw | stop.raw) for number in numbers])
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


_CASES: Final[Mapping[type[nodes.Node], Callable[[Any, Any], Value]]] = {
    nodes.Const: Evaluator._const,
    nodes.TemplateData: Evaluator._data,
    nodes.Name: Evaluator._name,
    nodes.Getattr: Evaluator._getattr,
    nodes.Getitem: Evaluator._getitem,
    nodes.And: Evaluator._and,
    nodes.Or: Evaluator._or,
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
