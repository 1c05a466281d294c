"""Which requests belong together: an agent's next request repeats the one before and goes on from it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from templatefix.analysis.stability import common_prefix
from templatefix.trace.exchange import Exchange
from templatefix.trace.texts import common_end

_ALIKE = 0.5  # of a text, from its ends, that makes it the same text with a change in it
_BLOCK = 200  # characters of a prompt that are not the same by chance
_RECENT = 64  # conversations that are looked at


def fingerprint(value: Any) -> str:
    """The SHA-256 of a part of a request; the same for the same JSON, whatever the order of its keys."""
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def essence(message: Mapping[str, Any]) -> tuple[Any, ...]:
    """What a template can show of a message: ids and names of keys that change by themselves are left out."""
    calls = [
        (call["function"].get("name"), fingerprint(call["function"].get("arguments")))
        for call in message.get("tool_calls") or ()
        if isinstance(call, Mapping) and isinstance(call.get("function"), Mapping)
    ]
    return (message.get("role"), message.get("content") or "", message.get("thinking") or "", tuple(calls))


def conversations(exchanges: Sequence[Exchange]) -> list[int]:
    """The conversation of each exchange, numbered as they begin; each goes on from the one before in its conversation.

    One small number for each: a log can hold hundreds of thousands.
    """
    found: list[int] = []
    count = 0
    last: dict[int, int] = {}  # of the conversations that were used last, in that order
    for index, exchange in enumerate(exchanges):
        best, own = 0.0, None
        for conversation, before in last.items():
            score = continues(exchanges[before], exchange)
            if score and score >= best:
                best, own = score, conversation
        if own is None:
            own = count
            count += 1
        found.append(own)
        last.pop(own, None)
        last[own] = index
        if len(last) > _RECENT:
            del last[next(iter(last))]
    return found


def continues(before: Exchange, after: Exchange) -> float:
    """How well a request goes on from another, from 0 (not at all) to 1."""
    if before.readable != after.readable or (before.model and after.model and before.model != after.model):
        return 0.0
    if not before.readable:
        return _continues_in_log(before, after)
    if before.prompt is not None or after.prompt is not None:
        if before.prompt is None or after.prompt is None:
            return 0.0
        size = common_prefix(before.prompt, after.prompt)
        share = size / max(1, min(len(before.prompt), len(after.prompt)))
        middle = before.prompt[len(before.prompt) // 2 :][:_BLOCK]
        again = len(middle) == _BLOCK and middle in after.prompt
        return share if share >= _ALIKE else _ALIKE if again else 0.0
    assert before.request is not None
    assert after.request is not None
    return _continues(before.request.messages, after.request.messages)


def _continues(old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> float:
    heads = [_head(messages) for messages in (old, new)]
    systems = [_alike(a, b) for a, b in zip(heads[0], heads[1], strict=False)]
    if systems and systems[0] < _ALIKE:
        return 0.0  # another task, though the user's words may be the same
    if bool(heads[0]) != bool(heads[1]):
        systems = [0.5]
    bodies = [messages[len(head) :] for messages, head in zip((old, new), heads, strict=True)]
    if not bodies[0] or not bodies[1]:
        return sum(systems) / len(systems) if systems and bodies[0] == bodies[1] else 0.0
    known = {essence(message) for message in bodies[0]}
    same = sum(1 for message in bodies[1] if essence(message) in known)
    first = _alike(bodies[0][0], bodies[1][0])
    if same == 0 and first < _ALIKE:
        return 0.0
    return (max(same, first) / len(bodies[0]) + (systems[0] if systems else 1.0)) / 2


def _head(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    head: list[Mapping[str, Any]] = []
    for message in messages:
        if message.get("role") != "system":
            break
        head.append(message)
    return head


def _alike(first: Mapping[str, Any], second: Mapping[str, Any]) -> float:
    """How much of two messages' text is the same, from both ends."""
    if first.get("role") != second.get("role"):
        return 0.0
    one, other = str(first.get("content") or ""), str(second.get("content") or "")
    if one == other:
        return 1.0
    opening = common_prefix(one, other)
    rest = min(len(one), len(other)) - opening
    ending = min(rest, common_end(one, other))
    return (opening + ending) / max(len(one), len(other))


def _continues_in_log(before: Exchange, after: Exchange) -> float:
    """By a log alone: the same slot of the same engine, which held a good part of the prompt."""
    old, new = before.logged, after.logged
    if old is None or new is None or (old.process, old.slot) != (new.process, new.slot):
        return 0.0
    if new.taken_over or any(event.kind == "restart" for event in after.events):
        return 0.0
    held = new.common_tokens if new.common_tokens is not None else new.cached_tokens
    sizes = [size for size in (old.prompt_tokens, new.prompt_tokens) if size]
    if held is None or not sizes:
        return 0.0
    return 1.0 if new.forced or held / min(sizes) >= 0.1 else 0.0
