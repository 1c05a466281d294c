"""What an Ollama server makes of a request before its template sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from templatefix.chat.ollama_native import as_native
from templatefix.chat.request import Request
from templatefix.servers.names import ModelName
from templatefix.servers.shown import Shown

_OPEN, _CLOSE = "<think>", "</think>"
# What Go takes for white space; Python's own set has more.
_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))


def as_served(request: Request, shown: Shown) -> Request:
    """The request as the template of the shown model sees it.

    The tag's MESSAGE lines come first; its SYSTEM stands before them unless the request opens with a system message of
    its own. Some models lose the thinking of earlier turns. A model with think tags thinks unless told otherwise, and
    thinking that is merely on has the level "medium". A Jinja text gets what `as_native` leaves.
    """
    return _with_jinja(_filled_in(request, shown), shown, request.think_level)


def as_written(request: Request, shown: Shown) -> Request:
    """The same of a request that ends with what the model has just written: there its thinking still is."""
    return _with_jinja(_filled_in(request, shown), shown, request.think_level, kept=len(request.messages[-1:]))


def _with_jinja(request: Request, shown: Shown, level: str, kept: int = 0) -> Request:
    if not shown.renders_jinja:
        return request
    # A level that nobody asked for is none to the engine.
    return as_native(replace(request, think_level=level), kept)


def _filled_in(request: Request, shown: Shown) -> Request:
    messages: list[Mapping[str, Any]] = [*shown.messages, *request.messages]
    opens = str(request.messages[0].get("role", "")).lower() if request.messages else ""
    if shown.system and opens != "system":
        messages.insert(0, {"role": "system", "content": shown.system})
    if shown.family == "qwen3" or _model(shown.name) == "deepseek-r1":
        messages = _forgetful(messages)
    return replace(request, messages=tuple(messages)).thinking_as_served(shown.thinks)


def _model(name: str) -> str:
    try:
        return ModelName.parse(name).model
    except ValueError:
        return ""


def _forgetful(messages: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    roles = [str(message.get("role", "")).lower() for message in messages]
    last = max((index for index, role in enumerate(roles) if role == "user"), default=-1)
    return [
        {**message, "content": _without_thinking(str(message.get("content") or ""))}
        if role == "assistant" and index < last
        else message
        for index, (message, role) in enumerate(zip(messages, roles, strict=True))
    ]


def _without_thinking(content: str) -> str:
    # A text that could be the beginning of the tag is held back, and so lost.
    text = content.lstrip(_SPACE)
    if text.startswith(_OPEN):
        _, closed, rest = text[len(_OPEN) :].partition(_CLOSE)
        return rest.lstrip(_SPACE) if closed else ""
    return "" if _OPEN.startswith(text) else content
