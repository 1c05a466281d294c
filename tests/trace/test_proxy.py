"""The recording proxy between a client and a small server: nothing changes on the way, nothing waits, no key stays."""

from __future__ import annotations

import http.client
import json
import socket
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from templatefix.trace.explain import explain
from templatefix.trace.proxy import Proxy
from templatefix.trace.recording import Recording
from templatefix.trace.sources import read_sources

TEMPLATE = "{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}"


class _Upstream(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.go_on = threading.Event()
        self.seen: list[tuple[str, str, dict[str, str], bytes]] = []


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Upstream

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._whole(b'{"version": "0.0.0"}')

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body))
        if self.path == "/api/show":
            self._whole(json.dumps({"template": TEMPLATE}).encode())
        elif self.path == "/api/chat":
            self._stream(
                [
                    b'{"message": {"content": "Ro"}}\n',
                    b'{"message": {"content": "ses"}, "done": true, '
                    b'"prompt_eval_count": 9, "prompt_eval_cached_count": 4}\n',
                ]
            )
        elif self.path == "/api/push":
            self._whole(b"\x00\x01\xff not JSON", 418)
        else:
            self._whole(
                b'{"choices": [{"message": {"role": "assistant", "content": "hi"}}], '
                b'"usage": {"prompt_tokens": 7, "prompt_tokens_details": {"cached_tokens": 3}}}'
            )

    def _whole(self, data: bytes, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("X-Own", "kept")
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, pieces: list[bytes]) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for index, piece in enumerate(pieces):
            if index:
                assert self.server.go_on.wait(10)
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")


@pytest.fixture
def upstream() -> Iterator[_Upstream]:
    with _Upstream() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def proxy(upstream: _Upstream, tmp_path: Path) -> Iterator[Proxy]:
    with (
        Recording(tmp_path / "trace.jsonl") as recording,
        Proxy(("127.0.0.1", 0), f"http://127.0.0.1:{upstream.server_address[1]}", recording) as proxy,
    ):
        thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield proxy
        proxy.shutdown()
        thread.join()


@pytest.fixture
def connection(proxy: Proxy) -> Iterator[http.client.HTTPConnection]:
    with closing(http.client.HTTPConnection("127.0.0.1", proxy.server_address[1], timeout=10)) as connection:
        yield connection


def settled(proxy: Proxy, count: int) -> None:
    """Wait until so many exchanges were recorded: that happens behind the answer."""
    deadline = time.monotonic() + 10
    while proxy.recording.count < count and time.monotonic() < deadline:
        time.sleep(0.005)
    assert proxy.recording.count == count


def test_a_stream_is_passed_on_while_it_comes(
    connection: http.client.HTTPConnection, proxy: Proxy, upstream: _Upstream, tmp_path: Path
) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "What grows?"}]}
    connection.request("POST", "/api/chat", json.dumps(body), {"Authorization": "Bearer abcdefgh12345678"})
    answer = connection.getresponse()
    assert answer.read1() == b'{"message": {"content": "Ro"}}\n'
    # The rest is not even sent: what has come was not held back for it.
    assert not upstream.go_on.is_set()
    upstream.go_on.set()
    assert b"ses" in answer.read()
    settled(proxy, 1)
    passed = next(seen for seen in upstream.seen if seen[1] == "/api/chat")
    assert (json.loads(passed[3]), passed[2]["authorization"]) == (body, "Bearer abcdefgh12345678")
    sources = read_sources([tmp_path / "trace.jsonl"])
    (exchange,) = sources.exchanges
    assert (exchange.prompt_tokens, exchange.cached_tokens, exchange.figures) == (9, 4, "field")
    assert exchange.reply == {"role": "assistant", "content": "Roses"}
    assert sources.templates["m"].text == TEMPLATE
    assert "abcdefgh12345678" not in (tmp_path / "trace.jsonl").read_text()


def test_only_the_owner_can_read_the_recording(proxy: Proxy, tmp_path: Path) -> None:
    assert stat.S_IMODE((tmp_path / "trace.jsonl").stat().st_mode) == 0o600


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages?beta=true", "/v1/responses", "/api/generate"])
def test_every_chat_api_is_recorded(
    connection: http.client.HTTPConnection, proxy: Proxy, tmp_path: Path, path: str
) -> None:
    body: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}
    if path == "/v1/responses":
        body = {"model": "m", "input": "Hello"}
    elif path == "/api/generate":
        body = {"model": "m", "prompt": "Hello"}
    connection.request("POST", path, json.dumps(body))
    assert connection.getresponse().getheader("X-Own") == "kept"
    settled(proxy, 1)
    (exchange,) = read_sources([tmp_path / "trace.jsonl"]).exchanges
    assert exchange.path == path.partition("?")[0]
    assert exchange.request is not None
    assert exchange.request.messages == ({"role": "user", "content": "Hello"},)


def test_what_is_no_chat_is_passed_on_and_not_recorded(connection: http.client.HTTPConnection, proxy: Proxy) -> None:
    connection.request("GET", "/api/version")
    assert connection.getresponse().read() == b'{"version": "0.0.0"}'
    connection.request("POST", "/api/push", b"\xff\xfe")
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (418, b"\x00\x01\xff not JSON")
    assert proxy.recording.count == 0


def test_a_body_in_chunks_and_a_body_that_is_no_json(
    connection: http.client.HTTPConnection, proxy: Proxy, upstream: _Upstream
) -> None:
    connection.request(
        "POST",
        "/v1/chat/completions",
        iter([b'{"model": "m", ', b'"messages": []}']),
        encode_chunked=True,
        headers={"Transfer-Encoding": "chunked"},
    )
    assert connection.getresponse().read()
    connection.request("POST", "/v1/chat/completions", b"{not json")
    assert connection.getresponse().read()
    settled(proxy, 1)
    assert [seen[3] for seen in upstream.seen if "completions" in seen[1]] == [
        b'{"model": "m", "messages": []}',
        b"{not json",
    ]


def test_keys_in_a_body_are_taken_out(connection: http.client.HTTPConnection, proxy: Proxy, tmp_path: Path) -> None:
    secret = "sk-" + "a1B2" * 8
    body = {
        "model": "m",
        "api_key": "plain-key",
        "messages": [
            {"role": "user", "content": f"curl -H 'Authorization: Bearer {secret}' with {secret}; token_count stays"}
        ],
    }
    connection.request("POST", "/v1/chat/completions?key=plain-key", json.dumps(body))
    connection.getresponse().read()
    settled(proxy, 1)
    text = (tmp_path / "trace.jsonl").read_text()
    assert secret not in text
    assert "plain-key" not in text
    assert "token_count stays" in text


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with Recording(tmp_path / "x.jsonl") as recording, Proxy(("127.0.0.1", 0), nobody, recording) as proxy:
            thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            connection = http.client.HTTPConnection(*proxy.server_address[:2], timeout=10)
            connection.request("POST", "/api/chat", b"{}")
            answer = connection.getresponse()
            assert answer.status == 502
            assert json.loads(answer.read())["error"].startswith(
                "the server behind the recording proxy does not answer"
            )
            connection.close()
            proxy.shutdown()
            thread.join()


def test_a_recording_is_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("")
    path.chmod(0o644)
    for content in ("one", "two"):
        with Recording(path) as recording:
            body = {"model": "m", "messages": [{"role": "user", "content": content}]}
            recording.add(
                time="2026-11-29T12:00:00Z", method="POST", path="/api/chat", request=body, status=200, answer=[]
            )
    assert len(explain([path]).requests) == 2
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
