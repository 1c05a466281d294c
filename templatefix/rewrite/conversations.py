"""Conversations made by a seeded generator: words, tools and arguments that stand in no sample and no template.

The same seed makes the same conversation everywhere, so a proof can be repeated.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from templatefix.analysis.loops import Loop, Message, requests_of
from templatefix.chat.request import Request

_SYLLABLES = ("zor", "quin", "plag", "mev", "thuk", "ybra", "wex", "jol", "drif", "nuum", "skel", "ogha")
_SPICES = ("", "", "", ' "quoted"', " <tag> & more", "\nnext line", " ünïcode ✓", " {brace}", " 100%", "\t")


class Generator:
    """Makes messages and tools of one conversation."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.serial = 0

    def word(self) -> str:
        """A word that occurs once."""
        self.serial += 1
        return "".join(self.random.choice(_SYLLABLES) for _ in range(2)) + str(self.serial)

    def text(self) -> str:
        """A sentence, sometimes with characters that need care."""
        words = [self.word() for _ in range(self.random.randint(1, 4))]
        return " ".join(words) + self.random.choice(_SPICES) + "."

    def schema(self) -> Mapping[str, Any]:
        """One property of a tool's parameters."""
        kind = self.random.choice(("string", "integer", "number", "boolean"))
        schema: dict[str, Any] = {"type": kind, "description": self.text()}
        if kind == "string" and self.random.random() < 0.3:
            schema["enum"] = [self.word(), self.word()]
        return schema

    def tool(self) -> Mapping[str, Any]:
        """A tool definition with one or several parameters."""
        names = [self.word() for _ in range(self.random.randint(1, 3))]
        properties = {name: self.schema() for name in names}
        parameters = {"type": "object", "properties": properties, "required": names[:1]}
        return {
            "type": "function",
            "function": {"name": f"{self.word()}_{self.word()}", "description": self.text(), "parameters": parameters},
        }

    def call(self, tools: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        """A call of one of the tools, with a value for each of its parameters."""
        function = self.random.choice(tools)["function"]
        names = list(function["parameters"]["properties"])
        makers = (self.text, self.word, lambda: self.random.randint(-9, 10**6), lambda: self.random.random() < 0.5)
        return {"function": {"name": function["name"], "arguments": {n: self.random.choice(makers)() for n in names}}}

    def turn(self, tools: Sequence[Mapping[str, Any]]) -> list[Message]:
        """What follows a user's message: calls and results, then, mostly, an answer."""
        messages: list[Message] = []
        for _ in range(self.random.choice((0, 1, 1, 2, 3))):
            calls = [self.call(tools) for _ in range(self.random.choice((1, 1, 1, 2)))]
            text = self.text() if self.random.random() < 0.25 else ""
            messages.append({"role": "assistant", "content": text, "tool_calls": calls})
            for each in calls:
                error = "error: " if self.random.random() < 0.2 else ""
                name = each["function"]["name"]
                messages.append({"role": "tool", "tool_name": name, "content": error + self.text()})
        messages.append({"role": "assistant", "content": self.text()})
        return messages


def generated_loop(seed: int, turns: int | None = None) -> Loop:
    """One core loop: a system message or none, one to four user turns, calls, errors, answers."""
    maker = Generator(seed)
    tools = [maker.tool() for _ in range(maker.random.randint(1, 4))]
    messages: list[Message] = []
    if maker.random.random() < 0.7:
        messages.append({"role": "system", "content": maker.text()})
    for _ in range(turns or maker.random.randint(1, 4)):
        messages.append({"role": "user", "content": maker.text()})
        messages += maker.turn(tools)
    messages.append({"role": "user", "content": maker.text()})
    return Loop(f"generated-{seed}", requests_of(messages, tools), True)


def generated_loops(count: int, seed: int = 0) -> tuple[Loop, ...]:
    """Several core loops."""
    return tuple([generated_loop(seed + index) for index in range(count)])


def generated_talks(count: int, seed: int = 0) -> tuple[Loop, ...]:
    """Several core loops without calls: users and answers in turn."""
    loops: list[Loop] = []
    for index in range(count):
        maker = Generator(20_000 + seed + index)
        messages: list[Message] = []
        if maker.random.random() < 0.7:
            messages.append({"role": "system", "content": maker.text()})
        for _ in range(maker.random.randint(1, 4)):
            messages.append({"role": "user", "content": maker.text()})
            messages.append({"role": "assistant", "content": maker.text()})
        messages.append({"role": "user", "content": maker.text()})
        loops.append(Loop(f"generated-talk-{seed + index}", requests_of(messages, ()), True))
    return tuple(loops)


_ODD: Final = ("", " \n ")  # what a user may send as well: nothing, and white space
_PIXEL: Final = "R0lGODlhAQABAAAAACw="  # the beginning of a GIF of one point


def odd_loops(images: bool) -> tuple[Loop, ...]:
    """Short loops with odd texts of the user, first and later on; with `images` one that begins with an image alone."""
    openings: list[dict[str, Any]] = [{"role": "user", "content": text} for text in _ODD]
    if images:
        openings.append({"role": "user", "content": "", "images": [_PIXEL]})
    loops: list[Loop] = []
    for index, opening in enumerate(openings):
        maker = Generator(40_000 + index)
        tools = [maker.tool()]
        answer = {"role": "assistant", "content": maker.text()}
        first, last = {"role": "user", "content": maker.text()}, {"role": "user", "content": maker.text()}
        system = {"role": "system", "content": maker.text()}
        talks = {"at the start": [opening, answer, last], "later on": [system, first, answer, opening, answer, last]}
        for where, messages in talks.items():
            loops.append(Loop(f"odd-text-{index + 1} {where}", requests_of(messages, tools), False))
    return tuple(loops)


def pondering(loop: Loop, seed: int = 0) -> Loop:
    """The same conversation with thinking in most of the model's turns."""
    maker = Generator(30_000 + seed)
    thoughts: dict[int, str] = {}
    for index, message in enumerate(loop.requests[-1].messages):
        # Not beside text and calls at once: some templates refuse that.
        alone = message["role"] == "assistant" and not (message.get("content") and message.get("tool_calls"))
        if alone and maker.random.random() < 0.8:
            thoughts[index] = maker.text()
    requests = [
        replace(request, messages=tuple([_with(m, thoughts.get(i)) for i, m in enumerate(request.messages)]))
        for request in loop.requests
    ]
    return Loop(f"{loop.name}, thinking", tuple(requests), loop.core)


def _with(message: Message, thought: str | None) -> Message:
    return message if thought is None else {**message, "thinking": thought}


def generated_chats(count: int, seed: int = 0) -> tuple[Request, ...]:
    """Requests without tools, of any shape a server accepts: any order of roles, thinking in all its forms."""
    requests: list[Request] = []
    for index in range(count):
        maker = Generator(10_000 + seed + index)
        tools = [maker.tool(), maker.tool()]
        messages: list[Message] = []
        for _ in range(maker.random.randint(0, 7)):
            role = maker.random.choice(("system", "user", "user", "assistant", "assistant", "tool"))
            message: dict[str, Any] = {"role": role, "content": maker.text() if maker.random.random() < 0.9 else ""}
            if role == "assistant" and maker.random.random() < 0.4:
                message["tool_calls"] = [maker.call(tools) for _ in range(maker.random.randint(1, 2))]
            if role == "assistant" and maker.random.random() < 0.3:
                message["thinking"] = maker.text()
            if role == "tool":
                message["tool_name"] = maker.word()
            messages.append(message)
        think = maker.random.choice((None, None, True, False))
        level = maker.random.choice(("low", "medium", "high")) if think else ""
        requests.append(Request(tuple(messages), (), think, level))
    return tuple(requests)
