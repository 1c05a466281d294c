"""`templatefix explain`."""

from __future__ import annotations

from typing import Any

import pytest

CODES = [
    *("TF101", "TF102", "TF103", "TF104", "TF105"),
    *("TF201", "TF202", "TF203", "TF204", "TF205", "TF206"),
    *("TF301", "TF302", "TF303", "TF304", "TF305"),
    *("TF401", "TF402"),
]


@pytest.mark.parametrize("code", CODES)
def test_every_rule_has_a_page(templatefix: Any, code: str) -> None:
    done = templatefix("explain", code)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"{code} ")
    name = done.out.split()[1]
    assert templatefix("explain", name).out == templatefix("explain", code.lower()).out == done.out


def test_a_page_ends_with_what_is_known_in_public(templatefix: Any) -> None:
    page, known, references = templatefix("explain", "TF101").out.partition("\n\nKnown in public\n")
    assert known
    assert "Fix safety" in page
    places = [line.split(" — ")[0].strip() for line in references.splitlines() if " — " in line]
    assert places == ["HKUDS/nanobot#4867", "ollama/ollama#13334", "ollama/ollama#9680"]
    assert "Known in public" not in templatefix("explain", "TF103").out


def test_an_unknown_rule(templatefix: Any) -> None:
    done = templatefix("explain", "TF998")
    assert (done.code, done.out) == (2, "")
    assert done.err == f"templatefix: there is no rule TF998; there are {', '.join(CODES)}\n"
