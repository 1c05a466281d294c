"""Variants on a server that does something wrong: nothing half-made is left, and the reason is given."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest
from support.agent import CHANGED, PLAIN, loop
from support.ollama_server import OllamaServer
from support.ollama_store import KIND, ModelStore, full_name

from templatefix.servers import tags
from templatefix.servers.errors import ModelNotFound, ServerError, ServerUnreachable, StreamCut
from templatefix.servers.ollama import OllamaClient
from templatefix.servers.store import Layer, Store
from templatefix.servers.tags import TagExists, TagRefused, create_variant
from templatefix.servers.verified import Refusal

BASE, TAG = "owl:1", "owl:1-prefix-stable"
JINJA = (
    "{% for message in messages %}<tool_response>{{ message.content }}{{ message.tool_calls }}{% endfor %}{{ tools }}"
)


@pytest.fixture(autouse=True)
def model(server: OllamaServer) -> None:
    server.store.add(BASE, PLAIN, params={"stop": ["<you>"]}, system="Be kind.")


def change(store: ModelStore, name: str, kind: str, text: str) -> None:
    """Give a tag another layer of a kind."""
    found = store.read(name)
    assert found is not None
    layers = [layer for layer in found.manifest["layers"] if layer["mediaType"] != KIND + kind]
    store.write(full_name(name), found.config, [*layers, store.blob(kind, text.encode())])


def set_config(store: ModelStore, name: str, **values: str) -> None:
    found = store.read(name)
    assert found is not None
    store.write(full_name(name), {**found.config, **values}, found.manifest["layers"])


def make(client: OllamaClient, **options: bool) -> str:
    return create_variant(client, BASE, TAG, CHANGED, requests=loop(), **options).digest


def test_a_base_that_is_not_there_is_never_asked_of_create(server: OllamaServer, client: OllamaClient) -> None:
    with pytest.raises(ModelNotFound):
        create_variant(client, "nosuch", TAG, CHANGED)
    assert server.asked("/api/create") == []


def test_what_create_is_asked(server: OllamaServer, client: OllamaClient) -> None:
    make(client)
    assert server.asked("/api/create") == [{"model": TAG, "stream": True, "from": BASE, "template": CHANGED}]
    assert server.asked("/api/copy") == []


@pytest.mark.parametrize(
    ("fault", "value"),
    [
        ("create_error", "no space left on device"),
        ("create_garbage", b"garbage"),
        ("create_cut", "before"),
        ("create_cut", "after"),
        ("create_short", True),
    ],
)
@pytest.mark.parametrize("existing", [False, True])
def test_a_create_that_fails_leaves_everything_as_it_was(
    server: OllamaServer, client: OllamaClient, fault: str, value: object, existing: bool
) -> None:
    if existing:
        create_variant(client, BASE, TAG, PLAIN + "!")
    before = client.tags()
    setattr(server.faults, fault, value)
    with pytest.raises(ServerError):
        make(client, force=existing)
    assert client.tags() == before


def test_a_server_that_goes_away_in_mid_create(server: OllamaServer, client: OllamaClient) -> None:
    def die(_store: ModelStore, _name: str) -> None:
        server.faults.down |= {"/api/tags", "/api/delete"}

    server.faults.after_create = die
    server.faults.create_cut = "after"
    with pytest.raises(StreamCut, match=rf"; but whether {TAG} is left on the server could not be seen$"):
        make(client)


Spoil = Callable[[ModelStore, str], None]


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        pytest.param(
            lambda store, name: change(store, name, "template", PLAIN),
            "shows another template for .* than it was given",
        ),
        pytest.param(lambda store, name: change(store, name, "system", "Be rude."), "differs from owl:1 in its SYSTEM"),
        pytest.param(
            lambda store, name: change(store, name, "params", '{"stop": ["x"]}'), "differs from owl:1 in its PARAMETER"
        ),
        pytest.param(
            lambda store, name: change(store, name, "messages", '[{"role":"user","content":"x"}]'),
            "differs from owl:1 in its MESSAGE",
        ),
        pytest.param(lambda store, name: set_config(store, name, renderer="cogito"), "has RENDERER cogito"),
        pytest.param(lambda store, name: set_config(store, name, parser="cogito"), "differs from owl:1 in its PARSER"),
        pytest.param(lambda store, name: set_config(store, name, model_family="x"), "differs from owl:1 in its family"),
        pytest.param(
            lambda store, name: change(store, name, "model", '{"model_info": {"other": 1}}'),
            "does not share the original's model layer",
        ),
        pytest.param(lambda store, name: change(store, name, "adapter", "x"), "does not share the original's adapter"),
        pytest.param(lambda store, name: change(store, BASE, "system", "x"), "owl:1 itself has changed meanwhile"),
        pytest.param(lambda store, name: store.delete(name), "reports success, but lists no owl:1-prefix-stable"),
    ],
)
def test_a_tag_that_is_not_what_it_should_be_is_removed(
    server: OllamaServer, client: OllamaClient, spoil: Spoil, reason: str
) -> None:
    server.faults.after_create = spoil
    with pytest.raises(TagRefused, match=reason):
        make(client)
    assert list(client.tags()) == [BASE]


def test_a_render_that_differs_is_found_and_the_tag_removed(server: OllamaServer, client: OllamaClient) -> None:
    server.faults.render = lambda text: text.replace("</out>", " </out>")
    with pytest.raises(TagRefused, match=r"render of request 2 of the loop is not ours: .*; .* was removed again$"):
        make(client)
    assert list(client.tags()) == [BASE]


def test_a_forced_tag_is_restored_byte_for_byte(server: OllamaServer, client: OllamaClient) -> None:
    old = create_variant(client, BASE, TAG, PLAIN + "!", requests=loop())
    server.faults.render = lambda text: text + " "
    with pytest.raises(TagRefused, match=r"is again what it was$"):
        make(client, force=True)
    assert client.tags()[TAG].digest == old.digest
    assert sorted(client.tags()) == [BASE, TAG]


def test_a_stop_by_the_user_leaves_nothing(server: OllamaServer, client: OllamaClient) -> None:
    def stop(line: str) -> None:
        if line.startswith("comparing"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        create_variant(client, BASE, TAG, CHANGED, requests=loop(), progress=stop)
    assert list(client.tags()) == [BASE]


def test_parameters_written_anew_with_the_same_values_are_the_same(server: OllamaServer, client: OllamaClient) -> None:
    change(server.store, BASE, "params", '{ "stop": ["<you>"] }')
    report = create_variant(client, BASE, TAG, CHANGED, requests=loop())
    assert report.notes == ("the server wrote the parameters anew, with the same values",)
    assert report.added_bytes == len(CHANGED) + len('{"stop":["\\u003cyou\\u003e"]}\n')


@pytest.fixture
def closed_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Store, "of", classmethod(lambda cls, url, shown: None))


@pytest.mark.usefixtures("closed_store")
def test_without_the_store_the_status_lines_and_sizes_tell(server: OllamaServer, client: OllamaClient) -> None:
    size = client.tags()[BASE].size
    report = create_variant(client, BASE, TAG, CHANGED, requests=loop())
    assert report.layers == "stream"
    assert (report.shared_bytes, report.added_bytes) == (size - len(PLAIN), len(CHANGED))
    assert report.notes == (
        "the server's store cannot be read here: layers were compared by its status lines and sizes",
    )


@pytest.mark.usefixtures("closed_store")
def test_without_the_store_a_swollen_tag_is_found(server: OllamaServer, client: OllamaClient) -> None:
    server.faults.after_create = lambda store, name: change(store, name, "projector", "x" * 2000)
    with pytest.raises(TagRefused, match="the new tag is 2000 bytes off the original beside the template"):
        make(client)
    assert list(client.tags()) == [BASE]


@pytest.mark.usefixtures("closed_store")
def test_without_the_store_new_layers_are_found(server: OllamaServer, client: OllamaClient) -> None:
    server.faults.statuses = [f"creating new layer sha256:{digit * 64}" for digit in "ab"]
    with pytest.raises(TagRefused, match="the server made new layers beside the template's"):
        make(client)
    assert list(client.tags()) == [BASE]


def test_an_old_server_is_not_asked_for_renders(server: OllamaServer, client: OllamaClient) -> None:
    server.version = "0.10.1"
    report = create_variant(client, BASE, TAG, CHANGED, requests=loop())
    assert report.renders == 0
    assert report.notes == ("Ollama 0.10.1 cannot show its own renders (0.11.5 can): they were not compared",)
    assert server.asked("/api/chat") == []


def test_a_jinja_text_in_force_is_refused(server: OllamaServer, client: OllamaClient) -> None:
    server.store.add("jinja:1", None, weights={"chat_template": JINJA})
    with pytest.raises(TagRefused, match=r"^the template in force for jinja:1 is the Jinja text of its GGUF file"):
        create_variant(client, "jinja:1", "jinja:2", CHANGED)
    assert server.asked("/api/create") == []


def test_the_first_error_is_told_where_the_engine_cannot_be_ended_either(
    server: OllamaServer, client: OllamaClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def loaded() -> dict[str, int]:
        asked.append("loaded")
        if len(asked) > 1:
            raise ServerUnreachable("gone")
        return {}

    def differs(*_: object) -> NoReturn:
        raise Refusal("a render differs")

    monkeypatch.setattr(client, "loaded", loaded)
    monkeypatch.setattr(tags, "check_renders", differs)
    server.store.add("jinja:1", None, weights={"chat_template": JINJA})
    with pytest.raises(TagRefused, match=r"^a render differs; jinja:2 was removed again$"):
        create_variant(client, "jinja:1", "jinja:2", CHANGED, requests=loop(), over_jinja=True)
    assert len(asked) == 2


def test_a_variant_that_the_ggufs_jinja_text_beats_is_removed(server: OllamaServer, client: OllamaClient) -> None:
    round_trip = PLAIN.replace('eq .Role "tool"', 'eq "tool" .Role') + '{{ if false }}eq .Role "tool"{{ end }}'
    server.store.add("both:1", round_trip, weights={"chat_template": JINJA})
    without = round_trip.replace('eq .Role "tool"', "")
    with pytest.raises(TagRefused, match=r"the template in force for both:2 is the Jinja text .*was removed again$"):
        create_variant(client, "both:1", "both:2", without, requests=loop())
    assert "both:2" not in client.tags()


def test_harmony_and_models_that_run_elsewhere_are_refused(server: OllamaServer, client: OllamaClient) -> None:
    template = "<|start|>{{ range .Messages }}{{ .Content }}{{ end }}<|end|>"
    server.store.add("oss:1", template, config={"model_family": "gptoss"})
    with pytest.raises(TagRefused, match=r"the server reads and writes the harmony format itself$"):
        create_variant(client, "oss:1", "oss:2", CHANGED)
    server.faults.answers["/api/show"] = (200, "application/json", b'{"template": "x", "remote_host": "https://r"}')
    with pytest.raises(TagRefused, match=r"^far:1 runs on https://r, with that server's own template$"):
        create_variant(client, "far:1", "far:2", CHANGED)


def test_the_model_itself_is_never_overwritten(server: OllamaServer, client: OllamaClient) -> None:
    before = client.tags()
    with pytest.raises(TagRefused, match=r"^OWL:1 is the model itself, which is never overwritten$"):
        create_variant(client, BASE, "OWL:1", CHANGED, force=True)
    assert client.tags() == before


@pytest.mark.parametrize(("base", "tag"), [(BASE, "Bad Name!"), ("Bad Name!", TAG)])
def test_bad_names_are_refused_before_anything_is_asked(
    server: OllamaServer, client: OllamaClient, base: str, tag: str
) -> None:
    with pytest.raises(TagRefused, match="'Bad Name!' is not a model name"):
        create_variant(client, base, tag, CHANGED)
    assert server.requests == []


def test_a_template_that_json_cannot_carry_is_refused(server: OllamaServer, client: OllamaClient) -> None:
    with pytest.raises(TagRefused, match="not valid UTF-8"):
        create_variant(client, BASE, TAG, CHANGED + "\udcff")
    assert server.requests == []


def test_the_same_template_on_other_weights_is_another_tag(server: OllamaServer, client: OllamaClient) -> None:
    server.store.add(TAG, CHANGED, weights={"model_info": {"other": 1}})
    with pytest.raises(TagExists, match="is there already, with this template, but the new tag does not share"):
        make(client)
    assert make(client, force=True) == client.tags()[TAG].digest


def test_names_that_differ_in_case_are_one(server: OllamaServer, client: OllamaClient) -> None:
    server.store.add("Owl:Mine", PLAIN + "!")
    with pytest.raises(TagExists, match=r"^Owl:Mine is there already"):
        create_variant(client, BASE, "owl:mine", CHANGED)


def test_a_day_that_turns_meanwhile_is_no_difference(server: OllamaServer, client: OllamaClient) -> None:
    import datetime

    today = datetime.date.today()
    tomorrow = today + datetime.timedelta(days=1)
    server.faults.render = lambda text: text.replace(today.isoformat(), tomorrow.isoformat())
    report = create_variant(client, BASE, TAG, "{{ currentDate }}" + CHANGED, requests=loop())
    assert report.renders == 3


def test_a_layer_of_weights_is_never_read(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a model layer is not read"):
        Store(tmp_path).small_layer(Layer(KIND + "model", "sha256:0", 1))


def test_no_server(server: OllamaServer) -> None:
    with pytest.raises(ServerUnreachable):
        create_variant(OllamaClient("http://127.0.0.1:1"), BASE, TAG, CHANGED)
