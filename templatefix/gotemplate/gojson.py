"""JSON as Go's encoding/json writes it."""

from __future__ import annotations

import base64
import json
import math
from typing import Any, Final

from templatefix.gotemplate.strconv import format_float, has_surrogates, valid_utf8
from templatefix.gotemplate.values import INVALID, GoType, Map, Nil, Opaque, Slice, Struct, to_bytes, type_of

# The C implementation; it escapes the quote, the backslash and control characters just as Go does.
_quote: Final = json.encoder.encode_basestring

_HTML: Final = (("<", r"\u003c"), (">", r"\u003e"), ("&", r"\u0026"))
_LINE_ENDS: Final = (("\u2028", r"\u2028"), ("\u2029", r"\u2029"))


class MarshalError(ValueError):
    """A value that JSON cannot hold; the sentence is Go's."""


def marshal(value: Any) -> str:
    """json.Marshal: the value as JSON, without blanks. Raises MarshalError."""
    parts: list[str] = []
    _write(value, parts)
    return _escaped("".join(parts))


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


def _write(value: Any, parts: list[str]) -> None:
    """Appends the JSON of a value."""
    if isinstance(value, str):
        parts.append(_quote(value))
    elif value is None or value is INVALID or isinstance(value, Nil):
        parts.append("null")
    elif value is True:
        parts.append("true")
    elif value is False:
        parts.append("false")
    elif isinstance(value, int):
        parts.append(str(int(value)))
    elif isinstance(value, float):
        parts.append(format_json_float(value))
    elif isinstance(value, Map):
        _write_map(value, parts)
    elif isinstance(value, Slice):
        _write_slice(value, parts)
    elif isinstance(value, Struct):
        _write_struct(value, parts)
    elif isinstance(value, Opaque):
        parts.append(value.json)
    else:
        raise MarshalError(f"json: unsupported type: {type_of(value).name}")


def _write_struct(value: Struct, parts: list[str]) -> None:
    type = value.type
    if type.kind == "ptr" and type.elem is not None:
        type = type.elem
    separator = "{"
    for field in type.fields:
        item = value.fields[field.name]
        if field.omitempty and _is_empty(item, field.type):
            continue
        parts.append(f'{separator}"{field.json_name}":')
        _write(item, parts)
        separator = ","
    parts.append("}" if separator == "," else "{}")


def _is_empty(value: Any, type: GoType) -> bool:
    """What omitempty leaves out: false, 0, nil, and strings, slices and maps of no length; never a struct."""
    if value is None or value is INVALID:
        return True
    # An interface is empty only if it is nil, whatever it holds.
    if type.kind == "interface" or isinstance(value, Struct):
        return False
    if isinstance(value, Nil):
        return True
    if isinstance(value, Slice):
        return value.stop <= value.start
    if isinstance(value, Map):
        return value.is_nil if type.kind == "ptr" else not value.fields
    return not value


def _write_slice(value: Slice, parts: list[str]) -> None:
    type = value.type
    if value.is_nil:
        parts.append("null")
        return
    items = value.items
    if type.stringer == "joined" and len(items) == 1:
        _write(items[0], parts)
        return
    if type.elem is not None and type.elem.name == "uint8":
        parts.append(f'"{base64.b64encode(bytes(items)).decode()}"')
        return
    separator = "["
    for item in items:
        parts.append(separator)
        _write(item, parts)
        separator = ","
    parts.append("]" if items else "[]")


def _write_map(value: Map, parts: list[str]) -> None:
    if value.is_nil:
        parts.append("null")
        return
    separator = "{"
    for key, item in _json_entries(value):
        parts.append(f"{separator}{_quote(key)}:")
        _write(item, parts)
        separator = ","
    parts.append("}" if separator == "," else "{}")


def _json_entries(value: Map) -> list[tuple[str, Any]]:
    """Entries by their keys' bytes; the ordered maps behind pointers keep the order they were given in."""
    key_type = value.type.key
    if key_type is not None and key_type.kind not in ("string", "int", "uint"):
        raise MarshalError(f"json: unsupported type: {value.type.name}")
    entries = [(key if isinstance(key, str) else str(int(key)), item) for key, item in value.fields.items()]
    if value.type.kind != "ptr" and len(entries) > 1:
        # Bytes order as code points do, but for bytes that are not UTF-8.
        entries.sort(key=_key_bytes if any(has_surrogates(key) for key, _ in entries) else _key)
    return entries


def _key(entry: tuple[str, Any]) -> str:
    return entry[0]


def _key_bytes(entry: tuple[str, Any]) -> bytes:
    return to_bytes(entry[0])
