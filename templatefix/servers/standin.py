"""The stand-in model: a tokenizer with one tiny layer of random weights behind it.

How much of a prompt a cache keeps depends on the tokenizer and on the kind of attention, not on what weights say; so
a model of a few megabytes measures the same as the real one, in seconds.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import struct
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from templatefix.servers.gguf import Field, Kind, Tensor, gguf_bytes
from templatefix.servers.tokenizer import PREFIX, Donor, Tokenizer

CONTEXT = 131072  # tokens that the model claims to have been trained on
WIDTH = 32  # of the embedding: one block of Q8_0, the least that this type can hold
SEED = 20261129
_LAYOUT = 1  # counts up when the same donor would give another file
_F32, _Q8_0 = 0, 8
_SCALE = struct.pack("<e", 2.0**-10)  # of a block: weights within ±0.125


@dataclass(frozen=True, slots=True)
class Standin:
    """A stand-in model on disk."""

    path: Path
    tokenizer: str  # where the vocabulary came from, for people


def cache_folder() -> Path:
    """The folder for stand-ins: `templatefix/standins` in the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "templatefix" / "standins"


def make_standin(donor: Donor, markers: Iterable[str] = (), folder: Path | None = None) -> Standin:
    """Find or make the stand-in with a donor's tokenizer, in which every marker is one token.

    Raises what reading the donor raises, and OSError where the folder cannot be written.
    """
    markers = sorted(set(markers))
    key = hashlib.sha256("\n".join([str(_LAYOUT), donor.digest, *markers]).encode()).hexdigest()
    folder = folder if folder is not None else cache_folder()
    path = folder / f"{key[:32]}.gguf"
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        _write_whole(path, standin_bytes(donor.read().with_markers(markers)))
    return Standin(path, donor.name)


def _write_whole(path: Path, data: bytes) -> None:
    """Write a file so that others see all of it or nothing, two writers at once included."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.stem, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def standin_bytes(tokenizer: Tokenizer) -> bytes:
    """The GGUF file with this tokenizer; the same bytes for the same tokenizer."""
    fields = {
        "general.architecture": Field(Kind.STRING, "llama"),
        "general.name": Field(Kind.STRING, "templatefix stand-in"),
        "llama.block_count": Field(Kind.UINT32, 1),
        "llama.context_length": Field(Kind.UINT32, CONTEXT),
        "llama.embedding_length": Field(Kind.UINT32, WIDTH),
        "llama.feed_forward_length": Field(Kind.UINT32, WIDTH),
        "llama.attention.head_count": Field(Kind.UINT32, 1),
        "llama.attention.head_count_kv": Field(Kind.UINT32, 1),
        "llama.attention.layer_norm_rms_epsilon": Field(Kind.FLOAT32, 1e-5),
        "llama.rope.dimension_count": Field(Kind.UINT32, WIDTH),
        "llama.vocab_size": Field(Kind.UINT32, len(tokenizer.tokens)),
        **_tokenizer_fields(tokenizer.metadata),
    }
    return gguf_bytes(fields, _tensors(len(tokenizer.tokens)))


def _tensors(vocabulary: int) -> list[Tensor]:
    """One layer; the output is tied to the embedding."""
    source = random.Random(SEED)
    ones = struct.pack(f"<{WIDTH}f", *[1.0] * WIDTH)
    tensors = [_matrix("token_embd.weight", vocabulary, source), Tensor("output_norm.weight", (WIDTH,), _F32, ones)]
    for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
        tensors.append(_matrix(f"blk.0.{name}.weight", WIDTH, source))
    for name in ("attn_norm", "ffn_norm"):
        tensors.append(Tensor(f"blk.0.{name}.weight", (WIDTH,), _F32, ones))
    return tensors


def _matrix(name: str, rows: int, source: random.Random) -> Tensor:
    """A matrix of `rows` times WIDTH in Q8_0: blocks of a 16-bit scale and 32 signed bytes."""
    size = 2 + WIDTH
    data = bytearray(rows * size)
    data[0::size] = _SCALE[:1] * rows
    data[1::size] = _SCALE[1:] * rows
    noise = source.randbytes(rows * WIDTH)
    for column in range(WIDTH):
        data[2 + column :: size] = noise[column::WIDTH]
    return Tensor(name, (WIDTH, rows), _Q8_0, bytes(data))


_ARRAY_ITEMS = {
    "token_type": Kind.INT32,
    "scores": Kind.FLOAT32,
    "precompiled_charsmap": Kind.UINT8,
}


def _tokenizer_fields(metadata: Mapping[str, Any]) -> dict[str, Field]:
    return {key: _field(key, value) for key, value in metadata.items()}


def _field(key: str, value: Any) -> Field:
    """A value with the type that llama.cpp wants for it; JSON and other files may have held it as another."""
    if isinstance(value, bool):
        return Field(Kind.BOOL, value)
    if isinstance(value, str):
        return Field(Kind.STRING, value)
    if isinstance(value, list):
        default = Kind.STRING if value and isinstance(value[0], str) else Kind.INT32
        item = _ARRAY_ITEMS.get(key.removeprefix(PREFIX), default)
        if item == Kind.UINT8:
            value = [number & 0xFF for number in value]
        return Field(Kind.ARRAY, value, Kind.STRING if key == PREFIX + "merges" else item)
    return Field(Kind.FLOAT32, value) if isinstance(value, float) else Field(Kind.UINT32, value)
