"""What the project relies on, held against the test server and, where one is named, a live Ollama."""

from __future__ import annotations

from typing import Any

import pytest
from support.agent import CHANGED, PLAIN, THINKING, TOOL, Backend, loop

from templatefix.chat.go import GoChatTemplate
from templatefix.chat.request import Request
from templatefix.servers.errors import ModelNotFound, ServerRefused
from templatefix.servers.served import as_served
from templatefix.servers.store import Store
from templatefix.servers.tags import TagExists, TagRefused, create_variant

HELLO = Request(({"role": "user", "content": "hello"},))


def tag_of(name: str) -> str:
    return name.replace(":base", ":variant")


def ours(backend: Backend, name: str, request: Request) -> str:
    shown = backend.client.show(name)
    return GoChatTemplate(shown.template).render(as_served(request, shown)).text


def test_a_server_names_its_version(backend: Backend) -> None:
    assert backend.client.version().split(".")[0].isdigit()
    assert backend.client.can_render()


def test_show_tells_the_template_and_where_the_weights_lie(backend: Backend) -> None:
    name = backend.make("plain", PLAIN, parameters={"stop": ["<you>"], "temperature": 0.5})
    shown = backend.client.show(name)
    assert shown.template == PLAIN
    assert sorted(shown.capabilities) == ["completion", "tools"]
    parameters = dict(line.split() for line in shown.parameters.splitlines())
    assert (parameters["stop"], parameters["temperature"]) == ('"<you>"', "0.5")
    assert shown.store is not None
    assert shown.parent
    assert shown.not_in_force() is None


def test_show_knows_nothing_of_a_model_that_is_not_there(backend: Backend) -> None:
    with pytest.raises(ModelNotFound, match=r"^there is no model templatefix-test/none:none on http"):
        backend.client.show("templatefix-test/none:none")


def test_a_derived_tag_shares_all_layers_but_the_template(backend: Backend) -> None:
    name = backend.make("plain", PLAIN, parameters={"stop": ["<you>"]})
    lines = backend.client.create(tag_of(name), name, CHANGED)
    assert lines[-2:] == ("writing manifest", "success")
    assert [line.split()[0] for line in lines[:-2]].count("creating") == 1
    tags, shown = backend.client.tags(), backend.client.show(tag_of(name))
    assert shown.template == CHANGED
    assert shown.parent == name
    assert tags[tag_of(name)].size - tags[name].size == len(CHANGED) - len(PLAIN)
    store = Store.of(backend.client.url, shown)
    if store is not None:
        old = store.manifest(name, tags[name].digest)
        new = store.manifest(tag_of(name), tags[tag_of(name)].digest)
        assert old is not None
        assert new is not None
        assert {layer for layer in new.layers if layer.kind != "template"} == {
            layer for layer in old.layers if layer.kind != "template"
        }
        assert new.config == old.config


def test_create_refuses_what_does_not_parse_before_anything_is_made(backend: Backend) -> None:
    name = backend.make("plain", PLAIN)
    with pytest.raises(ServerRefused) as caught:
        backend.client.create(tag_of(name), name, "{{ if .Tools }}")
    assert caught.value.status == 400
    assert caught.value.message == "template error: template: :1: unexpected EOF"
    assert tag_of(name) not in backend.client.tags()


def test_create_refuses_a_bad_name(backend: Backend) -> None:
    with pytest.raises(ServerRefused, match="invalid model name"):
        backend.client.create("Bad Name!", backend.make("plain", PLAIN), CHANGED)


def test_copy_keeps_the_digest_and_delete_takes_one_name_away(backend: Backend) -> None:
    name = backend.make("plain", PLAIN)
    backend.client.copy(name, tag_of(name))
    tags = backend.client.tags()
    assert tags[name].digest == tags[tag_of(name)].digest
    backend.client.delete(tag_of(name))
    assert set(tags) - set(backend.client.tags()) == {tag_of(name)}
    with pytest.raises(ModelNotFound):
        backend.client.delete(tag_of(name))
    with pytest.raises(ModelNotFound):
        backend.client.copy(tag_of(name), name)


@pytest.mark.parametrize("system", [False, True])
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"system": "Tag text."},
        {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]},
        {"system": "Tag text.", "messages": [{"role": "user", "content": "hi"}]},
    ],
)
def test_the_servers_render_is_ours(backend: Backend, fields: dict[str, Any], system: bool) -> None:
    name = backend.make("plain", PLAIN, **fields)
    for request in loop(system=system):
        theirs = backend.client.render(name, request)
        assert theirs == ours(backend, name, request)
        assert ("Tag text." in theirs) is ("system" in fields and not system)


@pytest.mark.parametrize(
    ("think", "level", "head"),
    [
        (None, "", "true/true/medium"),
        (True, "", "true/true/medium"),
        (False, "", "true/false/"),
        (True, "high", "true/true/high"),
    ],
)
def test_a_model_with_think_tags_thinks_unless_told_otherwise(
    backend: Backend, think: bool | None, level: str, head: str
) -> None:
    name = backend.make("thinking", THINKING)
    request = Request(HELLO.messages, think=think, think_level=level)
    assert backend.client.render(name, request) == f"{head}<user>hello"
    assert ours(backend, name, request) == f"{head}<user>hello"


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("<think>\nhm</think>\n\ntwo", "two"),
        ("\n<think>a</think>b</think>c", "b</think>c"),
        ("<think>on and on", ""),
        ("two <think>hm</think>", "two <think>hm</think>"),
    ],
)
def test_thinking_is_taken_out_of_the_history_of_some_models(backend: Backend, said: str, left: str) -> None:
    name = backend.make("deepseek-r1", PLAIN)
    one, two = {"role": "user", "content": "one"}, {"role": "assistant", "content": said}
    request = Request((one, two, one, two))
    theirs = backend.client.render(name, request)
    assert theirs == f"<you>one</you><me>{left}</me><you>one</you><me>{said}</me><me>"
    assert theirs == ours(backend, name, request)


def test_thinking_and_tools_are_refused_where_the_template_has_none(backend: Backend) -> None:
    name = backend.make("poor", "{{ range .Messages }}{{ .Content }}{{ end }}")
    with pytest.raises(ServerRefused, match="does not support thinking"):
        backend.client.render(name, Request(HELLO.messages, think=True))
    with pytest.raises(ServerRefused, match="does not support tools"):
        backend.client.render(name, Request(HELLO.messages, (TOOL,)))


def test_a_template_that_fails_tells_gos_sentence(backend: Backend) -> None:
    name = backend.make("failing", "{{ range .Messages }}{{ .Nope }}{{ end }}")
    with pytest.raises(ServerRefused, match=r"can't evaluate field Nope in type \*template\.Message|Nope") as caught:
        backend.client.render(name, HELLO)
    assert caught.value.status == 500


def test_unloading_is_done_at_once(backend: Backend) -> None:
    name = backend.make("plain", PLAIN)
    backend.client.unload(name)
    assert backend.client.render(name, HELLO).endswith("<you>hello</you><me>")


def test_a_variant_is_made_once_and_verified(backend: Backend) -> None:
    name = backend.make("plain", PLAIN, system="Tag text.", parameters={"stop": ["<you>"]})
    before = backend.client.tags()[name]
    said: list[str] = []
    report = create_variant(backend.client, name, tag_of(name), CHANGED, requests=loop(), progress=said.append)
    tags = backend.client.tags()
    assert (report.name, report.digest) == (tag_of(name), tags[tag_of(name)].digest)
    assert (report.outcome, report.renders, report.notes) == ("made", 3, ())
    assert report.added_bytes == len(CHANGED)
    assert report.shared_bytes == before.size - len(PLAIN)
    assert tags[name] == before
    assert said[-1] == "comparing the server's render 3 of 3"

    again = create_variant(backend.client, name, tag_of(name), CHANGED, requests=loop())
    assert (again.outcome, again.digest, again.renders) == ("exists", report.digest, 0)
    assert (again.shared_bytes, again.added_bytes) == (report.shared_bytes, report.added_bytes)


def test_an_existing_tag_is_kept_but_for_force(backend: Backend) -> None:
    name = backend.make("plain", PLAIN)
    first = create_variant(backend.client, name, tag_of(name), PLAIN + "!", requests=loop())
    with pytest.raises(TagExists, match="is there already, with another template"):
        create_variant(backend.client, name, tag_of(name), CHANGED, requests=loop())
    assert backend.client.tags()[tag_of(name)].digest == first.digest
    report = create_variant(backend.client, name, tag_of(name), CHANGED, requests=loop(), force=True)
    assert report.digest == backend.client.tags()[tag_of(name)].digest != first.digest
    assert sorted(tag for tag in backend.client.tags() if tag.startswith("templatefix-test/")) == [name, tag_of(name)]


def test_a_variant_that_cannot_be_rendered_is_taken_away_or_the_old_one_restored(backend: Backend) -> None:
    name = backend.make("plain", PLAIN)
    failing = CHANGED + "{{ .Nope.Nope.Nope }}"
    with pytest.raises(TagRefused, match=r"the server cannot render request 1 .*; .* was removed again$"):
        create_variant(backend.client, name, tag_of(name), failing, requests=loop())
    assert tag_of(name) not in backend.client.tags()
    old = create_variant(backend.client, name, tag_of(name), PLAIN + "!", requests=loop())
    with pytest.raises(TagRefused, match=r"is again what it was$"):
        create_variant(backend.client, name, tag_of(name), failing, requests=loop(), force=True)
    assert sorted(tag for tag in backend.client.tags() if tag.startswith("templatefix-test/")) == [name, tag_of(name)]
    assert backend.client.tags()[tag_of(name)].digest == old.digest


def test_a_built_in_renderer_is_seen_and_refused(backend: Backend) -> None:
    name = backend.make("built-in", PLAIN, renderer="qwen3-coder", parser="qwen3-coder")
    shown = backend.client.show(name)
    assert (shown.instruction("RENDERER"), shown.instruction("PARSER")) == ("qwen3-coder", "qwen3-coder")
    assert backend.client.render(name, HELLO) != ours(backend, name, HELLO)
    with pytest.raises(TagRefused, match="has RENDERER qwen3-coder: the server builds its prompts itself"):
        create_variant(backend.client, name, tag_of(name), CHANGED, requests=loop())
    assert tag_of(name) not in backend.client.tags()


def test_a_text_that_looks_like_an_instruction_is_none(backend: Backend) -> None:
    name = backend.make("sly", PLAIN + "\nRENDERER sly\n", system="one\nRENDERER two\n")
    assert backend.client.show(name).instruction("RENDERER") == ""
