"""Loops sent as messages."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from templatefix.analysis.loops import Loop, core_loops
from templatefix.lab.ab import Progress
from templatefix.lab.messages import run_messages
from templatefix.servers.errors import NotMeasurable
from templatefix.servers.openai_api import OpenAiServer
from templatefix.servers.timings import Timings


class Counting(OpenAiServer):
    """A server whose prompts grow by ten tokens a message; the arm `b` caches nothing."""

    def __init__(self) -> None:
        super().__init__("http://127.0.0.1:9")
        self.before: dict[str, int] = {}

    def read_messages(self, model: str, messages: Sequence[Any], tools: Sequence[Any]) -> Timings:
        if model == "c":
            raise NotMeasurable("it tells nothing")
        size = 10 * len(messages)
        cached = self.before.get(model, 0) if model == "a" else 0
        self.before[model] = size
        return Timings(min(cached, size - 1), size - min(cached, size - 1), 1.0)


@pytest.fixture
def loop() -> Loop:
    return core_loops()[0]


def test_figures(loop: Loop) -> None:
    said: list[Progress] = []
    result = run_messages(Counting(), ["a"], [loop], said.append)
    sizes = [10 * len(request.messages) for request in loop.requests]
    (arm,) = result.arms
    assert [row.prompt_tokens for row in arm.requests] == sizes
    assert [row.cached_tokens for row in arm.requests] == [0, *sizes[:-1]]
    assert [row.new_tokens for row in arm.requests][1:] == [b - a for a, b in pairwise(sizes)]
    assert (result.engine, result.source, result.valid, result.verdict) == ("openai", "field", True, None)
    assert [(at.done, at.total) for at in said] == [(n + 1, len(sizes)) for n in range(len(sizes))]


def test_a_cache_that_is_off_and_figures_that_are_not_told(loop: Loop) -> None:
    result = run_messages(Counting(), ["a", "b"], [loop])
    assert result.invalid_reasons == ("b: nothing came from the cache in any request, caching may be off",)
    assert run_messages(Counting(), ["c"], [loop]).invalid_reasons == ("c: it tells nothing",)
