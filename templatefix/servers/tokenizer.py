"""Tokenizers as GGUF metadata, without weights: from a GGUF file, a server's answer, a package, or made here.

A `Donor` is a place to get one from; its digest is cheap, so that a stand-in made before is found without reading
a vocabulary again.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from templatefix.servers.gguf import read_metadata

PREFIX = "tokenizer.ggml."
NORMAL, CONTROL = 1, 3  # llama.cpp's token types

_MARKERS = re.compile(
    r"<\|[^|<>\s]{1,48}\|>"  # <|eot_id|>, <|START_OF_TURN_TOKEN|>
    r"|<｜[^｜<>\s]{1,48}｜>"  # the same with full-width bars
    r"|</?(?:s|bos|eos|(?:start|end)_of_[a-z_]+)>"  # <s>, <end_of_turn>
    r"|\[/?[A-Z][A-Z_]{2,31}\]"  # [INST], [/TOOL_RESULTS]
)


class TokenizerError(ValueError):
    """A donor without a usable tokenizer; the message is one sentence."""


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """A tokenizer's metadata, keys as in a GGUF file (`tokenizer.ggml.tokens`, …)."""

    metadata: Mapping[str, Any]

    @property
    def tokens(self) -> list[str]:
        """The vocabulary, by token number."""
        tokens: list[str] = self.metadata[PREFIX + "tokens"]
        return tokens

    def with_markers(self, markers: Iterable[str]) -> Tokenizer:
        """The same with every marker a special token; those that the vocabulary has already stay as they are."""
        known = set(self.tokens)
        added = [marker for marker in dict.fromkeys(markers) if marker not in known]
        if not added:
            return self
        size = len(self.tokens)
        types = self.metadata.get(PREFIX + "token_type") or [NORMAL] * size
        changed = {PREFIX + "tokens": [*self.tokens, *added], PREFIX + "token_type": [*types, *[CONTROL] * len(added)]}
        if PREFIX + "scores" in self.metadata:
            changed[PREFIX + "scores"] = [*self.metadata[PREFIX + "scores"], *[0.0] * len(added)]
        return Tokenizer({**self.metadata, **changed})


@dataclass(frozen=True, slots=True)
class Donor:
    """Where a tokenizer comes from; reading it raises TokenizerError, GgufError or OSError."""

    name: str  # for people and for `tokenizer` in results
    digest: str  # of the content; of a GGUF file, of what tells that the file is the same
    read: Callable[[], Tokenizer]


def markers_in(text: str) -> list[str]:
    """The special tokens that a template's text names, in order, each once."""
    return list(dict.fromkeys(_MARKERS.findall(text)))


def from_gguf(path: Path) -> Donor:
    """Take the tokenizer of a GGUF file (an Ollama blob is one); nothing but its header is read."""
    status = path.stat()
    identity = f"{path.resolve()} {status.st_size} {status.st_mtime_ns}"
    return Donor(
        path.name, content_digest(identity.encode()), lambda: _tokenizer(read_metadata(path, _is_kept), str(path))
    )


def from_show(answer: Mapping[str, Any], name: str) -> Donor:
    """Take the tokenizer out of an answer of `/api/show` with `verbose`."""
    info = answer.get("model_info")
    metadata = {key: value for key, value in info.items() if _is_kept(key)} if isinstance(info, Mapping) else {}
    text = json.dumps(metadata, sort_keys=True)
    return Donor(name, content_digest(text.encode()), lambda: _tokenizer(metadata, f"the server's answer for {name}"))


def from_package() -> Donor | None:
    """Llama 3's tokenizer out of the package `llama-models`, None where that is not installed; never imports it."""
    spec = importlib.util.find_spec("llama_models")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder) / "llama3" / "tokenizer.model"
        if path.is_file():
            return from_ranks(path, "Llama 3 (llama-models)")
    return None


def from_ranks(path: Path, name: str) -> Donor:
    """Llama 3's tokenizer from a file of lines `BASE64 RANK`, as its authors publish it."""
    data = path.read_bytes()
    return Donor(name, content_digest(data), lambda: _llama3(data))


def byte_level(sample: str) -> Donor:
    """A vocabulary of our own: 256 bytes and what byte pair encoding learns from a sample of the prompts to come."""
    return Donor("byte-level", content_digest(b"byte-level " + sample.encode()), lambda: _learned(sample))


def content_digest(data: bytes) -> str:
    """What tells one content from another."""
    return hashlib.sha256(data).hexdigest()


def _is_kept(key: str) -> bool:
    # Other keys under `tokenizer.` are templates and copies for other programs.
    return key.startswith(PREFIX)


def _tokenizer(metadata: Mapping[str, Any], where: str) -> Tokenizer:
    tokens = metadata.get(PREFIX + "tokens")
    if not isinstance(tokens, list) or not tokens or not isinstance(metadata.get(PREFIX + "model"), str):
        raise TokenizerError(f"No tokenizer found in {where}.")
    return Tokenizer({key: value for key, value in metadata.items() if value is not None})


_LLAMA3_SPECIAL = (
    "<|begin_of_text|>",
    "<|end_of_text|>",
    "<|finetune_right_pad_id|>",
    "<|step_id|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eom_id|>",
    "<|eot_id|>",
    "<|python_tag|>",
    "<|image|>",
)


def _llama3(data: bytes) -> Tokenizer:
    ranked = [base64.b64decode(line.split()[0]) for line in data.splitlines() if line.strip()]
    plain = [shown_bytes(token) for token in ranked]
    begin = len(plain)
    return byte_pairs([*plain, *_LLAMA3_SPECIAL], len(_LLAMA3_SPECIAL), "llama-bpe", begin, begin + 7)


def byte_pairs(tokens: list[str], special: int, pre: str, begin: int, end: int) -> Tokenizer:
    """Byte pair encoding by rank: tokens as `shown_bytes` writes them, in the order of ranks, `special` ones last."""
    plain = tokens[: len(tokens) - special]
    known = set(plain)
    # Every split into two known tokens, in the order of ranks: then merging in this order is merging by rank.
    merges = [
        f"{token[:cut]} {token[cut:]}"
        for token in plain
        for cut in range(1, len(token))
        if token[:cut] in known and token[cut:] in known
    ]
    return _bpe(tokens, special, merges, pre, begin, end)


def shown_bytes(token: bytes) -> str:
    """A token of a byte-level vocabulary as its file shows it: a printable character for each byte."""
    return token.decode("latin-1").translate(_SHOWN)


def _bpe(tokens: list[str], special: int, merges: list[str], pre: str, begin: int, end: int) -> Tokenizer:
    return Tokenizer(
        {
            PREFIX + "model": "gpt2",
            PREFIX + "pre": pre,
            PREFIX + "tokens": tokens,
            PREFIX + "token_type": [NORMAL] * (len(tokens) - special) + [CONTROL] * special,
            PREFIX + "merges": merges,
            PREFIX + "bos_token_id": begin,
            PREFIX + "eos_token_id": end,
        }
    )


def _printable() -> dict[int, int]:
    """The printable character that stands for each byte in a byte-level vocabulary."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in printable]
    return {**{byte: byte for byte in printable}, **{byte: 256 + index for index, byte in enumerate(hidden)}}


_SHOWN = _printable()
_WORDS = re.compile(r" ?[A-Za-z]+| ?[0-9]+|\s+|[^\w\s]+")


def _learned(sample: str, merges: int = 600) -> Tokenizer:
    words = Counter(
        word.encode("utf-8", "surrogateescape").decode("latin-1").translate(_SHOWN) for word in _WORDS.findall(sample)
    )
    parts = {word: list(word) for word in sorted(words)}
    learned: list[tuple[str, str]] = []
    while len(learned) < merges:
        pairs: Counter[tuple[str, str]] = Counter()
        for word, pieces in parts.items():
            for pair in pairwise(pieces):
                pairs[pair] += words[word]
        if not pairs:
            break
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        learned.append(best)
        for pieces in parts.values():
            _merge(pieces, best)
    tokens = [*map(chr, _SHOWN.values()), *dict.fromkeys(first + second for first, second in learned), "<|end|>"]
    end = len(tokens) - 1
    learned_text = [f"{first} {second}" for first, second in learned]
    plain = _bpe(tokens, 1, learned_text, "gpt-2", end, end)
    return Tokenizer({**plain.metadata, PREFIX + "add_bos_token": False})


def _merge(pieces: list[str], pair: tuple[str, str]) -> None:
    """Join every occurrence of a pair, in place."""
    at = 0
    while at < len(pieces) - 1:
        if (pieces[at], pieces[at + 1]) == pair:
            pieces[at : at + 2] = [pair[0] + pair[1]]
        at += 1
