"""Fields of values: `.A.B`, fast where they are there and with Go's errors where they are not."""

from __future__ import annotations

from typing import Any

from templatefix.gotemplate.runtime import At, Context, Expression, State
from templatefix.gotemplate.values import INVALID, Map, Nil, Struct, holds_any, type_of, zero_value


def dot_itself(state: State, dot: Any) -> Any:
    """The expression `.`"""
    return dot


def field_reader(
    context: Context, receiver: Expression, boxed: Expression, names: tuple[str, ...], at: At
) -> Expression:
    """The chain of fields `names` of what `receiver` gives; `boxed` tells whether that is held in an interface."""
    if receiver is dot_itself and len(names) == 1:
        return _field_of_dot(context, boxed, names[0], at)

    def read_fields(state: State, dot: Any) -> Any:
        value = first = receiver(state, dot)
        try:
            for name in names:
                value = value.fields[name]
        except (AttributeError, KeyError):
            return follow(context, state, first, names, at, boxed(state, dot))
        return value

    return read_fields


def _field_of_dot(context: Context, boxed: Expression, name: str, at: At) -> Expression:
    names = (name,)

    def read_field_of_dot(state: State, dot: Any) -> Any:
        try:
            return dot.fields[name]
        except (AttributeError, KeyError):
            return follow(context, state, dot, names, at, boxed(state, dot))

    return read_field_of_dot


def refused_call(
    context: Context,
    receiver: Expression,
    boxed: Expression,
    names: tuple[str, ...],
    at: At,
    args: int,
    final: Expression | None,
) -> Expression:
    """A chain of fields that is given `args` arguments: no value here has a method that takes any."""
    name = names[-1]

    def fail(state: State, dot: Any) -> Any:
        if final is not None:
            final(state, dot)
        first = receiver(state, dot)
        holder = follow(context, state, first, names[:-1], at, boxed(state, dot))
        if holder is INVALID:
            return INVALID
        type_ = type_of(holder)
        if name in type_.methods or (name == "String" and type_.stringer):
            raise context.error(state, at, f"wrong number of args for {name}: want 0 got {args}")
        if isinstance(holder, Map) and type_.key is not None and type_.key.kind == "string":
            raise context.error(state, at, f"{name} is not a method but has arguments")
        if isinstance(holder, Struct) and name in type_.field_names:
            raise context.error(state, at, f"{name} has arguments but cannot be invoked as function")
        return follow(context, state, first, names, at, boxed(state, dot))

    return fail


def follow(context: Context, state: State, value: Any, names: tuple[str, ...], at: At, interface: bool) -> Any:
    """A chain of fields of a value, slowly; `interface` says that the value was found in an interface."""
    for name in names:
        holder = value
        value = _field(context, state, holder, name, at, interface)
        interface = isinstance(holder, Map) and holds_any(holder)
    return value


def _field(context: Context, state: State, holder: Any, name: str, at: At, interface: bool) -> Any:
    """One field as Go looks it up; `interface` says that the holder was found in an interface, which errors name."""
    if holder is INVALID:
        return INVALID
    if holder is None:
        raise context.error(state, at, f"nil pointer evaluating interface {{}}.{name}")
    type_ = type_of(holder)
    if not isinstance(holder, Nil):
        if name in type_.methods:
            return type_.methods[name](holder)
        if name == "String" and type_.stringer:
            return context.printed(state, at, holder)
    if isinstance(holder, Struct) and name in holder.fields:
        return holder.fields[name]
    if isinstance(holder, Map) and type_.key is not None and type_.key.kind == "string":
        if name in holder.fields:
            return holder.fields[name]
        assert type_.elem is not None
        return zero_value(type_.elem) if context.missing_is_zero else INVALID
    if isinstance(holder, Nil) and name in type_.field_names:
        raise context.error(state, at, f"nil pointer evaluating {type_.name}.{name}")
    shown = "interface {}" if interface else type_.name
    raise context.error(state, at, f"can't evaluate field {name} in type {shown}")
