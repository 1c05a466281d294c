"""Live runs: the model answers, the script answers for the tools.

Measured is whether a tool is called where the script has a call, whether the call's arguments fit the tool, whether the
answer says what it should, and how much of each prompt comes from the cache with replies as they were generated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

from templatefix.analysis.loops import Message, result
from templatefix.analysis.tools import tool_passes
from templatefix.chat.request import Request
from templatefix.lab.ab import Arm, Progress, Recorder, turns
from templatefix.lab.calls import fits
from templatefix.lab.chat import Answer, Chat
from templatefix.lab.engine import Engine
from templatefix.lab.figures import AbResult, RequestFigures
from templatefix.lab.parts import parts_of
from templatefix.lab.replies import new_ranges, overlapping, reply_span
from templatefix.lab.scenario import Scenario
from templatefix.servers.timings import Sampling

EXTRA = 2  # requests beyond the script that a model may use for more calls
_UNKNOWN = "Error: nothing is known of that."


@dataclass(frozen=True, slots=True)
class _Exchange:
    """What follows one user message in the script: rounds of calls, then the answer."""

    question: Message
    rounds: tuple[tuple[Message, tuple[Message, ...]], ...]  # the turn with calls, and its results
    answer: Message | None
    expect: str


@dataclass(slots=True)
class _Before:
    """The request before and its answer."""

    messages: tuple[Message, ...] = ()
    answer: Answer | None = None


@dataclass(frozen=True, slots=True)
class Live:
    """How a live run is made."""

    sampling: Sampling = field(default_factory=Sampling)
    force: bool = False  # replies are bound to the script's, so that any weights will do


def run_live(
    engine: Engine,
    chats: Callable[[Arm], AbstractContextManager[Chat]],
    arms: Sequence[Arm],
    scenarios: Sequence[Scenario],
    live: Live,
    repeats: int = 1,
    progress: Callable[[Progress], None] = lambda _: None,
) -> AbResult:
    """Let every arm go through every scenario, `repeats` times with another seed each.

    `chats` begins a session that shares no cache with another. What cannot be measured makes the run invalid; an
    interrupt (Ctrl-C) ends it with what was measured until then. Raises what the engine raises else.
    """
    expected = sum(len(scenario.loop().requests) for scenario in scenarios)
    recorder = Recorder(engine, arms, expected * repeats * len(arms), progress)
    with recorder.interruptible():
        for repeat, index in turns(len(arms), repeats):
            seeded = replace(live, sampling=replace(live.sampling, seed=live.sampling.seed + repeat))
            with recorder.measurable(index), chats(arms[index]) as chat:
                for scenario in scenarios:
                    for row in _conversation(chat, scenario, seeded, repeat):
                        recorder.add(index, row)
    return recorder.result(repeats, live=True)


def _conversation(chat: Chat, scenario: Scenario, live: Live, repeat: int) -> Iterator[RequestFigures]:
    messages: tuple[Message, ...] = scenario.head()
    before = _Before()
    step = 0
    for exchange in _exchanges(scenario):
        messages = (*messages, exchange.question)
        for number in range(len(exchange.rounds) + 1 + EXTRA):
            due, results = exchange.rounds[number] if number < len(exchange.rounds) else (None, ())
            request = Request(messages, scenario.definitions, scenario.think)
            bound = (due or exchange.answer) if live.force else None
            answer = chat.ask(request, live.sampling, cold=step == 0, bound=bound)
            calls: Sequence[Message] = answer.message.get("tool_calls") or ()
            last = not calls or number == len(exchange.rounds) + EXTRA
            row = _figures(scenario.name, step, repeat, request, before, answer)
            yield replace(
                row,
                tool_called=bool(calls) if due else None,
                arguments_valid=all(fits(made, request.tools) for made in calls) if calls else None,
                answered=_says(answer.message, exchange.expect)
                if last and exchange.expect and not live.force
                else None,
            )
            before = _Before(messages, answer)
            messages = (*messages, answer.message, *_results(calls, results))
            step += 1
            if last:
                break


def _exchanges(scenario: Scenario) -> Iterator[_Exchange]:
    """The script, cut at the user's messages."""
    starts = [index for index, turn in enumerate(scenario.turns) if turn.message["role"] == "user"]
    for start, end in zip(starts, [*starts[1:], len(scenario.turns)], strict=True):
        rounds: list[tuple[Message, tuple[Message, ...]]] = []
        answer: Message | None = None
        expect = ""
        for turn in scenario.turns[start + 1 : end]:
            if turn.message["role"] == "tool":
                made, results = rounds[-1]
                rounds[-1] = (made, (*results, turn.message))
            elif turn.message.get("tool_calls"):
                rounds.append((turn.message, ()))
            else:
                answer, expect = turn.message, turn.expect
        yield _Exchange(scenario.turns[start].message, tuple(rounds), answer, expect)


def _results(calls: Sequence[Message], scripted: Sequence[Message]) -> list[Message]:
    """A result for each call: the script's for that tool, else any that is left, else an error."""
    left = list(scripted)
    results: list[Message] = []
    for made in calls:
        name = str(made["function"]["name"])
        found = next((item for item in left if item["tool_name"] == name), left[0] if left else None)
        if found is not None:
            left.remove(found)
        results.append(result(name, str(found["content"]) if found is not None else _UNKNOWN))
    return results


def _says(message: Message, expected: str) -> bool:
    """Whether an answer says it, as a word or number of its own: 4, but not 14 or 4.5."""
    return (
        re.search(rf"(?<![\w.])(?<!\d,){re.escape(expected)}(?!\w|[.,]\d)", str(message.get("content", ""))) is not None
    )


def _figures(name: str, step: int, repeat: int, request: Request, before: _Before, answer: Answer) -> RequestFigures:
    timings, prompt = answer.timings, answer.prompt
    new: int = timings.prompt_tokens
    rewritten: int | None = None
    if prompt is not None and before.answer is not None:
        reply = len(before.messages)
        new = overlapping(answer.token_ends, new_ranges(prompt, reply + 1))
        rewritten = _rewritten(before.answer, answer, reply)
    return RequestFigures(
        scenario=name,
        step=step,
        prompt_tokens=timings.prompt_tokens,
        cached_tokens=timings.cached_tokens,
        fresh_tokens=timings.fresh_tokens,
        new_tokens=new,
        prompt_ms=timings.prompt_ms,
        tools_in_prompt=prompt is None or bool(tool_passes(prompt, request)),
        repeat=repeat,
        parts=parts_of(prompt, request, answer.token_ends) if prompt is not None else (),
        rewritten_tokens=rewritten,
    )


def _rewritten(earlier: Answer, later: Answer, reply: int) -> int | None:
    """Tokens of a reply from where the prompt behind it words it otherwise; the end of the turn does not count."""
    if earlier.text is None or earlier.prompt is None or later.prompt is None:
        return None
    start, end = reply_span(earlier.prompt, later.prompt, reply)
    worded = later.prompt.text[start:end]
    body = worded.rstrip().removesuffix(earlier.end) if earlier.end else worded
    same = next((at for at, pair in enumerate(zip(earlier.text, body, strict=False)) if pair[0] != pair[1]), None)
    if same is None:
        same = min(len(earlier.text), len(body))
    sizes = [len(later.prompt.text[:at].encode("utf-8", "surrogateescape")) for at in (start + same, start + len(body))]
    return overlapping(later.token_ends, [(sizes[0], sizes[1])]) if sizes[0] < sizes[1] else 0
