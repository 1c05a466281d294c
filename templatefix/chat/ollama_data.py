"""The data that Ollama hands to a Go template, made from a request as it arrives over HTTP.

Types, field names and orders are those that Ollama's templates can see (facts read in its source as of 2026-08-21).
"""

from __future__ import annotations

import base64
import binascii
import marshal as packing
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from templatefix.chat.ollama_types import (
    ARGUMENTS,
    CALL,
    CALL_FUNCTION,
    CALLS,
    FUNCTION,
    IMAGE,
    IMAGES,
    MESSAGE,
    MESSAGES,
    PARAMETERS,
    PROPERTIES,
    PROPERTIES_POINTER,
    PROPERTY,
    PROPERTY_TYPE,
    SLICE_OF_PROPERTY,
    TOOL,
    TOOLS,
)
from templatefix.chat.rendering import Origin
from templatefix.chat.request import Request, RequestError
from templatefix.gotemplate.gojson import marshal, quote
from templatefix.gotemplate.values import (
    MAP_OF_ANY,
    SLICE_OF_ANY,
    SLICE_OF_STRING,
    UINT8,
    GoType,
    Map,
    Nil,
    Opaque,
    Slice,
    Struct,
    TracedStr,
    TypedInt,
)


def _text(row: Mapping[str, Any], key: str, where: str) -> str:
    value = row.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise RequestError(f"{where}: {key} must be a string, not {type(value).__name__}")
    return value


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise RequestError(f"{where} must be an object, not {type(value).__name__}")
    return value


def _sequence(value: Any, where: str) -> Sequence[Any]:
    if value is None:
        return ()
    if not isinstance(value, (list, tuple)):
        raise RequestError(f"{where} must be an array, not {type(value).__name__}")
    return value


def go_value(value: Any, origin: Origin | None = None) -> Any:
    """A JSON value as Go's encoding/json decodes it into an empty interface: all numbers are float64."""
    if isinstance(value, str):
        return value if origin is None else TracedStr(value, origin)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, (int, float)):
        try:
            return float(value)
        except OverflowError:
            raise RequestError(f"number out of range: {value}") from None
    if isinstance(value, Mapping):
        return Map(MAP_OF_ANY, {key: go_value(member, origin) for key, member in value.items()}, origin)
    return Slice(SLICE_OF_ANY, [go_value(member, origin) for member in value], origin)


def _strings(value: Any, where: str, origin: Origin | None, type: GoType = SLICE_OF_STRING) -> Slice:
    items = _sequence(value, where)
    if not all(item is None or isinstance(item, str) for item in items):
        raise RequestError(f"{where} must hold strings")
    texts: list[Any] = [item or "" if origin is None else TracedStr(item or "", origin) for item in items]
    return Slice(type, texts, origin, is_nil=value is None)


def _property(value: Any, origin: Origin) -> Struct:
    row = _mapping(value, "a tool's property")
    kinds = row.get("type")
    nested = row.get("properties")
    fields = {
        "AnyOf": Slice(
            SLICE_OF_PROPERTY,
            [_property(member, origin) for member in _sequence(row.get("anyOf"), "anyOf")],
            origin,
            is_nil=row.get("anyOf") is None,
        ),
        "Type": _strings([kinds] if isinstance(kinds, str) else kinds, "type", origin, PROPERTY_TYPE),
        "Items": go_value(row.get("items"), origin),
        "Description": TracedStr(_text(row, "description", "a tool's property"), origin),
        "Enum": Slice(
            SLICE_OF_ANY,
            [go_value(member, origin) for member in _sequence(row.get("enum"), "enum")],
            origin,
            is_nil=row.get("enum") is None,
        ),
        "Properties": Nil(PROPERTIES_POINTER) if nested is None else _nested_properties(nested, origin),
        "Required": _strings(row.get("required"), "required", origin),
    }
    return Struct(PROPERTY, fields, origin)


def _nested_properties(value: Any, origin: Origin) -> Opaque:
    # Unlike a tool's own properties, which are sorted, these keep the order they came in.
    rows = _mapping(value, "properties")
    members = ",".join(f"{quote(name)}:{marshal(_property(row, origin))}" for name, row in rows.items())
    return Opaque(PROPERTIES_POINTER, "{" + members + "}")


def _parameters(value: Any, index: int) -> Struct:
    row = _mapping(value, "parameters")
    origin = Origin("tool", index, "parameters")
    properties = row.get("properties")
    fields = {
        "Type": TracedStr(_text(row, "type", "parameters"), Origin("tool", index, "parameters.type")),
        "Defs": go_value(row.get("$defs"), origin),
        "Items": go_value(row.get("items"), origin),
        "Required": _strings(row.get("required"), "required", Origin("tool", index, "required")),
        "Properties": Map(
            PROPERTIES,
            {name: _property(member, origin) for name, member in _mapping(properties, "properties").items()},
            origin,
            is_nil=properties is None,
        ),
    }
    return Struct(PARAMETERS, fields, origin)


def _tool(value: Any, index: int) -> Struct:
    row = _mapping(value, "a tool")
    function = _mapping(row.get("function"), "function")
    fields = {
        "Type": TracedStr(_text(row, "type", "a tool"), Origin("tool", index, "type")),
        "Items": go_value(row.get("items"), Origin("tool", index, "items")),
        "Function": Struct(
            FUNCTION,
            {
                "Name": TracedStr(_text(function, "name", "function"), Origin("tool", index, "name")),
                "Description": TracedStr(
                    _text(function, "description", "function"), Origin("tool", index, "description")
                ),
                "Parameters": _parameters(function.get("parameters"), index),
            },
            Origin("tool", index, "function"),
        ),
    }
    return Struct(TOOL, fields, Origin("tool", index, ""))


# An agent sends the same tools and messages again and again, a check or a proof renders the same requests by several
# templates, and values are never changed: each is made once. They are looked up by their content, packed by the
# standard library's fastest serialiser.

_REQUEST_LIMIT: Final = 64 * 1024  # bytes of a packed request that is kept


def _pack(value: Any, limit: int = 256 * 1024) -> bytes | None:
    try:
        packed = packing.dumps(value, 2)  # version 2 has no references, so equal values pack to equal bytes
    except ValueError:
        return None
    return packed if len(packed) <= limit else None


def tools_value(tools: Sequence[Mapping[str, Any]]) -> Slice:
    """The template's `.Tools`."""
    packed = _pack(tools)
    return _tools(tools) if packed is None else _packed_tools(packed)


_NO_TOOLS: Final = Slice(TOOLS, [], Origin("tools", -1, ""))


@lru_cache(maxsize=32)
def _packed_tools(packed: bytes) -> Slice:
    return _tools(packing.loads(packed))


def _tools(tools: Sequence[Mapping[str, Any]]) -> Slice:
    return Slice(TOOLS, [_tool(row, i) for i, row in enumerate(tools)], Origin("tools", -1, ""), is_nil=not tools)


def _call(value: Any, message: int) -> Struct:
    row = _mapping(value, "a tool call")
    function = _mapping(row.get("function"), "a tool call's function")
    arguments = function.get("arguments")
    if arguments is not None and not isinstance(arguments, Mapping):
        raise RequestError("a tool call's arguments must be an object")
    origin = Origin("message", message, "arguments")
    index = function.get("index") or 0
    if not isinstance(index, int):
        raise RequestError("a tool call's index must be an integer")
    members = {key: go_value(member, origin) for key, member in (arguments or {}).items()}
    fields = {
        "Index": index,
        "Name": TracedStr(_text(function, "name", "a tool call"), Origin("message", message, "name")),
        "Arguments": Map(ARGUMENTS, members, origin, is_nil=arguments is None),
    }
    call_origin = Origin("message", message, "tool_calls")
    return Struct(
        CALL,
        {
            "ID": TracedStr(_text(row, "id", "a tool call"), Origin("message", message, "id")),
            "Function": Struct(CALL_FUNCTION, fields, call_origin),
        },
        call_origin,
    )


def _image(value: Any, origin: Origin) -> Slice:
    try:
        data = base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise RequestError("an image must be a string in base64") from None
    return Slice(IMAGE, [TypedInt(byte, UINT8) for byte in data], origin)


def message_value(row: Mapping[str, Any], index: int, role: str, content: str) -> Struct:
    """One of the template's `.Messages`; `index` is its place in the request, `content` what collation made of it."""
    packed = _pack(row)
    if packed is None:
        return _message(row, index, role, content)
    return _packed_message(packed, index, role, content)


@lru_cache(maxsize=512)
def _packed_message(packed: bytes, index: int, role: str, content: str) -> Struct:
    return _message(packing.loads(packed), index, role, content)


def _message(row: Mapping[str, Any], index: int, role: str, content: str) -> Struct:
    origin = Origin("message", index, "")
    calls = row.get("tool_calls")
    images = row.get("images")
    where = f"message {index + 1}"
    fields = {
        "Role": TracedStr(role, Origin("message", index, "role")),
        "Content": TracedStr(content, Origin("message", index, "content")),
        "Thinking": TracedStr(_text(row, "thinking", where), Origin("message", index, "thinking")),
        "Images": Slice(
            IMAGES,
            [_image(image, Origin("message", index, "images")) for image in _sequence(images, "images")],
            Origin("message", index, "images"),
            is_nil=images is None,
        ),
        "ToolCalls": Slice(
            CALLS,
            [_call(call, index) for call in _sequence(calls, "tool_calls")],
            Origin("message", index, "tool_calls"),
            is_nil=not calls,
        ),
        "ToolName": TracedStr(_text(row, "tool_name", where), Origin("message", index, "tool_name")),
        "ToolCallID": TracedStr(_text(row, "tool_call_id", where), Origin("message", index, "tool_call_id")),
    }
    return Struct(MESSAGE, fields, origin, scope=index)


def _role_and_content(row: Any, index: int) -> tuple[str, str]:
    if row.__class__ is dict:
        role, content = row.get("role"), row.get("content")
        if role.__class__ is str and content.__class__ is str:
            return role.lower(), content
    where = f"message {index + 1}"
    row = _mapping(row, where)
    return _text(row, "role", where).lower(), _text(row, "content", where)


class Collated:
    """The request's messages as Ollama collates them: neighbours of one role become one, tool results stay apart."""

    __slots__ = ("messages", "system", "system_index")

    def __init__(self, request: Request) -> None:
        self.messages: list[list[Any]] = []  # [row, index, role, content]
        systems: list[str] = []
        self.system_index = -1
        for index, row in enumerate(request.messages):
            role, content = _role_and_content(row, index)
            if role == "system":
                systems.append(content)
                if self.system_index < 0:
                    self.system_index = index
            last = self.messages[-1] if self.messages else None
            if last is not None and last[2] == role and role != "tool":
                last[3] += "\n\n" + content
            else:
                self.messages.append([row, index, role, content])
        self.system = "\n\n".join(systems)


def _flags(request: Request) -> dict[str, Any]:
    return {
        "Think": bool(request.think),
        "ThinkLevel": request.think_level,
        "IsThinkSet": request.think is not None,
    }


def chat_data(request: Request) -> Map:
    """The root of a template that uses `.Messages`."""
    packed = _pack(tuple([getattr(request, name) for name in Request.__slots__]), _REQUEST_LIMIT)
    return _chat_data(request) if packed is None else _packed_chat_data(packed)


@lru_cache(maxsize=128)
def _packed_chat_data(packed: bytes) -> Map:
    return _chat_data(Request(*packing.loads(packed)))


def _chat_data(request: Request) -> Map:
    collated = Collated(request)
    return Map(
        MAP_OF_ANY,
        {
            "System": TracedStr(collated.system, Origin("system", collated.system_index, "content")),
            "Messages": Slice(
                MESSAGES, [message_value(*message) for message in collated.messages], is_nil=not collated.messages
            ),
            "Tools": _NO_TOOLS if request.empty_tools else tools_value(request.tools),
            "Response": "",
            **_flags(request),
        },
    )


def legacy_data(request: Request) -> list[Map]:
    """The roots that a template without `.Messages` is executed over in turn, one a pair of prompt and response."""
    collated = Collated(request)
    roots: list[Map] = []
    parts: dict[str, str] = {"System": "", "Prompt": "", "Response": ""}

    def close() -> None:
        roots.append(Map(MAP_OF_ANY, {**parts, **_flags(request)}))
        parts.update(System="", Prompt="", Response="")

    for _row, index, role, content in collated.messages:
        if role == "system":
            if parts["Prompt"] or parts["Response"]:
                close()
            parts["System"] = TracedStr(content, Origin("system", index, "content"))
        elif role == "user":
            if parts["Response"]:
                close()
            parts["Prompt"] = TracedStr(content, Origin("message", index, "content"))
        elif role == "assistant":
            parts["Response"] = TracedStr(content, Origin("message", index, "content"))
    close()
    return roots
