"""Sessions as a real engine answers them, recorded as `trace record` would."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from templatefix.analysis.loops import Loop
from templatefix.chat.request import Request
from templatefix.lab.ab import Arm
from templatefix.lab.embedded import embedded_engine
from templatefix.lab.replies import reply_index, reply_text
from templatefix.servers.standin import Attention
from templatefix.servers.tokenizer import Donor

MODEL = "agent:latest"


@dataclass(frozen=True)
class Answered:
    """A request with the engine's figures."""

    request: Request
    cached: int
    fresh: int


def clocked(loop: Loop, message: int, times: Sequence[str]) -> Loop:
    """The loop of a client that writes the time into a message whenever it sends it: one time a request."""
    requests = []
    for request, time in zip(loop.requests, times, strict=True):
        messages = [dict(one) for one in request.messages]
        messages[message]["content"] = f"It is {time} now. {messages[message]['content']}"
        requests.append(replace(request, messages=tuple(messages)))
    return Loop(loop.name, tuple(requests), False)


def played(arm: Arm, loop: Loop, donor: Donor, folder: Path, attention: Attention = "full") -> list[Answered]:
    """Send a loop to a cold engine that has each reply in its cache, as a server that generated it has."""
    engine = embedded_engine([arm], [loop], donor, folder, attention)
    prompts = [arm.template.render(arm.served(request)) for request in loop.requests]
    answered: list[Answered] = []
    with engine.session(2 * max(len(prompt.data) for prompt in prompts)) as session:
        for index, (request, prompt) in enumerate(zip(loop.requests, prompts, strict=True)):
            if index:
                # What the model generated is worded as the request it answered would go on.
                before = loop.requests[index - 1]
                reply = reply_index(before, request)
                assert reply is not None
                whole = replace(before, messages=(*before.messages, request.messages[reply]))
                worded = arm.template.render(
                    arm.served(replace(whole, messages=(*whole.messages, {"role": "user", "content": "?"})))
                )
                session.evaluate(prompts[index - 1].text + reply_text(prompts[index - 1], worded, reply), n_predict=0)
            timings = session.evaluate(prompt.text, cold=index == 0)
            answered.append(Answered(request, timings.cached_tokens, timings.fresh_tokens))
    return answered


def written(path: Path, answered: Sequence[Answered], template: str = "") -> Path:
    """The recording of a session."""
    rows: list[object] = []
    if template:
        rows.append({"version": 1, "model": MODEL, "template": template, "kind": "go"})
    for index, one in enumerate(answered):
        following = answered[index + 1].request if index + 1 < len(answered) else None
        count = len(one.request.messages)
        reply = following.messages[count] if following is not None else {"role": "assistant", "content": "Done."}
        body = {"model": MODEL, "messages": list(one.request.messages), "tools": list(one.request.tools)}
        timings = {"cache_n": one.cached, "prompt_n": one.fresh}
        answer = [{"model": MODEL, "message": reply, "done": True, "timings": timings}]
        rows.append(
            {
                "version": 1,
                "time": f"2026-11-29T12:00:{index:02}Z",
                "method": "POST",
                "path": "/api/chat",
                "request": body,
                "status": 200,
                "answer": answer,
            }
        )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


Player = Callable[..., list[Answered]]
