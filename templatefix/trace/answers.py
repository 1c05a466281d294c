"""What answers tell: how long the prompt was, how much of it came from the cache, and what was replied."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from templatefix.trace.exchange import Exchange, Figures

Answer = Mapping[str, Any]
_Counts = tuple[int | None, int | None, Figures]


def with_answer(exchange: Exchange, answers: Sequence[Answer]) -> Exchange:
    """The exchange with what the objects of its answer say; those of a stream in their order."""
    prompt, cached, figures = None, None, exchange.figures
    slot, spent = exchange.slot, exchange.prompt_ms
    for answer in answers:
        found = _counts(answer)
        if found is not None:
            prompt, cached, figures = found
        if isinstance(answer.get("id_slot"), int):
            slot = answer["id_slot"]
        spent = _milliseconds(answer) or spent
    reply = reply_of(answers)
    known = replace(exchange, prompt_tokens=prompt, cached_tokens=cached, figures=figures)
    known = replace(known, slot=slot, reply=reply, prompt_ms=spent)
    return replace(known, token_ms=_a_token(answers), load_ms=_most(answers, "load_duration"))


def _a_token(answers: Sequence[Answer]) -> float | None:
    """Milliseconds for each token of Ollama's answer."""
    spent, count = (
        _most(answers, "eval_duration"),
        max((_number(one.get("eval_count")) or 0 for one in answers), default=0),
    )
    return spent / count if spent is not None and count else None


def _most(answers: Sequence[Answer], key: str) -> float | None:
    """Ollama's nanoseconds under a key in milliseconds."""
    told = [found for answer in answers if (found := _number(answer.get(key))) is not None]
    return max(told) / 1e6 if told else None


def _milliseconds(answer: Answer) -> float | None:
    """How long the engine read; Ollama counts nanoseconds."""
    timings = answer.get("timings")
    told = timings.get("prompt_ms") if isinstance(timings, Mapping) else None
    if told is None and isinstance(answer.get("prompt_eval_duration"), int):
        told = answer["prompt_eval_duration"] / 1e6
    return float(told) if isinstance(told, (int, float)) and told > 0 else None


def _counts(answer: Answer) -> _Counts | None:
    """Prompt and cached tokens, and where they come from; None where the object has no figures."""
    timings = answer.get("timings")
    if isinstance(timings, Mapping) and _number(timings.get("prompt_n")) is not None:
        cached = _number(timings.get("cache_n"))
        fresh = _number(timings.get("prompt_n")) or 0
        total = fresh + (cached or 0) if cached is not None else _usage_total(answer)
        return total, cached, "engine"
    if _number(answer.get("prompt_eval_count")) is not None:
        return _number(answer["prompt_eval_count"]), _number(answer.get("prompt_eval_cached_count")), "field"
    for holder in (answer, answer.get("response"), answer.get("message")):
        if isinstance(holder, Mapping) and isinstance(holder.get("usage"), Mapping):
            found = _usage(holder["usage"])
            if found is not None:
                return found
    return None


def _usage_total(answer: Answer) -> int | None:
    usage = answer.get("usage")
    return _number(usage.get("prompt_tokens")) if isinstance(usage, Mapping) else None


def _usage(usage: Answer) -> _Counts | None:
    """OpenAI's and Anthropic's counts; Ollama's responses claim a constant 0 from the cache, which says nothing."""
    if _number(usage.get("prompt_tokens")) is not None:
        details = usage.get("prompt_tokens_details")
        cached = _number(details.get("cached_tokens")) if isinstance(details, Mapping) else None
        return _number(usage["prompt_tokens"]), cached, "field"
    total = _number(usage.get("input_tokens"))
    if not total:
        return None
    if "cache_read_input_tokens" in usage:
        read = _number(usage["cache_read_input_tokens"]) or 0
        written = _number(usage.get("cache_creation_input_tokens")) or 0
        return total + read + written, read, "field"
    details = usage.get("input_tokens_details")
    cached = _number(details.get("cached_tokens")) if isinstance(details, Mapping) else None
    return total, cached or None, "field"


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def reply_of(answers: Sequence[Answer]) -> Mapping[str, Any] | None:
    """The assistant's message, put together from what was streamed; None where there is none."""
    text: list[str] = []
    thinking: list[str] = []
    calls: dict[Any, dict[str, Any]] = {}
    for answer in answers:
        _take(answer, text, thinking, calls)
    if not (text or thinking or calls):
        return None
    message: dict[str, Any] = {"role": "assistant", "content": "".join(text)}
    if thinking:
        message["thinking"] = "".join(thinking)
    if calls:
        message["tool_calls"] = [_finished(call) for call in calls.values()]
    return message


def _take(answer: Answer, text: list[str], thinking: list[str], calls: dict[Any, dict[str, Any]]) -> None:
    holders = [answer.get("message"), answer.get("delta"), answer.get("content_block")]
    choices = answer.get("choices")
    for choice in choices if isinstance(choices, list) else []:
        if isinstance(choice, Mapping):
            holders += [choice.get("message"), choice.get("delta")]
            _put(text, choice.get("text"))
    for holder in holders:
        if isinstance(holder, Mapping):
            _take_message(holder, answer.get("index"), text, thinking, calls)
    blocks = answer.get("content")
    if isinstance(blocks, list):
        for index, block in enumerate(blocks):
            if isinstance(block, Mapping):
                _take_message(block, index, text, thinking, calls)
    elif not isinstance(answer.get("message"), Mapping):
        _put(text, blocks)
    _put(text, answer.get("response"))
    _put(thinking, answer.get("thinking"))
    whole = answer.get("response")
    items = (whole if isinstance(whole, Mapping) else answer).get("output")
    for item in items if isinstance(items, list) else []:
        if isinstance(item, Mapping):
            _take_item(item, text, thinking, calls)


def _take_item(item: Answer, text: list[str], thinking: list[str], calls: dict[Any, dict[str, Any]]) -> None:
    """A finished part of OpenAI's responses; a stream repeats all of them in its last event."""
    for key, texts in (("content", thinking if item.get("type") == "reasoning" else text), ("summary", thinking)):
        blocks = item.get(key)
        for block in blocks if isinstance(blocks, list) else []:
            if isinstance(block, Mapping):
                _put(texts, block.get("text"))
    if item.get("type") == "function_call":
        arguments = item.get("arguments")
        written = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
        calls[len(calls), "item"] = {"name": item.get("name", ""), "arguments": written, "id": item.get("call_id")}


def _take_message(
    holder: Answer, index: Any, text: list[str], thinking: list[str], calls: dict[Any, dict[str, Any]]
) -> None:
    _put(text, holder.get("content"))
    _put(text, holder.get("text"))
    for key in ("thinking", "reasoning_content", "reasoning"):
        _put(thinking, holder.get(key))
    if holder.get("type") == "tool_use":
        given = holder.get("input")
        written = json.dumps(given) if given else ""
        calls[index] = {"name": holder.get("name", ""), "arguments": written, "id": holder.get("id")}
    if isinstance(holder.get("partial_json"), str) and index in calls:
        calls[index]["arguments"] += holder["partial_json"]
    found = holder.get("tool_calls")
    for place, call in enumerate(found if isinstance(found, list) else []):
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping):
            continue
        streamed = isinstance(call.get("index"), int) and "id" not in call
        place_key: Any = call["index"] if isinstance(call.get("index"), int) else (len(calls), place)
        arguments = function.get("arguments")
        written = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
        if streamed and place_key in calls:
            calls[place_key]["arguments"] += written
        else:
            calls[place_key] = {"name": function.get("name", ""), "arguments": written, "id": call.get("id")}


def _finished(call: Mapping[str, Any]) -> dict[str, Any]:
    try:
        arguments = json.loads(call["arguments"] or "{}")
    except ValueError:
        arguments = call["arguments"]
    return {"function": {"name": str(call["name"]), "arguments": arguments}}


def _put(texts: list[str], value: Any) -> None:
    if isinstance(value, str) and value:
        texts.append(value)


def objects_in(data: bytes) -> tuple[list[Any], int]:
    """The JSON objects of an answer (one, JSON lines, or events of a stream), and how many could not be read."""
    try:
        whole = json.loads(data)
    except ValueError:
        pass
    else:
        return (whole if isinstance(whole, list) else [whole]), 0
    objects, broken = [], 0
    for line in data.split(b"\n"):
        text = line.strip()
        if text.startswith(b"data:"):
            text = text[5:].strip()
        elif text.startswith((b"event:", b"id:", b"retry:", b":")):
            continue
        if not text or text == b"[DONE]":
            continue
        try:
            objects.append(json.loads(text))
        except ValueError:
            broken += 1
    return objects, broken
