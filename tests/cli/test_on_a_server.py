"""Commands that work on a server: ab, publish, variants, unpatch, --all, and what goes wrong there."""

from __future__ import annotations

import importlib.util
import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.ollama_server import OllamaServer
from support.registry_server import RegistryServer

from templatefix.servers.modelfile import Modelfile
from templatefix.servers.ollama import OllamaClient

SAMPLES = Path(__file__).resolve().parents[2] / "modelfiles"
MOVING = Modelfile.from_bytes((SAMPLES / "llama31-like.Modelfile").read_bytes()).template
STABLE = Modelfile.from_bytes((SAMPLES / "stable.Modelfile").read_bytes()).template
MOVING_LINE = (
    '{{ range $i, $m := .Messages }}{{ if eq .Role "user" }}{{ if and $.Tools (eq (len (slice $.Messages $i)) 1) }}'
    "<tools>{{ json $.Tools }}</tools>{{ end }}<u>{{ .Content }}</u>{{ else }}<{{ .Role }}>{{ .Content }}"
    "{{ range .ToolCalls }}{{ .Function.Name }}{{ json .Function.Arguments }}{{ end }}</>{{ end }}{{ end }}<assistant>"
)
TAG = "owl:1-prefix-stable"
JINJA = "{% for message in messages %}{{ message.content }}{% endfor %}{{ tools }}"
needs_engine = pytest.mark.skipif(importlib.util.find_spec("xllamacpp") is None, reason="xllamacpp is not installed")


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OllamaServer]:
    """A server with one model whose tools move, and the commands' address set to it."""
    assert MOVING is not None
    assert STABLE is not None
    with OllamaServer(tmp_path / "store").running() as running:
        monkeypatch.setenv("OLLAMA_HOST", running.url)
        running.store.add("owl:1", MOVING.value)
        running.tells_cached = True
        yield running


def names(server: OllamaServer) -> list[str]:
    return sorted(OllamaClient(server.url).tags())


def test_ab_measures_on_the_server_and_leaves_nothing_there(templatefix: Any, server: OllamaServer) -> None:
    done = templatefix("ab", "owl:1", "--format", "json")
    assert done.err == ""
    made = json.loads(done.out)
    assert (made["engine"], made["source"], made["valid"], made["verdict"]) == ("ollama", "field", True, "better")
    stock, variant = made["arms"]
    assert (stock["name"], variant["name"]) == ("owl:1", "owl:1, patched")
    assert stock["warm_hit_rate"] < 0.8
    assert variant["warm_hit_rate"] > 0.95
    assert names(server) == ["owl:1"]
    assert server.loaded == {}
    assert done.code == 0


def test_ab_asks_no_model_to_think_that_cannot(templatefix: Any, server: OllamaServer) -> None:
    done = templatefix("ab", "owl:1", "--scenario", "thinking", "--size", "1000", "--format", "json")
    assert done.code == 0
    assert "owl:1 has no think tags: thinking is not asked for" in done.err
    made = json.loads(done.out)
    assert made["invalid_reasons"] == []
    assert {row["scenario"] for row in made["arms"][1]["requests"]} == {"thinking"}
    assert not any(body.get("think") for body in server.asked("/api/chat"))


def test_ab_of_two_models(templatefix: Any, server: OllamaServer) -> None:
    assert STABLE is not None
    server.store.add("owl:2", STABLE.value)
    done = templatefix("ab", "owl:2", "owl:1", "--engine", "ollama")
    assert (done.code, done.err) == (1, "")
    assert done.out.startswith("engine ollama, figures from the field, tokenizer owl:2 on")
    assert "\nWorse: of the warm prompt tokens, " in done.out
    assert server.asked("/api/create") == []


def test_ab_does_not_unload_a_model_of_others_unasked(templatefix: Any, server: OllamaServer) -> None:
    server.loaded["owl:1"] = 4096
    done = templatefix("ab", "owl:1")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "templatefix: owl:1 is in the server's memory, perhaps for others; measuring unloads it. Go on? "
        "Without a terminal to ask on, that needs --yes\n"
    )
    assert server.loaded == {"owl:1": 4096}
    assert templatefix("ab", "owl:1", "--yes").code == 0


def test_ab_where_the_context_is_too_small(templatefix: Any, server: OllamaServer) -> None:
    server.context = 4096
    done = templatefix("ab", "owl:1", "--format", "json")
    made = json.loads(done.out)
    assert (done.code, made["valid"], made["verdict"]) == (1, False, None)
    assert made["invalid_reasons"][0] == (
        "owl:1: a prompt does not fit the context of owl:1; a wider one is asked for with --context"
    )
    assert templatefix("ab", "owl:1", "--context", "60000").code == 0


def test_ab_where_nothing_is_cached(templatefix: Any, server: OllamaServer) -> None:
    server.faults.no_cache = True
    done = templatefix("ab", "owl:1", "--format", "json")
    assert done.code == 1
    assert "its cache is off" in json.loads(done.out)["invalid_reasons"][0]


def test_ab_where_the_server_renders_otherwise(templatefix: Any, server: OllamaServer) -> None:
    server.faults.render = lambda text: text + " "
    done = templatefix("ab", "owl:1")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("templatefix: TF401: the server's render of request 1 of the loop is not ours: owl:1")
    assert names(server) == ["owl:1"]


def test_a_live_run_whose_replies_cannot_be_bound(templatefix: Any, server: OllamaServer) -> None:
    done = templatefix("ab", "owl:1", "--live", "--force-calls", "--format", "json")
    made = json.loads(done.out)
    assert (done.code, made["live"], made["valid"]) == (1, True, False)
    assert made["invalid_reasons"][0] == "owl:1: Ollama's API cannot bind the output of a prompt to a grammar"


def test_a_live_run_of_a_model_that_calls_nothing(templatefix: Any, server: OllamaServer) -> None:
    done = templatefix("ab", "owl:1", "--live", "--format", "json")
    made = json.loads(done.out)
    assert (made["engine"], made["live"], made["valid"]) == ("ollama", True, True)
    assert made["quality"]["called"]["first"] == {"done": 0, "of": 2}
    assert names(server) == ["owl:1"]


def test_ab_on_a_server_that_is_killed_in_mid_chat(templatefix: Any, server: OllamaServer) -> None:
    server.faults.dies_after = 5
    done = templatefix("ab", "owl:1")
    assert (done.code, done.out) == (2, "")
    url = server.url
    said = f"templatefix: the connection to {url} broke off before it could answer POST /api/generate; "
    assert done.err.startswith(f"{said}the temporary tag owl:1-templatefix-")
    assert done.err.endswith(" may be left there (unpatch takes it away)\n")


def test_ab_interrupted(templatefix: Any, server: OllamaServer, monkeypatch: pytest.MonkeyPatch) -> None:
    real = OllamaClient.read_prompt

    def read(self: OllamaClient, *args: Any) -> dict[str, Any]:
        if server.read == 6:
            raise KeyboardInterrupt
        return real(self, *args)

    monkeypatch.setattr(OllamaClient, "read_prompt", read)
    done = templatefix("ab", "owl:1", "--format", "json")
    made = json.loads(done.out)
    assert made["invalid_reasons"][0].startswith("interrupted after ")
    assert made["arms"][0]["requests"]
    assert names(server) == ["owl:1"]
    assert server.loaded == {}


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("moving.tmpl", "--engine", "ollama"), "--engine ollama measures models on a server, and moving.tmpl is none"),
        (("owl:1", "--log", "none.log"), "the log none.log cannot be read: No such file or directory"),
        (
            ("owl:1", "--engine", "llama-server"),
            "--engine needs the address of the server: --url http://127.0.0.1:8080",
        ),
        (("m", "--engine", "openai"), "--engine needs the address of the server: --url http://127.0.0.1:8000"),
        (
            ("m", "--engine", "openai", "--url", "ftp://x"),
            "ftp://x is not the address of a server; one looks like http://127.0.0.1:8080",
        ),
    ],
)
def test_ab_that_cannot_begin(
    templatefix: Any, server: OllamaServer, alone: Path, args: tuple[str, ...], sentence: str
) -> None:
    assert MOVING is not None
    (alone / "moving.tmpl").write_text(MOVING.value)
    done = templatefix("ab", *args)
    assert (done.code, done.out, done.err) == (2, "", f"templatefix: {sentence}\n")


def test_variants_and_unpatch(templatefix: Any, server: OllamaServer) -> None:
    assert templatefix("variants").out == "no tag on the server was made here\n"
    assert templatefix("patch", "owl:1").code == 0
    assert templatefix("variants").out == f"{TAG}: of owl:1, as its base is now, in force\n"
    assert templatefix("unpatch", TAG).code == 2
    assert names(server) == ["owl:1", TAG]
    done = templatefix("unpatch", TAG, "--yes")
    assert (done.code, done.out, done.err) == (0, f"{TAG}: taken away; owl:1 is as it was\n", "")
    assert names(server) == ["owl:1"]


def test_a_variant_whose_base_has_changed(templatefix: Any, server: OllamaServer) -> None:
    assert MOVING is not None
    templatefix("patch", "owl:1")
    server.store.add("owl:1", MOVING.value.replace("You can use tools.", "Tools are at hand."))
    done = templatefix("variants")
    assert done.out == (
        f"{TAG}: of owl:1, the template of owl:1 has changed since, or another one was asked for, in force; "
        f"made anew with: templatefix patch owl:1 --tag {TAG} --force\n"
    )
    assert templatefix("patch", "owl:1", "--tag", TAG, "--force", "--yes").code == 0
    assert "as its base is now" in templatefix("variants").out
    server.store.add("owl:1", MOVING.value, weights={"model_info": {"general.architecture": "other"}})
    (found,) = json.loads(templatefix("variants", "--format", "json").out)["variants"]
    assert (found["name"], found["state"], found["why"]) == (TAG, "changed", "owl:1 has other weights now")
    server.store.delete("owl:1")
    (found,) = json.loads(templatefix("variants", "--format", "json").out)["variants"]
    assert (found["base"], found["state"], found["in_force"]) == ("owl:1", "gone", True)


def test_only_what_was_made_here_is_taken_away(templatefix: Any, server: OllamaServer) -> None:
    client = OllamaClient(server.url)
    client.create("mine:1", "owl:1", "{{ .Prompt }}")
    for tag in ("owl:1", "mine:1"):
        done = templatefix("unpatch", tag, "--yes")
        assert (done.code, done.out) == (1, "")
        assert done.err == f"templatefix: {tag} was not made here: it stays (ollama rm {tag} takes it away)\n"
    assert names(server) == ["mine:1", "owl:1"]


def test_all_models_at_once(templatefix: Any, server: OllamaServer) -> None:
    assert STABLE is not None
    server.store.add("calm:1", STABLE.value)
    done = templatefix("check", "--all", "--format", "json")
    results = json.loads(done.out)["results"]
    assert [(one["target"], one["verdict"]) for one in results] == [("calm:1", "stable"), ("owl:1", "unstable")]
    done = templatefix("patch", "--all", "--format", "json")
    results = json.loads(done.out)["results"]
    assert done.code == 0
    assert [(one["target"], one["changed"]) for one in results] == [("calm:1", False), ("owl:1", True)]
    assert results[1]["tag"]["name"] == TAG
    assert names(server) == ["calm:1", "owl:1", TAG]
    again = templatefix("patch", "--all", "--dry-run")  # the tag made is a model as well
    assert again.out.splitlines()[-1] == "3 models: 1 with a variant, 0 refused, 2 with nothing to do"
    for args in (("check", "--all", "owl:1"), ("patch", "--all", "-o", "x"), ("check",), ("patch",)):
        assert templatefix(*args).code == 2


def test_publish(templatefix: Any, server: OllamaServer, registry: RegistryServer) -> None:
    dest = f"{registry.host}/me/owl:1"
    done = templatefix("publish", "owl:1", dest, "--insecure")
    assert (done.code, registry.manifests) == (2, {})
    assert done.err == f"templatefix: Publish owl:1 as {dest}? Without a terminal to ask on, that needs --yes\n"
    done = templatefix("publish", "owl:1", dest, "--insecure", "--yes")
    assert (done.code, done.err) == (0, "")
    first, last = done.out.splitlines()
    assert first.startswith(f"{server.url} pushes owl:1 to {registry.host} as {dest}, with the server's ")
    assert last.startswith(f"{dest}: published, 2 layers of ")
    done = templatefix("check", f"registry:{dest}", "--format", "json")
    assert (done.code, json.loads(done.out)["results"][0]["verdict"]) == (1, "unstable")


def test_r26_names_are_checked_before_anything_is_sent(templatefix: Any, server: OllamaServer) -> None:
    for dest, word in (("mytag", "a namespace"), ("Me/Model", "lower case")):
        done = templatefix("publish", "owl:1", dest, "--yes")
        assert (done.code, done.out) == (2, "")
        assert f"{dest} needs {word}" in done.err
    assert server.requests == []


def test_r24_a_prompt_that_the_server_cuts(templatefix: Any, server: OllamaServer, tmp_path: Path) -> None:
    server.log = tmp_path / "serve.log"
    server.log.write_text("")
    server.faults.log_lines = ['time=x level=WARN msg="truncating input prompt" limit=4096 prompt=8942 keep=5 new=4096']
    done = templatefix("ab", "owl:1", "--log", str(server.log), "--format", "json")
    made = json.loads(done.out)
    assert (done.code, made["verdict"]) == (1, None)
    assert (
        "owl:1: the server cut a prompt: truncating input prompt limit=4096 prompt=8942" in made["invalid_reasons"][0]
    )
    assert names(server) == ["owl:1"]


def test_r25_three_quotes_in_a_template(templatefix: Any, server: OllamaServer, alone: Path) -> None:
    assert MOVING is not None
    quoted = 'Quote code with """ only.\n' + MOVING.value
    server.store.add("quotes:1", quoted)
    done = templatefix("patch", "quotes:1")
    assert (done.code, done.err) == (0, "")
    made = OllamaClient(server.url).show("quotes:1-prefix-stable").template
    assert made.startswith('Quote code with """ only.\n')
    assert made != quoted
    one_line = 'Quote code with """ only. ' + MOVING_LINE
    (alone / "Modelfile").write_text(f"FROM owl:1\nTEMPLATE {one_line}\n", encoding="utf-8")
    done = templatefix("patch", "Modelfile", "-o", "new")
    assert (done.code, (alone / "new").exists()) == (2, False)
    assert done.err.endswith('Modelfile cannot hold this template: it contains """, which ends the value\n')


def codes(done: Any) -> dict[str, Any]:
    return {finding["code"]: finding for finding in json.loads(done.out)["results"][0]["findings"]}


def test_r08_a_renderer(templatefix: Any, server: OllamaServer) -> None:
    assert MOVING is not None
    server.store.add("built:1", MOVING.value, config={"renderer": "qwen3-coder", "parser": "qwen3-coder"})
    done = templatefix("check", "built:1", "--format", "json")
    assert done.code == 1
    assert codes(done)["TF401"]["severity"] == "error"
    assert "has RENDERER qwen3-coder" in codes(done)["TF401"]["message"]
    done = templatefix("patch", "built:1", "--format", "json")
    made = json.loads(done.out)
    assert (done.code, made["changed"], [one["code"] for one in made["refused"]]) == (1, False, ["TF401"])
    assert "a TEMPLATE would be ignored" in made["refused"][0]["reason"]
    assert names(server) == ["built:1", "owl:1"]


def test_r09_a_jinja_text_that_wins(templatefix: Any, server: OllamaServer) -> None:
    assert STABLE is not None
    weights = {"model_info": {"general.architecture": "llama"}, "chat_template": JINJA}
    poor = "{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}"
    server.store.add("both:1", poor, weights=weights)
    done = templatefix("check", "both:1", "--format", "json")
    found = codes(done)
    assert done.code == 1
    assert "is the Jinja text of its GGUF file" in found["TF401"]["message"]
    assert json.loads(templatefix("patch", "both:1", "--format", "json").out)["refused"][0]["code"] == "TF401"

    done = templatefix("ab", "both:1", "owl:1")
    assert (done.code, done.out, server.asked("/api/generate")) == (2, "", [])
    assert done.err.startswith("templatefix: TF401: the template in force for both:1 is the Jinja text of its GGUF")

    def other_weights(store: Any, name: str) -> None:
        store.add(name, poor, weights=weights)

    # The template that a patch has made is looked at again: here another one is in force after all.
    server.faults.after_create = other_weights
    done = templatefix("patch", "owl:1")
    assert done.code == 1
    assert f"the template in force for {TAG} is the Jinja text of its GGUF file" in done.err
    assert names(server) == ["both:1", "owl:1"]


@pytest.mark.parametrize(
    ("version", "text", "message"),
    [
        (
            "0.10.1",
            "{{ json .Tools }}\n{{ currentDate }}{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}",
            "The function `currentDate` needs Ollama 0.11.0; the server is 0.10.1 and refuses the template.",
        ),
        (
            "0.8.0",
            "{{ json .Tools }}{{ range .Messages }}<{{ .Role }}>{{ .Content }}\n"
            '{{ if eq .Role "assistant" }}{{ .Thinking }}{{ end }}{{ end }}',
            "The field `.Thinking` needs Ollama 0.9.0; the server is 0.8.0 and fails at step 1 of the loop "
            "single-call.",
        ),
    ],
)
def test_r13_a_server_that_is_too_old(
    templatefix: Any, server: OllamaServer, version: str, text: str, message: str
) -> None:
    server.version = version
    server.store.add("new:1", text)
    found = codes(templatefix("check", "new:1", "--format", "json"))["TF402"]
    assert (found["severity"], found["message"], found["start"]["line"]) == ("error", message, 2)
    for newer in ("0.0.0", "0.33.0"):
        server.version = newer
        assert "TF402" not in codes(templatefix("check", "new:1", "--format", "json"))


def closed() -> str:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


COMMANDS = (
    ("check", "owl:1"),
    ("check", "--all"),
    ("patch", "owl:1"),
    ("patch", "--all"),
    ("ab", "owl:1"),
    ("variants",),
    ("unpatch", "owl:1", "--yes"),
    ("publish", "owl:1", "me/owl:1", "--yes"),
)


@pytest.mark.parametrize("args", COMMANDS, ids=" ".join)
def test_no_server(templatefix: Any, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...]) -> None:
    monkeypatch.setenv("OLLAMA_HOST", closed())
    done = templatefix(*args)
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert "no Ollama server answers at http://127.0.0.1:" in done.err


@pytest.mark.parametrize("args", [one for one in COMMANDS if "--all" not in one and one != ("variants",)], ids=" ".join)
def test_a_model_that_is_not_there(templatefix: Any, server: OllamaServer, args: tuple[str, ...]) -> None:
    done = templatefix(*[arg.replace("owl:1", "bat:1") if arg == "owl:1" else arg for arg in args])
    assert done.code == 2
    assert "there is no model bat:1 on " in done.err
    assert names(server) == ["owl:1"]


Fault = Callable[[OllamaServer], None]
GARBAGE = (200, "application/json", b"\xff<html>")


@pytest.mark.parametrize("path", ["/api/show", "/api/tags", "/api/version"])
@pytest.mark.parametrize("args", [("patch", "owl:1"), ("variants",), ("ab", "owl:1")], ids=" ".join)
def test_another_server_at_the_address(
    templatefix: Any, server: OllamaServer, args: tuple[str, ...], path: str
) -> None:
    server.faults.answers[path] = GARBAGE
    done = templatefix(*args)
    if done.code == 0:  # not every command asks for everything
        assert not [one for _, one, _ in server.requests if one == path]
        return
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "cannot be read" in done.err or "does not answer as an Ollama server does" in done.err


@pytest.mark.parametrize(
    ("fault", "value", "said"),
    [
        ("create_error", "no space left on device", "says: no space left on device"),
        ("create_garbage", b"\x00\xff", "sent what cannot be read"),
        ("create_cut", "before", "broke off before it could create"),
        ("create_cut", "after", "broke off before it could create"),
        ("create_short", True, "stopped before it had created"),
    ],
)
@pytest.mark.parametrize("args", [("patch", "owl:1"), ("ab", "owl:1")], ids=" ".join)
def test_a_create_that_goes_wrong(
    templatefix: Any, server: OllamaServer, args: tuple[str, ...], fault: str, value: object, said: str
) -> None:
    setattr(server.faults, fault, value)
    done = templatefix(*args)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert said in done.err
    assert names(server) == ["owl:1"]


@pytest.mark.parametrize(
    ("fault", "value", "said"),
    [
        ("push_error", "no space left on device", "says: no space left on device"),
        ("push_cut", True, "broke off before it could push"),
    ],
)
def test_a_push_that_goes_wrong(
    templatefix: Any, server: OllamaServer, registry: RegistryServer, fault: str, value: object, said: str
) -> None:
    setattr(server.faults, fault, value)
    args = ("publish", "owl:1", f"{registry.host}/me/owl:1", "--insecure", "--yes")
    done = templatefix(*args)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert said in done.err
    assert names(server) == ["owl:1"]
    setattr(server.faults, fault, type(value)())
    assert templatefix(*args).code == 0


@pytest.mark.parametrize("path", ["/api/show", "/api/generate", "/api/ps"])
def test_a_long_silence(templatefix: Any, server: OllamaServer, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    real = OllamaClient.__init__

    def hasty(self: OllamaClient, host: str | None = None, **_: float) -> None:
        real(self, host, connect=1, quick=0.3, slow=0.3)

    monkeypatch.setattr(OllamaClient, "__init__", hasty)
    server.faults.silent.add(path)
    done = templatefix("ab", "owl:1")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "took too long to answer" in done.err
    server.faults.silent.clear()
    assert names(server) == ["owl:1"]


def test_an_old_server(templatefix: Any, server: OllamaServer) -> None:
    server.version = "0.9.0"  # cannot show its renders, tells no cached tokens
    server.tells_cached = False
    done = templatefix("ab", "owl:1", "--format", "json")
    made = json.loads(done.out)
    assert (done.code, made["source"]) == (0, "estimate")
    assert not any(body.get("_debug_render_only") for body in server.asked("/api/chat"))
