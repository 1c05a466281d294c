"""Live runs: with a model that follows a script of its own, and on the embedded engine with bound replies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.arms import FIXED, MOVING, arm

from templatefix.analysis.loops import Message, assistant, call
from templatefix.chat.request import Request
from templatefix.lab.ab import Arm
from templatefix.lab.chat import Answer, Chat
from templatefix.lab.embedded import embedded_chats, embedded_engine, room_for
from templatefix.lab.figures import AbResult
from templatefix.lab.live import Live, run_live
from templatefix.lab.scenario import Filler, Scenario
from templatefix.lab.scenario_file import load, seed_loop
from templatefix.servers.timings import Sampling, Timings

SMALL = seed_loop(2, 40, 60)
STRUCT = "{{ range .ToolCalls }}<|call|>{{ .Function }}{{ end }}"
AS_JSON = (
    "{{ if .ToolCalls }}<|call|>{{ range .ToolCalls }}"
    '{"name":"{{ .Function.Name }}","arguments":{{ .Function.Arguments }}}{{ end }}{{ end }}'
)


def with_json(name: str, text: str) -> Arm:
    assert STRUCT in text
    return arm(name, text.replace(STRUCT, AS_JSON))


class Engine:
    name, source, tokenizer, attention, checkpoints = "script", "field", "none", None, None

    def session(self, prompt_bytes: int) -> Any:
        raise AssertionError


class Model:
    """Answers by rule, and remembers what it was asked."""

    def __init__(self, rule: Callable[[Request, int], Message]) -> None:
        self.rule = rule
        self.seen: list[tuple[Request, Sampling, bool]] = []

    def ask(self, request: Request, sampling: Sampling, *, cold: bool = False, bound: Message | None = None) -> Answer:
        self.seen.append((request, sampling, cold))
        return Answer(self.rule(request, sampling.seed), Timings(0 if cold else 90, 10, 1.0))


def lived(*rules: Callable[[Request, int], Message], repeats: int = 1) -> tuple[AbResult, list[Model]]:
    models = [Model(rule) for rule in rules]
    arms = [arm(str(index), FIXED) for index in range(len(rules))]

    @contextmanager
    def chats(one: Arm) -> Iterator[Chat]:
        yield models[int(one.name)]

    return run_live(Engine(), chats, arms, [SMALL], Live(Sampling(seed=7)), repeats), models  # type: ignore[arg-type]


def good(request: Request, seed: int) -> Message:
    last = request.messages[-1]
    if last["role"] == "tool":
        return assistant(f"It is {last['content']}.")
    return assistant("", call("run_command", command="echo " + str(last["content"])))


def lazy(request: Request, seed: int) -> Message:
    return assistant("That makes 14, or 4.")


def wordy(request: Request, seed: int) -> Message:
    return assistant("Let me see.", call("run_command"))


def test_a_model_that_does_as_it_should() -> None:
    result, (model,) = lived(good)
    rows = result.arms[0].requests
    assert [(row.step, row.tool_called, row.arguments_valid, row.answered) for row in rows] == [
        (0, True, True, None),
        (1, None, None, True),
        (2, True, True, None),
        (3, None, None, True),
    ]
    contents = [message["content"] for message in model.seen[-1][0].messages if message["role"] == "tool"]
    assert contents == ["4", "11"]
    assert [cold for _, _, cold in model.seen] == [True, False, False, False]


def test_a_model_that_calls_nothing() -> None:
    rows = lived(lazy)[0].arms[0].requests
    # It says 4 where 4 is right, and 4 and 14 where 11 is.
    assert [(row.tool_called, row.arguments_valid, row.answered) for row in rows] == [
        (False, None, True),
        (False, None, False),
    ]


def test_a_model_that_calls_on_and_on() -> None:
    result, (model,) = lived(wordy)
    rows = result.arms[0].requests
    assert [row.tool_called for row in rows] == [True, None, None, None] * 2
    assert not any(row.arguments_valid for row in rows), "the command is missing"
    assert [row.answered for row in rows] == [None, None, None, False] * 2
    contents = [message["content"] for message in model.seen[3][0].messages if message["role"] == "tool"]
    assert contents == ["4", *["Error: nothing is known of that."] * 2]


def test_every_repeat_has_its_seed_and_turn() -> None:
    result, models = lived(good, lazy, repeats=3)
    assert [sampling.seed for _, sampling, _ in models[1].seen] == [7, 7, 8, 8, 9, 9]
    assert result.repeats == 3
    assert [row.repeat for row in result.arms[0].requests] == [0] * 4 + [1] * 4 + [2] * 4


def test_calls_left_out_are_worse_whatever_the_cache_says() -> None:
    result, _ = lived(good, lazy, repeats=4)
    quality = result.quality
    assert quality is not None
    assert (quality.called.first.done, quality.called.second.done) == (8, 0)
    assert quality.called.interval is not None
    assert quality.called.interval[1] < 0
    assert result.verdict == "worse"


def test_chance_is_no_difference() -> None:
    def moody(request: Request, seed: int) -> Message:
        return lazy(request, seed) if seed == 8 else good(request, seed)

    assert lived(good, moody, repeats=3)[0].verdict == "same"


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("4", True),
        ("It is 4.", True),
        ("4, I think", True),
        ("44", False),
        ("4.5", False),
        ("1,4", False),
        ("x4", False),
    ],
)
def test_an_answer_says_it_as_a_word_of_its_own(text: str, right: bool) -> None:
    rows = lived(lambda request, seed: assistant(text))[0].arms[0].requests
    assert rows[0].answered is right


def test_bound_replies_are_parsed_on_any_weights(tmp_path: Path) -> None:
    arms = [with_json("moving", MOVING), with_json("fixed", FIXED)]
    scenarios: list[Scenario] = [SMALL, _small(load("parallel-calls"))]
    loops = [scenario.loop() for scenario in scenarios]
    engine = embedded_engine(arms, loops, None, tmp_path)
    live = Live(Sampling(max_tokens=40), force=True)
    result = run_live(engine, embedded_chats(engine, room_for(arms, loops, 200)), arms, scenarios, live)
    assert result.valid
    assert result.quality is not None
    assert (result.quality.called.second.done, result.quality.called.second.of) == (4, 4)
    assert (result.quality.valid.first.done, result.quality.valid.first.of) == (4, 4)
    assert result.quality.answered.first.of == 0, "what is bound is no answer"
    assert result.verdict == "better"
    for row in result.arms[1].requests:
        if row.step:
            assert row.rewritten_tokens is not None
            # Beside what is new and what is worded otherwise: the end of the turn, which is never in the cache.
            assert (
                row.new_tokens + row.rewritten_tokens <= row.fresh_tokens <= row.new_tokens + row.rewritten_tokens + 6
            )
    after_calls, after_answer = result.arms[1].requests[1], result.arms[1].requests[2]
    assert after_calls.rewritten_tokens, "JSON came with other blanks than the template writes"
    assert after_answer.rewritten_tokens == 0


def test_calls_that_no_server_could_parse_are_found(tmp_path: Path) -> None:
    arms = [arm("a struct of Go", FIXED), with_json("JSON", FIXED)]
    engine = embedded_engine(arms, [SMALL.loop()], None, tmp_path)
    chats = embedded_chats(engine, room_for(arms, [SMALL.loop()], 200))
    result = run_live(engine, chats, arms, [SMALL], Live(Sampling(max_tokens=40), force=True))
    assert [[row.tool_called for row in one.requests] for one in result.arms] == [
        [False, False],
        [True, None, True, None],
    ]


def test_an_arm_that_fails_ends_the_run_as_invalid(tmp_path: Path) -> None:
    arms = [arm("fails", FIXED.replace("<|result|>{{ .Content }}", "<|result|>{{ .Missing }}")), arm("fixed", FIXED)]
    engine = embedded_engine(arms, [SMALL.loop()], None, tmp_path)
    chats = embedded_chats(engine, room_for(arms, [SMALL.loop()], 200))
    result = run_live(engine, chats, arms, [SMALL], Live(Sampling(max_tokens=40), force=True))
    assert not result.valid
    assert result.invalid_reasons[0].startswith("fails: It cannot render a request: template: ")
    assert [row.step for row in result.arms[1].requests] == [0, 1], "the other arm is measured all the same"


def _small(scenario: Scenario) -> Scenario:
    from dataclasses import replace

    return replace(scenario, filler=Filler(1, 20, 20))
