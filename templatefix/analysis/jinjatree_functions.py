"""Filters, tests and methods of Jinja on abstract values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from templatefix.analysis.jinjatree_values import (
    NOTHING,
    UNDEFINED,
    UNKNOWN,
    Value,
    constant,
    opaque,
    retruthed,
    unknown,
)

_LONG: Final = 20_000  # characters of a text that is worked out

# What can be worked out where all of it is known.
_WORKED: Final[Mapping[str, Callable[..., Any]]] = {
    "trim": lambda text, *chars: text.strip(*chars),
    "strip": lambda text, *chars: text.strip(*chars),
    "lstrip": lambda text, *chars: text.lstrip(*chars),
    "rstrip": lambda text, *chars: text.rstrip(*chars),
    "upper": lambda text: text.upper(),
    "lower": lambda text: text.lower(),
    "capitalize": lambda text: text.capitalize(),
    "title": lambda text: text.title(),
    "startswith": lambda text, prefix: text.startswith(prefix),
    "endswith": lambda text, suffix: text.endswith(suffix),
    "removeprefix": lambda text, prefix: text.removeprefix(prefix),
    "removesuffix": lambda text, suffix: text.removesuffix(suffix),
    "length": len,
    "count": lambda text, *part: text.count(*part) if part else len(text),
}
_SAME: Final = ("string", "safe", "e", "escape")  # which change no text
_TEXTS: Final = ("tojson", "join", "trim", "upper", "lower", "capitalize", "title", "replace", "indent", "string")
STRING_METHODS: Final = frozenset(
    ("strip", "lstrip", "rstrip", "upper", "lower", "capitalize", "title", "replace", "join", "format", "removeprefix")
) | {"removesuffix"}
MAPPING_METHODS: Final = frozenset(("items", "keys", "values", "get"))
METHODS: Final = (
    STRING_METHODS
    | MAPPING_METHODS
    | {*("split", "rsplit", "splitlines", "startswith", "endswith", "find", "index", "count", "isdigit"), "append"}
)


def worked(work: Callable[..., Any], *given: Any) -> Any:
    """What comes of constants; UNKNOWN where that fails, as it will when it is rendered, if it ever is."""
    try:
        return work(*given)
    except Exception:
        return UNKNOWN


def is_text(value: Value) -> bool:
    """Whether a value is a text for sure."""
    return isinstance(value.known, str) or value.shape in ("text", "string")


def applied(name: str, value: Value, arguments: Sequence[Value]) -> Value:
    """A filter, or a method of the same name, on a value that is not the conversation."""
    work = _WORKED.get(name)
    words = [each.known for each in (value, *arguments)]
    if work is not None and all(isinstance(word, str) and len(word) < _LONG for word in words):
        done = worked(work, *words)
        if done is not UNKNOWN:
            return constant(done, value.raw, value.span)
    if name in _SAME and is_text(value):
        return value
    if name in ("length", "count") and value.shape == "list":
        return constant(len(value.inner), value.raw)
    if name == "list" and value.shape in ("list", "row"):
        return value
    if name in ("d", "default"):
        return _default(value, arguments)
    if name in ("first", "last") and value.shape == "list":
        return value.inner[0 if name == "first" else -1] if value.inner else NOTHING
    if name == "int" and value.is_known and isinstance(value.known, int):
        return value
    key = ("apply", name, value.key, *[argument.key for argument in arguments])
    found = opaque(key, (value, *arguments), kept_truth(name, value, arguments))
    if name in _TEXTS or name in STRING_METHODS:
        return unknown(key, found.flags, found.truth, found.raw, "string")
    return found


def kept_truth(name: str, value: Value, arguments: Sequence[Value]) -> bool | None:
    """The truth of what a filter or method gives: that of its value only where the length stays the same."""
    if name in ("tojson", "split", "rsplit"):
        return True
    # `count` with an argument is a method, which counts something else.
    if name in ("items", "dictsort", "list", "reverse", "map", "sort") or (
        name in ("length", "count") and not arguments
    ):
        return value.truth
    return value.truth if name in ("string", "upper", "lower") and is_text(value) else None


def _default(value: Value, arguments: Sequence[Value]) -> Value:
    other = arguments[0] if arguments else constant("")
    boolean = arguments[1] if len(arguments) > 1 else constant(False)
    if value.known is UNDEFINED or (boolean.truth and value.truth is False):
        return other
    if value.truth is True or (boolean.truth is False and is_defined(value)):
        return value
    found = opaque(("default", value.key, other.key, boolean.truth, boolean.key), (value, other, boolean))
    if is_text(value) and is_text(other):
        return unknown(found.key, found.flags, None, found.raw, "string")
    return found


def is_defined(value: Value) -> bool:
    """Whether a value is there for sure."""
    if value.is_known:
        return value.known is not UNDEFINED
    if isinstance(value.key, tuple) and value.key[:1] == ("field",):
        return value.key[2] in ("role", "content") and not value.moves
    return value.truth is True or value.shape not in ("other", "message", "scalar", "string", "row", "optional")


# -- tests

_KINDS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "string": lambda value: isinstance(value, str),
    "mapping": lambda value: isinstance(value, Mapping),
    "iterable": lambda value: isinstance(value, str),
    "sequence": lambda value: isinstance(value, str),
    "number": lambda value: isinstance(value, (int, float)),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "float": lambda value: isinstance(value, float),
    "boolean": lambda value: isinstance(value, bool),
    "true": lambda value: value is True,
    "false": lambda value: value is False,
    "none": lambda value: value is None,
}
_SHAPES: Final = {
    "text": ("string", "iterable", "sequence"),
    "string": ("string", "iterable", "sequence"),
    "list": ("iterable", "sequence"),
    "row": ("iterable", "sequence"),
    "messages": ("iterable", "sequence"),
    "range": ("iterable", "sequence"),
    "numbers": ("iterable", "sequence"),
    "message": ("mapping", "iterable", "sequence"),
}


def tested(name: str, value: Value, arguments: Sequence[Value]) -> Value:
    """`value is name`."""
    if name in ("defined", "undefined"):
        return _defined(name == "defined", value)
    key = ("is", name, value.key, *[argument.key for argument in arguments])
    truth: bool | None = None
    if name in _KINDS:
        sure = is_defined(value) and not value.moves
        if value.is_known:
            truth = value.known is not UNDEFINED and _KINDS[name](value.known)
        elif value.shape in _SHAPES and (sure or value.truth or value.shape in ("text", "list", "messages")):
            truth = name in _SHAPES[value.shape]
    elif name in ("equalto", "eq", "==") and arguments and value.is_known and arguments[0].is_known:
        truth = value.known == arguments[0].known
    if truth is not None:
        return constant(truth, value.raw)
    return _condition(key, (value, *arguments))


def _condition(key: Any, values: Sequence[Value]) -> Value:
    found = opaque(key, values)
    return unknown(key, found.flags, None, found.raw)


def _defined(wanted: bool, value: Value) -> Value:
    if value.known is UNDEFINED:
        return constant(not wanted, value.raw)
    if is_defined(value):
        return constant(wanted, value.raw)
    if isinstance(value.key, tuple) and value.key[:1] == ("field",) and value.key[2] != "content":
        # The server leaves out what is empty: to be there and to be true is the same.
        found = unknown(value.key, value.flags, value.truth, value.raw)
        return found if wanted else negated(found)
    return _condition(("defined", wanted, value.key), (value,))


def negated(value: Value) -> Value:
    """`not value`."""
    if value.truth is not None:
        return constant(not value.truth, value.raw)
    if isinstance(value.key, tuple) and value.key[:1] == ("not",):
        return unknown(value.key[1], value.flags, None, value.raw)
    return retruthed(unknown(("not", value.key), value.flags, None, value.raw), None)
