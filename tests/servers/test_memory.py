"""Kinds of memory: what metadata tells, and what stand-ins of each kind keep."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.models import smollm2

from templatefix.servers.embedded import EmbeddedEngine
from templatefix.servers.gguf import read_metadata
from templatefix.servers.memory import attention_of
from templatefix.servers.standin import WINDOW, Attention, make_standin
from templatefix.servers.tokenizer import byte_level, from_gguf

WORDS = "many small words stand here and many small words follow them "
MARKERS = ["<|start|>", "<|stop|>"]


@pytest.mark.parametrize(
    ("metadata", "attention"),
    [
        ({"general.architecture": "llama", "llama.block_count": 32}, "full"),
        ({"general.architecture": "qwen2", "qwen2.attention.sliding_window": 32768}, "full"),
        ({"general.architecture": "gemma3", "gemma3.attention.sliding_window": 512}, "swa"),
        ({"general.architecture": "new", "new.attention.sliding_window": 4096}, "swa"),
        ({"general.architecture": "new", "new.attention.sliding_window": 0}, "full"),
        ({"general.architecture": "mamba", "mamba.ssm.state_size": 16}, "recurrent"),
        ({"general.architecture": "new", "new.ssm.state_size": 128, "new.attention.sliding_window": 512}, "recurrent"),
        ({"general.architecture": "lfm2"}, "recurrent"),
        ({"general.architecture": "gemma4", "gemma4.attention.sliding_window": [512, 0]}, "swa"),
        ({"tokenizer.ggml.model": "gpt2"}, None),
        ({}, None),
    ],
)
def test_what_metadata_tells(metadata: dict[str, Any], attention: Attention | None) -> None:
    assert attention_of(metadata) == attention


@pytest.mark.parametrize("attention", ["full", "swa", "recurrent"])
def test_a_standin_says_what_it_is(attention: Attention, tmp_path: Path) -> None:
    standin = make_standin(byte_level(WORDS), MARKERS, tmp_path, attention)
    assert attention_of(read_metadata(standin.path, lambda key: not key.startswith("tokenizer."))) == attention


@pytest.mark.parametrize(("attention", "kept"), [("full", "head"), ("swa", "nothing"), ("recurrent", "nothing")])
def test_a_difference_far_behind(attention: Attention, kept: str, tmp_path: Path) -> None:
    standin = make_standin(byte_level(WORDS), MARKERS, tmp_path, attention)
    head = "<|start|>" + WORDS * 100
    with EmbeddedEngine(standin).session(60_000) as session:
        size = session.evaluate(head, cold=True).prompt_tokens
        longer = session.evaluate(head + "<|stop|>" + WORDS * 100)
        assert longer.cached_tokens == size, "what only grows is kept by every kind"
        changed = session.evaluate("<|start|>" + WORDS * 10 + "<|stop|>" + WORDS * 90)
    assert changed.prompt_tokens > size > WINDOW
    assert changed.cached_tokens == (111 if kept == "head" else 0)  # a marker and ten times eleven words


# A recording of a model with a window was made with another vocabulary, which has one token more in front.
@pytest.mark.parametrize(
    ("name", "attention", "lead"),
    [
        ("mamba-moving", "recurrent", 0),
        ("mamba-fixed", "recurrent", 0),
        ("gemma3-moving-swa", "swa", 1),
        ("gemma3-fixed-swa", "swa", 1),
        ("gemma3-moving-swafull", "full", 1),
    ],
)
def test_a_real_servers_figures_come_out(
    name: str, attention: Attention, lead: int, shared: Path, tmp_path: Path
) -> None:
    text = (shared / "recordings" / "llama-server" / f"{name}.json").read_text(encoding="utf-8")
    steps = [row for row in json.loads(text) if "step" in row]
    standin = make_standin(from_gguf(smollm2()), [], tmp_path, attention)
    with EmbeddedEngine(standin).session(20_000) as session:
        found = [session.evaluate(step["request"]["prompt"]) for step in steps]
    recorded = [step["answer"]["timings"] for step in steps]
    figures = [(step["cache_n"], step["cache_n"] + step["prompt_n"]) for step in recorded]
    assert [(row.cached_tokens + lead * (row.cached_tokens > 0), row.prompt_tokens + lead) for row in found] == figures
