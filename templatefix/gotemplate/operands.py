"""Operands of Go's fmt: a value of any type under a verb."""

from __future__ import annotations

from typing import Any, Final

from templatefix.gotemplate.gojson import MarshalError, marshal
from templatefix.gotemplate.strconv import format_float
from templatefix.gotemplate.values import (
    ANY,
    INVALID,
    GoType,
    Map,
    Nil,
    Slice,
    Struct,
    to_bytes,
    type_of,
)
from templatefix.gotemplate.verbs import (
    PLAIN,
    Directive,
    format_bool,
    format_bytes,
    format_complex,
    format_floating,
    format_hex_word,
    format_integer,
    format_string,
    pad,
)

_STRING_VERBS: Final = frozenset("vsxXq")
_NIL: Final = "<nil>"


class AddressPrinted(Exception):
    """A pointer would print as an address, which differs from run to run; the message names its type."""


def format_value(value: Any) -> str:
    """What Print writes for one operand. Raises AddressPrinted."""
    if isinstance(value, str):
        return value
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return format_float(value, "g")
    if isinstance(value, (Map, Slice, Struct)) and value.type.stringer:
        return _string_method(value, value.type)
    return _format(value, ANY, "v", PLAIN, 0)


def _string_method(value: Any, type: GoType) -> str:
    """What the String method of a type with a stringer returns."""
    if isinstance(value, Nil):
        # Go calls the method on a nil pointer, catches the panic and writes this.
        return _NIL
    if type.stringer == "joined":
        items = value.items
        return "" if not items else items[0] if len(items) == 1 else "[" + " ".join(items) + "]"
    if isinstance(value, Map) and value.is_nil:
        return "{}"
    try:
        return marshal(value)
    except MarshalError:
        return ""


def format_operand(value: Any, verb: str, spec: Directive) -> str:
    """One operand of Printf under its verb. Raises AddressPrinted."""
    if value is None or value is INVALID:
        return pad(_NIL, spec) if verb in ("T", "v") else f"%!{verb}({_NIL})"
    type = type_of(value)
    if verb == "T":
        return format_string(type.name, "s", spec) or ""
    if verb == "p":
        return _format_pointer(value, type, "p", spec)
    if type.name == "[]uint8":
        return _format_byte_slice(value, type, verb, spec)
    return _format(value, type, verb, spec, 0)


def _format(value: Any, type: GoType, verb: str, spec: Directive, depth: int, methods: bool = True) -> str:
    """A value of a static type, `depth` levels below the operand; without `methods` inside an error."""
    if type.kind == "interface":
        if value is None or value is INVALID:
            return f"{type.name}(nil)" if spec.sharp_v else _NIL
        type = type_of(value)
        if type.kind == "interface":
            raise _address(type)
    if methods:
        if type.stringer and verb in _STRING_VERBS and not spec.sharp_v:
            text = _string_method(value, type)
            return _NIL if isinstance(value, Nil) else format_string(text, verb, spec) or ""
        if verb == "w":
            return _bad_verb(value, type, verb, spec)
    kind = type.kind
    if kind == "slice":
        return _format_slice(value, type, verb, spec, depth, methods)
    if kind == "map":
        return _format_map(value, type, verb, spec, depth, methods)
    if kind == "struct":
        if value.type.kind == "struct":
            type = value.type  # a recursive type knows its own fields only here
        return _format_struct(value, type, verb, spec, depth, methods)
    if kind in ("ptr", "func"):
        if depth == 0 and type.elem is not None and isinstance(value, Struct):
            return "&" + _format(value, type.elem, verb, spec, depth + 1, methods)
        return _format_pointer(value, type, verb, spec)
    scalar = _format_scalar(value, type, verb, spec)
    return _bad_verb(value, type, verb, spec) if scalar is None else scalar


def _format_scalar(value: Any, type: GoType, verb: str, spec: Directive) -> str | None:
    kind = type.kind
    if kind == "string":
        return format_string(value, verb, spec)
    if kind == "bool":
        return format_bool(value, verb, spec)
    if kind == "float":
        return format_floating(value, verb, spec)
    if kind == "complex":
        return format_complex(value, verb, spec)
    return format_integer(value, kind == "int", verb, spec)


def _bad_verb(value: Any, type: GoType, verb: str, spec: Directive) -> str:
    return f"%!{verb}({type.name}={_format(value, type, 'v', spec, 0, methods=False)})"


def _address(type: GoType) -> AddressPrinted:
    return AddressPrinted(f"a value of type {type.name} prints as an address in memory, which differs from run to run")


def _format_slice(value: Slice, type: GoType, verb: str, spec: Directive, depth: int, methods: bool) -> str:
    elem = type.elem or ANY
    items = value.items
    if elem.name == "uint8" and verb in ("s", "q", "x", "X"):
        return format_bytes(bytes(items), verb, spec) or ""
    if spec.sharp_v and value.is_nil:
        return f"{type.name}(nil)"
    parts = [_format(item, elem, verb, spec, depth + 1, methods) for item in items]
    if spec.sharp_v:
        return f"{type.name}{{{', '.join(parts)}}}"
    return f"[{' '.join(parts)}]"


def _format_byte_slice(value: Slice, type: GoType, verb: str, spec: Directive) -> str:
    """A []uint8 that is an operand itself: %#v names it []byte."""
    if verb == "v" and spec.sharp_v:
        if value.is_nil:
            return "[]byte(nil)"
        return f"[]byte{{{', '.join([format_hex_word(item, True, spec) for item in value.items])}}}"
    return _format_slice(value, type, verb, spec, 0, True)


def _format_map(value: Map, type: GoType, verb: str, spec: Directive, depth: int, methods: bool) -> str:
    if spec.sharp_v and value.is_nil:
        return f"{type.name}(nil)"
    key_type, elem = type.key or ANY, type.elem or ANY
    parts = []
    for key, item in sorted_items(value):
        key_text = _format(key, key_type, verb, spec, depth + 1, methods)
        parts.append(f"{key_text}:{_format(item, elem, verb, spec, depth + 1, methods)}")
    return f"{type.name}{{{', '.join(parts)}}}" if spec.sharp_v else f"map[{' '.join(parts)}]"


def sorted_items(value: Map) -> list[tuple[Any, Any]]:
    """The entries of a map in the order of Go's printing and of range: numbers by size, strings by their bytes."""
    return sorted(value.fields.items(), key=lambda entry: _sort_key(entry[0]))


def _sort_key(key: Any) -> tuple[str, Any]:
    if isinstance(key, str):
        return "string", to_bytes(key)
    return type_of(key).name, key


def _format_struct(value: Any, type: GoType, verb: str, spec: Directive, depth: int, methods: bool) -> str:
    if not isinstance(value, Struct):
        # A struct that is modelled as something else holds a pointer.
        raise _address(type)
    named = spec.plus_v or spec.sharp_v
    parts = []
    for field in type.fields:
        text = _format(value.fields[field.name], field.type, verb, spec, depth + 1, methods)
        parts.append(f"{field.name}:{text}" if named else text)
    return f"{type.name}{{{', '.join(parts)}}}" if spec.sharp_v else f"{{{' '.join(parts)}}}"


def _format_pointer(value: Any, type: GoType, verb: str, spec: Directive) -> str:
    """What prints as an address: pointers, functions, and maps and slices under %p. Only nil is known."""
    if type.kind not in ("ptr", "map", "slice", "func") or verb not in "vpbodxX":
        return _bad_verb(value, type, verb, spec)
    if not isinstance(value, Nil) and not getattr(value, "is_nil", False):
        raise _address(type)
    if verb == "v":
        return f"({type.name})(nil)" if spec.sharp_v else pad(_NIL, spec)
    if verb == "p":
        return format_hex_word(0, not spec.sharp, spec)
    return format_integer(0, False, verb, spec) or ""
