"""Small templates of our own, one a layout."""

from __future__ import annotations

from pathlib import Path

import pytest

LAYOUTS = Path(__file__).parent / "layouts"


@pytest.fixture(params=sorted(path.stem for path in LAYOUTS.glob("*.tmpl")))
def layout(request: pytest.FixtureRequest) -> str:
    """The text of each layout in turn."""
    return (LAYOUTS / f"{request.param}.tmpl").read_text(encoding="utf-8")
