"""What goes wrong with a server: one sentence each, against a server that really does it."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest
from support.agent import CHANGED, PLAIN
from support.ollama_server import OllamaServer

from templatefix.chat.request import Request
from templatefix.servers.errors import (
    BadAnswer,
    ModelNotFound,
    ServerError,
    ServerRefused,
    ServerTimeout,
    ServerUnreachable,
    StreamCut,
)
from templatefix.servers.ollama import OllamaClient

HELLO = Request(({"role": "user", "content": "hello"},))
Ask = Callable[[OllamaClient], object]

QUESTIONS = [
    pytest.param("/api/version", lambda client: client.version(), id="version"),
    pytest.param("/api/show", lambda client: client.show("m"), id="show"),
    pytest.param("/api/tags", lambda client: client.tags(), id="tags"),
    pytest.param("/api/create", lambda client: client.create("v", "m", CHANGED), id="create"),
    pytest.param("/api/copy", lambda client: client.copy("m", "v"), id="copy"),
    pytest.param("/api/delete", lambda client: client.delete("m"), id="delete"),
    pytest.param("/api/chat", lambda client: client.render("m", HELLO), id="render"),
]
# An answer of copy and delete has no body, so none of theirs can be garbage.
ANSWERED = [one for one in QUESTIONS if one.id not in ("copy", "delete")]


@pytest.fixture(autouse=True)
def model(server: OllamaServer) -> None:
    server.store.add("m", PLAIN)


def closed_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def is_one_sentence(error: ServerError) -> bool:
    text = str(error)
    return "\n" not in text and "Traceback" not in text and "Error(" not in text and len(text) < 200


@pytest.mark.parametrize(("_path", "ask"), QUESTIONS)
def test_no_server(_path: str, ask: Ask) -> None:
    url = f"http://127.0.0.1:{closed_port()}"
    with pytest.raises(ServerUnreachable) as caught:
        ask(OllamaClient(url))
    assert str(caught.value) == f"no Ollama server answers at {url}"


@pytest.mark.parametrize(("path", "ask"), QUESTIONS)
def test_a_silent_server(server: OllamaServer, path: str, ask: Ask) -> None:
    server.faults.silent.add(path)
    with pytest.raises(ServerTimeout, match=f"^{server.url} took too long to ") as caught:
        ask(OllamaClient(server.url, quick=0.2, slow=0.2))
    assert is_one_sentence(caught.value)


@pytest.mark.parametrize(("path", "ask"), QUESTIONS)
def test_a_connection_that_breaks(server: OllamaServer, client: OllamaClient, path: str, ask: Ask) -> None:
    server.faults.down.add(path)
    with pytest.raises(StreamCut, match=f"^the connection to {server.url} broke off before it could ") as caught:
        ask(client)
    assert is_one_sentence(caught.value)


@pytest.mark.parametrize("body", [b"<html>hello</html>", b"[]", b"\xff\xfe{", b'"text"'])
@pytest.mark.parametrize(("path", "ask"), ANSWERED)
def test_garbage(server: OllamaServer, client: OllamaClient, path: str, ask: Ask, body: bytes) -> None:
    server.faults.answers[path] = (200, "text/html", body)
    with pytest.raises(BadAnswer) as caught:
        ask(client)
    assert is_one_sentence(caught.value)
    assert server.url in str(caught.value)


@pytest.mark.parametrize(("path", "ask"), ANSWERED)
def test_json_of_another_kind(server: OllamaServer, client: OllamaClient, path: str, ask: Ask) -> None:
    server.faults.answers[path] = (200, "application/json", b'{"template": 5, "models": 7, "status": [], "version": 1}')
    with pytest.raises((BadAnswer, StreamCut)) as caught:
        ask(client)
    assert is_one_sentence(caught.value)


@pytest.mark.parametrize(("path", "ask"), QUESTIONS)
def test_a_fault_of_the_server(server: OllamaServer, client: OllamaClient, path: str, ask: Ask) -> None:
    server.faults.answers[path] = (500, "application/json", b'{"error": "no space left on device"}')
    with pytest.raises(ServerRefused) as caught:
        ask(client)
    assert str(caught.value) == f"{server.url} says: no space left on device"
    assert (caught.value.message, caught.value.status) == ("no space left on device", 500)


def test_another_server_at_the_address(server: OllamaServer) -> None:
    with pytest.raises(BadAnswer) as caught:
        OllamaClient(server.url + "/elsewhere").version()
    assert str(caught.value) == (
        f"{server.url}/elsewhere does not answer as an Ollama server does: it answered 404 with no JSON"
    )


def test_an_address_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", "ftp://x")
    with pytest.raises(ServerUnreachable, match=r"^OLLAMA_HOST has the scheme 'ftp'; only http and https can be used$"):
        OllamaClient()


def test_the_address_comes_from_the_environment(server: OllamaServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", server.url.removeprefix("http://"))
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{closed_port()}")
    assert OllamaClient().version() == "0.0.0"
    assert list(OllamaClient().tags()) == ["m:latest"]


def test_a_model_that_is_not_there(server: OllamaServer, client: OllamaClient) -> None:
    with pytest.raises(ModelNotFound) as caught:
        client.show("nosuch")
    assert str(caught.value) == f"there is no model nosuch on {server.url}"


@pytest.mark.parametrize(
    ("fault", "value", "error", "match"),
    [
        ("create_error", "no space left on device", ServerRefused, "says: no space left on device$"),
        ("create_garbage", b"\x00garbage", BadAnswer, "sent what cannot be read instead of saying how it went"),
        ("create_cut", "before", StreamCut, "broke off before it could create v$"),
        ("create_cut", "after", StreamCut, "broke off before it could create v$"),
        ("create_short", True, StreamCut, "stopped before it had created v$"),
    ],
)
def test_a_stream_that_goes_wrong(
    server: OllamaServer, client: OllamaClient, fault: str, value: object, error: type[ServerError], match: str
) -> None:
    setattr(server.faults, fault, value)
    with pytest.raises(error, match=match) as caught:
        client.create("v", "m", CHANGED)
    assert is_one_sentence(caught.value)


def test_an_error_in_a_stream_has_the_streams_status(server: OllamaServer, client: OllamaClient) -> None:
    server.faults.create_error = "pull model\nmanifest"
    with pytest.raises(ServerRefused) as caught:
        client.create("v", "m", CHANGED)
    assert (caught.value.message, caught.value.status) == ("pull model manifest", 200)


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("0.0.0", True),
        ("", True),
        ("dev-build", True),
        ("0.11.4", False),
        ("0.11.5", True),
        ("0.11.5-rc1", True),
        ("v0.9.30", False),
        ("0.33.0-rc2", True),
        ("1.0.0", True),
    ],
)
def test_a_build_without_a_version_counts_as_new(
    server: OllamaServer, client: OllamaClient, version: str, expected: bool
) -> None:
    server.version = version
    assert client.can_render() is expected


def test_a_server_that_generates_instead_of_rendering(server: OllamaServer, client: OllamaClient) -> None:
    server.faults.answers["/api/chat"] = (200, "application/json", b'{"message": {"content": "hi"}, "done": true}')
    with pytest.raises(BadAnswer, match=r"did not show its render of m; that needs Ollama 0\.11\.5 or newer$"):
        client.render("m", HELLO)


def test_verbose_brings_the_tokenizer(server: OllamaServer, client: OllamaClient) -> None:
    info = {"general.architecture": "llama", "tokenizer.ggml.tokens": ["a", "b"]}
    server.store.add("t", PLAIN, weights={"model_info": info})
    assert client.show("t").model_info["tokenizer.ggml.tokens"] is None
    assert client.show("t", verbose=True).model_info == info


def test_a_render_is_asked_for_uncut_and_without_generating(server: OllamaServer, client: OllamaClient) -> None:
    client.render("m", HELLO)
    assert server.asked("/api/chat") == [
        {
            "model": "m",
            "stream": False,
            "_debug_render_only": True,
            "truncate": False,
            "messages": [{"role": "user", "content": "hello"}],
        }
    ]
