"""Recursion with room on the stack."""

from __future__ import annotations

import sys
import threading
import traceback

import pytest

from templatefix.gotemplate.deep import SHALLOW, run_deep


def sink(depth: int) -> int:
    return 0 if depth == 0 else 1 + sink(depth - 1)


def fall(depth: int) -> int:
    if depth == 0:
        raise ValueError("the ground")
    return fall(depth - 1)


def test_deep_recursion_returns() -> None:
    limit = sys.getrecursionlimit()
    assert run_deep(20_000, lambda: sink(100_000)) == 100_000
    assert sys.getrecursionlimit() == limit


def test_shallow_calls_stay_in_their_thread() -> None:
    assert run_deep(SHALLOW, threading.get_ident) == threading.get_ident()
    assert run_deep(SHALLOW + 1, threading.get_ident) != threading.get_ident()


def test_errors_come_through_with_their_traceback() -> None:
    limit = sys.getrecursionlimit()
    with pytest.raises(ValueError, match="the ground") as caught:
        run_deep(1_000, lambda: fall(5))
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names.count("fall") == 6
    assert sys.getrecursionlimit() == limit


def test_deep_calls_nest() -> None:
    limit = sys.getrecursionlimit()
    assert run_deep(1_000, lambda: run_deep(5_000, lambda: sink(20_000)) + sink(2_000)) == 22_000
    assert sys.getrecursionlimit() == limit


def test_deep_calls_of_several_threads() -> None:
    limit = sys.getrecursionlimit()
    results: list[int] = []
    threads = [threading.Thread(target=lambda: results.append(run_deep(2_000, lambda: sink(10_000)))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [10_000] * 8
    assert sys.getrecursionlimit() == limit
    assert threading.stack_size() == 0
