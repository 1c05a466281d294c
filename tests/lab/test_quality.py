"""Intervals of shares and of their differences, and what they say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from templatefix.lab.quality import Difference, Share


# Newcombe (1998), Statistics in Medicine 17: 857-872 and 873-890: the examples of his tables.
@pytest.mark.parametrize(
    ("done", "of", "low", "high"), [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611)]
)
def test_wilsons_interval(done: int, of: int, low: float, high: float) -> None:
    assert Share(done, of).interval == pytest.approx((low, high), abs=0.00005)


@pytest.mark.parametrize(
    ("first", "second", "low", "high"),
    [
        ((48, 80), (56, 70), 0.0524, 0.3339),
        ((3, 10), (9, 10), 0.1705, 0.8090),
        ((0, 10), (10, 10), 0.6075, 1.0),
        ((0, 20), (0, 10), -0.1611, 0.2775),
    ],
)
def test_newcombes_interval(first: tuple[int, int], second: tuple[int, int], low: float, high: float) -> None:
    assert Difference(Share(*first), Share(*second)).interval == pytest.approx((low, high), abs=0.00005)


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        ((9, 10), (3, 10), "worse"),
        ((3, 10), (9, 10), "better"),
        ((10, 10), (9, 10), "same"),
        ((10, 10), (10, 10), "same"),
        ((0, 0), (5, 5), "same"),
    ],
)
def test_the_interval_decides(first: tuple[int, int], second: tuple[int, int], verdict: str) -> None:
    assert Difference(Share(*first), Share(*second)).verdict == verdict


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40), st.integers(0, 40))
def test_a_difference_lies_in_its_interval(a: int, b: int, c: int, d: int) -> None:
    difference = Difference(Share(min(a, b), max(a, b)), Share(min(c, d), max(c, d)))
    if difference.interval is None:
        assert 0 in (max(a, b), max(c, d))
        return
    low, high = difference.interval
    gain = (difference.second.rate or 0.0) - (difference.first.rate or 0.0)
    assert -1 - 1e-9 <= low <= gain + 1e-9
    assert gain - 1e-9 <= high <= 1 + 1e-9
