"""`templatefix patch` for Jinja templates: files, GGUF copies, and what is said where neither will do."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from support.forgetful import FORGETFUL
from support.llama_program import llama_script

from templatefix.servers.gguf import Field, Kind, Tensor, gguf_bytes, read_metadata

FIELDS = {"general.architecture": Field(Kind.STRING, "llama"), "general.name": Field(Kind.STRING, "ä")}
TENSORS = [Tensor("one", (8,), 0, bytes(range(32)))]


def gguf(template: str) -> bytes:
    return gguf_bytes({**FIELDS, "tokenizer.chat_template": Field(Kind.STRING, template)}, TENSORS)


@pytest.fixture
def files(alone: Path) -> Path:
    (alone / "forgetful.jinja").write_text(FORGETFUL)
    (alone / "model.gguf").write_bytes(gguf(FORGETFUL))
    return alone


def test_without_the_option_it_is_named(templatefix: Any, files: Path) -> None:
    done = templatefix("patch", "forgetful.jinja", "-o", "kept.jinja")
    assert done.code == 1
    assert "--keep-thinking" in done.out
    assert not (files / "kept.jinja").exists()


def test_the_file_comes_with_the_command_line_that_puts_it_in_force(templatefix: Any, files: Path) -> None:
    done = templatefix("patch", "forgetful.jinja", "--keep-thinking", "-o", "kept.jinja")
    assert (done.code, done.err) == (0, "")
    assert "llama-server -m MODEL.gguf --jinja --chat-template-file kept.jinja" in done.out
    assert "without tools every prompt is the same, thinking that is kept apart" in done.out
    told = json.loads(templatefix("check", "kept.jinja", "--format", "json").out)["results"][0]
    assert (told["verdict"], told["kind"]) == ("stable", "jinja")
    assert (files / "forgetful.jinja").read_text() == FORGETFUL


def test_a_gguf_is_copied(templatefix: Any, files: Path) -> None:
    done = templatefix("patch", "model.gguf", "--keep-thinking", "--gguf", "out.gguf", "--format", "json")
    told = json.loads(done.out)
    assert (done.code, told["changed"], told["command"]) == (0, True, "llama-server -m out.gguf --jinja")
    assert (files / "model.gguf").read_bytes() == gguf(FORGETFUL)
    assert (files / "out.gguf").read_bytes() == gguf(told["template"])
    assert read_metadata(files / "out.gguf", lambda key: key == "general.name") == {"general.name": "ä"}


def test_a_copy_is_never_made_over_a_file(templatefix: Any, files: Path) -> None:
    (files / "out.gguf").write_bytes(b"mine")
    for out, said in (("out.gguf", "--force replaces it"), ("model.gguf", "is the file itself")):
        done = templatefix("patch", "model.gguf", "--keep-thinking", "--gguf", out)
        assert done.code == 2
        assert said in done.err
    assert (files / "out.gguf").read_bytes() == b"mine"
    assert (files / "model.gguf").read_bytes() == gguf(FORGETFUL)


def test_only_a_gguf_is_copied(templatefix: Any, files: Path) -> None:
    done = templatefix("patch", "forgetful.jinja", "--gguf", "out.gguf")
    assert (done.code, done.err) == (2, "templatefix: --gguf copies a GGUF file, and forgetful.jinja is none\n")


@pytest.mark.skipif(sys.platform == "win32", reason="the program is wrapped in a shell script")
def test_a_llama_server_makes_the_same_prompts(templatefix: Any, files: Path, tmp_path: Path) -> None:
    program = str(llama_script(tmp_path))
    given = ("patch", "forgetful.jinja", "--keep-thinking", "--server-bin", program)
    said = templatefix(*given).out
    found = re.search(r"^(\d+) prompts compared with those of llama-server, all equal$", said, re.MULTILINE)
    assert found is not None
    made = json.loads(templatefix(*given, "--format", "json").out)
    assert made["server_renders"] == {"program": program, "equal": int(found[1]), "refused": 0}


@pytest.mark.skipif(sys.platform == "win32", reason="the program is wrapped in a shell script")
def test_a_variant_that_a_llama_server_refuses_is_none(templatefix: Any, files: Path, tmp_path: Path) -> None:
    picky = files / "picky"  # the real program, but it starts with the original alone
    known = 'for word; do [ "$before" = --chat-template-file ] && file=$word; before=$word; done\n'
    test = f'cmp -s "$file" {files / "forgetful.jinja"} || {{ echo I knew another one; exit 1; }}\n'
    picky.write_text(f'#!/bin/sh\n{known}{test}exec {llama_script(tmp_path)} "$@"\n')
    picky.chmod(0o755)
    done = templatefix("patch", "forgetful.jinja", "--keep-thinking", "--server-bin", "./picky", "-o", "out.jinja")
    assert (done.code, (files / "out.jinja").exists()) == (1, False)
    assert "refused, nothing was changed" in done.out
    assert "picky did not start: I knew another one" in " ".join(done.out.split())


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("forgetful.jinja", "--server-bin", "./none"), "there is no program ./none"),
        (
            ("go.tmpl", "--server-bin", sys.executable),
            "--server-bin is for Jinja templates, and that of go.tmpl is none",
        ),
    ],
)
def test_programs_that_cannot_be_used(templatefix: Any, files: Path, given: tuple[str, ...], said: str) -> None:
    (files / "go.tmpl").write_text("{{ range .Messages }}{{ .Content }}{{ end }}")
    done = templatefix("patch", *given)
    assert (done.code, done.err.strip()) == (2, f"templatefix: {said}")


@pytest.mark.skipif(sys.platform == "win32", reason="the program is a shell script")
def test_a_program_that_does_not_work_proves_nothing(
    templatefix: Any, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (files / "llama-server").write_text("#!/bin/sh\necho no library\nexit 1\n")
    (files / "llama-server").chmod(0o755)
    said = "could not be compared with a llama-server: "
    named = templatefix(
        "patch", "forgetful.jinja", "--keep-thinking", "--server-bin", "./llama-server", "-o", "a.jinja"
    )
    assert (named.code, (files / "a.jinja").exists()) == (2, False)
    assert said in named.err
    monkeypatch.setenv("PATH", str(files), prepend=os.pathsep)
    found = templatefix("patch", "forgetful.jinja", "--keep-thinking", "-o", "a.jinja")
    assert (found.code, (files / "a.jinja").exists()) == (0, True)
    assert said in found.err


@pytest.mark.parametrize("name", ["forgetful.jinja", "model.gguf"])
def test_nothing_is_written_over_the_original_or_over_weights(templatefix: Any, files: Path, name: str) -> None:
    before = (files / name).read_bytes()
    own = templatefix("patch", name, "--keep-thinking", "-o", f"./{name}")
    assert (own.code, own.err) == (
        2,
        f"templatefix: {name} is the file itself: -o writes another, so that the original stays\n",
    )
    (files / "other.gguf").write_bytes(b"GGUF and more")
    other = templatefix("patch", name, "--keep-thinking", "-o", "other.gguf")
    assert (other.code, "other.gguf is a GGUF file" in other.err) == (2, True)
    assert ((files / name).read_bytes(), (files / "other.gguf").read_bytes()) == (before, b"GGUF and more")
