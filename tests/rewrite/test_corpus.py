"""Every tool template of the corpus: mended with a full proof, or refused for a reason."""

from __future__ import annotations

from typing import Any

import pytest

from templatefix.analysis.analyse import analyse
from templatefix.chat.go import GoChatTemplate
from templatefix.rewrite.patch import patch

PARTS = 8

# Strings of a server's tests that name tools and print none: nothing says where they would belong.
NO_DEFINITIONS = {
    "ollama-test-server-images-l152",
    "ollama-test-server-images-l186",
    "ollama-test-server-images-l220",
    "ollama-test-template-template-l661",
    "ollama-test-template-template-l739",
    "ollama-test-template-template-l870",
    "ollama-test-model-capabilities-capabilities-l93",
    "ollama-test-model-capabilities-capabilities-l116",
}


@pytest.mark.parametrize("part", range(PARTS))
def test_all_are_mended(corpus: dict[str, dict[str, Any]], part: int) -> None:
    ids = [name for name, row in corpus.items() if row["tools"]][part::PARTS]
    assert len(ids) > 10
    for name in ids:
        template = GoChatTemplate(corpus[name]["template"])
        before = analyse(template)
        result = patch(template)
        if name in NO_DEFINITIONS:
            assert "prints no tool definitions" in result.refused[0].reason
            assert result.template == template.source.text
            continue
        assert result.refused == (), name
        assert result.changed or before.verdict == "stable", name
        if not result.changed:
            continue
        assert result.proof.holds, name
        after = analyse(GoChatTemplate(result.template))
        assert after.verdict == "stable", name
        assert not after.disagreement, name
        assert {f.code for f in after.findings if f.severity == "error"} <= {"TF302"}, name


@pytest.mark.parametrize("part", range(PARTS))
def test_all_that_move_can_be_fixed_at_the_first_user_message(corpus: dict[str, dict[str, Any]], part: int) -> None:
    ids = [name for name, row in corpus.items() if row.get("prefix_stable") is False and row["class"] in "BCD"]
    assert len(ids) == 35
    for name in ids[part::PARTS]:
        result = patch(GoChatTemplate(corpus[name]["template"]), placement="first-user")
        assert result.changed, (name, result.refused)
        assert result.placement == "first-user"
        assert result.proof.holds
