"""Calls of functions: their arguments converted as Go does, their errors in Go's words, their results traced."""

from __future__ import annotations

from typing import Any, Final

from templatefix.gotemplate.errors import ExecError
from templatefix.gotemplate.formatting import AddressPrinted
from templatefix.gotemplate.functions import CallError, Function, go_eq
from templatefix.gotemplate.nodes import Node
from templatefix.gotemplate.runtime import At, Context, Expression, State, Unset
from templatefix.gotemplate.values import INVALID, Slice, TracedStr, is_true, origin_of, type_of

# Pairs of types that compare as Python's own.
_PLAIN_PAIRS: Final = frozenset({(TracedStr, str), (str, TracedStr), (str, str), (TracedStr, TracedStr), (int, int)})


def converted(context: Context, evaluate: Expression, param: str, at: At) -> Expression:
    """An argument as its parameter takes it (see `functions.Function`)."""
    if param == "value":
        return evaluate
    if param == "any":

        def as_interface(state: State, dot: Any) -> Any:
            value = evaluate(state, dot)
            return None if value is INVALID else value

        return as_interface

    def as_string(state: State, dot: Any) -> Any:
        value = evaluate(state, dot)
        if isinstance(value, str):
            return value
        if value is INVALID:
            raise context.error(state, at, "invalid value; expected string")
        raise context.error(state, at, f"wrong type for value; expected string; got {type_of(value).name}")

    return as_string


def short_circuit(
    stop_at: bool, operands: list[tuple[Expression, At]], final: Expression | None, node: Node
) -> Expression:
    """`or` (stops at true) and `and` (stops at false); leaves in the state which operand it came to.

    `final` is a piped value, `node` the function's name.
    """
    steps = tuple(operands)

    def run_and_or(state: State, dot: Any) -> Any:
        value: Any = INVALID
        for evaluate, place in steps:
            value = evaluate(state, dot)
            if not isinstance(place, Unset):
                state.at = place
            if is_true(value) is stop_at:
                break
        return value

    if final is None:
        return run_and_or

    def run_piped(state: State, dot: Any) -> Any:
        last = final(state, dot)
        state.at = node
        value = run_and_or(state, dot)
        return value if steps and is_true(value) is stop_at else last

    return run_piped


def piped(invoke: Expression, operands: list[Expression], final: Expression) -> Expression:
    """A call with operands of its own behind a pipe: what is piped was there first.

    `invoke` finds all values, the piped one last, in place of dot.
    """

    def call_piped(state: State, dot: Any) -> Any:
        last = final(state, dot)
        return invoke(state, [*[evaluate(state, dot) for evaluate in operands], last])

    return call_piped


def recalled(place: int) -> Expression:
    """The value at a place of those that `piped` has found."""
    return lambda state, dot: dot[place]


def equals_text(context: Context, left: Expression, text: str, call: Node) -> Expression:
    """`eq x "text"`, by far the most frequent call."""

    def run_equals_text(state: State, dot: Any) -> bool:
        value = left(state, dot)
        if value.__class__ is TracedStr:
            return bool(value == text)
        try:
            return go_eq(value, text)
        except CallError as error:
            raise context.error(state, call, f"error calling eq: {error}") from None

    return run_equals_text


def length_behind(item: Expression, index: Expression, general: Expression) -> Expression:
    """`len (slice x i)`, the usual way to ask how many messages are left; what is not plain is left to `general`."""

    def run_length_behind(state: State, dot: Any) -> Any:
        value, start = item(state, dot), index(state, dot)
        if value.__class__ is Slice and start.__class__ is int and 0 <= start <= value.stop - value.start:
            return value.stop - value.start - start
        return general(state, dot)

    return run_length_behind


def invocation(
    context: Context, name: str, function: Function, call: Node, operands: tuple[Expression, ...]
) -> Expression:
    """The call of a function with operands that are ready to be evaluated."""
    if function.prints:
        return _printing(context, name, function, call, operands)
    invoke = function.call

    def fail(state: State, error: CallError) -> ExecError:
        return context.error(state, call, f"error calling {name}: {error}")

    if len(operands) == 1:
        (only,) = operands

        def call_one(state: State, dot: Any) -> Any:
            try:
                return invoke(only(state, dot))
            except CallError as error:
                raise fail(state, error) from None

        return call_one

    if len(operands) == 2:
        left, right = operands
        is_eq = name == "eq" and context.is_builtin(name)

        def call_two(state: State, dot: Any) -> Any:
            one, two = left(state, dot), right(state, dot)
            if is_eq and (one.__class__, two.__class__) in _PLAIN_PAIRS:
                return one == two
            try:
                return invoke(one, two)
            except CallError as error:
                raise fail(state, error) from None

        return call_two

    def call_any(state: State, dot: Any) -> Any:
        try:
            return invoke(*[evaluate(state, dot) for evaluate in operands])
        except CallError as error:
            raise fail(state, error) from None

    return call_any


def _printing(
    context: Context, name: str, function: Function, call: Node, operands: tuple[Expression, ...]
) -> Expression:
    """The call of a function that makes text: it counts against the limit and keeps the origin of its operands."""
    invoke = function.call

    def call_printing(state: State, dot: Any) -> Any:
        values = [evaluate(state, dot) for evaluate in operands]
        try:
            text = context.account(state, invoke(*values))
        except AddressPrinted:
            message = f"error calling {name}: prints an address, which is another one every time"
            raise context.error(state, call, message) from None
        origin = next((origin for origin in map(origin_of, values) if origin is not None), None)
        return text if origin is None else TracedStr(text, origin)

    return call_printing
