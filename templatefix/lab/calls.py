"""From the text that a model generated to the message that a server makes of it: thinking, calls, content."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from templatefix.analysis.loops import Message, assistant, call
from templatefix.chat.derived import Derived

_KEYS = ("arguments", "parameters")
_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


@dataclass(frozen=True, slots=True)
class Tags:
    """How a server reads what the model says, as it derives that from a template."""

    tool: str = "{"  # calls are read from here on
    think_open: str = ""
    think_close: str = ""

    @classmethod
    def of(cls, derived: Derived) -> Tags:
        """Those of a Go template."""
        return cls(derived.tool_tag, derived.think_open, derived.think_close)

    @classmethod
    def of_jinja(cls, text: str) -> Tags:
        """What llama-server's parsers look for in most families."""
        tool = next((mark for mark in ("<tool_call>", "[TOOL_CALLS]", "<|tool_call>") if mark in text), "{")
        return cls(tool, "<think>", "</think>") if "</think>" in text else cls(tool)


def read_reply(text: str, tags: Tags, tools: Sequence[Mapping[str, Any]], prompt: str = "") -> Message:
    """The assistant's message in a generated text; a prompt that ends with the opening tag has begun the thinking."""
    thinking, rest = _thinking(text, tags, prompt)
    content, calls = _calls(rest, tags.tool, tools)
    return assistant(content.strip(), *calls, thinking=thinking.strip())


def _thinking(text: str, tags: Tags, prompt: str) -> tuple[str, str]:
    if not tags.think_open or not tags.think_close:
        return "", text
    begun = prompt.rstrip().endswith(tags.think_open)
    stripped = text.lstrip()
    if not begun and not stripped.startswith(tags.think_open):
        return "", text
    thinking, _, rest = stripped.removeprefix(tags.think_open).partition(tags.think_close)
    return thinking, rest


def _calls(text: str, tag: str, tools: Sequence[Mapping[str, Any]]) -> tuple[str, list[Message]]:
    """Content and calls. Where the tag is a mere bracket, only a text that begins with it holds calls."""
    at = text.find(tag)
    bracket = tag in ("{", "[")
    if not tools or at < 0 or (bracket and text[:at].strip()):
        return text, []
    names = {str(tool["function"]["name"]) for tool in tools}
    calls = list(_found(text[at if bracket else at + len(tag) :], names))
    if bracket and not calls:
        return text, []
    return text[:at], calls


def _found(text: str, names: set[str]) -> Iterator[Message]:
    """Calls as objects with a name and arguments, or as a tool's name with an object behind it."""
    start = 0
    for before, value, end in json_objects(text):
        name = value.get("name")
        arguments = next((value[key] for key in _KEYS if isinstance(value.get(key), dict)), None)
        if isinstance(name, str) and name in names and arguments is not None:
            yield call(name, **arguments)
        elif named := [word for word in names if word in text[start:before]]:
            yield call(max(named, key=len), **value)
        start = end


def json_objects(text: str) -> Iterator[tuple[int, dict[str, Any], int]]:
    """The outermost JSON objects of a text, each with its start and end."""
    decoder = json.JSONDecoder()
    at = text.find("{")
    while at >= 0:
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            at = text.find("{", at + 1)
            continue
        yield at, value, end
        at = text.find("{", end)


def fits(made: Message, tools: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a call's arguments are what its tool asks for: all that is required, of the right types, no others."""
    name, arguments = made["function"]["name"], made["function"]["arguments"]
    schema = next((tool["function"].get("parameters") or {} for tool in tools if tool["function"]["name"] == name), {})
    properties = schema.get("properties") or {}
    if any(key not in arguments for key in schema.get("required") or ()) or any(
        key not in properties for key in arguments
    ):
        return False
    return all(_fits(value, properties[key]) for key, value in arguments.items())


def _fits(value: Any, schema: Any) -> bool:
    if not isinstance(schema, dict):
        return True
    if "enum" in schema and value not in schema["enum"]:
        return False
    wanted = schema.get("type")
    kinds = [wanted] if isinstance(wanted, str) else wanted or []
    known = [_TYPES[kind] for kind in kinds if kind in _TYPES]
    if not known:
        return True
    if isinstance(value, bool):
        return any(bool in types for types in known)
    return any(isinstance(value, types) for types in known)
