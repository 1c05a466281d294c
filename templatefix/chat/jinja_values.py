"""Requests as data of a Jinja template: OpenAI's messages as llama-server hands them on, each datum with its origin."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final

from templatefix.chat.calls import CallNumbers
from templatefix.chat.jinja_text import Text, datum, join_texts
from templatefix.chat.rendering import Origin
from templatefix.chat.request import Request, RequestError

_WORD: Final = 1 << 64


@dataclass(frozen=True, slots=True)
class Caps:
    """What llama-server finds out about a template by trying it; its `/props` say it in the same words."""

    supports_string_content: bool = True
    supports_typed_content: bool = False
    supports_system_role: bool = True
    supports_tools: bool = True
    supports_tool_calls: bool = True
    supports_parallel_tool_calls: bool = True
    supports_object_arguments: bool = True
    supports_preserve_reasoning: bool = False
    supports_reasoning_effort: bool = False

    @classmethod
    def from_props(cls, told: Mapping[str, Any]) -> Caps:
        """Read a server's `chat_template_caps`; what it does not say is as usual."""
        known = {field.name for field in fields(cls)}
        return cls(**{name: bool(value) for name, value in told.items() if name in known})

    def changed(self, before: Caps, after: Caps) -> Caps:
        """These, with what is different after a change as it is then."""
        old, new = asdict(before), asdict(after)
        return replace(self, **{name: value for name, value in new.items() if value != old[name]})


class Record(dict[Any, Any]):
    """An object of a request."""

    __slots__ = ("message", "origin")

    def __init__(self, members: Mapping[Any, Any], origin: Origin, message: int | None) -> None:
        super().__init__(members)
        self.origin = origin
        self.message = message


class Row(list[Any]):
    """An array of a request."""

    __slots__ = ("origin",)

    def __init__(self, items: Sequence[Any], origin: Origin) -> None:
        super().__init__(items)
        self.origin = origin


def json_value(value: Any, origin: Origin, message: int | None) -> Any:
    """A JSON value with one origin throughout; integers wrap at 64 bits as on the server."""
    if isinstance(value, str):
        return datum(value, origin, message)
    if isinstance(value, bool) or value is None or isinstance(value, float):
        return value
    if isinstance(value, int):
        return wrapped(value) if -_WORD // 2 <= value < _WORD else float(value)
    if isinstance(value, Mapping):
        members = {datum(key, origin, message): json_value(item, origin, message) for key, item in value.items()}
        return Record(members, origin, message)
    if isinstance(value, (list, tuple)):
        return Row([json_value(item, origin, message) for item in value], origin)
    raise RequestError(f"a value of the type {type(value).__name__} is no JSON")


def wrapped(number: int) -> int:
    """An integer as 64 bits hold it."""
    return (number + _WORD // 2) % _WORD - _WORD // 2


# -- tools

_NAMED: Final = ("name", "description", "parameters")


def tools_value(tools: Sequence[Mapping[str, Any]]) -> Row:
    """The definitions as the template sees them."""
    return Row([_tool(tool, index) for index, tool in enumerate(tools)], Origin("tools", -1, ""))


def _tool(tool: Mapping[str, Any], index: int) -> Record:
    def of(field: str) -> Origin:
        return Origin("tool", index, field)

    def function(value: Any) -> Any:
        if not isinstance(value, Mapping):
            return json_value(value, of("function"), None)
        rows = {
            datum(key, of("function"), None): _parameters(item, index)
            if key == "parameters"
            else json_value(item, of(key if key in _NAMED else "function"), None)
            for key, item in _in_order(value).items()
        }
        return Record(rows, of("function"), None)

    members = {
        datum(key, of(""), None): function(value) if key == "function" else json_value(value, of(str(key)), None)
        for key, value in tool.items()
    }
    return Record(members, of(""), None)


def _in_order(function: Mapping[str, Any]) -> dict[str, Any]:
    # The server writes the three that it knows in this order, and leaves out the rest.
    told = {"name": function.get("name", ""), "description": function.get("description", "")}
    if "parameters" in function:
        told["parameters"] = function["parameters"]
    return told


def _parameters(value: Any, index: int) -> Any:
    whole = Origin("tool", index, "parameters")
    if not isinstance(value, Mapping):
        return json_value(value, whole, None)
    members = {}
    for key, item in value.items():
        field = {"type": "parameters.type", "required": "required"}.get(str(key), "parameters")
        members[datum(key, whole, None)] = json_value(item, Origin("tool", index, field), None)
    return Record(members, whole, None)


# -- messages


def messages_value(request: Request, caps: Caps, channels: bool = False) -> list[Record]:
    """The messages as the server hands them to a template with these abilities.

    They may come in Ollama's shape or in OpenAI's. A template of gpt-oss, known by its `channels`, has a role
    "developer", which is "system" to others, and takes thoughts as `thinking`. Raises RequestError where a type does
    not fit.
    """
    numbering = CallNumbers()
    found = [_message(row, index, caps, numbering, channels) for index, row in enumerate(request.messages)]
    if channels:
        for message in found:
            if "reasoning_content" in message:
                message["thinking"] = message["reasoning_content"]
                if "tool_calls" in message:
                    del message["content"]
    return found if caps.supports_system_role else _without_system(found)


def _message(row: Mapping[str, Any], index: int, caps: Caps, numbering: CallNumbers, developer: bool) -> Record:
    where = f"message {index + 1}"
    role = _text(row, "role", where)
    role = "system" if role == "developer" and not developer else role
    system = role == "system"

    def of(field: str) -> Origin:
        return Origin("system" if system else "message", index, field)

    members: dict[str, Any] = {
        "role": datum(role, Origin("message", index, "role"), index),
        "content": _content(row.get("content"), of("content"), index, where, caps),
    }
    name = _text(row, "name", where) or _text(row, "tool_name", where)
    if name:
        members["name"] = datum(name, of("tool_name"), index)
    thinking = _text(row, "reasoning_content", where) or _text(row, "thinking", where)
    if thinking:
        members["reasoning_content"] = datum(thinking, of("thinking"), index)
    calls = row.get("tool_calls")
    if calls:
        if not isinstance(calls, (list, tuple)):
            raise RequestError(f"{where}: tool_calls must be an array, not {type(calls).__name__}")
        numbering.begin()
        members["tool_calls"] = Row([_call(call, index, caps, numbering) for call in calls], of("tool_calls"))
    if role == "tool":
        number = numbering.result(_text(row, "tool_call_id", where))
        if number:
            members["tool_call_id"] = datum(number, of("tool_call_id"), index)
    return Record(members, of(""), index)


def _content(content: Any, origin: Origin, index: int, where: str, caps: Caps) -> Any:
    if isinstance(content, (list, tuple)):
        parts = [part for part in content if isinstance(part, Mapping) and part.get("type") == "text"]
        texts = [_text(part, "text", where) for part in parts]
        if caps.supports_typed_content:
            return Row([_part(text, origin, index) for text in texts], origin)
        return join_texts([datum(text, origin, index) for text in texts], "\n")
    if content is not None and not isinstance(content, str):
        raise RequestError(f"{where}: content must be a string, not {type(content).__name__}")
    if caps.supports_string_content:
        return datum(content or "", origin, index)
    return Row([_part(content or "", origin, index)], origin)


def _part(text: str, origin: Origin, index: int) -> Record:
    kind = datum("text", Origin(origin.kind, index, "type"), index)
    return Record({"type": kind, "text": datum(text, origin, index)}, origin, index)


def _call(call: Any, index: int, caps: Caps, numbering: CallNumbers) -> Record:
    origin = Origin("message", index, "tool_calls")
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping):
        raise RequestError(f"message {index + 1}: a tool call has no function")
    arguments = function.get("arguments")
    number = numbering.call(str(call.get("id") or ""), isinstance(arguments, str))
    members = {
        "name": datum(_text(function, "name", "a tool call"), Origin("message", index, "name"), index),
        "arguments": _arguments(arguments, index, caps),
    }
    made: dict[str, Any] = {"type": datum("function", origin, index), "function": Record(members, origin, index)}
    if number:
        made["id"] = datum(number, Origin("message", index, "id"), index)
    return Record(made, origin, index)


def _arguments(arguments: Any, index: int, caps: Caps) -> Any:
    origin = Origin("message", index, "arguments")
    if isinstance(arguments, str):
        if not caps.supports_object_arguments:
            return datum(arguments, origin, index)
        try:
            arguments = json.loads(arguments)
        except ValueError:
            raise RequestError("a tool call's arguments are no JSON") from None
        return json_value(arguments, origin, index)
    if arguments is not None and not isinstance(arguments, Mapping):
        raise RequestError("a tool call's arguments must be an object")
    if caps.supports_object_arguments:
        return json_value(arguments or {}, origin, index)
    return datum(json.dumps(arguments or {}, ensure_ascii=False), origin, index)


def answered_calls(messages: list[Record]) -> list[Record]:
    """The messages as the server hands them to the first templates of Gemma 4: a turn of calls holds its results.

    Its own text is gone; the text of the answer behind the results stands in its place.
    """
    found: list[Record] = []
    for message in messages:
        last = found[-1] if found else None
        if last is not None and "tool_responses" in last:
            if message["role"] == "tool":
                last["tool_responses"].append(_response(message))
                continue
            if message["role"] == "assistant" and "tool_calls" not in message and "content" not in last:
                last["content"] = message["content"]
                continue
        if message.get("tool_calls"):
            about = message.message if message.message is not None else -1
            kept = {key: value for key, value in message.items() if key != "content"}
            message = Record(
                {**kept, "tool_responses": Row([], Origin("message", about, "content"))}, message.origin, about
            )
        found.append(message)
    return found


def _response(result: Record) -> Record:
    content = result["content"]
    about = result.message if result.message is not None else -1
    origin = Origin("message", about, "content")
    with suppress(TypeError, ValueError, RecursionError):  # a result that is no JSON is a text
        content = json_value(json.loads(content), origin, about)
    return Record({"name": result.get("name", ""), "response": content}, origin, about)


def _without_system(messages: list[Record]) -> list[Record]:
    """A system message at the head goes in front of the text of the message behind it."""
    if not messages or messages[0]["role"] != "system":
        return messages
    if len(messages) == 1:
        return []
    first, second = messages[0], messages[1]
    told, asked = first["content"], second["content"]
    if isinstance(told, Text) and isinstance(asked, Text):
        second = Record({**second, "content": join_texts((told, "\n", asked))}, second.origin, second.message)
    return [second, *messages[2:]]


def _text(row: Any, key: str, where: str) -> str:
    value = row.get(key) if isinstance(row, Mapping) else None
    if value is None:
        return ""
    if not isinstance(value, str):
        raise RequestError(f"{where}: {key} must be a string, not {type(value).__name__}")
    return value
