"""Manifests and templates from a registry and from a store, and tags published: nothing opens the weights."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from support.agent import CHANGED, PLAIN
from support.ollama_server import OllamaServer
from support.registry_server import RegistryServer

from templatefix.servers.errors import BadAnswer, ModelNotFound, ServerError, ServerRefused, StreamCut
from templatefix.servers.in_force import chosen_in_log, serving_of, stored_of
from templatefix.servers.log_events import LogEvent
from templatefix.servers.names import ModelName
from templatefix.servers.ollama import OllamaClient
from templatefix.servers.packed import from_registry
from templatefix.servers.publishing import NotPublished, destination, publish
from templatefix.servers.registry import Registry
from templatefix.servers.targets import TargetError, resolve


@pytest.fixture
def pushed(server: OllamaServer, client: OllamaClient, registry: RegistryServer) -> str:
    server.store.add("m", PLAIN, params={"stop": ["<you>"]})
    return push(client, registry)


def push(client: OllamaClient, registry: RegistryServer, tag: str = "m") -> str:
    name = f"{registry.host}/me/owl:1"
    publish(client, tag, destination(name), insecure=True, progress=lambda *_: None)
    return name


def test_a_template_is_read_without_the_weights(registry: RegistryServer, pushed: str) -> None:
    registry.asked.clear()
    found = resolve(f"registry:{pushed}")
    assert (found.kind, found.source.text, found.not_in_force()) == ("registry", PLAIN, None)
    assert found.packed is not None
    weights = next(layer for layer in found.packed.manifest.layers if layer.kind == "model")
    assert registry.asked[0] == "/v2/me/owl/manifests/1"
    assert not any(weights.digest in path for path in registry.asked)


def test_weights_are_never_asked_for(pushed: str) -> None:
    reader = Registry(ModelName.parse(pushed))
    manifest = reader.manifest()
    with pytest.raises(ValueError, match="a model layer is not read"):
        reader.small_layer(next(layer for layer in manifest.layers if layer.kind == "model"))


def test_what_does_not_fit_its_digest_is_refused(registry: RegistryServer, pushed: str) -> None:
    for digest, data in registry.blobs.items():
        registry.blobs[digest] = data.replace(b"<sys>", b"<SYS>")
    with pytest.raises(BadAnswer, match="sent a template layer that does not fit its digest"):
        from_registry(pushed)


@pytest.mark.parametrize(
    ("status", "data", "error", "match"),
    [
        (404, b"", ModelNotFound, r"there is no 127\S+/me/owl:1 on http"),
        (401, b"{}", ServerRefused, "wants a login for"),
        (500, b"{}", ServerRefused, "says: status 500"),
        (200, b"<html>", BadAnswer, "it sent no manifest"),
        (200, b"{}", BadAnswer, "it sent no manifest"),
        (200, b'{"config": {"digest": 5, "size": "x"}, "layers": []}', BadAnswer, "it sent no manifest"),
    ],
)
def test_a_registry_that_answers_badly(
    registry: RegistryServer, pushed: str, status: int, data: bytes, error: type[ServerError], match: str
) -> None:
    registry.answers["/v2/me/owl/manifests/1"] = (status, data)
    with pytest.raises(error, match=match):
        resolve(f"registry:{pushed}")


def test_a_built_in_renderer_is_seen_in_the_config(
    server: OllamaServer, client: OllamaClient, registry: RegistryServer
) -> None:
    server.store.add("r", PLAIN, config={"renderer": "qwen3-coder", "parser": "qwen3-coder"})
    reason = resolve(f"registry:{push(client, registry, 'r')}").not_in_force()
    assert reason is not None
    assert "has RENDERER qwen3-coder" in reason


def test_a_tag_without_a_template(server: OllamaServer, client: OllamaClient, registry: RegistryServer) -> None:
    server.store.add("j", None, weights={"model_info": {"general.architecture": "llama"}})
    with pytest.raises(TargetError, match="carries no template"):
        resolve(f"registry:{push(client, registry, 'j')}")


def test_a_store_is_read_the_same_way(server: OllamaServer, client: OllamaClient) -> None:
    server.store.add("m", PLAIN, config={"renderer": "qwen3-coder"})
    found = stored_of(client, client.show("m"))
    assert found is not None
    assert (found.template, found.config["renderer"]) == (PLAIN, "qwen3-coder")
    server.version = "0.11.4"
    serving = serving_of(client, client.show("m"))
    assert serving.version == (0, 11, 4)
    assert "has RENDERER qwen3-coder" in serving.not_in_force


def test_what_the_log_says_was_chosen() -> None:
    def chosen(model: str, text: str) -> LogEvent:
        return LogEvent("selection", 1, None, text, f"registry.ollama.ai/library/{model}")

    items = [chosen("m:1", "go_template"), chosen("n:1", "go_template"), chosen("m:1", "gguf_chat_template")]
    assert chosen_in_log(items, "m:1") == "m:1 is served with the Jinja text of its GGUF file, as the log shows"
    assert chosen_in_log(items[:2], "m:1") is None
    assert chosen_in_log([chosen("m:1", "parser")], "m:1") is None


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("mytag", "mytag needs a namespace, as in yourname/mytag"),
        ("mytag:8b", "mytag:8b needs a namespace, as in yourname/mytag:8b"),
        ("Me/Model", "Me/Model needs lower case: me/model"),
        ("me/model:8B", "me/model:8B needs lower case: me/model:8b"),
        ("me/mo del", "'me/mo del' is not a model name: its model 'mo del' cannot be used"),
    ],
)
def test_names_that_no_registry_takes(name: str, sentence: str) -> None:
    with pytest.raises(NotPublished) as caught:
        destination(name)
    assert str(caught.value) == sentence


def test_what_arrived_is_compared(server: OllamaServer, client: OllamaClient, registry: RegistryServer) -> None:
    server.store.add("m", PLAIN)
    said: list[tuple[str, int, int]] = []
    dest = destination(f"{registry.host}/me/owl:1")
    done = publish(client, "m", dest, insecure=True, progress=lambda *at: said.append(at))
    tags = client.tags()
    assert (done.name, done.layers, done.compared) == (f"{registry.host}/me/owl:1", 2, True)
    assert done.size == tags["m:latest"].size
    assert done.digest != tags["m:latest"].digest == tags[done.name].digest
    assert any(0 < at < total for _, at, total in said)
    again = publish(client, "m", dest, insecure=True, progress=lambda *_: None)
    assert again == done


def test_a_push_that_fails_leaves_no_name_behind(
    server: OllamaServer, client: OllamaClient, registry: RegistryServer
) -> None:
    server.store.add("m", PLAIN)
    dest = destination(f"{registry.host}/me/owl:1")

    def fails(error: type[Exception], match: str, insecure: bool = True) -> None:
        with pytest.raises(error, match=match):
            publish(client, "m", dest, insecure=insecure, progress=lambda *_: None)
        assert list(client.tags()) == ["m:latest"]

    fails(NotPublished, "has no TLS; --insecure pushes without$", insecure=False)
    server.faults.push_error = "no space left on device"
    fails(ServerRefused, "says: no space left on device$")
    server.faults.push_error, server.faults.push_cut = "", True
    fails(StreamCut, "broke off before it could push")
    server.faults.push_cut = False
    registry.answers["/v2/me/owl/manifests/1"] = (404, b"")
    fails(NotPublished, "^the push was reported as done, but there is no")
    registry.answers.clear()
    assert publish(client, "m", dest, insecure=True, progress=lambda *_: None).compared


def test_what_arrived_is_not_what_was_sent(
    server: OllamaServer, client: OllamaClient, registry: RegistryServer, pushed: str
) -> None:
    manifest = json.loads(registry.manifests["me/owl:1"])
    manifest["layers"][1]["digest"] = "sha256:" + "0" * 64
    registry.answers["/v2/me/owl/manifests/1"] = (200, json.dumps(manifest).encode())
    with pytest.raises(NotPublished, match="differs in its template layer"):
        push(client, registry)
    assert pushed in client.tags()


def test_another_tag_of_that_name_is_kept(server: OllamaServer, client: OllamaClient, pushed: str) -> None:
    server.store.add("n", CHANGED)
    with pytest.raises(NotPublished, match=r"already, and is not n$"):
        publish(client, "n", destination(pushed), insecure=True, progress=lambda *_: None)


@pytest.fixture
def docker(tmp_path: Path) -> Iterator[str]:
    """A real registry, where Debian's `docker-registry` is installed."""
    program = shutil.which("docker-registry")
    if program is None:
        pytest.skip("docker-registry is not installed")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{listener.getsockname()[1]}"
    storage = {"filesystem": {"rootdirectory": str(tmp_path / "registry")}}
    config = tmp_path / "registry.yml"
    config.write_text(json.dumps({"version": 0.1, "storage": storage, "http": {"addr": host}}))
    process = subprocess.Popen([program, "serve", str(config)], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        for _ in range(200):
            try:
                requests.get(f"http://{host}/v2/", timeout=5)
                break
            except requests.ConnectionError:
                time.sleep(0.05)
        yield host
    finally:
        process.kill()
        process.wait()


@pytest.mark.ollama
def test_a_live_server_and_a_real_registry(docker: str, live: OllamaClient) -> None:
    base = next(iter(live.tags()))
    dest = destination(f"{docker}/templatefix-test/owl:1")
    try:
        with pytest.raises(NotPublished, match="has no TLS"):
            publish(live, base, dest, progress=lambda *_: None)
        assert dest.shortest not in live.tags()
        done = publish(live, base, dest, insecure=True, progress=lambda *_: None)
        assert done.size == live.tags()[base].size
        assert from_registry(dest.shortest).template == live.show(base).template
    finally:
        if dest.shortest in live.tags():
            live.delete(dest.shortest)
