"""Mistral's tokenizers out of an installed `mistral-common`; nothing of it is imported or copied."""

from __future__ import annotations

import base64
import binascii
import importlib.util
import json
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from templatefix.servers.tokenizer import (
    PREFIX,
    Donor,
    Tokenizer,
    TokenizerError,
    byte_pairs,
    content_digest,
    shown_bytes,
)

_SPECIAL = ("<unk>", "<s>", "</s>")  # what else a template names becomes a special token anyway
_TOOLS = ("[AVAILABLE_TOOLS]", "[TOOL_CALLS]", "[TOOL_RESULTS]", "[SYSTEM_PROMPT]")
_SPACED = re.compile(r"\[(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_RESULTS)\] ")
# Newest first. The first versions read these markers as plain text, so they are not among them.
_SENTENCEPIECE = ("model.v7", "model.v3")
_TEKKEN = "tekken_*.json"


def from_mistral_common(template: str) -> Donor | None:
    """The tokenizer that a template of Mistral's format goes with; None for other formats, and where there is none.

    Layouts with a blank behind `[INST]` belong to the SentencePiece tokenizers, those without to Tekken.
    """
    if not any(marker in template for marker in _TOOLS):
        return None
    folder = _data_folder()
    if folder is None:
        return None
    if not _SPACED.search(template):
        for path in sorted(folder.glob(_TEKKEN)):
            return from_tekken(path, "Mistral's Tekken (mistral-common)")
    for version in _SENTENCEPIECE:
        for path in sorted(folder.glob(f"*.{version}")):
            return from_sentencepiece(path, "Mistral's SentencePiece (mistral-common)")
    return None


def _data_folder() -> Path | None:
    spec = importlib.util.find_spec("mistral_common")
    folders = [Path(folder) / "data" for folder in (spec.submodule_search_locations or [])] if spec else []
    return next((folder for folder in folders if folder.is_dir()), None)


def from_tekken(path: Path, name: str) -> Donor:
    """A tokenizer from a file of Tekken's: JSON with the bytes of each token by rank."""
    data = path.read_bytes()
    return Donor(name, content_digest(data), lambda: _tekken(data, path))


def _tekken(data: bytes, path: Path) -> Tokenizer:
    try:
        document: dict[str, Any] = json.loads(data)
        config = document["config"]
        size = config["default_vocab_size"] - config["default_num_special_tokens"]
        ranked = [base64.b64decode(entry["token_bytes"]) for entry in document["vocab"][:size]]
    except (ValueError, KeyError, TypeError, binascii.Error) as error:
        raise TokenizerError(f"No tokenizer of Tekken's kind found in {path}.") from error
    plain = [shown_bytes(token) for token in ranked]
    begin = len(plain) + _SPECIAL.index("<s>")
    return byte_pairs([*plain, *_SPECIAL], len(_SPECIAL), "tekken", begin, begin + 1)


def from_sentencepiece(path: Path, name: str) -> Donor:
    """A tokenizer from a model file of SentencePiece's: a protocol buffer with pieces and scores."""
    data = path.read_bytes()
    return Donor(name, content_digest(data), lambda: _sentencepiece(data, path))


def _sentencepiece(data: bytes, path: Path) -> Tokenizer:
    tokens: list[str] = []
    scores: list[float] = []
    types: list[int] = []
    try:
        for number, value in _fields(data):
            if number == 1:  # a piece; its types are numbered as llama.cpp's
                piece = dict(_fields(value))
                tokens.append(piece[1].decode())
                scores.append(struct.unpack("<f", piece.get(2, bytes(4)))[0])
                types.append(piece.get(3, b"\x01")[0])
        begin, end = tokens.index("<s>"), tokens.index("</s>")
    except (ValueError, KeyError, IndexError, struct.error) as error:
        raise TokenizerError(f"No tokenizer of SentencePiece's kind found in {path}.") from error
    return Tokenizer(
        {
            PREFIX + "model": "llama",
            PREFIX + "tokens": tokens,
            PREFIX + "scores": scores,
            PREFIX + "token_type": types,
            PREFIX + "bos_token_id": begin,
            PREFIX + "eos_token_id": end,
        }
    )


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields of a message as numbers and raw values; a whole number as the bytes that hold it."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            value, end = _varint(data, at)
            yield key >> 3, value.to_bytes(10, "little")
        else:
            if kind == 2:
                size, at = _varint(data, at)
            else:
                size = {1: 8, 5: 4}[kind]
            end = at + size
            if end > len(data):
                raise ValueError("a field ends behind its message")
            yield key >> 3, data[at:end]
        at = end


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number in groups of seven bits, and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
        if shift > 63:
            raise ValueError("a number without end")
