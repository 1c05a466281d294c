"""A copy of a GGUF file with another chat template: its other metadata and its tensors stay as they are."""

from __future__ import annotations

import hashlib
import os
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from templatefix.servers.gguf import GgufError, GgufLayout, layout_of, read_metadata
from templatefix.servers.jinja_source import FOR_TOOLS, KEY, SPLIT

_FOR_TOOLS: Final = f"{KEY}.{FOR_TOOLS}"  # wins for requests with tools
_BLOCK: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class GgufCopy:
    """What was written."""

    path: Path
    key: str  # of the metadata that is new
    tensors: int
    sha256: str  # of the tensors' data, the same in both files


def copy_with_template(source: Path, target: Path, template: str, force: bool = False) -> GgufCopy:
    """Write `target`, whole or not at all, with `template` in the place of the source's own.

    The source is only read. Raises GgufError where it is damaged, is a part of a model, is the target itself, has no
    template, or where the copy does not hold the very same tensors; FileExistsError where there is a target already,
    unless forced; OSError.
    """
    if target.exists() and source.samefile(target):
        raise GgufError(f"{target} is the file itself, and that is never changed")
    if target.exists() and not force:
        raise FileExistsError(f"{target} exists already")
    told = read_metadata(source, lambda name: name in (_FOR_TOOLS, *SPLIT))
    number, count = (told.get(name, 0) for name in SPLIT)
    if isinstance(count, int) and count > 1:
        raise GgufError(
            f"{source} is part {number + 1} of {count}, and a part cannot be copied alone; "
            "llama-gguf-split --merge makes one file of them, or -o FILE writes the template for --chat-template-file"
        )
    key = _FOR_TOOLS if _FOR_TOOLS in told else KEY
    layout = layout_of(source, key)
    if source.stat().st_size <= layout.least:
        raise GgufError(f"{source} is cut short: tensors are missing")
    with source.open("rb") as data, _beside(target) as (out, name):
        before = _write(data, out, layout, template)
        out.close()
        made = Path(name)
        after = layout_of(made, key)
        if _tensors(made, after) != before or after.tensors != layout.tensors:
            raise GgufError(f"the tensors of the copy are not those of {source}")
        if read_metadata(made, lambda each: each == key)[key] != template:
            raise GgufError("the copy does not hold the new template")
        os.chmod(name, source.stat().st_mode & 0o777)
        os.replace(name, target)
    return GgufCopy(target, key, layout.tensors, before)


@contextmanager
def _beside(target: Path) -> Iterator[tuple[BinaryIO, str]]:
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".templatefix-", suffix=".gguf")
    try:
        with os.fdopen(handle, "wb") as out:
            yield out, name
    except BaseException:
        os.unlink(name)
        raise


def _write(data: BinaryIO, out: BinaryIO, layout: GgufLayout, template: str) -> str:
    """Copy the file with another value; returns the digest of the tensors' data."""
    text = template.encode("utf-8", "surrogateescape")
    head = data.read(layout.value.start) + struct.pack("<Q", len(text)) + text
    data.seek(layout.value.end)
    head += data.read(layout.head - layout.value.end)
    out.write(head + bytes(-len(head) % layout.alignment))
    data.seek(layout.data)
    digest = hashlib.sha256()
    while block := data.read(_BLOCK):
        digest.update(block)
        out.write(block)
    return digest.hexdigest()


def _tensors(path: Path, layout: GgufLayout) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as data:
        data.seek(layout.data)
        while block := data.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
