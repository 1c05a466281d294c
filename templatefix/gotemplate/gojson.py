"""JSON as Go's encoding/json writes it."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from templatefix.gotemplate.strconv import format_float, has_surrogates, valid_utf8
from templatefix.gotemplate.values import (
    Composite,
    GoType,
    Invalid,
    Map,
    Nil,
    Opaque,
    Slice,
    Struct,
    TracedStr,
    TypedInt,
    to_bytes,
    type_of,
)

# The C implementation; it escapes the quote, the backslash and control characters just as Go does.
_quote: Final = json.encoder.encode_basestring

_HTML: Final = (("<", r"\u003c"), (">", r"\u003e"), ("&", r"\u0026"))
_LINE_ENDS: Final = (("\u2028", r"\u2028"), ("\u2029", r"\u2029"))


class MarshalError(ValueError):
    """A value that JSON cannot hold; the sentence is Go's."""


def marshal(value: Any) -> str:
    """json.Marshal: the value as JSON, without blanks. Raises MarshalError."""
    if not isinstance(value, Composite):
        return _escaped(_json(value))
    if value.json is None:
        value.json = _escaped(_json(value))
    return value.json


def quote(text: str) -> str:
    """A string as JSON."""
    return _escaped(_quote(text))


def _escaped(text: str) -> str:
    # None of these characters is JSON's own, so all stand in strings.
    for char, escape in _HTML:
        if char in text:
            text = text.replace(char, escape)
    if text.isascii():
        return text
    if has_surrogates(text):
        text = valid_utf8(text)
    for char, escape in _LINE_ENDS:
        if char in text:
            text = text.replace(char, escape)
    return text


def format_json_float(value: float) -> str:
    """A float64 as JSON: plain digits from 1e-6 up to 1e21, else an exponent without leading zero."""
    if not math.isfinite(value):
        raise MarshalError(f"json: unsupported value: {format_float(value, 'g')}")
    if value == 0 or 1e-6 <= abs(value) < 1e21:
        return format_float(value, "f")
    return format_float(value, "e").replace("e-0", "e-")


def _json(value: Any) -> str:
    write = _WRITERS.get(type(value))
    if write is None:
        raise MarshalError(f"json: unsupported type: {type_of(value).name}")
    return write(value)


def _opaque(value: Opaque) -> str:
    return value.json or ""


def _null(value: Any) -> str:
    return "null"


def _bool_json(value: bool) -> str:
    return "true" if value else "false"


def _int_json(value: int) -> str:
    return str(int(value))


@lru_cache(maxsize=256)
def _members(type: GoType) -> tuple[tuple[str, str, bool, bool], ...]:
    """The fields of a struct type: name, key as JSON, omitempty, and whether it is an interface."""
    struct = type.elem if type.kind == "ptr" and type.elem is not None else type
    return tuple((f.name, f"{_quote(f.json_name)}:", f.omitempty, f.type.kind == "interface") for f in struct.fields)


def _struct_json(value: Struct) -> str:
    fields = value.fields
    parts = []
    for name, key, omitempty, interface in _members(value.type):
        item = fields[name]
        # An interface is empty only if it is nil, whatever it holds.
        if omitempty and (item is None or (not interface and _is_empty(item))):
            continue
        parts.append(key + _json(item))
    return "{" + ",".join(parts) + "}"


def _is_empty(value: Any) -> bool:
    """What omitempty leaves out: false, 0, nil, and strings, slices and maps of no length; never a struct."""
    if isinstance(value, Slice):
        return value.stop <= value.start
    if isinstance(value, Map):
        return value.is_nil if value.type.kind == "ptr" else not value.fields
    return isinstance(value, Nil) or (not isinstance(value, Struct) and not value)


def _slice_json(value: Slice) -> str:
    type = value.type
    if value.is_nil:
        return "null"
    items = value.items
    if type.stringer == "joined" and len(items) == 1:
        return _json(items[0])
    if type.elem is not None and type.elem.name == "uint8":
        return f'"{base64.b64encode(bytes(items)).decode()}"'
    return "[" + ",".join([_json(item) for item in items]) + "]"


def _map_json(value: Map) -> str:
    """Entries by their keys' bytes; the ordered maps behind pointers keep the order they were given in."""
    type = value.type
    if value.is_nil:
        return "null"
    if type.key is not None and type.key.kind not in ("string", "int", "uint"):
        raise MarshalError(f"json: unsupported type: {type.name}")
    keys = list(value.fields)
    if type.kind != "ptr":
        # Bytes order as code points do, but for bytes that are not UTF-8.
        keys.sort(key=_key_bytes if has_surrogates("".join(map(_key_text, keys))) else _key_text)
    return "{" + ",".join([f"{_quote(_key_text(key))}:{_json(value.fields[key])}" for key in keys]) + "}"


def _key_text(key: Any) -> str:
    return key if isinstance(key, str) else str(int(key))


def _key_bytes(key: Any) -> bytes:
    return to_bytes(_key_text(key))


_WRITERS: Final[Mapping[type, Callable[[Any], str]]] = {
    str: _quote,
    TracedStr: _quote,
    bool: _bool_json,
    int: _int_json,
    TypedInt: _int_json,
    float: format_json_float,
    type(None): _null,
    Invalid: _null,
    Nil: _null,
    Opaque: _opaque,
    Struct: _struct_json,
    Slice: _slice_json,
    Map: _map_json,
}
