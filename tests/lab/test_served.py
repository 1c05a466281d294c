"""Arms that are models of a server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.agent import CHANGED, PLAIN
from support.ollama_server import OllamaServer

from templatefix.lab.ab import Arm
from templatefix.lab.figures import AbResult
from templatefix.lab.scenario_file import seed_loop
from templatefix.lab.served import check_prompts, served_arm, vocabulary, with_calls_read
from templatefix.servers.errors import NotMeasurable
from templatefix.servers.ollama import OllamaClient
from templatefix.servers.tokens import TokenCounter

LOOPS = [seed_loop().loop()]
RESULT = AbResult("ollama", "engine", "m", ())
MARKED = PLAIN.replace("{{ range .ToolCalls }}", "{{ if .ToolCalls }}[CALLS]{{ end }}{{ range .ToolCalls }}")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[OllamaServer]:
    with OllamaServer(tmp_path / "store").running() as running:
        running.store.add("brace", PLAIN)
        running.store.add("other", MARKED)
        yield running


@pytest.fixture
def client(server: OllamaServer) -> OllamaClient:
    return OllamaClient(server.url)


def arm(client: OllamaClient, model: str) -> Arm:
    return served_arm(client, client.show(model), TokenCounter(lambda: None))


def test_a_bound_call_has_to_be_read(server: OllamaServer, client: OllamaClient) -> None:
    names = ("brace", "other")
    arms, shown = [arm(client, name) for name in names], [client.show(name) for name in names]
    assert [one.tags.tool for one in arms] == ["{", "[CALLS]"]
    assert with_calls_read(client, arms, shown, LOOPS, RESULT) == RESULT
    (asked,) = server.asked("/api/chat")
    assert asked["format"]["properties"]["name"] == {"const": asked["tools"][0]["function"]["name"]}
    server.faults.deaf = True
    found = with_calls_read(client, arms, shown, LOOPS, RESULT)
    assert found.invalid_reasons == ("brace: the server does not read the call that its output was bound to",)


def test_prompts_that_are_ours(server: OllamaServer, client: OllamaClient) -> None:
    said: list[str] = []
    assert check_prompts(client, client.show("other"), LOOPS, said.append) == (4, "")
    assert len(said) == 4
    server.faults.render = lambda text: text.replace("<you>", "<YOU>")
    with pytest.raises(NotMeasurable, match=r"^TF401: the server's render of request 1 .* is not ours"):
        check_prompts(client, client.show("other"), LOOPS, said.append)
    server.store.add("failing", CHANGED + "{{ range .Messages }}{{ .Nope }}{{ end }}")
    with pytest.raises(NotMeasurable, match=r"^the server cannot render request 1 of the loop"):
        check_prompts(client, client.show("failing"), LOOPS, said.append)


def test_a_vocabulary_that_the_server_does_not_tell(client: OllamaClient) -> None:
    with vocabulary(client, "other") as counter:
        assert counter.token_ends("owls and bats") == [4, 8, 12, 13]
        assert counter.token_ends("") == []
