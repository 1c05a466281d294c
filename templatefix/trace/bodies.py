"""Requests and answers of the chat APIs that agents speak, brought into Ollama's shape.

Ollama's `/api/chat` and `/api/generate`, OpenAI's chat completions and responses, Anthropic's messages, and
llama-server's `/completion`; answers whole or streamed.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from templatefix.chat.request import Request
from templatefix.trace.exchange import Exchange

Body = Mapping[str, Any]
Message = dict[str, Any]
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ns|us|ms|s|m|h)")
_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
PATHS = ("/api/chat", "/api/generate", "/v1/chat/completions", "/v1/responses", "/v1/messages", "/completion")


def exchange_of(path: str, body: Body, answers: Sequence[Any], source: str) -> Exchange | None:
    """The exchange; None where the body is no request for text. `answers` are the JSON objects of the answer."""
    path = path.partition("?")[0].rstrip("/") or _guessed(body)
    if not path.endswith((*PATHS, "/v1/completions")) or body.get("_debug_render_only") is True:
        return None
    model, options = body.get("model"), body.get("options")
    context = options.get("num_ctx") if isinstance(options, Mapping) else None
    exchange = Exchange(
        source,
        path=path,
        model=model if isinstance(model, str) else None,
        context=context if isinstance(context, int) else None,
        keep_alive=_keep_alive(body.get("keep_alive")),
        no_cache=body.get("cache_prompt") is False,
    )
    prompt = _prompt(path, body)
    if prompt is not None:
        exchange = replace(exchange, prompt=prompt)
    else:
        request = _request(path, body)
        if request is None:
            return None
        exchange = replace(exchange, request=request)
    from templatefix.trace.answers import with_answer

    return with_answer(exchange, [answer for answer in answers if isinstance(answer, Mapping)])


def _keep_alive(given: Any) -> float | None:
    """Ollama's `keep_alive` in seconds: a number, or text such as `5m` and `1h30m`; below 0 is for ever."""
    if isinstance(given, bool) or not isinstance(given, (int, float, str)):
        return None
    if isinstance(given, str):
        parts = _DURATION.findall(given.strip().lstrip("-"))
        try:
            seconds = sum(float(number) * _UNITS[unit] for number, unit in parts) if parts else float(given)
        except ValueError:
            return None
        return math.inf if given.strip().startswith("-") else seconds
    return math.inf if given < 0 else float(given)


def _guessed(body: Body) -> str:
    """The path that a body without one belongs to."""
    if "input" in body or "instructions" in body:
        return "/v1/responses"
    if "messages" not in body:
        return "/completion" if "n_predict" in body else "/api/generate"
    tools = body.get("tools")
    if isinstance(tools, list) and tools and isinstance(tools[0], Mapping) and "input_schema" in tools[0]:
        return "/v1/messages"
    if isinstance(body.get("system"), (str, list)):
        return "/v1/messages"
    return "/api/chat"


def _prompt(path: str, body: Body) -> str | None:
    prompt = body.get("prompt")
    if not isinstance(prompt, str):
        return None
    if path.endswith("/completion") or path.endswith("/v1/completions"):
        return prompt
    return prompt if path.endswith("/api/generate") and body.get("raw") is True else None


def _request(path: str, body: Body) -> Request | None:
    tools = tuple([_tool(tool) for tool in rows(body.get("tools"))])
    messages: list[Message] = []
    if path.endswith("/api/generate"):
        if not isinstance(body.get("prompt"), str) or not body.get("prompt"):
            return None
        if body.get("system"):
            messages.append({"role": "system", "content": str(body["system"])})
        messages.append({"role": "user", "content": body["prompt"]})
    elif path.endswith("/responses"):
        if body.get("instructions"):
            messages.append({"role": "system", "content": str(body["instructions"])})
        messages += _items(body.get("input"))
    else:
        given = body.get("messages")
        if not isinstance(given, list) or not given:
            return None
        if path.endswith("/v1/messages") and body.get("system"):
            messages.append({"role": "system", "content": text_of(body["system"])})
        for message in given:
            if isinstance(message, Mapping):
                messages += _messages(message)
    if not messages:
        return None
    think = body.get("think")
    return Request(
        tuple(messages),
        tools,
        True if isinstance(think, str) else think if isinstance(think, bool) else None,
        think if isinstance(think, str) else "",
        body.get("tools") == [],
    )


def _tool(tool: Body) -> Body:
    """A definition in Ollama's and OpenAI's shape, also where it came flat."""
    if isinstance(tool.get("function"), Mapping):
        return tool
    parameters = tool.get("input_schema", tool.get("parameters"))
    function = {"name": tool.get("name", ""), "description": tool.get("description", ""), "parameters": parameters}
    return {"type": "function", "function": {key: value for key, value in function.items() if value is not None}}


def _messages(message: Body) -> Iterable[Message]:
    """A message of any API; Anthropic's user message with results becomes several."""
    role, content = str(message.get("role", "")).lower(), message.get("content")
    if role == "developer":
        role = "system"
    blocks = content if isinstance(content, list) else []
    results = [block for block in blocks if isinstance(block, Mapping) and block.get("type") == "tool_result"]
    for block in results:
        yield {
            "role": "tool",
            "content": text_of(block.get("content")),
            "tool_call_id": str(block.get("tool_use_id", "")),
        }
    if results and all(block in results for block in blocks):
        return
    whole: Message = {"role": role, "content": text_of(content)}
    calls = [_call(call) for call in rows(message.get("tool_calls"))]
    calls += [_call(block) for block in blocks if isinstance(block, Mapping) and block.get("type") == "tool_use"]
    if calls:
        whole["tool_calls"] = calls
    thinking = message.get("thinking") or message.get("reasoning_content") or message.get("reasoning")
    thoughts = [str(block.get("thinking", "")) for block in blocks if _kind(block) == "thinking"]
    if thinking or thoughts:
        whole["thinking"] = str(thinking) if thinking else "".join(thoughts)
    for key in ("tool_name", "tool_call_id", "name", "images"):
        if message.get(key):
            whole["tool_name" if key == "name" and role == "tool" else key] = message[key]
    yield whole


def _items(given: Any) -> Iterable[Message]:
    """The input of OpenAI's responses."""
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    messages: list[Message] = []
    for item in given if isinstance(given, list) else []:
        kind = _kind(item)
        if kind == "function_call":
            call = _call(item)
            if messages and messages[-1]["role"] == "assistant":
                messages[-1].setdefault("tool_calls", []).append(call)
            else:
                messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
        elif kind == "function_call_output":
            output = item.get("output")
            messages.append(
                {"role": "tool", "content": text_of(output), "tool_call_id": str(item.get("call_id", ""))},
            )
        elif isinstance(item, Mapping) and "role" in item:
            messages += _messages(item)
    return messages


def _call(call: Body) -> Message:
    """A tool call in Ollama's shape: arguments as an object where they are one."""
    function = call.get("function")
    named = function if isinstance(function, Mapping) else call
    arguments = named.get("arguments", named.get("input", {}))
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except ValueError:
            arguments = {"": arguments}
    made: Message = {"function": {"name": str(named.get("name", "")), "arguments": arguments}}
    identity = call.get("call_id") or call.get("id")
    if identity:
        made["id"] = str(identity)
    return made


def _kind(block: Any) -> str:
    return str(block.get("type", "")) if isinstance(block, Mapping) else ""


def rows(value: Any) -> list[Body]:
    """The objects of a list; none where it is no list."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def text_of(content: Any) -> str:
    """The text of a content: itself, or the texts of its blocks."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = [block.get("text") if isinstance(block, Mapping) else block for block in content]
        return "".join([text for text in texts if isinstance(text, str)])
    return "" if content is None else json.dumps(content, ensure_ascii=False)
