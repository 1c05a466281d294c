"""The functions that every Go template has, on our values."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from templatefix.gotemplate.escaping import escape_html, escape_js, escape_query
from templatefix.gotemplate.formatting import AddressPrinted, sprint, sprintf, sprintln
from templatefix.gotemplate.values import (
    INVALID,
    UINT8,
    Map,
    Nil,
    Slice,
    Struct,
    TypedInt,
    byte_len,
    from_bytes,
    is_true,
    kind_of,
    pointed_to,
    to_bytes,
    type_of,
    zero_value,
)


class CallError(Exception):
    """What a function answers instead of a value; the text is Go's, without `error calling NAME: `."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function and the types of its parameters, as far as they decide how arguments are evaluated.

    `"value"` stands for reflect.Value, `"any"` for an empty interface, `"string"` for a string.
    """

    call: Callable[..., Any]
    params: tuple[Literal["value", "any", "string"], ...]
    variadic: bool = False  # the last parameter may be given any number of times
    prints: bool = False  # makes new text, whose size counts against the limit


def _value(value: Any) -> Any:
    return INVALID if value is None else value


def index_argument(index: Any, capacity: int) -> int:
    """Check an index as Go's `index` and `slice` do: an integer from 0 to the capacity."""
    if index.__class__ is int and 0 <= index <= capacity:
        return int(index)
    index = _value(index)
    if index is INVALID:
        raise CallError("cannot index slice/array with nil")
    if kind_of(index) not in ("int", "uint"):
        raise CallError(f"cannot index slice/array with type {type_of(index).name}")
    if not 0 <= index <= capacity:
        raise CallError(f"index out of range: {int(index)}")
    return int(index)


def _map_index(item: Map, index: Any) -> Any:
    key_type = item.type.key
    assert key_type is not None
    assert item.type.elem is not None
    if index is INVALID:
        if key_type.kind == "interface":
            index = None
        else:
            raise CallError(f"value is nil; should be of type {key_type.name}")
    given = type_of(index)
    if given is not key_type and key_type.kind != "interface":
        if given.kind not in ("int", "uint") or key_type.kind not in ("int", "uint"):
            raise CallError(f"value has type {given.name}; should be {key_type.name}")
        index = int(index)
    if index in item.fields:
        return item.fields[index]
    return zero_value(item.type.elem)


def go_index(item: Any, *indexes: Any) -> Any:
    """`index x 1 2`."""
    item = _value(item)
    if item is INVALID:
        raise CallError("index of untyped nil")
    for index in indexes:
        index = _value(index)
        if item is None or isinstance(item, Nil):
            raise CallError("index of nil pointer")
        if isinstance(item, Slice):
            position = index_argument(index, len(item))
            if position >= len(item):
                raise CallError("reflect: slice index out of range")
            item = item.array[item.start + position]
        elif isinstance(item, str):
            data = to_bytes(item)
            position = index_argument(index, len(data))
            if position >= len(data):
                raise CallError("reflect: string index out of range")
            item = TypedInt(data[position], UINT8)
        elif isinstance(item, Map):
            item = _map_index(item, index)
        else:
            raise CallError(f"can't index item of type {_indirect_name(item)}")
    return item


def _indirect_name(value: Any) -> str:
    # The type's name behind a pointer, which reflect follows first.
    type = type_of(value)
    return type.elem.name if type.kind == "ptr" and type.elem is not None else type.name


def go_slice(item: Any, *indexes: Any) -> Any:
    """`slice x 1 2`; strings by bytes."""
    if item.__class__ is Slice and len(indexes) == 1:
        low = index_argument(indexes[0], len(item.array) - item.start)
        if low <= len(item):
            return Slice(item.type, item.array, item.origin, item.is_nil, item.start + low, item.stop)
    item = _value(item)
    if item is INVALID:
        raise CallError("slice of untyped nil")
    if isinstance(item, Nil):
        raise CallError("slice of nil pointer")
    if len(indexes) > 3:
        raise CallError(f"too many slice indexes: {len(indexes)}")
    if isinstance(item, str):
        if len(indexes) == 3:
            raise CallError("cannot 3-index slice a string")
        length = capacity = byte_len(item)
    elif isinstance(item, Slice):
        length, capacity = len(item), len(item.array) - item.start
    else:
        raise CallError(f"can't slice item of type {_indirect_name(item)}")
    bounds = [0, length, capacity]
    for place, index in enumerate(indexes):
        bounds[place] = index_argument(index, capacity)
    low, high, limit = bounds
    if low > high:
        raise CallError(f"invalid slice index: {low} > {high}")
    if high > limit:
        raise CallError(f"invalid slice index: {high} > {limit}")
    if isinstance(item, str):
        return item[low:high] if item.isascii() else from_bytes(to_bytes(item)[low:high])
    array = item.array if len(indexes) < 3 else item.array[: item.start + limit]
    return Slice(item.type, array, item.origin, item.is_nil, item.start + low, item.start + high)


def go_len(item: Any) -> int:
    """`len x`; strings by bytes."""
    if isinstance(item, str):
        return byte_len(item)
    if isinstance(item, Slice):
        return len(item)
    if isinstance(item, Map):
        return len(item.fields)
    if item is None or isinstance(item, Nil):
        raise CallError("len of nil pointer")
    if item is INVALID:
        raise CallError("reflect: call of reflect.Value.Type on zero Value")
    raise CallError(f"len of type {_indirect_name(item)}")


_BASIC_KINDS: Final = frozenset({"bool", "complex", "int", "float", "string", "uint"})
_NILABLE_KINDS: Final = frozenset({"func", "interface", "map", "ptr", "slice"})


def _is_nil(value: Any) -> bool:
    if value is INVALID or isinstance(value, Nil):
        return True
    return isinstance(value, (Map, Slice)) and value.is_nil


def _comparable(value: Any) -> bool:
    # Go compares structs field by field, which fails for slices and maps.
    if isinstance(value, Struct) and value.type.kind == "struct":
        return all(_comparable(member) for member in value.fields.values())
    return not isinstance(value, (Map, Slice))


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, Struct) and isinstance(right, Struct) and left.type.kind == "struct":
        return left.type is right.type and all(_same(left.fields[f], right.fields[f]) for f in left.fields)
    if isinstance(left, (Struct, Nil)) or isinstance(right, (Struct, Nil)):
        return left is right
    return type_of(left) is type_of(right) and bool(left == right)


def _equal(left: Any, right: Any) -> bool:
    kind, other = kind_of(left), kind_of(right)
    basic, other_basic = kind in _BASIC_KINDS, other in _BASIC_KINDS
    if (basic and kind == other) or {kind, other} == {"int", "uint"}:
        return bool(left == right)
    if basic or other_basic:
        if left is not INVALID and right is not INVALID:
            raise CallError(f"incompatible types for comparison: {type_of(left).name} and {type_of(right).name}")
        return False
    if kind != other and left is not INVALID and right is not INVALID:
        raise CallError(
            f"non-comparable types {_shown(left)}: {type_of(left).name}, {type_of(right).name}: {_shown(right, '%v')}"
        )
    if _is_nil(left) or _is_nil(right):
        return _is_nil(left) == _is_nil(right)
    if not _comparable(right):
        raise CallError(f"non-comparable type {_shown(right)}: {type_of(right).name}")
    return _same(left, right)


def _shown(value: Any, verb: str = "%s") -> str:
    try:
        return sprintf(verb, [value])
    except AddressPrinted:
        return "?"


def go_eq(first: Any, *others: Any) -> bool:
    """`eq a b c`: whether a equals any of the others."""
    first = _value(first)
    if not others:
        raise CallError("missing argument for comparison")
    return any(_equal(first, _value(other)) for other in others)


def go_ne(left: Any, right: Any) -> bool:
    """`ne a b`."""
    return not go_eq(left, right)


def go_lt(left: Any, right: Any) -> bool:
    """`lt a b`."""
    left, right = _value(left), _value(right)
    kind, other = kind_of(left), kind_of(right)
    if kind not in _BASIC_KINDS or other not in _BASIC_KINDS:
        raise CallError("invalid type for comparison")
    if kind != other and {kind, other} != {"int", "uint"}:
        raise CallError(f"incompatible types for comparison: {type_of(left).name} and {type_of(right).name}")
    if kind in ("bool", "complex"):
        raise CallError("invalid type for comparison")
    if kind == "string" and not (left.isascii() and right.isascii()):
        return to_bytes(left) < to_bytes(right)
    return bool(operator.lt(left, right))


def go_le(left: Any, right: Any) -> bool:
    """`le a b`."""
    return go_lt(left, right) or go_eq(left, right)


def go_gt(left: Any, right: Any) -> bool:
    """`gt a b`."""
    return not go_le(left, right)


def go_ge(left: Any, right: Any) -> bool:
    """`ge a b`."""
    return not go_lt(left, right)


def go_not(value: Any) -> bool:
    """`not x`."""
    return not is_true(value)


def go_call(name: str | None, function: Any, *_args: Any) -> Any:
    """`call f x`; no value here is a function, so it always is refused.

    `name` is how the template writes the function, None if it is piped.
    """
    function = _value(function)
    if function is INVALID:
        raise CallError("call of nil")
    if name is None:
        name = function if isinstance(function, str) else f"<{type_of(function).name} Value>"
    raise CallError(f"non-function {name} of type {type_of(function).name}")


def _escape_operands(args: Sequence[Any]) -> str:
    if len(args) == 1 and isinstance(args[0], str):
        return args[0]
    return sprint(["<no value>" if arg is None or arg is INVALID else pointed_to(arg) for arg in args])


BUILTINS: Final[dict[str, Function]] = {
    "and": Function(lambda *args: args[-1], ("value", "value"), variadic=True),  # the executor evaluates these two
    "or": Function(lambda *args: args[-1], ("value", "value"), variadic=True),
    "call": Function(go_call, ("value", "value"), variadic=True),
    "html": Function(lambda *args: escape_html(_escape_operands(args)), ("any",), variadic=True, prints=True),
    "index": Function(go_index, ("value", "value"), variadic=True),
    "slice": Function(go_slice, ("value", "value"), variadic=True),
    "js": Function(lambda *args: escape_js(_escape_operands(args)), ("any",), variadic=True, prints=True),
    "len": Function(go_len, ("value",)),
    "not": Function(go_not, ("value",)),
    "print": Function(lambda *args: sprint(args), ("any",), variadic=True, prints=True),
    "printf": Function(lambda text, *args: sprintf(text, args), ("string", "any"), variadic=True, prints=True),
    "println": Function(lambda *args: sprintln(args), ("any",), variadic=True, prints=True),
    "urlquery": Function(lambda *args: escape_query(_escape_operands(args)), ("any",), variadic=True, prints=True),
    "eq": Function(go_eq, ("value", "value"), variadic=True),
    "ge": Function(go_ge, ("value", "value")),
    "gt": Function(go_gt, ("value", "value")),
    "le": Function(go_le, ("value", "value")),
    "lt": Function(go_lt, ("value", "value")),
    "ne": Function(go_ne, ("value", "value")),
}
