"""Commands on a model whose Jinja text is in force on an Ollama server: they show the prompts that the server makes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from support.families import QWEN3, QWEN35
from support.ollama_server import OllamaServer

from templatefix.analysis.loops import core_loops, thinking_loop
from templatefix.servers.ollama import OllamaClient
from templatefix.servers.tokenizer import byte_level

BEGUN = "{{ bos_token }}" + QWEN3
THOUGHTS = thinking_loop(core=True).requests


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OllamaServer]:
    with OllamaServer(tmp_path / "store").running() as running:
        monkeypatch.setenv("OLLAMA_HOST", running.url)
        yield running


def add(server: OllamaServer, jinja: str, **more: Any) -> None:
    told = {"general.architecture": "llama", **byte_level(jinja).read().metadata}
    server.store.add("owl:1", None, weights={"model_info": told, "chat_template": jinja}, **more)


@pytest.mark.parametrize("request_of", [core_loops()[0].requests[-1], THOUGHTS[-1]], ids=["loop", "thoughts"])
def test_render_writes_the_servers_own_prompt(
    templatefix: Any, server: OllamaServer, alone: Path, request_of: Any
) -> None:
    add(server, BEGUN, system="Be an owl.")
    body = {"messages": list(request_of.messages[1:]), "tools": list(request_of.tools)}
    (alone / "request.json").write_text(json.dumps(body))
    done = templatefix("render", "owl:1", "--request", "request.json")
    asked = {**body, "model": "owl:1", "stream": False, "_debug_render_only": True}
    theirs = requests.post(f"{server.url}/api/chat", json=asked, timeout=10).json()["_debug_info"]["rendered_template"]
    assert (done.code, done.out) == (0, theirs)
    assert "Be an owl." in theirs
    assert theirs.startswith("<|end|>")
    told = templatefix("render", "owl:1", "--request", "request.json", "--pieces")
    assert "tool_calls" in told.out or "arguments" in told.out
    assert ".thinking" not in told.out


def test_the_two_requests_of_a_report_show_what_it_says(templatefix: Any, server: OllamaServer) -> None:
    add(server, QWEN35)
    done = templatefix("report", "owl:1")
    bodies = [json.loads(found) for found in re.findall(r"-d '(\{.*?\n?\})' \|", done.out, re.DOTALL)]
    assert len(bodies) == 2
    answers = [requests.post(f"{server.url}/api/chat", json=body, timeout=10).json() for body in bodies]
    first, second = (answer["_debug_info"]["rendered_template"].encode() for answer in answers)
    differ = next(at for at, pair in enumerate(zip(first, second, strict=False), 1) if pair[0] != pair[1])
    assert f"`cmp 1.txt 2.txt` names byte {differ}," in done.out
    assert f"Request 1: {len(first)} bytes" in done.out
    assert f"Request 2: {len(second)} bytes" in done.out


def test_a_lock_is_compared_as_the_server_renders_it(templatefix: Any, server: OllamaServer, alone: Path) -> None:
    marked = "loop.index0 > asked.last"
    stable = BEGUN.replace(marked, f"{marked} and message.reasoning_content")  # only where no thought is handed back
    add(server, stable)
    assert templatefix("lock", "owl:1").code == 0
    assert json.loads((alone / "templatefix.lock").read_text())["targets"]["owl:1"]["verdict"] == "stable"
    OllamaClient(server.url).delete("owl:1")
    add(server, stable.replace("Your tools", "All your tools"))
    told = json.loads(templatefix("watch", "owl:1", "--format", "json").out)
    assert [row["outcome"] for row in told["results"]] == ["same"]


def test_a_file_of_the_text_is_for_llama_server(templatefix: Any, server: OllamaServer, alone: Path) -> None:
    add(server, QWEN3)
    done = templatefix("patch", "owl:1", "--keep-thinking", "-o", "kept.jinja")
    assert done.code == 0
    told = json.loads(templatefix("check", "kept.jinja", "--format", "json").out)["results"][0]
    assert told["verdict"] == "stable"
