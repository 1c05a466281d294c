"""Whole runs on the embedded engine."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.arms import FIXED, MOVING, arm
from support.forgetful import FORGETFUL

from templatefix.analysis.loops import Loop, core_loops
from templatefix.chat.jinja import JinjaChatTemplate
from templatefix.chat.request import Request
from templatefix.lab.ab import Arm, Progress, run_ab
from templatefix.lab.embedded import embedded_engine
from templatefix.lab.figures import AbResult
from templatefix.lab.scenario_file import load, seed_loop
from templatefix.servers.errors import NotMeasurable
from templatefix.servers.standin import Attention
from templatefix.servers.timings import Timings
from templatefix.servers.tokenizer import byte_level, from_package

OTHER_TAIL = FIXED[: -len("<|bot|>")] + "<|bot|><|think|>"
SMALL = seed_loop(4, 60, 120).loop()


Runner = Callable[..., AbResult]


@pytest.fixture
def run(tmp_path: Path) -> Runner:
    def run(*arms: Arm, loops: list[Loop] | None = None, **options: Any) -> AbResult:
        loops = loops or [SMALL]
        donor = options.pop("donor", None)
        return run_ab(embedded_engine(arms, loops, donor, tmp_path), arms, loops, **options)

    return run


def cached(result: AbResult, index: int) -> list[int]:
    return [request.cached_tokens for request in result.arms[index].requests]


def test_a_fixed_template_reads_what_is_new_and_nothing_else(run: Runner) -> None:
    result = run(arm("moving", MOVING), arm("fixed", FIXED))
    moving, fixed = result.arms
    assert result.valid
    assert result.verdict == "better"
    assert fixed.warm_hit_rate > 0.96
    assert all(request.fresh_tokens <= request.new_tokens + 2 for request in fixed.requests)
    assert moving.warm_hit_rate < 0.6
    assert [request.tools_in_prompt for request in moving.requests] == [True, False, True, False]
    assert [request.tools_in_prompt for request in fixed.requests] == [True] * 4


def test_what_is_new_in_each_request(run: Runner) -> None:
    fixed = run(arm("fixed", FIXED)).arms[0]
    assert fixed.requests[0].new_tokens == fixed.requests[0].prompt_tokens
    # <|result|>4<|end|><|bot|>: "4" was learned or is a byte, either way one token.
    assert fixed.requests[1].new_tokens == 4
    assert fixed.requests[1].fresh_tokens == 4


def test_arms_know_nothing_of_each_other(run: Runner) -> None:
    donor = byte_level(MOVING)
    one = run(arm("moving", MOVING), arm("fixed", FIXED), donor=donor)
    other = run(arm("fixed", FIXED), arm("moving", MOVING), donor=donor)
    twice = run(arm("fixed", FIXED), arm("again", FIXED), donor=donor)
    assert cached(one, 0) == cached(other, 1)
    assert cached(one, 1) == cached(other, 0) == cached(twice, 0) == cached(twice, 1)
    assert twice.verdict == "same"
    assert other.verdict == "worse"


def test_loops_know_nothing_of_each_other(run: Runner) -> None:
    donor = byte_level(FIXED)
    alone = run(arm("fixed", FIXED), donor=donor)
    both = run(arm("fixed", FIXED), loops=[SMALL, Loop("again", SMALL.requests, True)], donor=donor)
    assert cached(both, 0) == cached(alone, 0) * 2


def test_a_tail_that_differs_costs_the_reply(run: Runner) -> None:
    request = run(arm("tail", OTHER_TAIL)).arms[0].requests[2]
    # The special token of the tail went, so "The answer is 4.<|end|>" was read again.
    assert request.new_tokens < request.fresh_tokens <= request.new_tokens + 20


def test_replies_may_come_without_being_asked_for(run: Runner) -> None:
    result = run(
        arm("fixed", FIXED), loops=[loop for loop in core_loops() if loop.name in ("parallel-calls", "no-system")]
    )
    assert [request.scenario for request in result.arms[0].requests if request.step == 0] == [
        "no-system",
        "parallel-calls",
    ]
    assert all(request.fresh_tokens <= request.new_tokens + 2 for request in result.arms[0].requests)


def test_thinking_is_as_the_server_has_it(run: Runner) -> None:
    thinks = "{{ range .Messages }}{{ if .Thinking }}<think>{{ .Thinking }}</think>{{ end }}{{ .Content }}{{ end }}"
    shown = run(arm("a", thinks + "{{ if $.Think }}<|deep|>{{ end }}"), arm("b", thinks))
    # One special token more in every prompt; the first has nothing else in front of it.
    difference = [a.prompt_tokens - b.prompt_tokens for a, b in zip(*(arm.requests for arm in shown.arms), strict=True)]
    assert difference == [1, 1, 1, 1]


def test_a_template_that_fails_makes_the_run_invalid(run: Runner) -> None:
    failing = FIXED.replace("<|result|>{{ .Content }}", "<|result|>{{ .Missing }}")
    result = run(arm("fails", failing), arm("fixed", FIXED))
    assert not result.valid
    assert result.verdict is None
    assert len(result.invalid_reasons) == 1
    assert result.invalid_reasons[0].startswith("fails cannot render seed-loop, step 1: template: :")
    assert result.arms[0].requests == ()
    assert len(result.arms[1].requests) == 4


def test_tools_that_change_make_the_run_invalid(run: Runner) -> None:
    *before, last = SMALL.requests
    changed = Loop("changing", (*before, replace(last, tools=last.tools[:-1])), True)
    result = run(arm("fixed", FIXED), arm("again", FIXED), loops=[changed])
    assert not result.valid
    assert result.verdict is None
    assert result.invalid_reasons == ("changing: request 3 has other tools than the one before",)


def test_progress_counts_requests(run: Runner) -> None:
    seen: list[Progress] = []
    run(arm("moving", MOVING), arm("fixed", FIXED), progress=seen.append)
    assert [(step.done, step.total) for step in seen] == [(done, 8) for done in range(1, 9)]
    assert seen[5].label == "fixed: seed-loop, step 1"


def test_the_size_of_the_seed_loop(run: Runner) -> None:
    result = run(arm("fixed", FIXED), loops=[seed_loop().loop()])
    assert 8000 < result.arms[0].requests[0].prompt_tokens < 9500
    assert result.arms[0].warm_hit_rate > 0.99


@pytest.fixture
def recorded(shared: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((shared / "recordings/ollama/seed-loop.json").read_text(encoding="utf-8"))
    return found


def recorded_loop(recorded: dict[str, Any]) -> Loop:
    requests = [Request(tuple(step["request"]["messages"]), tuple(recorded["tools"])) for step in recorded["steps"][:4]]
    return Loop("seed-loop", tuple(requests), True)


def test_a_live_servers_figures_come_out(run: Runner, recorded: dict[str, Any], corpus: dict[str, Any]) -> None:
    donor = from_package()
    if donor is None:
        pytest.skip("llama-models is not installed: no Llama 3 tokenizer")
    stock, stable = "llama3.1:8b", "llama3.1:8b-prefix-stable"
    result = run(
        arm(stock, corpus["hf-llama3.1-8b"]["template"]),
        arm(stable, recorded["templates"][stable]),
        loops=[recorded_loop(recorded)],
        donor=donor,
    )
    found = [
        {"model": arm.name, "step": row.step, "prompt_tokens": row.prompt_tokens, "cached_tokens": row.cached_tokens}
        for arm in result.arms
        for row in arm.requests
    ]
    assert found == recorded["with_replies"]
    assert all(row.fresh_tokens == row.new_tokens for row in result.arms[1].requests)


def test_any_tokenizer_shows_the_same(
    run: Runner, recorded: dict[str, Any], corpus: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    stable = "llama3.1:8b-prefix-stable"
    arms = [arm("stock", corpus["hf-llama3.1-8b"]["template"]), arm("stable", recorded["templates"][stable])]
    monkeypatch.setattr("templatefix.lab.embedded.from_package", lambda: None)  # as where it is not installed
    result = run(*arms, loops=[recorded_loop(recorded)])
    assert result.tokenizer == "byte-level"
    assert result.arms[0].warm_hit_rate < 0.8
    assert result.arms[1].warm_hit_rate > 0.99
    assert all(row.fresh_tokens <= row.new_tokens + 2 for row in result.arms[1].requests)


def test_templates_that_only_grow_read_what_is_new(run: Runner, corpus: dict[str, Any]) -> None:
    """Every third stable template of the corpus, at the steps whose prompt opens with the one before, tail and all."""
    grown = 0
    donor = byte_level(MOVING)
    for row in [row for row in corpus.values() if row.get("prefix_stable")][::3]:
        measured = arm(row["id"], row["template"])
        result = run(measured, donor=donor)
        if not result.valid:
            continue
        prompts = [measured.template.render(measured.served(request)).text for request in SMALL.requests]
        for earlier, later, figures in zip(prompts, prompts[1:], result.arms[0].requests[1:], strict=False):
            if later.startswith(earlier):
                grown += 1
                assert figures.fresh_tokens <= figures.new_tokens + 2, (row["id"], figures)
    assert grown > 30


def test_repeats_begin_with_the_other_arm(run: Runner) -> None:
    seen: list[Progress] = []
    result = run(arm("moving", MOVING), arm("fixed", FIXED), progress=seen.append, repeats=2)
    assert [step.label.split(":")[0] for step in seen[::4]] == ["moving", "fixed", "fixed", "moving"]
    moving = result.arms[0].requests
    assert [row.repeat for row in moving] == [0] * 4 + [1] * 4
    assert [row.cached_tokens for row in moving[:4]] == [row.cached_tokens for row in moving[4:]]
    assert result.repeats == 2
    assert result.verdict == "better"


def test_an_interrupt_ends_with_what_was_measured(run: Runner) -> None:
    def stop(at: Progress) -> None:
        if at.done == 6:
            raise KeyboardInterrupt

    result = run(arm("moving", MOVING), arm("fixed", FIXED), progress=stop)
    assert result.interrupted
    assert not result.valid
    assert result.verdict is None
    assert result.invalid_reasons == ("interrupted after 6 of 8 requests",)
    assert [len(one.requests) for one in result.arms] == [4, 2]


def test_prompts_are_told_apart_in_parts(run: Runner) -> None:
    moving, fixed = run(arm("moving", MOVING), arm("fixed", FIXED)).arms
    for row in (*moving.requests, *fixed.requests):
        assert sum(part.tokens for part in row.parts) == row.prompt_tokens
    assert [part.kind for part in fixed.requests[2].parts] == [
        *("system", "tools", "system", "user", "assistant", "tool", "assistant", "user", "tail"),
    ]
    kinds = [[part.kind for part in row.parts] for row in moving.requests]
    assert "tools" not in kinds[1] + kinds[3]
    assert kinds[2].index("tools") > kinds[2].index("assistant")


class _Forgetful:
    """An engine whose sessions keep nothing, or refuse."""

    name, source, tokenizer, attention, checkpoints = "embedded", "engine", "none", None, None

    def __init__(self, limit: int) -> None:
        self.limit = limit

    @contextmanager
    def session(self, prompt_bytes: int) -> Iterator[_Forgetful]:
        yield self

    def evaluate(self, prompt: str, *, n_predict: int = 1, cold: bool = False) -> Timings:
        if len(prompt) > self.limit:
            raise NotMeasurable(f"The prompt does not fit: {len(prompt)} tokens for {self.limit}.")
        return Timings(0, len(prompt), 1.0)

    def token_ends(self, prompt: str) -> list[int]:
        return list(range(1, len(prompt) + 1))


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        (100_000, "fixed: The engine keeps nothing from one request to the next: its cache is off."),
        (10, "fixed: The prompt does not fit: "),
    ],
)
def test_a_run_that_is_worth_nothing_says_why(limit: int, reason: str) -> None:
    engine: Any = _Forgetful(limit)
    result = run_ab(engine, [arm("fixed", FIXED), arm("again", FIXED)], [SMALL])
    assert not result.valid
    assert len(result.invalid_reasons) == 2
    assert result.invalid_reasons[0].startswith(reason)


@pytest.mark.parametrize("attention", ["swa", "recurrent"])
def test_other_memories_lose_more(tmp_path: Path, attention: Attention) -> None:
    arms = [arm("moving", MOVING), arm("fixed", FIXED)]
    loops = [seed_loop(6, 100, 400).loop()]
    full = run_ab(embedded_engine(arms, loops, None, tmp_path), arms, loops)
    other = run_ab(embedded_engine(arms, loops, None, tmp_path, attention), arms, loops)
    assert other.attention == attention
    assert other.arms[0].requests[1].cached_tokens == 0, "the system text in front of the tools is lost as well"
    assert full.arms[0].requests[1].cached_tokens > 400
    assert [row.fresh_tokens for row in other.arms[1].requests] == [row.fresh_tokens for row in full.arms[1].requests]


@pytest.mark.parametrize("checkpoints", [0, 1])
def test_a_state_without_a_fitting_checkpoint_is_read_from_the_start(tmp_path: Path, checkpoints: int) -> None:
    loops = [load("long-turn").sized(1000).loop()]
    keeping = FORGETFUL.replace(" and loop.index0 > seen.last", "")
    arms = [Arm("forgets", JinjaChatTemplate(FORGETFUL)), Arm("keeps", JinjaChatTemplate(keeping))]
    engine = embedded_engine(arms, loops, None, tmp_path, "recurrent", checkpoints)
    result = run_ab(engine, arms, loops)
    assert (result.invalid_reasons, result.checkpoints) == ((), checkpoints)
    for step in (13, 26):  # the user speaks again
        forgets, keeps = (one.requests[step] for one in result.arms)
        assert (forgets.cached_tokens, keeps.fresh_tokens) == (0, keeps.new_tokens)
