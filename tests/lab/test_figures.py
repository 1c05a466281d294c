"""Figures of requests and arms."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from templatefix.lab.figures import AbResult, ArmFigures, RequestFigures, compared, to_json
from templatefix.lab.replies import overlapping


def figures(step: int, prompt: int, cached: int, new: int = 1, scenario: str = "loop") -> RequestFigures:
    return RequestFigures(scenario, step, prompt, cached, prompt - cached, new, 1.5, True)


def warm(name: str, prompt: int, cached: int) -> ArmFigures:
    return ArmFigures(name, (figures(0, 100, 0), figures(1, prompt, cached)))


def test_rates_of_the_recorded_loop() -> None:
    # The figures of stock llama3.1 with replies in the cache, as a live server gave them.
    rows = [(8092, 0, 8092), (3551, 3509, 11), (8145, 3558, 86), (3604, 3562, 11)]
    arm = ArmFigures("stock", tuple(figures(step, *row) for step, row in enumerate(rows)))
    assert arm.hit_rate == pytest.approx(10629 / 23392)
    assert arm.warm_hit_rate == pytest.approx(10629 / 15300)
    assert arm.fresh_tokens == 12763
    assert arm.new_tokens == 8200
    assert arm.fresh_over_new == pytest.approx(4671 / 108)
    assert arm.requests[2].hit_rate == pytest.approx(0.4368, abs=0.00005)


def test_every_loops_first_request_is_cold() -> None:
    arm = ArmFigures("a", (figures(0, 10, 0), figures(1, 10, 9), figures(0, 10, 0, scenario="b"), figures(1, 10, 8)))
    assert arm.hit_rate == pytest.approx(17 / 40)
    assert arm.warm_hit_rate == pytest.approx(17 / 20)


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        ((100, 50), (100, 51), "better"),
        ((1000, 500), (1000, 509), "same"),
        ((1000, 500), (1000, 491), "same"),
        ((1000, 290), (1000, 280), "worse"),  # 0.29 - 0.28 is less than 0.01 in floating point
        ((100, 0), (100, 0), "same"),
    ],
)
def test_a_point_decides(first: tuple[int, int], second: tuple[int, int], verdict: str) -> None:
    assert compared(warm("a", *first), warm("b", *second)) == verdict


def test_no_verdict_on_what_cannot_be_compared() -> None:
    a, b = warm("a", 100, 10), warm("b", 100, 90)
    assert AbResult("embedded", "engine", "t", (a, b)).verdict == "better"
    assert AbResult("embedded", "engine", "t", (a, b), ("b cannot render",)).verdict is None
    assert AbResult("embedded", "engine", "t", (a,)).verdict is None


def test_an_arm_without_requests_has_rates() -> None:
    empty = ArmFigures("a", ())
    assert (empty.hit_rate, empty.warm_hit_rate, empty.fresh_over_new) == (0.0, 0.0, None)


def test_json_as_in_the_contract() -> None:
    result = AbResult("embedded", "engine", "byte-level", (warm("a", 100, 60), warm("b", 100, 99)))
    assert to_json(result) == {
        "version": 1,
        "engine": "embedded",
        "source": "engine",
        "tokenizer": "byte-level",
        "valid": True,
        "invalid_reasons": [],
        "verdict": "better",
        "repeats": 1,
        "interval": None,
        "attention": None,
        "checkpoints": None,
        "live": False,
        "interrupted": False,
        "quality": None,
        "prompt_ms_saved": 0.0,
        "arms": [
            {
                "name": name,
                "requests": [
                    {
                        "scenario": "loop",
                        "step": step,
                        "prompt_tokens": 100,
                        "cached_tokens": cached,
                        "fresh_tokens": 100 - cached,
                        "new_tokens": 1,
                        "prompt_ms": 1.5,
                        "tools_in_prompt": True,
                        "tool_called": None,
                        "repeat": 0,
                        "parts": [],
                        "arguments_valid": None,
                        "answered": None,
                        "rewritten_tokens": None,
                    }
                    for step, cached in [(0, 0), (1, second)]
                ],
                "hit_rate": second / 200,
                "warm_hit_rate": second / 100,
                "fresh_tokens": 200 - second,
                "new_tokens": 2,
                "fresh_over_new": float(100 - second),
            }
            for name, second in [("a", 60), ("b", 99)]
        ],
    }


@given(
    st.lists(st.integers(0, 5), max_size=20),
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=5),
)
def test_tokens_in_ranges_are_those_with_a_byte_there(lengths: list[int], ranges: list[tuple[int, int]]) -> None:
    ranges = [(start, end) for start, end in ranges if start < end]
    tokens, at = [], 0
    for length in lengths:
        tokens.append(set(range(at, at + length)))
        at += length
    wanted = {byte for start, end in ranges for byte in range(start, end)}
    ends = [sum(lengths[: index + 1]) for index in range(len(lengths))]
    assert overlapping(ends, ranges) == sum(bool(token & wanted) for token in tokens)
