"""`templatefix patch` for Jinja templates: files, GGUF copies, and what is said where neither will do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.forgetful import FORGETFUL

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
