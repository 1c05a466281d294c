"""OpenAI-shaped servers (vLLM, SGLang, llama-server, proxies): messages go in, counts of tokens come out."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from templatefix.servers.errors import NotMeasurable
from templatefix.servers.http import JsonServer
from templatefix.servers.llama_server import server_url
from templatefix.servers.timings import Timings

NAME = "OpenAI-shaped server"


class OpenAiServer(JsonServer):
    """A base URL, with or without `/v1`, and a key where one is wanted."""

    def __init__(self, url: str, *, key: str | None = None, connect: float = 10.0, silence: float = 600.0) -> None:
        super().__init__(server_url(url), NAME, key=key, connect=connect, silence=silence)

    def read_messages(self, model: str, messages: Sequence[Any], tools: Sequence[Any]) -> Timings:
        """Let a model read a conversation and say one token; cached and fresh tokens, and the time that it took.

        Raises NotMeasurable where the server tells no cached tokens.
        """
        body: dict[str, Any] = {
            "model": model,
            "messages": [openai_message(message) for message in messages],
            **({"tools": list(tools)} if tools else {}),
            "max_tokens": 1,
            "temperature": 0,
            "seed": 1,
        }
        began = time.monotonic()
        answer = self.ask("POST", "/v1/chat/completions", body)
        took = (time.monotonic() - began) * 1000
        usage = answer.get("usage") if isinstance(answer, dict) else None
        if not isinstance(usage, dict) or not isinstance(usage.get("prompt_tokens"), int):
            raise self.stranger("its answer counts no tokens")
        details = usage.get("prompt_tokens_details")
        cached = details.get("cached_tokens") if isinstance(details, dict) else None
        if not isinstance(cached, int):
            raise NotMeasurable(
                f"{self.url} tells no cached tokens (vLLM does with --enable-prompt-tokens-details, SGLang with "
                "--enable-cache-report)"
            )
        return Timings(cached, usage["prompt_tokens"] - cached, took)


def openai_message(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message of Ollama's API as OpenAI's has it: arguments are text, calls and results have an id."""
    made = {key: value for key, value in message.items() if key in ("role", "content")}
    calls = message.get("tool_calls") or []
    if calls:
        made["tool_calls"] = [_call(index, call) for index, call in enumerate(calls)]
    if message.get("role") == "tool":
        made["tool_call_id"] = str(message.get("tool_call_id") or _id(0))
    return made


def _call(index: int, call: Mapping[str, Any]) -> dict[str, Any]:
    import json

    function = call["function"]
    arguments = json.dumps(function.get("arguments") or {}, ensure_ascii=False)
    return {
        "id": str(call.get("id") or _id(index)),
        "type": "function",
        "function": {"name": function["name"], "arguments": arguments},
    }


def _id(index: int) -> str:
    return f"call{index:05d}"  # nine letters and digits: some templates insist on it
