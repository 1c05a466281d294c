"""What `ab` can be told to measure, and `templatefix scenario`."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from support.models import smollm2

from templatefix.lab import ab as lab_ab

SAMPLES = Path(__file__).resolve().parents[2] / "modelfiles"
LLAMA = str(SAMPLES / "llama31-like.Modelfile")
MISTRAL = str(SAMPLES / "mistral-like.Modelfile")
needs_engine = pytest.mark.skipif(importlib.util.find_spec("xllamacpp") is None, reason="xllamacpp is not installed")


@needs_engine
def test_scenarios_sizes_and_repeats(templatefix: Any, alone: Path) -> None:
    options = ("--scenario", "seed-loop", "--scenario", "tool-errors", "--size", "1000", "--repeat", "2")
    done = templatefix("ab", LLAMA, *options, "--format", "json", "-o", "ab.json")
    assert (done.code, done.err) == (0, "")
    made = json.loads((alone / "ab.json").read_text())
    assert made["repeats"] == 2
    rows = made["arms"][1]["requests"]
    assert [(row["scenario"], row["repeat"]) for row in rows if row["step"] == 0] == [
        ("seed-loop", 0),
        ("tool-errors", 0),
        ("seed-loop", 1),
        ("tool-errors", 1),
    ]
    assert all(800 < row["prompt_tokens"] < 1500 for row in rows)
    assert sum(part["tokens"] for part in rows[0]["parts"]) == rows[0]["prompt_tokens"]


@needs_engine
def test_a_scenario_of_ones_own(templatefix: Any, alone: Path) -> None:
    (alone / "mine.yaml").write_text("turns:\n- user: Hi.\n- assistant: Hello.\n- user: Bye.\n", encoding="utf-8")
    done = templatefix("ab", LLAMA, LLAMA, "--scenario", "mine.yaml")
    assert done.code == 0
    assert "\nmine\n" in done.out
    assert "\nThe same: " in done.out


@needs_engine
@pytest.mark.parametrize(("attention", "words"), [("swa", "a sliding window"), ("recurrent", "one recurrent state")])
def test_other_kinds_of_memory(attention: str, words: str, templatefix: Any) -> None:
    done = templatefix("ab", MISTRAL, "--size", "2000", "--attention", attention, "--prefill-rate", "30")
    assert done.code == 0
    assert words in " ".join(done.out.split())
    assert "A model that reads 30 tokens a second spends" in done.out


@needs_engine
def test_replies_bound_to_the_script(templatefix: Any, alone: Path) -> None:
    done = templatefix("ab", MISTRAL, "--size", "1000", "--force-calls", "--format", "json", "-o", "ab.json")
    assert (done.code, done.err) == (0, "")
    made = json.loads((alone / "ab.json").read_text())
    assert made["live"]
    assert made["quality"]["called"] == {
        "first": {"done": 2, "of": 2},
        "second": {"done": 2, "of": 2},
        "interval": [made["interval"]["low"], made["interval"]["high"]],
    }
    assert [row["tool_called"] for row in made["arms"][1]["requests"]] == [True, None, True, None]


@needs_engine
def test_a_page(templatefix: Any, alone: Path) -> None:
    done = templatefix("ab", LLAMA, "--size", "1000", "--format", "html", "-o", "ab.html")
    assert (done.code, done.out, done.err) == (0, "", "")
    page = (alone / "ab.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert "llama31-like.Modelfile, patched" in page
    assert '<span class="del">-' in page


@needs_engine
def test_an_interrupt_shows_what_was_measured(templatefix: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real = lab_ab.Recorder.add

    def add(self: Any, arm: int, row: Any) -> None:
        real(self, arm, row)
        if sum(map(len, self._rows)) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(lab_ab.Recorder, "add", add)
    done = templatefix("ab", LLAMA, "--size", "1000")
    assert done.code == 130
    assert "- interrupted after 3 of 8 requests" in done.out
    assert "   2 " in done.out
    assert "Better" not in done.out


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--scenario", "nowhere"), "nowhere is neither a file nor a scenario that comes with this program; those are"),
        (("--live",), "--live needs --weights FILE, a GGUF file with a model that can answer, or --force-calls"),
        (("--weights", "nowhere.gguf"), "there is no file nowhere.gguf"),
        (("--attention", "half"), "--attention takes full, swa or recurrent, not half"),
        (("--attention", "swa", "--weights", "x"), "--attention is for the stand-in model; the weights of a file have"),
        (
            ("--engine", "llama-server", "--url", "http://127.0.0.1:9", "--attention", "swa"),
            "--attention is for an engine started for this run: --engine embedded, or --server-bin",
        ),
    ],
)
def test_wishes_that_cannot_be_fulfilled(options: tuple[str, ...], sentence: str, templatefix: Any) -> None:
    done = templatefix("ab", LLAMA, *options)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"templatefix: {sentence}")
    assert done.err.count("\n") == 1


def test_faults_of_a_scenario_have_a_place(templatefix: Any, alone: Path) -> None:
    (alone / "mine.yaml").write_text("turns:\n  - user: 3\n", encoding="utf-8")
    expected = (2, "", "templatefix: mine.yaml, line 2, turns[0].user: a text belongs here, in quotes\n")
    for args in (("ab", LLAMA, "--scenario", "mine.yaml"), ("scenario", "check", "mine.yaml")):
        done = templatefix(*args)
        assert (done.code, done.out, done.err) == expected


def test_scenarios_are_listed(templatefix: Any) -> None:
    done = templatefix("scenario", "list")
    assert done.code == 0
    assert done.out.splitlines()[0].split() == [
        "seed-loop",
        "4",
        "requests",
        "Two",
        "sums,",
        *["each", "worked", "out", "by", "one", "call."],
    ]
    assert max(map(len, done.out.splitlines())) <= 100


def test_a_copy_of_a_scenario_is_a_scenario(templatefix: Any, alone: Path) -> None:
    shown = templatefix("scenario", "show", "parallel-calls")
    (alone / "copy.yaml").write_text(shown.out, encoding="utf-8")
    done = templatefix("scenario", "check", "copy.yaml")
    assert (done.code, done.out) == (0, "copy.yaml is a scenario: 5 requests, 20 tools\n")


def test_the_help_holds_a_scenario(templatefix: Any, alone: Path) -> None:
    told = templatefix("scenario", "help").out
    example = "\n".join(line for line in told.splitlines() if line.startswith("    "))
    (alone / "example.yaml").write_text(example, encoding="utf-8")
    done = templatefix("scenario", "check", "example.yaml")
    assert (done.code, done.out) == (0, "example.yaml is a scenario: 32 requests, 19 tools\n")


@pytest.mark.parametrize("args", [("polish",), ("show",), ("list", "x")])
def test_other_words(args: tuple[str, ...], templatefix: Any) -> None:
    done = templatefix("scenario", *args)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("templatefix: it is `scenario list`")


@needs_engine
def test_real_weights(templatefix: Any, alone: Path) -> None:
    """A real model reads what the script says, and its own tokenizer counts."""
    (alone / "short.yaml").write_text("turns:\n- user: Hi.\n- assistant: Hello.\n- user: Bye.\n", encoding="utf-8")
    (alone / "chat.tmpl").write_text(
        "{{ range .Messages }}<|im_start|>{{ .Role }}\n{{ .Content }}<|im_end|>\n{{ end }}<|im_start|>assistant\n",
        encoding="utf-8",
    )
    args = ("--scenario", "short.yaml", "--weights", str(smollm2()), "--format", "json")
    done = templatefix("ab", "chat.tmpl", "chat.tmpl", *args)
    assert done.code == 0
    made = json.loads(done.out)
    assert made["tokenizer"].endswith(".gguf")
    first, second = made["arms"][0]["requests"]
    assert first["cached_tokens"] == 0
    assert second["fresh_tokens"] <= second["new_tokens"] + 2
