"""The stand-in model: a tokenizer with tiny layers of random weights behind it.

How much of a prompt a cache keeps depends on the tokenizer and on the kind of memory, not on what weights say; so a
model of a few megabytes measures the same as the real one, in seconds.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import random
import struct
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from templatefix.servers.gguf import Field, Kind, Tensor, gguf_bytes
from templatefix.servers.tokenizer import PREFIX, Donor, Tokenizer

CONTEXT = 131072  # tokens that the model claims to have been trained on
BLOCK = 32  # numbers of a block of Q8_0
WIDTH = BLOCK  # of the embedding: one block, the least that this type can hold
WINDOW = 512  # tokens that a layer with a sliding window sees
SEED = 20261129

Attention = Literal["full", "swa", "recurrent"]  # every token by itself, a sliding window, one state for all

_LAYOUT = 3  # counts up when the same donor would give another file
_F32, _Q8_0 = 0, 8
_SCALE = struct.pack("<e", 2.0**-10)  # of a block: weights within ±0.125


@dataclass(frozen=True, slots=True)
class Standin:
    """A stand-in model on disk."""

    path: Path
    tokenizer: str  # where the vocabulary came from, for people
    attention: Attention = "full"


def cache_folder() -> Path:
    """The folder for stand-ins: `templatefix/standins` in the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "templatefix" / "standins"


def make_standin(
    donor: Donor, markers: Iterable[str] = (), folder: Path | None = None, attention: Attention = "full"
) -> Standin:
    """Find or make the stand-in with a donor's tokenizer, in which every marker is one token.

    Raises what reading the donor raises, and OSError where the folder cannot be written.
    """
    markers = sorted(set(markers))
    key = hashlib.sha256("\n".join([str(_LAYOUT), attention, donor.digest, *markers]).encode()).hexdigest()
    folder = folder if folder is not None else cache_folder()
    path = folder / f"{key[:32]}.gguf"
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        _write_whole(path, standin_bytes(donor.read().with_markers(markers), attention))
    return Standin(path, donor.name, attention)


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


def standin_bytes(tokenizer: Tokenizer, attention: Attention = "full") -> bytes:
    """The GGUF file with this tokenizer and kind of memory; the same bytes for the same arguments."""
    vocabulary = len(tokenizer.tokens)
    shape = {"full": _llama, "swa": _gemma3, "recurrent": _mamba}[attention]()
    weights = _Weights(random.Random(SEED))
    embedding = [weights.matrix("token_embd.weight", vocabulary), weights.ones("output_norm.weight")]
    fields = {
        "general.architecture": Field(Kind.STRING, shape.name),
        "general.name": Field(Kind.STRING, "templatefix stand-in"),
        f"{shape.name}.context_length": Field(Kind.UINT32, CONTEXT),
        f"{shape.name}.embedding_length": Field(Kind.UINT32, WIDTH),
        f"{shape.name}.attention.layer_norm_rms_epsilon": Field(Kind.FLOAT32, 1e-5),
        f"{shape.name}.vocab_size": Field(Kind.UINT32, vocabulary),
        **{f"{shape.name}.{key}": Field(Kind.UINT32, value) for key, value in shape.numbers.items()},
        **_tokenizer_fields(tokenizer.metadata),
    }
    return gguf_bytes(fields, embedding + shape.tensors(weights))


@dataclass(frozen=True, slots=True)
class _Shape:
    """An architecture in its smallest form; the output is tied to the embedding."""

    name: str
    numbers: Mapping[str, int]
    tensors: Callable[[_Weights], list[Tensor]]


def _llama() -> _Shape:
    """One layer whose memory holds every token by itself."""
    numbers = {
        "block_count": 1,
        "feed_forward_length": WIDTH,
        "attention.head_count": 1,
        "attention.head_count_kv": 1,
        "rope.dimension_count": WIDTH,
    }
    return _Shape("llama", numbers, lambda weights: _layer(weights, 0, ("attn_norm", "ffn_norm")))


def _gemma3() -> _Shape:
    """A layer that sees a window alone and one that sees all; this family has five to one, which keeps no less."""
    numbers = {
        "block_count": 2,
        "feed_forward_length": WIDTH,
        "attention.head_count": 1,
        "attention.head_count_kv": 1,
        "attention.key_length": WIDTH,
        "attention.value_length": WIDTH,
        "attention.sliding_window": WINDOW,
        "attention.sliding_window_pattern": 2,
    }
    norms = ("attn_norm", "attn_q_norm", "attn_k_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm")

    def tensors(weights: _Weights) -> list[Tensor]:
        return [tensor for block in range(2) for tensor in _layer(weights, block, norms)]

    return _Shape("gemma3", numbers, tensors)


def _layer(weights: _Weights, block: int, norms: Iterable[str]) -> list[Tensor]:
    matrices = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
    return [
        *[weights.matrix(f"blk.{block}.{name}.weight", WIDTH) for name in matrices],
        *[weights.ones(f"blk.{block}.{name}.weight") for name in norms],
    ]


def _mamba() -> _Shape:
    """One layer with one state for all that was read: no token can be taken out of it again."""
    inner, states, ranks, kernel = 2 * WIDTH, 16, WIDTH, 4
    numbers = {
        "block_count": 1,
        "feed_forward_length": 0,
        "attention.head_count": 0,
        "ssm.conv_kernel": kernel,
        "ssm.inner_size": inner,
        "ssm.state_size": states,
        "ssm.time_step_rank": ranks,
    }

    def tensors(weights: _Weights) -> list[Tensor]:
        return [
            weights.ones("blk.0.attn_norm.weight"),
            weights.matrix("blk.0.ssm_in.weight", 2 * inner),
            weights.numbers("blk.0.ssm_conv1d.weight", (kernel, inner)),
            weights.numbers("blk.0.ssm_conv1d.bias", (inner,)),
            weights.matrix("blk.0.ssm_x.weight", ranks + 2 * states, inner),
            weights.matrix("blk.0.ssm_dt.weight", inner, ranks),
            weights.numbers("blk.0.ssm_dt.bias", (inner,)),
            weights.numbers("blk.0.ssm_a", (states, inner), -1.0),
            weights.numbers("blk.0.ssm_d", (inner,)),
            weights.matrix("blk.0.ssm_out.weight", WIDTH, inner),
        ]

    return _Shape("mamba", numbers, tensors)


class _Weights:
    """Random matrices in Q8_0, and plain numbers."""

    def __init__(self, source: random.Random) -> None:
        self._source = source

    def matrix(self, name: str, rows: int, columns: int = WIDTH) -> Tensor:
        """A matrix in Q8_0: blocks of a 16-bit scale and 32 signed bytes."""
        blocks = rows * columns // BLOCK
        size = 2 + BLOCK
        data = bytearray(blocks * size)
        data[0::size] = _SCALE[:1] * blocks
        data[1::size] = _SCALE[1:] * blocks
        noise = self._source.randbytes(blocks * BLOCK)
        for column in range(BLOCK):
            data[2 + column :: size] = noise[column::BLOCK]
        return Tensor(name, (columns, rows), _Q8_0, bytes(data))

    def ones(self, name: str) -> Tensor:
        """A norm that changes nothing."""
        return self.numbers(name, (WIDTH,), 1.0)

    def numbers(self, name: str, shape: tuple[int, ...], value: float = 0.1) -> Tensor:
        """The same number everywhere, in F32."""
        count = math.prod(shape)
        return Tensor(name, shape, _F32, struct.pack(f"<{count}f", *[value] * count))


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
