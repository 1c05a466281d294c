"""Tokenizers from every kind of donor."""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from typing import Any

import pytest

from templatefix.servers.gguf import Field, Kind, gguf_bytes
from templatefix.servers.standin import standin_bytes
from templatefix.servers.tokenizer import (
    Tokenizer,
    TokenizerError,
    byte_level,
    from_gguf,
    from_package,
    from_ranks,
    from_show,
    markers_in,
)

TINY: dict[str, Any] = {
    "tokenizer.ggml.model": "llama",
    "tokenizer.ggml.tokens": ["<unk>", "<s>", "▁a"],
    "tokenizer.ggml.token_type": [2, 3, 1],
    "tokenizer.ggml.scores": [0.0, 0.0, -1.0],
    "tokenizer.ggml.bos_token_id": 1,
}


@pytest.mark.parametrize(
    ("text", "markers"),
    [
        ("<|im_start|>{{ .Role }}\n{{ .Content }}<|im_end|>\n<|im_start|>", ["<|im_start|>", "<|im_end|>"]),
        ('[INST] {{ .Content }}[/INST]</s>{{ "[TOOL_CALLS]" }}', ["[INST]", "[/INST]", "</s>", "[TOOL_CALLS]"]),
        ("<start_of_turn>user\n{{ .Content }}<end_of_turn>", ["<start_of_turn>", "<end_of_turn>"]),
        ("<｜User｜>{{ .Content }}<｜tool▁calls▁begin｜>", ["<｜User｜>", "<｜tool▁calls▁begin｜>"]),
        ("<tools>{{ .Tools }}</tools> [{{ .A }}] [1] [Note] <b> <| |> {{ if lt 1 2 }}|>", []),
    ],
)
def test_markers(text: str, markers: list[str]) -> None:
    assert markers_in(text) == markers


def test_missing_markers_become_special_tokens() -> None:
    wider = Tokenizer(TINY).with_markers(["<s>", "[INST]", "[INST]", "<|x|>"])
    assert wider.tokens == ["<unk>", "<s>", "▁a", "[INST]", "<|x|>"]
    assert wider.metadata["tokenizer.ggml.token_type"] == [2, 3, 1, 3, 3]
    assert wider.metadata["tokenizer.ggml.scores"] == [0.0, 0.0, -1.0, 0.0, 0.0]
    assert wider.metadata["tokenizer.ggml.bos_token_id"] == 1
    assert TINY["tokenizer.ggml.tokens"] == ["<unk>", "<s>", "▁a"]


def test_a_vocabulary_that_has_all_stays() -> None:
    tokenizer = Tokenizer(TINY)
    assert tokenizer.with_markers(["<s>"]) is tokenizer


def test_a_server_and_a_file_give_the_same(tmp_path: Path) -> None:
    path = tmp_path / "blob"
    path.write_bytes(standin_bytes(Tokenizer(TINY)))
    info = {**TINY, "general.architecture": "llama", "tokenizer.chat_template": "{{ x }}", "tokenizer.ggml.pre": None}
    shown = from_show({"template": "", "model_info": info}, "tiny:latest")
    assert shown.name == "tiny:latest"
    assert shown.read() == from_gguf(path).read() == Tokenizer(TINY)


def test_a_donor_is_known_by_its_digest() -> None:
    other = {**TINY, "tokenizer.ggml.bos_token_id": 0}
    first, again, second = (from_show({"model_info": info}, "a") for info in (TINY, dict(TINY), other))
    assert first.digest == again.digest != second.digest


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"model_info": None},
        {"model_info": {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": None}},
        {"model_info": {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": []}},
        {"model_info": {"tokenizer.ggml.tokens": ["a"]}},
    ],
)
def test_an_answer_without_a_tokenizer(answer: dict[str, Any]) -> None:
    with pytest.raises(TokenizerError, match=r"^No tokenizer found in the server's answer for m\.$"):
        from_show(answer, "m").read()


def test_a_file_without_a_tokenizer(tmp_path: Path) -> None:
    path = tmp_path / "adapter.gguf"
    path.write_bytes(gguf_bytes({"general.architecture": Field(Kind.STRING, "llama")}, []))
    with pytest.raises(TokenizerError, match=r"^No tokenizer found in .*adapter\.gguf\.$"):
        from_gguf(path).read()


def _ranks(path: Path, *tokens: bytes) -> Path:
    lines = [f"{base64.b64encode(token).decode()} {rank}" for rank, token in enumerate(tokens)]
    path.write_text("\n".join(lines) + "\n", encoding="ascii")
    return path


def test_merges_follow_from_ranks(tmp_path: Path) -> None:
    path = _ranks(tmp_path / "tokenizer.model", b"a", b"b", b"c", b" ", b"\xff", b"ab", b"bc", b"abc", b" a")
    tokenizer = from_ranks(path, "tiny").read()
    assert tokenizer.tokens[:9] == ["a", "b", "c", "Ġ", "ÿ", "ab", "bc", "abc", "Ġa"]
    # "abc" can be reached from either side, and its two ways stand in its own place.
    assert tokenizer.metadata["tokenizer.ggml.merges"] == ["a b", "b c", "a bc", "ab c", "Ġ a"]
    assert tokenizer.tokens[tokenizer.metadata["tokenizer.ggml.bos_token_id"]] == "<|begin_of_text|>"
    assert tokenizer.tokens[tokenizer.metadata["tokenizer.ggml.eos_token_id"]] == "<|eot_id|>"


def test_the_package_is_found_without_being_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "llama_models" / "llama3"
    folder.mkdir(parents=True)
    (tmp_path / "llama_models" / "__init__.py").write_text("raise RuntimeError('imported')\n", encoding="utf-8")
    _ranks(folder / "tokenizer.model", b"a", b"b", b"ab")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "llama_models", raising=False)
    donor = from_package()
    assert donor is not None
    assert donor.name == "Llama 3 (llama-models)"
    assert donor.read().tokens[:3] == ["a", "b", "ab"]


def test_a_sample_is_learned_and_every_byte_is_there() -> None:
    tokenizer = byte_level("the thing with the thread, the thing").read()
    assert len(set(tokenizer.tokens)) == len(tokenizer.tokens)
    assert sum(len(token) == 1 for token in tokenizer.tokens) == 256
    assert {"the", "Ġthe", "Ġthing"} <= set(tokenizer.tokens)
    known = set(tokenizer.tokens)
    for merge in tokenizer.metadata["tokenizer.ggml.merges"]:
        first, second = merge.split(" ")
        assert {first, second, first + second} <= known
