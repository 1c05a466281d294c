"""Core loops made at random: to look for what the fixed ones do not show.

A loop depends on the state of the generator alone, so a seed makes the same one everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from templatefix.analysis.loops import TOOLS, Loop, Message, assistant, call, requests_of, result, system, user

_TEXTS = ("continue", "Go on.", "Why?", "Größe?", "a <b> & c", '{"k": 1}', "line\nline", "x" * 300)
_RESULTS = ("ok", "", "Error: ENOBRINDLE", '{"hue": "teal", "n": [1, 2]}', "18°", "a\n\nb", "<brindle/>", "continue")


def random_loop(random: Random, name: str = "random", turns: int = 6, thinking: bool = False) -> Loop:
    """A core loop of at most `turns` user turns; `thinking` puts thoughts before some of the answers."""
    messages: list[Message] = [system("Short answers, Ostravian style.")] if random.random() < 0.6 else []
    for turn in range(random.randint(1, turns)):
        messages.append(user(random.choice(_TEXTS) if random.random() < 0.5 else f"Question {turn} about Qz-{turn}."))
        for _ in range(random.choice((0, 1, 1, 2, 4))):
            messages += _calls(random)
        # A user may speak up before the assistant has answered the last result.
        if messages[-1]["role"] == "user" or random.random() < 0.85:
            messages.append(assistant(random.choice(("Done.", "So it is.", "continue", f"Answer {turn}."))))
    if messages[-1]["role"] == "assistant":
        messages.append(user("And that is all."))
    if thinking:
        messages = [_thought(random, message) if message["role"] == "assistant" else message for message in messages]
    return Loop(name, requests_of(messages, TOOLS, True if thinking else None), True)


def _thought(random: Random, message: Message) -> Message:
    thought = random.choice(("", f"Pondering {random.randint(1, 999)}.", "Pondering.\n\nAt length."))
    return {**message, "thinking": thought} if thought else message


def _calls(random: Random) -> list[Message]:
    text = random.choice(("", "", "Let me see.", "continue"))
    calls, results = [], []
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        if random.random() < 0.5:
            arguments = {"shelfmark": f"Qz-{random.randint(1, 99)}", "folios": random.randint(0, 5)}
            calls.append(call("lumbrel_lookup", **arguments))
            results.append(result("lumbrel_lookup", random.choice(_RESULTS)))
        else:
            calls.append(call("vexillo_paint", **({} if random.random() < 0.2 else {"guildhue": "teal"})))
            results.append(result("vexillo_paint", random.choice(_RESULTS)))
    return [assistant(text, *calls), *results]


def loops_around(count: int, tools: bool = True) -> Loop:
    """A core loop whose prompts pass a number of messages; a chat without `tools`."""
    messages: list[Message] = [system("Short answers, Ostravian style.")]
    while len(messages) <= count + 6:
        number = len(messages)
        messages.append(user(f"Question {number}?"))
        if tools:
            messages.append(assistant("", call("lumbrel_lookup", shelfmark=f"Qz-{number}")))
            messages.append(result("lumbrel_lookup", f"card {number}"))
        messages.append(assistant(f"Answer {number}."))
    requests = [
        r
        for r in requests_of(messages, TOOLS if tools else ())
        if len(r.messages) <= 2 or abs(len(r.messages) - count) <= 5
    ]
    return Loop(f"around-{count}-messages", tuple(requests), True)


def chat_of(loop: Loop) -> Loop:
    """The same conversation without tools, calls and results."""
    last = loop.requests[-1]
    messages: list[Message] = []
    for message in last.messages:
        if message["role"] == "tool" or (message["role"] == "assistant" and message.get("tool_calls")):
            continue
        if messages and message["role"] == messages[-1]["role"] == "user":
            messages.append(assistant("So it is."))
        messages.append(message)
    return Loop(loop.name, requests_of(messages, (), last.think), True)


def samples(seed: int, count: int, thinking: bool = False) -> Iterator[Loop]:
    """Random core loops from a seed; `thinking` puts thoughts into every other one."""
    random = Random(seed)
    for number in range(count):
        yield random_loop(random, f"random-{seed}-{number}", thinking=thinking and number % 2 == 0)
