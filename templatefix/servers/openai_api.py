"""OpenAI-shaped servers (vLLM, SGLang, llama-server, proxies): messages go in, counts of tokens come out."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from templatefix.chat.calls import call_number
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
            "messages": openai_messages(messages),
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


def openai_messages(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Messages of Ollama's API as OpenAI's has them: arguments are text, calls without an id are numbered, and a result
    has that of the first call before it that none has answered. Thoughts go along as `reasoning_content`.
    """
    count = 0
    unanswered: deque[str] = deque()
    made = []
    for message in messages:
        found = {key: value for key, value in message.items() if key in ("role", "content")}
        if message.get("thinking"):
            found["reasoning_content"] = message["thinking"]
        if message.get("tool_calls"):
            calls = [_call(call, count + number) for number, call in enumerate(message["tool_calls"], 1)]
            count += len(calls)
            unanswered = deque(call["id"] for call in calls)
            found["tool_calls"] = calls
        if message.get("role") == "tool":
            own = str(message.get("tool_call_id") or "") or (unanswered[0] if unanswered else call_number(0))
            if own in unanswered:
                unanswered.remove(own)
            found["tool_call_id"] = own
        made.append(found)
    return made


def _call(call: Mapping[str, Any], number: int) -> dict[str, Any]:
    import json

    function = call["function"]
    arguments = json.dumps(function.get("arguments") or {}, ensure_ascii=False)
    return {
        "id": str(call.get("id") or call_number(number)),
        "type": "function",
        "function": {"name": function["name"], "arguments": arguments},
    }
