"""What Ollama makes of a request before a Jinja text sees it (read in its source as of 2026-08-21, seen on 0.33).

The engine gets messages without their thinking, tools with the fields that Ollama knows in its own order, and calls
with the ids that the client sent, or none. Their arguments go to it as text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from templatefix.chat.ollama_data import go_value
from templatefix.chat.request import Request, RequestError
from templatefix.gotemplate.gojson import marshal


def as_native(request: Request, kept: int = 0) -> Request:
    """The request with what the engine gets of it; the thinking of the last `kept` messages stays.

    Raises RequestError where a call's arguments are no object.
    """
    past = len(request.messages) - kept
    messages = [_message(row, kept=index >= past) for index, row in enumerate(request.messages)]
    return replace(request, messages=tuple(messages), tools=tuple([_tool(tool) for tool in request.tools]))


def _message(row: Mapping[str, Any], kept: bool) -> Mapping[str, Any]:
    wanted = ("content", "images", "tool_name", "tool_call_id", *(("thinking",) if kept else ()))
    told = {"role": _lower(row.get("role")), **{key: row[key] for key in wanted if row.get(key) is not None}}
    calls = row.get("tool_calls")
    if isinstance(calls, (list, tuple)):
        calls = [_call(call) for call in calls]
    return {**told, "tool_calls": calls} if calls else told


def _lower(role: Any) -> Any:
    return role.lower() if isinstance(role, str) else role


def _call(call: Any) -> Any:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping):
        return call  # which is refused where it is rendered
    own = {"id": call["id"]} if call.get("id") else {}
    return {**own, "function": {"name": function.get("name"), "arguments": _arguments(function.get("arguments"))}}


def _arguments(value: Any) -> dict[str, Any]:
    """The arguments: in their own order, sorted within."""
    if isinstance(value, str):  # as OpenAI's clients send them
        try:
            value = json.loads(value)
        except ValueError:
            raise RequestError("a tool call's arguments are no JSON") from None
    if value is not None and not isinstance(value, Mapping):
        raise RequestError("a tool call's arguments must be an object")
    return {str(name): _sorted(member) for name, member in (value or {}).items()}


def with_written_calls(request: Request) -> Request:
    """The request with the arguments of its calls as text: Go writes them before they go to the engine."""
    return replace(request, messages=tuple([_written(row) for row in request.messages]))


def _written(row: Mapping[str, Any]) -> Mapping[str, Any]:
    calls = row.get("tool_calls")
    return {**row, "tool_calls": [_written_call(call) for call in calls]} if isinstance(calls, (list, tuple)) else row


def _written_call(call: Any) -> Any:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("arguments"), Mapping):
        return call
    members = [f"{marshal(name)}:{marshal(go_value(member))}" for name, member in function["arguments"].items()]
    return {**call, "function": {**function, "arguments": "{" + ",".join(members) + "}"}}


def _tool(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """A tool as the server sends it on: the fields that it knows, in its order."""
    function = _mapping(tool.get("function"))
    parameters = _mapping(function.get("parameters"))
    properties = parameters.get("properties")
    made = {
        "type": parameters.get("type") or "",
        **_any(parameters, "$defs"),
        **_any(parameters, "items"),
        **_given(parameters, "required"),
        "properties": None if properties is None else _properties(properties),
    }
    named = {"name": function.get("name") or "", **_given(function, "description"), "parameters": made}
    return {"type": tool.get("type") or "", "function": named}  # the engine takes no more


def _properties(rows: Any) -> dict[str, Any]:
    return {name: _property(_mapping(row)) for name, row in _mapping(rows).items()}


def _property(row: Mapping[str, Any]) -> dict[str, Any]:
    kinds, within = row.get("type"), row.get("properties")
    # Go writes a list of one type as that type.
    kind = kinds[0] if isinstance(kinds, (list, tuple)) and len(kinds) == 1 else kinds
    return {
        **({"anyOf": [_property(_mapping(one)) for one in row["anyOf"]]} if row.get("anyOf") else {}),
        **({"type": kind} if kind else {}),
        **_any(row, "items"),
        **_given(row, "description"),
        **({"enum": [_sorted(one) for one in row["enum"]]} if row.get("enum") else {}),
        **({} if within is None else {"properties": _properties(within)}),
        **_given(row, "required"),
    }


def _given(row: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {key: row[key]} if row.get(key) else {}


def _any(row: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {} if row.get(key) is None else {key: _sorted(row[key])}


def _sorted(value: Any) -> Any:
    """A value of no type of Ollama's own, as Go writes it: keys sorted, all numbers floats."""
    return json.loads(marshal(go_value(value)))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
