"""Stand-in models on disk."""

from __future__ import annotations

import os
from pathlib import Path

import gguf
import pytest

from templatefix.servers import standin
from templatefix.servers.standin import cache_folder, make_standin, standin_bytes
from templatefix.servers.tokenizer import Donor, Tokenizer, byte_level


@pytest.fixture
def reads() -> list[str]:
    return []


@pytest.fixture
def donor(reads: list[str]) -> Donor:
    def read() -> Tokenizer:
        reads.append("read")
        return byte_level("a small sample").read()

    return Donor("sample", "digest of the sample", read)


def test_the_same_tokenizer_gives_the_same_bytes() -> None:
    assert standin_bytes(byte_level("some text").read()) == standin_bytes(byte_level("some text").read())


def test_made_once(donor: Donor, reads: list[str], tmp_path: Path) -> None:
    first = make_standin(donor, ["<|b|>", "<|a|>"], tmp_path / "cache")
    again = make_standin(donor, ["<|a|>", "<|b|>", "<|a|>"], tmp_path / "cache")
    assert first == again
    assert first.tokenizer == "sample"
    assert reads == ["read"]
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [first.path.name]


def test_other_markers_make_another(donor: Donor, tmp_path: Path) -> None:
    assert make_standin(donor, ["<|a|>"], tmp_path).path != make_standin(donor, ["<|b|>"], tmp_path).path


def test_markers_stand_in_the_file(donor: Donor, tmp_path: Path) -> None:
    reader = gguf.GGUFReader(make_standin(donor, ["[INST]"], tmp_path).path)
    tokens = reader.get_field("tokenizer.ggml.tokens").contents()
    types = reader.get_field("tokenizer.ggml.token_type").contents()
    assert types[tokens.index("[INST]")] == gguf.TokenType.CONTROL
    embedding = next(tensor for tensor in reader.tensors if tensor.name == "token_embd.weight")
    assert list(embedding.shape) == [32, len(tokens)]
    assert embedding.tensor_type == gguf.GGMLQuantizationType.Q8_0


def test_a_failed_write_leaves_nothing(donor: Donor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: str, target: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        make_standin(donor, [], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_large_vocabulary_stays_small() -> None:
    size = 128_256
    tokenizer = Tokenizer(
        {
            "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.pre": "llama-bpe",
            "tokenizer.ggml.tokens": [f"token{index}" for index in range(size)],
            "tokenizer.ggml.token_type": [1] * size,
            "tokenizer.ggml.merges": [f"token{index} token{index + 1}" for index in range(280_147)],
        }
    )
    assert len(standin_bytes(tokenizer)) < 25_000_000


def test_the_cache_folder_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_folder() == Path("/somewhere/templatefix/standins")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(standin.Path, "home", lambda: Path("/people/ada"))
    assert cache_folder() == Path("/people/ada/.cache/templatefix/standins")
