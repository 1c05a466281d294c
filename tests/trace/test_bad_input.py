"""Logs and recordings that are cut, mixed, rotated, broken or badly encoded: what can be read is read."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from templatefix.servers.log_events import LoggedRequest
from templatefix.trace.explain import explain
from templatefix.trace.logfile import read_logs
from templatefix.trace.session import json_lines, to_json
from templatefix.trace.sources import TraceError, read_sources

NEW = (
    "slot update_slots: id  {slot} | task {task} | new prompt, n_ctx_slot = 8192, n_keep = 0, task.n_tokens = {size}\n"
)
HIT = "slot update_slots: id  {slot} | task {task} | cached n_tokens = {hit}, memory_seq_rm [{hit}, end)\n"
END = "slot      release: id  {slot} | task {task} | stop processing: n_tokens = {size}, truncated = 0\n"


def request(slot: int, task: int, size: int, hit: int) -> str:
    return (NEW + HIT + END).format(slot=slot, task=task, size=size, hit=hit)


def figures(*paths: Path) -> list[tuple[int | None, int | None, int | None]]:
    return [
        (item.slot, item.prompt_tokens, item.cached_tokens)
        for log in read_logs(paths)
        for _, item in log.items
        if isinstance(item, LoggedRequest)
    ]


def reasons(*paths: Path) -> list[tuple[int, str, int]]:
    return [(one.line, one.reason, one.count) for one in read_sources(paths).unread]


def test_a_log_that_begins_and_ends_in_the_middle(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(
        HIT.format(slot=0, task=1, hit=512) + request(0, 2, 900, 40) + NEW.format(slot=0, task=3, size=950)[:-1]
    )
    assert figures(log) == [(0, 900, 40), (0, 950, None)]
    assert reasons(log) == [
        (1, "the log begins in the middle of a request", 1),
        (5, "the log ends, or an engine does, before it says how much of this prompt was in the cache", 1),
    ]


def test_slots_whose_lines_are_mixed(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(
        NEW.format(slot=0, task=1, size=700)
        + NEW.format(slot=1, task=2, size=300)
        + HIT.format(slot=1, task=2, hit=10)
        + HIT.format(slot=0, task=1, hit=600)
        + HIT.format(slot=1, task=2, hit=266)
        + END.format(slot=0, task=1, size=720)
        + END.format(slot=1, task=2, size=320)
    )
    assert sorted(figures(log)) == [(0, 700, 600), (1, 300, 10)]
    # In the order in which the prompts were begun, not ended.
    assert [request.prompt_tokens for request in explain([log]).requests] == [700, 300]


def test_several_engines_in_one_log(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    lines = zip(request(0, 1, 700, 600).splitlines(), request(0, 1, 80, 7).splitlines(), strict=True)
    log.write_text("".join(f"[5001] {one}\n[5002] {other}\n" for one, other in lines))
    assert figures(log) == [(0, 700, 600), (0, 80, 7)]
    assert [request.conversation for request in explain([log]).requests] == [0, 1]


def test_rotated_logs_are_one_the_oldest_first(tmp_path: Path) -> None:
    whole = request(0, 1, 500, 0) + request(0, 2, 600, 500) + request(0, 3, 700, 600)
    cut = whole.index("task 2") + 120  # within a request
    cut = whole.index("\n", cut) + 1
    (tmp_path / "server.log").write_text(whole[cut:])
    (tmp_path / "server-1.log").write_text(whole[:cut])
    paths = [tmp_path / "server.log", tmp_path / "server-1.log"]
    assert figures(*paths) == [(0, 500, 0), (0, 600, 500), (0, 700, 600)]
    (tmp_path / "server.log.1.gz").write_bytes(gzip.compress(whole[:cut].encode()))
    assert figures(tmp_path / "server.log", tmp_path / "server.log.1.gz") == figures(*paths)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_logs_as_other_systems_write_them(tmp_path: Path, encoding: str) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(("first\n" + request(0, 1, 500, 20)).replace("\n", "\r\n").encode(encoding))
    assert figures(log) == [(0, 500, 20)]


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    bad = NEW.format(slot=0, task=7, size=10).encode().replace(b"update", b"upd\xff\xfete")
    log.write_bytes(b"\x00\x01\xff\n" + bad + request(0, 8, 500, 20).encode())
    assert figures(log)[-1] == (0, 500, 20)
    assert (1, "bytes that are no text", 1) in reasons(log)
    assert (2, "text that is not UTF-8, read with what is wrong replaced", 1) in reasons(log)


def test_a_clock_that_goes_back(tmp_path: Path) -> None:
    line = (
        'time=2026-03-01T{}:00:00Z level=DEBUG source=c.go:1 msg="loading cache slot" id=0 cache=1 prompt={} used={}\n'
    )
    log = tmp_path / "server.log"
    log.write_text(line.format("12", 500, 0) + line.format("09", 600, 500) + line.format("10", 700, 600))
    assert figures(log) == [(0, 500, 0), (0, 600, 500), (0, 700, 600)]
    assert reasons(log) == [(2, "the clock goes back here: lines are taken in their order, not by their time", 1)]


def test_a_line_without_an_end_takes_no_more_room_than_it_may(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(request(0, 1, 500, 20).encode() + b"x" * 5_000_000 + b"\n" + request(0, 2, 600, 500).encode())
    assert figures(log) == [(0, 500, 20), (0, 600, 500)]


BODY = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}


def test_json_lines_with_broken_ones_among_them(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    refused = {"path": "/api/chat", "request": BODY, "status": 400, "answer": [{"error": "no"}]}
    good = json.dumps(BODY)
    path.write_text("\n".join([good, "{broken", "", "17", good, json.dumps(refused), '{"messages": []}', good[:20]]))
    sources = read_sources([path])
    assert len(sources.exchanges) == 2
    assert [(one.line, one.reason) for one in sources.unread] == [
        (2, "a line that is not JSON"),
        (4, "no JSON object"),
        (6, "the server refused this request"),
        (7, "no request for text: it has no messages"),
        (8, "the last line is cut off"),
    ]


@pytest.mark.parametrize("first", ["{broken", '{"messages": [{"role": "us'])
def test_a_first_line_that_is_broken(tmp_path: Path, first: str) -> None:
    path = tmp_path / "requests.jsonl"
    path.write_text(f"{first}\n{json.dumps(BODY)}\n")
    sources = read_sources([path])
    assert (len(sources.exchanges), sources.unread[0].line) == (1, 1)


@pytest.mark.parametrize(
    "text", [json.dumps(BODY, indent=1), json.dumps([BODY], indent=1), "\ufeff" + json.dumps(BODY)]
)
def test_one_json_text(tmp_path: Path, text: str) -> None:
    path = tmp_path / "request.json"
    path.write_text(text, encoding="utf-8")
    assert [exchange.request is not None for exchange in read_sources([path]).exchanges] == [True]


def test_json_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    path.write_bytes(json.dumps(BODY).encode().replace(b"Hello", b"caf\xe9") + b"\n")
    (exchange,) = read_sources([path]).exchanges
    assert exchange.request is not None
    assert exchange.request.messages[0]["content"] == "caf\ufffd"


def test_an_empty_file_says_so(tmp_path: Path) -> None:
    path = tmp_path / "nothing.log"
    path.write_text("\n")
    assert reasons(path) == [(0, "the file is empty", 1)]


@pytest.mark.parametrize("kind", ["missing", "other", "folder"])
def test_what_is_no_source_at_all(tmp_path: Path, kind: str) -> None:
    path = tmp_path / kind
    if kind == "other":
        path.write_text("Dear diary,\n")
    elif kind == "folder":
        path.mkdir()
    with pytest.raises(TraceError):
        read_sources([path])


LINES = [
    *request(0, 1, 500, 20).splitlines(),
    *request(1, 2, 60, 50).splitlines(),
    json.dumps(BODY),
    "[GIN] x",
    "time=x",
]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(LINES).map(str.encode), st.binary(max_size=40)), max_size=12), st.data())
def test_no_log_is_too_broken(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], data: st.DataObject
) -> None:
    text = b"\n".join(lines)
    cut = data.draw(st.integers(0, len(text)))
    path = tmp_path_factory.mktemp("log") / "server.log"
    path.write_bytes(text[:cut])
    (log,) = read_logs([path])
    assert all(isinstance(one.line, int) for one in log.unread)
    try:
        session = explain([path])
    except TraceError:
        return
    assert all(0 <= request.cached_tokens <= request.prompt_tokens for request in session.requests)


KEYS = (
    "messages",
    "role",
    "content",
    "tools",
    "tool_calls",
    "function",
    "arguments",
    "name",
    "prompt",
    "input",
    "system",
)
MORE = ("options", "num_ctx", "think", "type", "text", "timings", "cache_n", "prompt_n", "usage", "choices", "delta")
ATOMS = st.sampled_from([None, True, 0, 7, -1, 1.5, "", "user", "assistant", "system", "tool", "tool_use", "text"])
JSON = st.recursive(
    ATOMS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS + MORE), inner, max_size=4),
    max_leaves=8,
)
ROLES = st.sampled_from(["user", "assistant", "tool", "system", 3, None])
MESSAGES = st.lists(
    st.builds(
        lambda role, content, more: {"role": role, "content": content, **more},
        ROLES,
        JSON,
        st.dictionaries(st.sampled_from(KEYS), JSON, max_size=1),
    ),
    max_size=3,
)
PATHS = st.sampled_from(["/api/chat", "/v1/chat/completions", "/v1/messages", "/v1/responses", "/api/generate", ""])
TEMPLATE = {
    "model": "m",
    "template": "{{ range .Messages }}{{ .Role }}{{ .Content }}{{ .ToolCalls }}{{ end }}{{ .Tools }}",
}


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(PATHS, MESSAGES | JSON, JSON, JSON), min_size=1, max_size=4), st.booleans())
def test_no_request_is_too_odd(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, object, object, object]], known: bool
) -> None:
    lines: list[object] = [TEMPLATE] if known else []
    for path, said, tools, answer in rows:
        key = "input" if path == "/v1/responses" else "prompt" if path == "/api/generate" else "messages"
        lines.append({"path": path, "request": {"model": "m", key: said, "tools": tools}, "answer": answer})
    file = tmp_path_factory.mktemp("odd") / "trace.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    session = explain([file])
    json.dumps(to_json(session))
    for request in session.requests:
        assert 0 <= request.cached_tokens <= request.prompt_tokens
        assert sum(loss.tokens for loss in request.losses) <= request.fresh_tokens


def test_a_compressed_log_that_is_cut_off_is_read_so_far(tmp_path: Path) -> None:
    lines = "".join(request(0, task, 500 + task, 500) for task in range(3000))
    packed = gzip.compress(lines.encode())
    path = tmp_path / "server.log.gz"
    path.write_bytes(packed[: len(packed) // 2])
    session = explain([path])
    assert 500 < len(session.requests) < 2500
    assert [request.prompt_tokens for request in session.requests[:3]] == [500, 501, 502]
    assert any(one.line == 0 and "broken off" in one.reason for one in session.unread)


def test_a_compressed_recording_that_is_cut_off_is_read_so_far(tmp_path: Path) -> None:
    lines = "".join(json.dumps({**BODY, "seed": number}) + "\n" for number in range(20000))
    packed = gzip.compress(lines.encode())
    path = tmp_path / "requests.jsonl.gz"
    path.write_bytes(packed[: len(packed) // 2])
    sources = read_sources([path])
    assert 5000 < len(sources.exchanges) < 15000
    assert any("broken off" in one.reason for one in sources.unread)


@pytest.mark.parametrize("data", [b"\x1f\x8b", b"\x1f\x8b\x07 no", gzip.compress(b"x" * 99)[:12] + b"\xff" * 30])
def test_what_only_looks_compressed_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(data)
    (log,) = read_logs([path])
    assert any("broken off" in one.reason for one in log.unread)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_session_written_piece_by_piece_is_the_same_json(tmp_path: Path, count: int) -> None:
    path = tmp_path / "sérver.log"
    path.write_text("".join(request(0, task, 500, 20 * task) for task in range(count)) or "\n")
    session = explain([path])
    assert len(session.requests) == count
    assert b"".join(json_lines(session)).decode() == json.dumps(to_json(session), ensure_ascii=False, indent=2) + "\n"


def test_numbers_that_nobody_counts_to(tmp_path: Path) -> None:
    task = "slot update_slots: id  0 | task {} | new prompt, n_ctx_slot = 4096, n_keep = 0, task.n_tokens = {}"
    cached = "slot update_slots: id  0 | task {} | cached n_tokens = 5, memory_seq_rm [5, end)"
    long = "9" * 5000
    lines = [
        task.format(0, 300), cached.format(0), task.format(1, long), cached.format(1), task.format(long, 9),
        'msg="loading cache slot" id=0 cache=5', task.format(2, 310), cached.format(2),
        "slot print_timing: id  0 | task 2 | ", "prompt eval time = 1.2.3 ms / 5 tokens",
        f'time=2026-01-01T00:00:00.000Z level=DEBUG msg="loading cache slot" id=0 cache=5 prompt={long} used=5',
    ]  # fmt: skip
    path = tmp_path / "server.log"
    path.write_text("\n".join(lines) + "\n")
    (log,) = read_logs([path])
    assert [item.prompt_tokens for _, item in log.items if isinstance(item, LoggedRequest)] == [300, 310]
    assert [(one.line, one.reason, one.count) for one in log.unread] == [
        (3, "a line with a number that is too large", 3),
        (10, "a line with a figure that is no number", 1),
    ]


def test_a_dump_with_a_number_that_nobody_counts_to(tmp_path: Path) -> None:
    path = tmp_path / "20260101T000000.0Z-1_v1_chat_completions_body.json"
    path.write_text('{"messages": [{"role": "user", "content": "a"}], "seed": ' + "9" * 5000 + "}")
    assert reasons(path) == [(0, "a request dump that is not JSON: a number in it is too large", 1)]
