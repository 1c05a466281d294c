"""GGUF files: metadata read from the header without touching a tensor, and small files written.

The `gguf` package does both as well, but takes seconds over a vocabulary of 128,000 tokens; here it is tenths.
Strings are `str` with bytes that are not UTF-8 as lone surrogates; arrays are lists.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

from templatefix.gotemplate.source import Span

MAGIC = b"GGUF"
ALIGNMENT = 32  # bytes; what readers assume where the file does not say


class GgufError(ValueError):
    """A file that is not GGUF, or whose header is cut or damaged; the message is one sentence."""


class Kind(IntEnum):
    """The type of a metadata value, by its number in the file."""

    UINT8 = 0
    INT8 = 1
    UINT16 = 2
    INT16 = 3
    UINT32 = 4
    INT32 = 5
    FLOAT32 = 6
    BOOL = 7
    STRING = 8
    ARRAY = 9
    UINT64 = 10
    INT64 = 11
    FLOAT64 = 12


_CODES = {
    Kind.UINT8: "B",
    Kind.INT8: "b",
    Kind.UINT16: "H",
    Kind.INT16: "h",
    Kind.UINT32: "I",
    Kind.INT32: "i",
    Kind.FLOAT32: "f",
    Kind.BOOL: "?",
    Kind.UINT64: "Q",
    Kind.INT64: "q",
    Kind.FLOAT64: "d",
}


@dataclass(frozen=True, slots=True)
class Field:
    """A typed metadata value to write; `item` is the type of an array's items."""

    kind: Kind
    value: Any
    item: Kind | None = None


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor to write: its data as the file holds it."""

    name: str
    shape: tuple[int, ...]  # innermost dimension first, as the file has it
    type: int  # ggml's number: 0 is F32, 8 is Q8_0
    data: bytes


def read_metadata(path: Path, wanted: Callable[[str], bool]) -> dict[str, Any]:
    """Read the metadata whose keys are wanted; raises GgufError, and OSError where the file cannot be read."""
    with path.open("rb") as file:
        if file.read(4) != MAGIC:
            raise GgufError(f"{path} is not a GGUF file.")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            try:
                return _Reader(data).metadata(wanted)
            except (struct.error, IndexError, OverflowError) as error:
                raise GgufError(f"The header of {path} is cut short.") from error
            except GgufError as error:
                raise GgufError(f"The header of {path} is damaged: {error}.") from error


@dataclass(frozen=True, slots=True)
class GgufLayout:
    """Where the parts of a file stand, in bytes."""

    value: Span  # of one string of the metadata, its length included
    head: int  # where the header ends
    data: int  # where the tensors' data begins: the header's end, aligned
    alignment: int
    tensors: int  # how many
    least: int  # the file is longer than this, or tensors are missing


def layout_of(path: Path, key: str) -> GgufLayout:
    """Find a string of the metadata and the tensors' data; raises GgufError, and OSError as `read_metadata`."""
    with path.open("rb") as file:
        if file.read(4) != MAGIC:
            raise GgufError(f"{path} is not a GGUF file.")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            try:
                return _Reader(data).layout(key)
            except (struct.error, IndexError, OverflowError) as error:
                raise GgufError(f"The header of {path} is cut short.") from error
            except GgufError as error:
                raise GgufError(f"The header of {path} is damaged: {error}.") from error


class _Reader:
    """A cursor over a mapped file; only the pages of the header are ever touched."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._at = 4

    def metadata(self, wanted: Callable[[str], bool]) -> dict[str, Any]:
        (version,) = self._take("<I")
        if version not in (2, 3):
            raise GgufError(f"version {version} is not known")
        _, count = self._take("<QQ")
        found: dict[str, Any] = {}
        for _ in range(count):
            key = self._string()
            (kind,) = self._take("<I")
            value = self._value(kind, wanted(key))
            if wanted(key):
                found[key] = value
        return found

    def layout(self, key: str) -> GgufLayout:
        (version,) = self._take("<I")
        if version not in (2, 3):
            raise GgufError(f"version {version} is not known")
        tensors, count = self._take("<QQ")
        value, alignment = None, ALIGNMENT
        for _ in range(count):
            name = self._string()
            (kind,) = self._take("<I")
            start = self._at
            found = self._value(kind, False)
            if name == key and kind == Kind.STRING:
                value = Span(start, self._at)
            elif name == "general.alignment" and isinstance(found, int) and found > 0:
                alignment = found
        if value is None:
            raise GgufError(f"it has no {key}")
        last = -1  # where the last tensor begins
        for _ in range(tensors):
            self._string()
            (dimensions,) = self._take("<I")
            last = max(last, self._take(f"<{dimensions}QIQ")[-1])
        head = self._at
        start = head + -head % alignment
        return GgufLayout(value, head, start, alignment, tensors, start + last)

    def _take(self, layout: str) -> tuple[Any, ...]:
        values = struct.unpack_from(layout, self._data, self._at)
        self._at += struct.calcsize(layout)
        return values

    def _string(self) -> str:
        (length,) = self._take("<Q")
        end = self._at + length
        if end > len(self._data):
            raise IndexError
        text = self._data[self._at : end].decode("utf-8", "surrogateescape")
        self._at = end
        return text

    def _value(self, kind: int, keep: bool) -> Any:
        if kind == Kind.STRING:
            return self._string()
        if kind == Kind.ARRAY:
            item, count = self._take("<IQ")
            return self._array(item, count, keep)
        (value,) = self._take("<" + _code(kind))
        return value

    def _array(self, item: int, count: int, keep: bool) -> list[Any]:
        if item == Kind.STRING:
            return self._strings(count, keep)
        if item == Kind.ARRAY:
            raise GgufError("it holds an array of arrays")
        layout = f"<{count}{_code(item)}"
        start, size = self._at, struct.calcsize(layout)
        if start + size > len(self._data):
            raise IndexError
        self._at += size
        return list(struct.unpack_from(layout, self._data, start)) if keep else []

    def _strings(self, count: int, keep: bool) -> list[str]:
        # The long loop of a header: a vocabulary and its merges are some 400,000 strings.
        data, at, limit = self._data, self._at, len(self._data)
        length_at = struct.Struct("<Q").unpack_from
        texts: list[str] = []
        for _ in range(count):
            start = at + 8
            at = start + length_at(data, at)[0]
            if at > limit:
                raise IndexError
            if keep:
                texts.append(data[start:at].decode("utf-8", "surrogateescape"))
        self._at = at
        return texts


def _code(kind: int) -> str:
    try:
        return _CODES[Kind(kind)]
    except (ValueError, KeyError):
        raise GgufError(f"a value has the unknown type {kind}") from None


def gguf_bytes(fields: Mapping[str, Field], tensors: Sequence[Tensor]) -> bytes:
    """Make a whole GGUF file (version 3) of metadata and tensors."""
    parts = [MAGIC, struct.pack("<IQQ", 3, len(tensors), len(fields))]
    for key, field in fields.items():
        parts += [_packed_string(key), struct.pack("<I", field.kind), _packed(field)]
    offset = 0
    for tensor in tensors:
        parts.append(_packed_string(tensor.name))
        parts.append(struct.pack(f"<I{len(tensor.shape)}Q", len(tensor.shape), *tensor.shape))
        parts.append(struct.pack("<IQ", tensor.type, offset))
        offset += _aligned(len(tensor.data))
    head = b"".join(parts)
    body = [head, bytes(_aligned(len(head)) - len(head))]
    for tensor in tensors:
        body += [tensor.data, bytes(_aligned(len(tensor.data)) - len(tensor.data))]
    return b"".join(body)


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _packed_string(text: str) -> bytes:
    data = text.encode("utf-8", "surrogateescape")
    return len(data).to_bytes(8, "little") + data


def _packed(field: Field) -> bytes:
    if field.kind == Kind.STRING:
        return _packed_string(field.value)
    if field.kind != Kind.ARRAY:
        return struct.pack("<" + _CODES[field.kind], field.value)
    if field.item is None:
        raise ValueError("An array needs the type of its items.")
    head = struct.pack("<IQ", field.item, len(field.value))
    if field.item == Kind.STRING:
        return head + b"".join([_packed_string(text) for text in field.value])
    return head + struct.pack(f"<{len(field.value)}{_CODES[field.item]}", *field.value)
