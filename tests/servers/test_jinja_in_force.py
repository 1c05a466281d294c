"""Models whose Jinja text is in force, on the test server and, where one is named, on a live Ollama."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests
from support.families import MISTRAL, QWEN3, QWEN35
from support.ollama_server import OllamaServer

from templatefix.analysis.loops import core_loops, thinking_loop
from templatefix.chat.rendering import RenderError
from templatefix.chat.request import Request
from templatefix.servers.errors import ServerRefused
from templatefix.servers.families import FAMILIES
from templatefix.servers.in_force import template_in_force
from templatefix.servers.jinja_source import from_gguf
from templatefix.servers.ollama import OllamaClient
from templatefix.servers.served import as_served, as_written
from templatefix.servers.standin import standin_bytes
from templatefix.servers.tags import TagRefused, create_variant
from templatefix.servers.targets import resolve
from templatefix.servers.temporary import temporary_tag
from templatefix.servers.tokenizer import byte_level

TEMPLATES = {family.name: family for family in FAMILIES}
MODEL = f"templatefix-test/jinja-{secrets.token_hex(4)}"  # another one in each process of the tests
BASE, TAG = f"{MODEL}:base", f"{MODEL}:variant"
LOOP = core_loops()[0].requests
THOUGHTS = thinking_loop(core=True).requests

Make = Callable[[str], OllamaClient]


def weights(jinja: str) -> bytes:
    """A stand-in that carries a Jinja text."""
    tokenizer = byte_level(jinja).read()
    return standin_bytes(replace(tokenizer, metadata={**tokenizer.metadata, "tokenizer.chat_template": jinja}))


@pytest.fixture(params=["test server", pytest.param("live", marks=pytest.mark.ollama)])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """Makes a model of a Jinja text, and takes it away at the end."""
    if request.param == "live":
        client = request.getfixturevalue("live")

        def made(jinja: str) -> OllamaClient:
            data = weights(jinja)
            digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
            requests.post(f"{client.url}/api/blobs/{digest}", data=data, timeout=60).raise_for_status()
            body = {"model": BASE, "files": {"model.gguf": digest}, "stream": False}
            answer = requests.post(f"{client.url}/api/create", json=body, timeout=60)
            assert answer.json() == {"status": "success"}
            return client
    else:
        server: OllamaServer = request.getfixturevalue("server")
        client = OllamaClient(server.url)

        def made(jinja: str) -> OllamaClient:
            told = byte_level(jinja).read().metadata
            info = {"general.architecture": "llama", **told}
            server.store.add(BASE, None, weights={"model_info": info, "chat_template": jinja})
            return client

    yield made
    for name in client.tags():
        if name.startswith(f"{MODEL}:"):
            client.unload(name)
            client.delete(name)


def test_the_text_is_shown_and_in_force(make: Make) -> None:
    shown = make(QWEN3).show(BASE)
    assert (shown.template, shown.renders_jinja, shown.carried) == (QWEN3, True, "")
    assert sorted(shown.capabilities) == ["completion", "thinking", "tools"]


@pytest.mark.parametrize("text", [QWEN3, QWEN35], ids=["qwen3", "qwen3.5"])
def test_prompts_are_as_we_render_them(make: Make, text: str) -> None:
    client = make(text)
    shown = client.show(BASE)
    template = template_in_force(client, shown)
    for request in (*LOOP, *THOUGHTS, *[Request(one.messages, think=False) for one in LOOP]):
        assert client.render(BASE, request) == template.render(as_served(request, shown)).text


def test_no_thinking_of_the_past_reaches_the_text(make: Make) -> None:
    client = make(QWEN3)
    thoughts = [one["thinking"] for one in THOUGHTS[-1].messages if one.get("thinking")]
    prompt = client.render(BASE, THOUGHTS[-1])
    assert thoughts
    assert not any(thought in prompt for thought in thoughts)
    first = next(index for index, one in enumerate(THOUGHTS[-1].messages) if one.get("thinking"))
    written = as_written(Request(THOUGHTS[-1].messages[: first + 1]), client.show(BASE))
    assert written.messages[-1]["thinking"] == thoughts[0]


# What reaches the text, as JSON; an engine tries it on other words before.
SEEN = """\
{%- if messages[0].content != 'Show me.' %}
    {%- for m in messages %}<{{ m.role }}>{{ m.content }}
        {%- for call in m.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}
    {%- endfor %}
{%- else %}
    {{- bos_token }}{{ tools | tojson }}{% for m in messages %}{{ m | tojson }}{{ eos_token }}{% endfor %}
{%- endif %}{# <think></think> message.role == 'tool' #}"""
CALLS: tuple[Mapping[str, Any], ...] = (
    {"function": {"name": "spell", "arguments": {"zebra": {"stripes": [1.0, 2.5], "age": None}, "ant": "<é>"}}},
    {"id": "call_a1b2c3d4", "function": {"name": "spell", "arguments": {}}},
)
MESSAGES: tuple[Mapping[str, Any], ...] = (
    {"role": "user", "content": "Show me."},
    {"role": "assistant", "content": "", "thinking": "Two words.", "tool_calls": CALLS},
    {"role": "tool", "tool_name": "spell", "content": "z e b r a"},
    {"role": "tool", "tool_call_id": "call_a1b2c3d4", "content": "nothing"},
)


def test_calls_come_with_their_own_ids_or_none_and_tools_in_the_servers_order(make: Make) -> None:
    client = make(SEEN)
    shown = client.show(BASE)
    request = Request(MESSAGES, LOOP[0].tools)
    prompt = client.render(BASE, request)
    assert prompt == template_in_force(client, shown).render(as_served(request, shown)).text
    decoder, seen, at = json.JSONDecoder(), [], prompt.index("[")
    while at < len(prompt):
        value, end = decoder.raw_decode(prompt, at)
        seen.append(value)
        at = prompt.find("{", end) if "{" in prompt[end:] else len(prompt)
    tools, _, said, *results = seen
    assert [list(tool["function"]["parameters"]) for tool in tools] == [["type", "required", "properties"]] * 2
    assert "reasoning_content" not in said
    assert [call.get("id") for call in said["tool_calls"]] == [None, "call_a1b2c3d4"]
    assert [result.get("tool_call_id") for result in results] == [None, "call_a1b2c3d4"]
    arguments = said["tool_calls"][0]["function"]["arguments"]
    assert json.dumps(arguments) == json.dumps({"zebra": {"age": None, "stripes": [1, 2.5]}, "ant": "<é>"})


def test_the_tokens_of_the_vocabulary_are_there(make: Make) -> None:
    client = make(SEEN)
    prompt = client.render(BASE, Request(MESSAGES[:1], LOOP[0].tools))
    assert prompt.startswith("<|end|>[{")
    assert prompt.endswith('"}<|end|>')
    source = resolve(BASE, "model", client=lambda: client).jinja
    assert source is not None
    assert (source.bos, source.eos, source.ends) == ("<|end|>", "<|end|>", (False, False))


def test_a_text_that_wants_other_ids_fails_on_both_sides(make: Make) -> None:
    # Mistral Nemo's text wants nine letters and digits; the server makes up none.
    jinja = QWEN3.replace(
        "{{- '<tool_call>\\n' }}",
        "{%- if call.id is undefined or call.id | length != 9 %}{{ raise_exception('Nine, please.') }}{% endif %}"
        "{{- '<tool_call>\\n' }}",
    )
    assert jinja != QWEN3
    client = make(jinja)
    shown = client.show(BASE)
    template = template_in_force(client, shown)

    def request(number: str) -> Request:
        own = {"id": number} if number else {}
        called = {"role": "assistant", "content": "", "tool_calls": [{**CALLS[0], **own}]}
        return Request((MESSAGES[0], called, MESSAGES[2]))

    for number in ("", "call_a1b2c3d4"):
        with pytest.raises(RenderError, match="Nine, please"):
            template.render(as_served(request(number), shown))
        with pytest.raises(ServerRefused, match="Nine, please"):
            client.render(BASE, request(number))
    asked = request("a1b2c3d4e")
    assert client.render(BASE, asked) == template.render(as_served(asked, shown)).text


@pytest.mark.parametrize(("text", "name"), [(QWEN3, "qwen3"), (QWEN35, "qwen3.5"), (MISTRAL, "mistral-nemo")])
def test_a_familys_template_wins(make: Make, text: str, name: str) -> None:
    client, family = make(text), TEMPLATES[name]
    before = client.tags()[BASE]
    with pytest.raises(TagRefused, match="is the Jinja text of its GGUF file"):
        create_variant(client, BASE, TAG, family.template)
    made = create_variant(client, BASE, TAG, family.template, requests=LOOP, over_jinja=True, parser=family.parser)
    assert (made.outcome, made.renders, made.layers) == ("made", len(LOOP), "store")
    assert made.added_bytes < 4000 < made.shared_bytes
    assert client.tags()[BASE] == before
    shown = client.show(TAG)
    assert (shown.template, shown.not_in_force(), shown.parent) == (family.template, None, BASE)
    assert shown.instruction("PARSER") == family.parser
    assert TAG not in client.loaded()
    again = create_variant(client, BASE, TAG, family.template, over_jinja=True, parser=family.parser)
    assert again.outcome == "exists"


def test_thinking_stays_with_the_familys_template(make: Make) -> None:
    client = make(QWEN3)
    with temporary_tag(client, BASE, TEMPLATES["qwen3"].template) as shown:
        prompt = client.render(shown.name, THOUGHTS[-1])
        assert all(one["thinking"] in prompt for one in THOUGHTS[-1].messages if one.get("thinking"))
        client.unload(shown.name)
    assert not [name for name in client.tags() if "-templatefix-" in name]


def test_a_template_with_less_than_the_text_is_taken_away(make: Make) -> None:
    client = make(QWEN3)
    with pytest.raises(TagRefused, match=r"(is not ours|is the Jinja text of its GGUF file).*was removed again$"):
        create_variant(
            client, BASE, TAG, "{{ range .Messages }}{{ .Content }}{{ end }}", requests=LOOP, over_jinja=True
        )
    assert TAG not in client.tags()


def test_a_stand_in_carries_the_text(tmp_path: Path) -> None:
    (tmp_path / "one.gguf").write_bytes(weights(QWEN3))
    assert from_gguf(tmp_path / "one.gguf", "one.gguf").text == QWEN3
