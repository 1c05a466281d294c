"""A proxy between an agent and its server: it passes everything on as it comes, and records what is chat.

Bytes of an answer go to the client the moment they arrive; a copy is kept until the answer is over.
"""

from __future__ import annotations

import datetime
import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from templatefix.trace.answers import objects_in
from templatefix.trace.bodies import PATHS
from templatefix.trace.recording import Recording

_HOP = frozenset(
    (
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer"),
        *("transfer-encoding", "upgrade", "proxy-connection"),
    )
)
_PIECE = 65536
_MOST = 64 << 20  # bytes of one answer that are kept for the record; all of it is passed on


class Proxy(ThreadingHTTPServer):
    """Listens until it is shut down; each connection has a thread of its own."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def __init__(
        self,
        address: tuple[str, int],
        upstream: str,
        recording: Recording,
        told: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Listen at host and port (0: any that is free); raises OSError. `told` hears what was recorded."""
        self.recording = recording
        self.told = told
        parts = urlsplit(upstream)
        self.secure = parts.scheme == "https"
        self.upstream = parts.netloc
        self.base = parts.path.rstrip("/")
        self._known: set[str] = set()
        self._lock = threading.Lock()
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _Handler)

    @property
    def url(self) -> str:
        """Where clients reach it."""
        host, port = self.server_address[:2]
        name = host.decode() if isinstance(host, bytes) else str(host)
        return f"http://{f'[{name}]' if ':' in name else name}:{port}"

    def connect(self, timeout: float | None = None) -> http.client.HTTPConnection:
        """A new connection to the server behind."""
        kind = http.client.HTTPSConnection if self.secure else http.client.HTTPConnection
        return kind(self.upstream, timeout=timeout)

    def learn_template(self, model: Any) -> None:
        """Record a model's template once, where the server shows it (Ollama by model, llama-server its only one)."""
        name = model if isinstance(model, str) else ""
        with self._lock:
            if name in self._known:
                return
            self._known.add(name)
        shown = self._ask("POST", "/api/show", {"model": name}) if name else None
        if shown is not None and isinstance(shown.get("template"), str):
            text = shown["template"]
            self.recording.template(name, text, "jinja" if "{%" in text else "go", "ollama")
            return
        props = self._ask("GET", "/props", None)
        if props is not None and isinstance(props.get("chat_template"), str):
            self.recording.template(name, props["chat_template"], "jinja", "llama-server")

    def _ask(self, method: str, path: str, body: Any) -> dict[str, Any] | None:
        connection = self.connect(timeout=10)
        try:
            data = None if body is None else json.dumps(body).encode()
            connection.request(method, self.base + path, data, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            value = json.loads(answer.read()) if answer.status == 200 else None
        except (OSError, http.client.HTTPException, ValueError):
            return None
        finally:
            connection.close()
        return value if isinstance(value, dict) else None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Proxy

    def log_message(self, *_: Any) -> None:
        """Write nothing: the command says what was recorded."""

    def _pass(self) -> None:
        body = self._body()
        if body is None:
            return
        began = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")
        connection = self.server.connect()
        try:
            try:
                answer = self._asked(connection, body)
            except (OSError, http.client.HTTPException) as error:
                self._fail(502, f"the server behind the recording proxy does not answer: {error}")
                return
            kept = self._answered(answer)
        finally:
            connection.close()
        if self.command == "POST" and self.path.partition("?")[0].rstrip("/").endswith(PATHS):
            self._record(began, body, answer.status, kept)

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = do_OPTIONS = do_PATCH = _pass

    def _body(self) -> bytes | None:
        """The request's body; None after an answer where it cannot be read."""
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            return b"".join(self._chunks())
        length = self.headers.get("Content-Length") or "0"
        if not length.isdigit():
            self._fail(400, "Content-Length is no number")
            return None
        return self.rfile.read(int(length))

    def _chunks(self) -> Iterator[bytes]:
        while True:
            size = int(self.rfile.readline(100).split(b";")[0].strip() or b"0", 16)
            if size == 0:
                while self.rfile.readline(65536).strip():
                    pass
                return
            yield self.rfile.read(size)
            self.rfile.readline(10)

    def _asked(self, connection: http.client.HTTPConnection, body: bytes) -> http.client.HTTPResponse:
        target = self.server.base + self.path
        connection.putrequest(self.command, target, skip_host=True, skip_accept_encoding=True)
        connection.putheader("Host", self.server.upstream)
        for name, value in self.headers.items():
            # What is compressed could not be read for the record.
            if name.lower() not in _HOP and name.lower() not in ("host", "content-length", "accept-encoding"):
                connection.putheader(name, value)
        if body or self.command in ("POST", "PUT", "PATCH"):
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body or None)
        return connection.getresponse()

    def _answered(self, answer: http.client.HTTPResponse) -> bytes:
        """Pass the answer on as it comes; its bytes."""
        self.send_response_only(answer.status, answer.reason)
        length = answer.getheader("Content-Length")
        for name, value in answer.getheaders():
            if name.lower() not in _HOP:
                self.send_header(name, value)
        bare = self.command == "HEAD" or answer.status in (204, 304) or answer.status < 200
        chunked = length is None and not bare and self.request_version == "HTTP/1.1"
        if chunked:
            self.send_header("Transfer-Encoding", "chunked")
        if length is None and not bare and not chunked:
            self.close_connection = True
        self.end_headers()
        kept = bytearray()
        gone = False
        while not bare and (piece := answer.read1(_PIECE)):
            if len(kept) < _MOST:
                kept += piece
            try:
                if not gone:
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
                    self.wfile.flush()
            except OSError:
                # The client went away. Leaving now lets the server stop as it would have without us.
                gone = self.close_connection = True
                break
        if chunked and not gone:
            self.wfile.write(b"0\r\n\r\n")
        return bytes(kept)

    def _record(self, began: str, body: bytes, status: int, kept: bytes) -> None:
        try:
            request = json.loads(body)
        except ValueError:
            self.server.told(f"{self.path}: a body that is not JSON was passed on and not recorded")
            return
        objects, broken = objects_in(kept)
        try:
            if isinstance(request, dict) and status < 400:
                self.server.learn_template(request.get("model"))
            self.server.recording.add(
                time=began,
                method=self.command,
                path=self.path,
                request=request,
                status=status,
                answer=objects,
                broken=broken,
            )
        except OSError as error:
            self.server.told(f"the recording cannot be written: {error.strerror or error}")
            return
        self.server.told(f"{self.server.recording.count} {self.path.partition('?')[0]}")

    def _fail(self, status: int, sentence: str) -> None:
        data = json.dumps({"error": sentence}).encode()
        self.close_connection = True
        self.send_response_only(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
