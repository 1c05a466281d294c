"""The test server beside what a live Ollama answered: same statuses, same bodies, same digests."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import requests
from support.ollama_server import OllamaServer
from support.ollama_store import KIND
from support.shared import read_lines

Call = dict[str, Any]

# Not of this server: other APIs, registries, generation, cutting what does not fit.
ELSEWHERE = re.compile(r"/v1/|/api/(generate|push|pull|ps)$")
TIMES = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
STORE = re.compile(r"/\S*/blobs/")


def is_supported(call: Call) -> bool:
    request = call["request"] or {}
    if ELSEWHERE.search(call["path"]) or "files" in request:
        return False
    cut = "num_ctx" in request.get("options", {})
    generates = call["path"] == "/api/chat" and call["status"] == 200 and not request.get("_debug_render_only")
    return not cut and (not generates or request.get("keep_alive") == 0)


def seed(server: OllamaServer, calls: list[Call], manifests: dict[str, Any]) -> None:
    """Make the models that the recording made from files: the same layers, their weights only claimed."""
    for call in calls:
        request = call["request"] or {}
        if call["path"] != "/api/create" or "files" not in request:
            continue
        model, _, tag = request["model"].partition(":")
        stored = manifests[f"registry.ollama.ai/library/{model}/{tag or 'latest'}"]
        weights = next(layer for layer in stored["body"]["layers"] if layer["mediaType"] == KIND + "model")
        shows = [other["answer"][0] for other in calls if asks(other, "/api/show", request["model"])]
        jinja = next((one["answer"][0]["template"] for one in calls if asks(one, "/api/show", "jinja-only")), "")
        server.store.add(
            request["model"],
            request.get("template"),
            params=request.get("parameters"),
            config={key: stored["config"][key] for key in ("model_type", "file_type")},
            weights={"model_info": shows[0]["model_info"], "chat_template": jinja if "jinja" in model else ""},
            layer=(weights["digest"], weights["size"]),
        )


def asks(call: Call, path: str, model: str) -> bool:
    return call["path"] == path and (call["request"] or {}).get("model") == model


def answer(server: OllamaServer, call: Call) -> tuple[int, str | None, list[Any]]:
    found = requests.request(call["method"], server.url + call["path"], json=call["request"], timeout=10)
    return found.status_code, found.headers.get("Content-Type"), [json.loads(line) for line in found.text.splitlines()]


def plain(value: Any) -> Any:
    """An answer without what differs from run to run: times, folders, the order of sets and of Go's maps."""
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items() if key != "modified_at"}
    if isinstance(value, list):
        texts = all(isinstance(one, str) for one in value)
        return sorted(value) if texts else [plain(one) for one in value]
    if isinstance(value, str):
        value = STORE.sub("/blobs/", TIMES.sub("TIME", value))
        head, mark, tail = value.partition("\nPARAMETER ")
        if mark or value.startswith(("num_ctx ", "stop ")):
            return head + "\n".join(sorted((mark + tail).splitlines())) if mark else sorted(value.splitlines())
    return value


@pytest.fixture
def calls(shared: Path) -> list[Call]:
    return read_lines("recordings/ollama/api.jsonl")


@pytest.fixture
def seeded(server: OllamaServer, calls: list[Call], shared: Path) -> OllamaServer:
    manifests = json.loads((shared / "recordings/ollama/manifests.json").read_text(encoding="utf-8"))
    seed(server, calls, manifests)
    return server


def test_every_recorded_call_is_answered_alike(seeded: OllamaServer, calls: list[Call]) -> None:
    played = 0
    for call in filter(is_supported, calls):
        if call["path"] == "/api/tags":
            continue
        status, kind, lines = answer(seeded, call)
        assert (status, kind) == (call["status"], call["content_type"]), call["note"]
        told, recorded = plain(lines), plain(call["answer"])
        if foreign(call["request"] or {}):
            # Its text is that of a renderer or of Jinja, which this server has not.
            assert told[0]["_debug_info"].pop("rendered_template")
            assert recorded[0]["_debug_info"].pop("rendered_template")
        assert told == recorded, call["note"]
        played += 1
    assert played >= 30


def foreign(request: Call) -> bool:
    models = ("rend-v", "jinja-only", "jinja-and-go-without-round-trip")
    return "_debug_render_only" in request and request["model"] in models


def test_the_list_of_models_has_the_recorded_digests_and_sizes(seeded: OllamaServer, calls: list[Call]) -> None:
    recorded = next(call for call in calls if call["path"] == "/api/tags")
    for call in calls[: calls.index(recorded)]:
        if call["path"] == "/api/create" and is_supported(call):
            answer(seeded, call)
    _, _, lines = answer(seeded, recorded)
    told = {row["name"]: plain(row) for row in lines[0]["models"]}
    for row in recorded["answer"][0]["models"]:
        if row["name"].startswith("jinja"):
            row.pop("capabilities"), told[row["name"]].pop("capabilities")  # the list looks at the Go template alone
        assert told[row["name"]] == plain(row)


def test_manifests_are_laid_out_as_recorded(seeded: OllamaServer, calls: list[Call], shared: Path) -> None:
    for call in calls:
        if call["path"] == "/api/create" and is_supported(call):
            answer(seeded, call)
    recorded = json.loads((shared / "recordings/ollama/manifests.json").read_text(encoding="utf-8"))
    compared = 0
    for name, stored in recorded.items():
        path = seeded.store.root / "manifests" / name
        if name.startswith("registry.ollama.ai/"):
            assert json.loads(path.read_bytes()) == stored["body"], name
            compared += 1
    assert compared == 12
