"""The conversations that a template is tried on: append-only loops, as the successive requests of an agent.

Texts, tool names and arguments are words that no template uses, so that each can be found in a prompt. Core loops give
the verdict; the other loops give notes. A loop's steps may skip requests (the long loop does): what must be kept of a
request must be kept by every later one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from templatefix.chat.request import Request

Message = Mapping[str, Any]

CUT = "cut-history"  # the one loop whose requests do not only grow

SYSTEM = "Keep every reply under seventeen syllables, Ostravian style."

TOOLS: tuple[Mapping[str, Any], ...] = (
    {
        "type": "function",
        "function": {
            "name": "lumbrel_lookup",
            "description": "Returns the lumbrel card filed under a shelf mark.",
            "parameters": {
                "type": "object",
                "properties": {
                    "shelfmark": {"type": "string", "description": "Mark on the spine, for instance Qz-17."},
                    "folios": {"type": "integer", "description": "How many folios to copy."},
                },
                "required": ["shelfmark"],
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "vexillo_paint",
            "description": "Paints a vexillo in one of the guild colours.",
            "parameters": {
                "type": "object",
                "properties": {
                    "guildhue": {"type": "string", "description": "Colour of the guild.", "enum": ["ochre", "teal"]},
                },
                "required": ["guildhue"],
            },
        },
    },
)


@dataclass(frozen=True, slots=True)
class Loop:
    """One conversation, sent as successive requests, each of which opens the next."""

    name: str
    requests: tuple[Request, ...]
    core: bool  # gives the verdict


def user(text: str) -> Message:
    """A user's message."""
    return {"role": "user", "content": text}


def assistant(text: str = "", *calls: Message, thinking: str = "") -> Message:
    """An assistant's message with text, calls, thinking, or several of these."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if thinking:
        message["thinking"] = thinking
    if calls:
        message["tool_calls"] = list(calls)
    return message


def call(name: str, **arguments: Any) -> Message:
    """A tool call."""
    return {"function": {"name": name, "arguments": arguments}}


def result(name: str, text: str) -> Message:
    """The result of a tool call."""
    return {"role": "tool", "tool_name": name, "content": text}


def system(text: str = SYSTEM) -> Message:
    """A system message."""
    return {"role": "system", "content": text}


def requests_of(
    messages: Sequence[Message],
    tools: Sequence[Mapping[str, Any]],
    think: bool | None = None,
    keep: Sequence[int] | None = None,
) -> tuple[Request, ...]:
    """Cut a conversation into its requests: one for each user turn and each run of tool results that ends a turn.

    `keep` names the requests wanted (all by default).
    """
    ends = []
    for index, message in enumerate(messages):
        following = messages[index + 1]["role"] if index + 1 < len(messages) else ""
        if message["role"] in ("user", "tool") and following not in ("tool", "user", "system"):
            ends.append(index + 1)
    if keep is not None:
        ends = [ends[index] for index in keep]
    return tuple([Request(tuple(messages[:end]), tuple(tools), think) for end in ends])


def _lookup(number: int) -> tuple[Message, Message]:
    mark = f"Qz-{number}"
    return (
        assistant("", call("lumbrel_lookup", shelfmark=mark, folios=number)),
        result("lumbrel_lookup", f"card {mark}: tarnished brindle, {number}° east"),
    )


def _job() -> list[Message]:
    return [
        user("Find me the brindle card."),
        *_lookup(31),
        assistant("The brindle card is tarnished."),
        user("Now the one filed after it."),
        *_lookup(32),
        assistant("That one is tarnished too."),
        user("Thanks, wrap it up."),
    ]


def _parallel() -> list[Message]:
    return [
        user("Card forty and a teal vexillo, please."),
        assistant(
            "",
            call("lumbrel_lookup", shelfmark="Qz-40", folios=2),
            call("vexillo_paint", guildhue="teal"),
        ),
        result("lumbrel_lookup", "card Qz-40: crisp <brindle> & gilt"),
        result("vexillo_paint", '{"vexillo": "teal", "coats": 3}'),
        assistant("Both are done."),
        user("Paint another, ochre."),
        assistant("", call("vexillo_paint", guildhue="ochre")),
        result("vexillo_paint", '{"vexillo": "ochre", "coats": 1}'),
    ]


def _tool_error() -> list[Message]:
    return [
        user("Read card ninety."),
        assistant("", call("lumbrel_lookup", shelfmark="Qz-90")),
        result("lumbrel_lookup", "Error: ENOLUMBREL, shelf Qz-90 collapsed"),
        assistant("", call("lumbrel_lookup", shelfmark="Qz-91")),
        result("lumbrel_lookup", "card Qz-91: pristine\nbrindle\n"),
        assistant("Ninety collapsed, ninety-one is pristine."),
        user("Fine."),
    ]


def _text_with_call() -> list[Message]:
    return [
        user("Look around the archive."),
        assistant("Let me consult the index first.", call("lumbrel_lookup", shelfmark="Qz-55")),
        result("lumbrel_lookup", "card Qz-55: index of brindles"),
        assistant("There is an index of brindles."),
        user("Again, slowly."),
    ]


def _user_turns() -> list[Message]:
    return [
        user("Good morning, archivist."),
        assistant("Good morning to you."),
        user("Which guild do you favour?"),
        assistant("The ochre one."),
        user("Why is that?"),
    ]


def _same_text() -> list[Message]:
    return [
        user("continue"),
        *_lookup(77),
        assistant("Carrying on."),
        user("continue"),
        assistant("Carrying on."),
        user("continue"),
    ]


def _long() -> tuple[list[Message], list[int]]:
    messages: list[Message] = []
    for number in range(100, 130):
        messages += [user(f"Card {number}?"), *_lookup(number), assistant(f"Card {number} is tarnished.")]
    messages.append(user("That is all, archivist."))
    return messages, [0, 1, 2, 9, 24, 59, 60]


def _thinking() -> list[Message]:
    first, second = _lookup(61)
    return [
        user("Ponder card sixty-one."),
        {**first, "thinking": "Pondering the lumbrel shelf."},
        second,
        assistant("It is tarnished.", thinking="Pondering the brindle reply."),
        user("And ponder its colour."),
        assistant("Brindle.", thinking="Pondering a hue."),
        user("Good."),
    ]


def _late_system() -> list[Message]:
    return [
        user("Open the archive."),
        assistant("It is open."),
        system("From now on whisper, Moravian style."),
        user("Where is card twelve?"),
        *_lookup(12),
        assistant("Here it is."),
        user("Thank you."),
    ]


def cut(requests: Sequence[Request], drop: int) -> Request:
    """The last request with its `drop` oldest messages gone, as a server cuts a history: system messages stay."""
    last = requests[-1]
    others = [index for index, message in enumerate(last.messages) if message["role"] != "system"]
    gone = set(others[:drop])
    kept = tuple([message for index, message in enumerate(last.messages) if index not in gone])
    return Request(kept, last.tools, last.think, last.think_level)


def _cut_history() -> tuple[Request, ...]:
    requests = requests_of([system(), *_job(), assistant("Wrapped."), user("One more?"), *_lookup(33)], TOOLS)
    last = requests[-1]
    return (requests[-2], last, cut(requests, 4), cut(requests, len(last.messages) - 3))


@cache
def core_loops() -> tuple[Loop, ...]:
    """The loops that give the verdict of a template with tools."""
    long, kept = _long()
    conversations: dict[str, list[Message]] = {
        "single-call": [system(), *_job()],
        "no-system": _job(),
        "parallel-calls": [system(), *_parallel()],
        "tool-error": [system(), *_tool_error()],
        "text-with-call": [system(), *_text_with_call()],
        "user-turns": [system(), *_user_turns()],
        "same-text": [system(), *_same_text()],
    }
    loops = [Loop(name, requests_of(messages, TOOLS), True) for name, messages in conversations.items()]
    loops.append(Loop("long", requests_of([system(), *long], TOOLS, keep=kept), True))
    return tuple(loops)


@cache
def other_loops(thinking: bool = True) -> tuple[Loop, ...]:
    """The loops that give notes; `thinking` takes in those that only tell something of templates that think."""
    loops = [
        Loop("late-system", requests_of([system(), *_late_system()], TOOLS), False),
        Loop(CUT, _cut_history(), False),
    ]
    if thinking:
        loops.append(thinking_loop())
        loops.append(Loop("thinking-off", requests_of([system(), *_job()], TOOLS, False), False))
    return tuple(loops)


@cache
def thinking_loop(core: bool = False) -> Loop:
    """A loop whose earlier turns hold thinking."""
    return Loop("thinking-history", requests_of([system(), *_thinking()], TOOLS, True), core)


@cache
def chat_loops() -> tuple[Loop, ...]:
    """Conversations without tools: the verdict of a template that has none."""
    return (
        Loop("chat", requests_of([system(), *_user_turns()], ()), True),
        Loop("chat-no-system", requests_of(_user_turns(), ()), True),
    )


def without_tools(loop: Loop) -> Loop:
    """The same conversation, sent without tool definitions."""
    return Loop(loop.name, tuple([Request(r.messages, (), r.think, r.think_level) for r in loop.requests]), loop.core)
