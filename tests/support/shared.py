"""Readers of the shared material: the corpus, the golden renders, the recordings."""

from __future__ import annotations

import functools
import gzip
import json
from pathlib import Path
from typing import Any

SHARED = Path(__file__).resolve().parents[3] / "shared"
GOLDEN_DATE = "2026-11-29"


def read_lines(name: str) -> list[dict[str, Any]]:
    """The objects of a file of JSON lines, packed or not; `name` is a path below the shared folder."""
    path = SHARED / name
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


@functools.cache
def corpus() -> dict[str, dict[str, Any]]:
    """The Go templates by id, in the order of the file."""
    return {row["id"]: row for row in read_lines("corpus/go_templates.jsonl")}


@functools.cache
def rejected() -> list[dict[str, Any]]:
    """Texts that Go's parser refuses, with Go's sentence in `error`."""
    return read_lines("corpus/go_rejected.jsonl")


@functools.cache
def jinja_corpus() -> dict[str, dict[str, Any]]:
    """The Jinja templates by id."""
    return {row["id"]: row for row in read_lines("corpus/jinja_templates.jsonl")}


@functools.cache
def golden() -> list[dict[str, Any]]:
    """The golden renders of the Go templates."""
    return read_lines("golden/renders.jsonl.gz")


@functools.cache
def jinja_golden() -> list[dict[str, Any]]:
    """The golden renders and capabilities of the Jinja templates."""
    return read_lines("golden/jinja_renders.jsonl.gz")


@functools.cache
def golden_requests() -> dict[tuple[str, int], dict[str, Any]]:
    """The requests that the golden renders name, by scenario and step."""
    rows = json.loads((SHARED / "golden/requests.json").read_text(encoding="utf-8"))
    return {(row["scenario"], row["step"]): row["request"] for row in rows}
