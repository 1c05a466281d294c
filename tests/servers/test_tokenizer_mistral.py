"""Mistral's tokenizers, from files of our own in both formats and from the package where it is installed."""

from __future__ import annotations

import base64
import importlib.util
import json
import struct
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from templatefix.servers.embedded import EmbeddedEngine
from templatefix.servers.standin import make_standin
from templatefix.servers.tokenizer import TokenizerError
from templatefix.servers.tokenizer_mistral import from_mistral_common, from_sentencepiece, from_tekken

TEKKEN_LAYOUT = "[AVAILABLE_TOOLS]{{ .Tools }}[/AVAILABLE_TOOLS][INST]{{ .Prompt }}[/INST]"
SPACED_LAYOUT = "[AVAILABLE_TOOLS] {{ .Tools }}[/AVAILABLE_TOOLS][INST] {{ .Prompt }}[/INST]"


def tekken(*tokens: bytes, unused: int = 0, special: int = 10) -> bytes:
    vocabulary = [{"rank": rank, "token_bytes": base64.b64encode(one).decode()} for rank, one in enumerate(tokens)]
    size = len(tokens) - unused + special
    config = {"default_vocab_size": size, "default_num_special_tokens": special, "version": "v3"}
    return json.dumps({"config": config, "vocab": vocabulary}).encode()


def field(number: int, value: bytes | int | float) -> bytes:
    if isinstance(value, float):
        return bytes([number << 3 | 5]) + struct.pack("<f", value)
    if isinstance(value, int):
        return bytes([number << 3, value])
    return bytes([number << 3 | 2, len(value)]) + value


def sentencepiece() -> bytes:
    pieces = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3), ("[INST]", 0.0, 4), ("▁a", -1.0, None)]
    data = b""
    for text, score, kind in pieces:
        body = field(1, text.encode()) + field(2, score) + (field(3, kind) if kind is not None else b"")
        data += field(1, body)
    return data + field(2, field(3, 44)) + field(3, field(1, b"identity"))


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed `mistral-common` that must not be imported."""
    data = tmp_path / "mistral_common" / "data"
    data.mkdir(parents=True)
    (data.parent / "__init__.py").write_text("raise RuntimeError('imported')\n", encoding="utf-8")
    (data / "tekken_1.json").write_bytes(tekken(b"a", b"b", b"ab"))
    (data / "instruct.model.v3").write_bytes(sentencepiece())
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "mistral_common", raising=False)
    return data


@pytest.mark.parametrize(("layout", "first"), [(TEKKEN_LAYOUT, "a"), (SPACED_LAYOUT, "<unk>")])
def test_the_blank_behind_a_marker_tells_which(package: Path, layout: str, first: str) -> None:
    donor = from_mistral_common(layout)
    assert donor is not None
    assert donor.name.endswith("(mistral-common)")
    assert donor.read().tokens[0] == first


@pytest.mark.parametrize(
    "layout", ["[INST] <<SYS>>{{ .System }}<</SYS>> {{ .Prompt }} [/INST]", "<|im_start|>{{ .Tools }}"]
)
def test_other_formats_take_none(package: Path, layout: str) -> None:
    assert from_mistral_common(layout) is None


def test_a_package_without_its_files(package: Path) -> None:
    for path in package.iterdir():
        path.unlink()
    assert from_mistral_common(SPACED_LAYOUT) is None


def test_ranks_become_merges(tmp_path: Path) -> None:
    path = tmp_path / "tekken.json"
    path.write_bytes(tekken(b"a", b"b", b" ", b"\xff", b"ab", b" a", b" ab", unused=1))
    tokenizer = from_tekken(path, "tiny").read()
    assert tokenizer.tokens == ["a", "b", "Ġ", "ÿ", "ab", "Ġa", "<unk>", "<s>", "</s>"]
    assert tokenizer.metadata["tokenizer.ggml.merges"] == ["a b", "Ġ a"]
    assert tokenizer.metadata["tokenizer.ggml.token_type"] == [1] * 6 + [3] * 3
    assert (tokenizer.metadata["tokenizer.ggml.bos_token_id"], tokenizer.metadata["tokenizer.ggml.eos_token_id"]) == (
        7,
        8,
    )


def test_pieces_keep_their_scores_and_types(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.model"
    path.write_bytes(sentencepiece())
    assert from_sentencepiece(path, "tiny").read().metadata == {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": ["<unk>", "<s>", "</s>", "[INST]", "▁a"],
        "tokenizer.ggml.scores": [0.0, 0.0, 0.0, 0.0, -1.0],
        "tokenizer.ggml.token_type": [2, 3, 3, 4, 1],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
    }


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"\xff\xfe",
        b"[1]",
        sentencepiece()[:-4],
        b"\x0a\xff",
        b"\x80" * 20,
        field(1, field(1, b"\xff")),
        b"\x0b",
    ],
)
@pytest.mark.parametrize("kind", [from_tekken, from_sentencepiece])
def test_a_file_of_another_kind(tmp_path: Path, data: bytes, kind: Any) -> None:
    path = tmp_path / "odd"
    path.write_bytes(data)
    with pytest.raises(TokenizerError, match=r"^No tokenizer of (Tekken|SentencePiece)'s kind found in .*odd\.$"):
        kind(path, "odd").read()


# Bytes of each token as the tokenizers of mistral-common 1.13.1 themselves read the text, the blank that SentencePiece
# puts in front left out.
TEXT = '  Zwölf Boxkämpfer jagen\n\n\tViktor quer über 日本語 🙂 {"a": [1, 22, 333]}'
SIZES = {
    TEKKEN_LAYOUT: "1 3 4 4 1 4 3 2 4 2 1 1 5 5 6 7 3 3 1 1 3 1 2 2 1 1 1 1 1 1 1 1 1 1 2",
    SPACED_LAYOUT: "1 3 3 1 4 1 2 2 3 2 4 1 1 1 1 2 3 5 6 1 3 3 3 1 4 3 1 2 2 1 1 1 1 1 1 1 1 1 1 2",
}


@pytest.mark.parametrize("layout", SIZES)
def test_the_real_ones_read_as_their_authors_do(tmp_path: Path, layout: str) -> None:
    if importlib.util.find_spec("mistral_common") is None:
        pytest.skip("mistral-common is not installed: none of Mistral's tokenizers")
    donor = from_mistral_common(layout)
    assert donor is not None
    with EmbeddedEngine(make_standin(donor, [], tmp_path)).session(400) as session:
        ends = session.token_ends(TEXT)
    assert ends[0] == 0  # the begin of text
    assert [later - earlier for earlier, later in pairwise(ends)] == [int(size) for size in SIZES[layout].split()]
