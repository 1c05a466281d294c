"""A small registry: manifests and blobs over the distribution API, with faults to order."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

from support.ollama_store import Model, ModelStore
from support.quiet_http import QuietHTTPServer


class RegistryServer:
    """The registry; what it holds can be changed by hand."""

    def __init__(self) -> None:
        self.manifests: dict[str, bytes] = {}  # NAMESPACE/MODEL:TAG -> manifest
        self.blobs: dict[str, bytes] = {}
        self.answers: dict[str, tuple[int, bytes]] = {}  # path -> an answer to give instead
        self.asked: list[str] = []
        self._http = QuietHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self.host = f"127.0.0.1:{self._http.server_address[1]}"

    @contextmanager
    def running(self) -> Iterator[RegistryServer]:
        thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._http.shutdown()
            self._http.server_close()
            thread.join()

    def take(self, store: ModelStore, model: Model) -> None:
        """What a push leaves here: the same layers under a manifest that is encoded anew; weights are not kept."""
        manifest: dict[str, Any] = json.loads(json.dumps(model.manifest))
        for layer in manifest["layers"]:
            layer.pop("from", None)
        for layer in (manifest["config"], *manifest["layers"]):
            if not layer["mediaType"].endswith(".model"):
                path = store.root / "blobs" / layer["digest"].replace(":", "-")
                self.blobs[layer["digest"]] = path.read_bytes()
        _, namespace, name, tag = model.name
        self.manifests[f"{namespace}/{name}:{tag}"] = json.dumps(manifest).encode()


def _handler(registry: RegistryServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass

        def do_GET(self) -> None:
            registry.asked.append(self.path)
            status, data = registry.answers.get(self.path) or _found(registry, self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    return Handler


def _found(registry: RegistryServer, path: str) -> tuple[int, bytes]:
    _, version, namespace, model, kind, key = path.split("/", 5)
    held = registry.blobs.get(key) if kind == "blobs" else registry.manifests.get(f"{namespace}/{model}:{key}")
    return (200, held) if version == "v2" and held is not None else (404, b'{"errors": []}')
