"""Long logs: what is held for each request, and that results are written without holding them as text."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from templatefix.trace.explain import explain
from templatefix.trace.session import Session, json_lines

LINES = """\
slot get_availabl: id  0 | task -1 |  - checking sim = 0.97 ({hit}/{size}) > 0.100
slot get_availabl: id  0 | task -1 | selected slot by LCP similarity, f_sim_best = 0.970
slot update_slots: id  0 | task {task} | new prompt, n_ctx_slot = 16384, n_keep = 0, task.n_tokens = {size}
slot update_slots: id  0 | task {task} | cached n_tokens = {hit}, memory_seq_rm [{hit}, end)
slot print_timing: id  0 | task {task} | prompt eval time =     390.10 ms /    90 tokens (    4.33 ms per token)
slot      release: id  0 | task {task} | stop processing: n_tokens = {size}, truncated = 0
"""
FILL = "slot print_timing: id  0 | task 1 | n_decoded = 32, tg = 31.20 t/s\n" * 40


@pytest.fixture(autouse=True)
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def read(path: Path, count: int) -> tuple[Session, int]:
    """A log of that many requests, explained, and the bytes that are held for it."""
    with path.open("w") as file:
        for task in range(count):
            file.write(LINES.format(task=task, size=8000 + task % 500, hit=7900 + task % 500) + FILL)
    before = tracemalloc.get_traced_memory()[0]
    session = explain([path])
    gc.collect()
    return session, tracemalloc.get_traced_memory()[0] - before


def test_a_log_takes_less_memory_than_its_length(tmp_path: Path) -> None:
    read(tmp_path / "warm.log", 10)
    short, long = (read(tmp_path / f"{count}.log", count)[1] for count in (1000, 3000))
    # A log of a gigabyte holds some 270,000 requests like these.
    assert (long - short) / 2000 < 650
    assert (tmp_path / "3000.log").stat().st_size / 3000 > 3000


def test_a_long_result_is_not_held_as_text(tmp_path: Path) -> None:
    session, _ = read(tmp_path / "server.log", 1000)
    peaks = []
    for _ in range(3):  # the least counts: other threads of the run may take memory meanwhile
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        size = sum(map(len, json_lines(session)))
        peaks.append(tracemalloc.get_traced_memory()[1] - before)
    assert size > 300_000
    assert min(peaks) < size / 5
