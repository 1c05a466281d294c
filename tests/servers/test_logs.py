"""Logs of every age: figures that servers gave in their answers as well, and lines as each age wrote them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from support.logs import read_log

from templatefix.servers.log_events import LogEvent, LoggedRequest
from templatefix.servers.logs import LogTail


def requests_of(lines: str) -> list[LoggedRequest]:
    return [item for item in read_log(lines.splitlines()) if isinstance(item, LoggedRequest)]


def events_of(lines: str) -> list[tuple[str, str]]:
    return [(item.kind, item.text) for item in read_log(lines.splitlines()) if isinstance(item, LogEvent)]


def figures(lines: str) -> list[tuple[int | None, int | None, int | None, int | None]]:
    return [(one.slot, one.task, one.prompt_tokens, one.cached_tokens) for one in requests_of(lines)]


RECORDED = (
    *("gemma3-fixed-swa", "gemma3-moving-swa", "gemma3-moving-swa-noram", "gemma3-moving-swafull", "mamba-fixed"),
    *("mamba-moving", "llama-one-slot-job", "llama-one-slot-job-ram", "llama-two-slots-job", "llama-timestamp-client"),
)


@pytest.mark.parametrize("name", RECORDED)
def test_a_log_says_what_the_answers_say(shared: Path, name: str) -> None:
    folder = shared / "recordings" / "llama-server"
    text = (folder / f"{name}.json").read_text()
    told = [(int(cached), int(fresh)) for cached, fresh in re.findall(r'"cache_n": (\d+), "prompt_n": (\d+)', text)]
    if not told:
        told = _timings(json.loads(text))
    logged = requests_of((folder / f"{name}.log").read_text())
    assert [(one.cached_tokens, one.fresh_tokens) for one in logged] == told
    assert all(one.prompt_ms is not None and not one.truncated for one in logged)


def _timings(value: object) -> list[tuple[int, int]]:
    if isinstance(value, dict):
        if "cache_n" in value:
            return [(value["cache_n"], value["prompt_n"])]
        return [pair for item in value.values() for pair in _timings(item)]
    return [pair for item in value for pair in _timings(item)] if isinstance(value, list) else []


def test_a_sliding_window_that_forgot_and_a_slot_that_was_taken_are_seen(shared: Path) -> None:
    folder = shared / "recordings" / "llama-server"
    moving = requests_of((folder / "gemma3-moving-swa-noram.log").read_text())
    assert [one.forced for one in moving] == [False, True, False, True]
    job = requests_of((folder / "llama-one-slot-job.log").read_text())
    assert [one.taken_over for one in job] == [False, False, True, True]


def test_the_seed_loop_on_ollama(shared: Path) -> None:
    folder = shared / "recordings" / "ollama"
    items = list(read_log((folder / "seed-loop.log").read_text().splitlines()))
    steps = json.loads((folder / "seed-loop.json").read_text())["steps"]
    told = [(step["engine"]["prompt_tokens"], step["engine"]["cached_tokens"]) for step in steps]
    logged = [item for item in items if isinstance(item, LoggedRequest)]
    assert [(one.prompt_tokens, one.cached_tokens) for one in logged] == told
    assert [item.kind for item in items if isinstance(item, LogEvent) and item.kind not in ("http", "dump")] == [
        "restart",
        "selection",
        "restart",
        "selection",
    ]


def test_what_was_chosen_and_what_was_cut(shared: Path) -> None:
    folder = shared / "recordings" / "ollama"
    chosen = [
        (item.model, item.text)
        for item in read_log((folder / "selection.log").read_text().splitlines())
        if isinstance(item, LogEvent) and item.kind == "selection"
    ]
    assert chosen[1] == ("registry.ollama.ai/library/jinja-only:latest", "gguf_chat_template")
    assert chosen[2] == ("registry.ollama.ai/library/jinja-and-go:latest", "go_template")
    cut = (folder / "truncated.log").read_text()
    assert ("truncated", "truncating input messages which exceed context length truncated=13") in events_of(cut)


def test_ollamas_former_engine_in_one_line() -> None:
    lines = (
        'time=2025-07-11T09:00:00.500+02:00 level=DEBUG source=cache.go:136 msg="loading cache slot" id=0 cache=8100 '
        "prompt=8460 used=8100 remaining=360\n"
        'time=2025-07-11T09:00:01.000+02:00 level=WARN source=runner.go:131 msg="truncating input prompt" limit=4096 '
        "prompt=8942 keep=4 new=4096\n"
    )
    assert figures(lines) == [(0, None, 8460, 8100)]
    assert requests_of(lines)[0].time == "2025-07-11T09:00:00.500+02:00"
    assert events_of(lines) == [("truncated", "truncating input prompt limit=4096 prompt=8942 new=4096")]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param(
            "slot update_slots: id  0 | task 14 | new prompt, n_ctx_slot = 40192, n_keep = 0, n_prompt_tokens = 9000\n"
            "slot update_slots: id  0 | task 14 | kv cache rm [0, end)\n"
            "slot update_slots: id  0 | task 14 | prompt processing progress, n_past = 2048, n_tokens = 2048\n"
            "slot update_slots: id  0 | task 14 | kv cache rm [2048, end)\n",
            [(0, 14, 9000, 0)],
            id="mid 2025",
        ),
        pytest.param(
            "slot update_slots: id  1 | task 20 | new prompt, n_ctx_slot = 131072, n_keep = 0, task.n_tokens = 7400\n"
            "slot update_slots: id  1 | task 20 | restored context checkpoint (pos_min = 7035, pos_max = 7035)\n"
            "slot update_slots: id  1 | task 20 | n_tokens = 7036, memory_seq_rm [7036, end)\n",
            [(1, 20, 7400, 7036)],
            id="early 2026",
        ),
        pytest.param(
            "[53409] 3.44.875.509 I slot update_slots: id  0 | task 33 | new prompt, n_ctx_slot = 65536, n_keep = -1, "
            "task.n_tokens = 600\n"
            "[53410] 3.44.875.510 I slot update_slots: id  0 | task 33 | new prompt, n_ctx_slot = 65536, n_keep = -1, "
            "task.n_tokens = 70\n"
            "[53409] 3.44.875.514 I slot update_slots: id  0 | task 33 | cached n_tokens = 0, memory_seq_rm [0, end)\n"
            "[53410] 3.44.875.515 I slot x: id  0 | task 33 | cached n_tokens = 60, memory_seq_rm [60, end)\n"
            "[53409] 3.46.304.693 I slot x: id  0 | task 33 | cached n_tokens = 512, memory_seq_rm [512, end)\n",
            [(0, 33, 600, 0), (0, 33, 70, 60)],
            id="two engines behind a router",
        ),
        pytest.param(
            'INFO [update_slots] kv cache rm [p0, end) | p0=1200 slot_id=0 task_id=7 tid="1" timestamp=1710000000\n'
            "INFO [print_timings] prompt eval time     =      52.10 ms /    12 tokens (    4.34 ms per token) | "
            'slot_id=0 task_id=7 tid="1" timestamp=1710000001\n'
            'INFO [update_slots] slot released | n_past=1220 slot_id=0 task_id=7 truncated=false tid="1"\n',
            [(0, 7, 1212, 1200)],
            id="2024",
        ),
        pytest.param(
            '{"function":"update_slots","level":"INFO","msg":"kv cache rm [p0, end)","p0":5,"slot_id":0,"task_id":2}\n'
            '{"function":"print_timings","level":"INFO","msg":"prompt eval time     =      52.10 ms /    12 tokens",'
            '"slot_id":0,"task_id":2}\n',
            [(0, 2, 17, 5)],
            id="2024, JSON",
        ),
        pytest.param(
            "slot update_slots: id  0 | task 1 | cached n_tokens = 5, memory_seq_rm [5, end)\n"
            "slot update_slots: id  x | task 1 | new prompt, task.n_tokens = 9\n"
            'slot\x00 update_slots: id  0 | task\n{"slot_id": }\nINFO [update_slots] | p0=a slot_id=b\n',
            [],
            id="nothing that begins",
        ),
    ],
)
def test_lines_of_each_age(lines: str, expected: list[tuple[int, int, int, int]]) -> None:
    assert figures(lines) == expected


def test_timings_on_a_line_of_their_own() -> None:
    lines = (
        "slot update_slots: id  0 | task 33 | new prompt, n_ctx_slot = 1, n_keep = -1, task.n_tokens = 600\n"
        "slot print_timing: id  0 | task 33 | \n"
        "prompt eval time =    1739.85 ms /   600 tokens (    2.90 ms per token,   344.90 tokens per second)\n"
    )
    assert requests_of(lines)[0].prompt_ms == 1739.85


def test_an_engine_that_starts_ends_what_was_open() -> None:
    new = "slot   operator(): id  0 | task {} | new prompt, n_ctx_slot = 8, n_keep = 0, task.n_tokens = {}"
    starts = 'time=2026-06-01T15:00:00Z level=INFO source=x.go:1 msg="starting llama-server" cmd="llama-server -c 8"'
    items = list(read_log([new.format(9, 70), starts, new.format(0, 80)]))
    assert [item.line for item in items] == [1, 2, 3]
    assert isinstance(items[1], LogEvent)


def test_a_log_that_grows(tmp_path: Path) -> None:
    path = tmp_path / "serve.log"
    begin = "slot x: id  0 | task 1 | new prompt, n_ctx_slot = 8, n_keep = 0, task.n_tokens = {}\n"
    end = "slot x: id  0 | task 1 | stop processing: n_tokens = 8, truncated = 1\n"
    path.write_text(begin.format(5) + end)
    tail = LogTail(path)
    assert tail.new() == []
    with path.open("a") as file:
        file.write(begin.format(6) + end[:20])
    assert tail.new() == []
    with path.open("a") as file:
        file.write(end[20:])
    (found,) = tail.new()
    assert isinstance(found, LoggedRequest)
    assert (found.prompt_tokens, found.truncated) == (6, True)
    path.write_text("")
    path.write_text(begin.format(7) + end)
    assert [item.prompt_tokens for item in tail.new() if isinstance(item, LoggedRequest)] == [7]
