"""Fixtures for tests of servers: the test server, and a live Ollama where one is named."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from support.agent import Backend
from support.ollama_server import OllamaServer

from templatefix.servers.ollama import OllamaClient


@pytest.fixture
def server(tmp_path: Path) -> Iterator[OllamaServer]:
    """The test server, with nothing on it."""
    with OllamaServer(tmp_path / "store").running() as running:
        yield running


@pytest.fixture
def client(server: OllamaServer) -> OllamaClient:
    """A client of the test server."""
    return OllamaClient(server.url, connect=5, quick=5, slow=5)


@pytest.fixture
def live() -> OllamaClient:
    """A live Ollama where TEMPLATEFIX_OLLAMA_HOST names one."""
    host = os.environ.get("TEMPLATEFIX_OLLAMA_HOST")
    if not host:
        pytest.skip("TEMPLATEFIX_OLLAMA_HOST names no live Ollama")
    return OllamaClient(host)


@pytest.fixture(params=["test server", pytest.param("live", marks=pytest.mark.ollama)])
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    """The test server, and a live Ollama where TEMPLATEFIX_OLLAMA_HOST names one."""
    if request.param == "live":
        url = request.getfixturevalue("live").url
        base = _any_model(url)
    else:
        running = request.getfixturevalue("server")
        url = running.url
        base = running.store.add("weights", "{{ .Prompt }}")
    client = OllamaClient(url)

    def make(name: str, template: str, **fields: Any) -> str:
        full = f"templatefix-test/{name}:base"
        body = {"model": full, "from": base, "template": template, "stream": False, **fields}
        answer = requests.post(f"{url}/api/create", json=body, timeout=60)
        assert answer.json() == {"status": "success"}
        return full

    yield Backend(client, make)
    for name in client.tags():
        if name.startswith("templatefix-test/"):
            client.delete(name)


def _any_model(url: str) -> str:
    rows = requests.get(f"{url}/api/tags", timeout=60).json()["models"]
    local = [row["name"] for row in rows if row["details"].get("format") == "gguf"]
    if not local:
        pytest.skip("the live Ollama has no model to take weights from")
    return str(min(local, key=len))
