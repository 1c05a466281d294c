"""`templatefix ab` and `templatefix demo`, on the embedded engine."""

from __future__ import annotations

import builtins
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from support.forgetful import FORGETFUL
from support.ollama_server import OllamaServer

from templatefix.servers.standin import standin_bytes
from templatefix.servers.tokenizer import Tokenizer, byte_level

MODEL = (
    "{{ .Tools }}{{ range .Messages }}<{{ .Role }}>{{ .Content }}"
    "{{ range .ToolCalls }}{{ json .Function.Arguments }}{{ end }}{{ end }}"
)
SAMPLES = Path(__file__).resolve().parents[2] / "modelfiles"
LLAMA = str(SAMPLES / "llama31-like.Modelfile")
STABLE = str(SAMPLES / "stable.Modelfile")
needs_engine = pytest.mark.skipif(importlib.util.find_spec("xllamacpp") is None, reason="xllamacpp is not installed")


@pytest.fixture
def no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation without the engine."""
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "xllamacpp":
            raise ModuleNotFoundError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)


@needs_engine
def test_a_template_and_its_variant(templatefix: Any, alone: Path) -> None:
    done = templatefix("ab", LLAMA, "--format", "json", "-o", "ab.json")
    assert (done.code, done.out, done.err) == (0, "", "")
    made = json.loads((alone / "ab.json").read_text())
    assert (made["version"], made["engine"], made["source"], made["valid"]) == (1, "embedded", "engine", True)
    assert made["verdict"] == "better"
    stock, variant = made["arms"]
    assert (stock["name"], variant["name"]) == (LLAMA, f"{LLAMA}, patched")
    assert stock["warm_hit_rate"] < 0.8
    assert variant["warm_hit_rate"] > 0.99
    # Every warm request of the variant reads its new tokens and little else.
    assert all(row["fresh_tokens"] <= row["new_tokens"] + 2 for row in variant["requests"][1:])
    assert all(row["tools_in_prompt"] for row in variant["requests"])


@needs_engine
def test_two_templates_the_worse_one_second(templatefix: Any) -> None:
    done = templatefix("ab", STABLE, LLAMA)
    assert done.code == 1
    assert done.err == ""
    assert "\nWorse: of the warm prompt tokens, " in done.out
    assert max(map(len, done.out.splitlines())) <= 80


def test_no_engine_is_one_sentence(templatefix: Any, no_engine: None) -> None:
    done = templatefix("ab", STABLE, LLAMA)
    assert (done.code, done.out) == (2, "")
    assert done.err == 'templatefix: the embedded engine is not installed: pip install "templatefix[engine]"\n'


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("-", "-"), "A and B cannot both come from standard input"),
        ((STABLE,), f"{STABLE} has no variant to compare with: it is stable as it is"),
        (
            (STABLE, LLAMA, "--engine", "steam"),
            "--engine takes auto, embedded, ollama, llama-server or openai, not steam",
        ),
        ((STABLE, "none.tmpl"), "there is no file none.tmpl"),
    ],
)
def test_bad_usage(templatefix: Any, args: tuple[str, ...], sentence: str) -> None:
    done = templatefix("ab", *args)
    assert (done.code, done.out, done.err) == (2, "", f"templatefix: {sentence}\n")


@needs_engine
@pytest.mark.parametrize("tells", [True, False])
def test_a_model_brings_its_own_tokenizer(
    templatefix: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tells: bool
) -> None:
    words = byte_level("the quick brown fox").read()
    weights = {"model_info": dict(words.metadata)} if tells else None
    with OllamaServer(tmp_path / "store").running() as server:
        monkeypatch.setenv("OLLAMA_HOST", server.url)
        server.store.add("owl:1", MODEL, weights=weights)
        done = templatefix("ab", "owl:1", STABLE, "--engine", "embedded", "--format", "json")
    made = json.loads(done.out)
    assert made["tokenizer"] == ("owl:1" if tells else "byte-level")
    assert made["arms"][0]["name"] == "owl:1"


@needs_engine
def test_the_demo_shows_it_all(templatefix: Any) -> None:
    done = templatefix("demo")
    assert (done.code, done.err) == (0, "")
    for part in (
        "1. What is wrong: templatefix check llama31-like.Modelfile",
        "llama31-like.Modelfile:16:1: error TF101 tools-follow-last-message",
        "llama31-like.Modelfile: unstable, ",
        "2. The change and its proof: templatefix patch llama31-like.Modelfile",
        "+++ b/llama31-like.Modelfile",
        "idempotent          holds",
        "3. Both on an engine: templatefix ab llama31-like.Modelfile",
        "Better: of the warm prompt tokens, 99.",
    ):
        assert part in done.out


def test_the_demo_without_an_engine_shows_the_rest(templatefix: Any, no_engine: None) -> None:
    done = templatefix("demo")
    assert done.code == 2
    assert "idempotent          holds" in done.out
    assert done.err == 'templatefix: the embedded engine is not installed: pip install "templatefix[engine]"\n'


@needs_engine
def test_a_jinja_template_and_its_variant_that_keeps_the_thinking(templatefix: Any, alone: Path) -> None:
    (alone / "forgetful.jinja").write_text(FORGETFUL)
    done = templatefix("ab", "forgetful.jinja", "--scenario", "thinking", "--format", "json")
    assert done.code == 2
    assert "--keep-thinking" in done.err
    done = templatefix("ab", "forgetful.jinja", "--keep-thinking", "--scenario", "thinking", "--format", "json")
    made = json.loads(done.out)
    assert (done.code, made["valid"]) == (0, True)
    first, second = made["arms"]
    assert first["fresh_tokens"] - first["new_tokens"] > 0
    assert second["fresh_tokens"] == second["new_tokens"]


def test_no_jinja_template_is_sent_to_ollama(templatefix: Any, alone: Path) -> None:
    (alone / "forgetful.jinja").write_text(FORGETFUL)
    done = templatefix("ab", "forgetful.jinja", "forgetful.jinja", "--engine", "ollama")
    assert done.code == 2
    assert "Ollama takes no Jinja template" in done.err


@needs_engine
def test_a_gguf_is_measured_with_its_own_tokenizer_and_memory(templatefix: Any, alone: Path) -> None:
    metadata = {**byte_level(FORGETFUL * 3).read().metadata, "tokenizer.chat_template": FORGETFUL}
    (alone / "model.gguf").write_bytes(standin_bytes(Tokenizer(metadata), "recurrent"))
    given = ("--keep-thinking", "--scenario", "thinking", "--size", "300", "--checkpoints", "1", "--format", "json")
    made = json.loads(templatefix("ab", "model.gguf", *given).out)
    assert (made["valid"], made["tokenizer"], made["attention"]) == (True, "model.gguf", "recurrent")
    forgets, keeps = (arm["requests"][2] for arm in made["arms"])  # the second user turn
    assert (forgets["cached_tokens"], keeps["fresh_tokens"]) == (0, keeps["new_tokens"])
