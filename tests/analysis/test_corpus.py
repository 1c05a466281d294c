"""The verdict over the corpus, against what is known of each template."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from templatefix.analysis.analyse import Analysis, analyse
from templatefix.chat.go import GoChatTemplate

# The corpus was judged with thinking off and by the prompt's text; the contract's verdict differs for these.
THINKING_ONLY = {"sammcj-modelfile-qwen3", "sammcj-modelfile-qwen3-3", "gh-copilot-qwen36-not-tools-nothink"}
NO_SYSTEM_NO_TOOLS = {"acon96-zephyr-legacy-ollama", "sammcj-modelfile-gemma", "sammcj-modelfile-goose-toolshim"}
NEVER_PRINTED = {
    "ollama-test-server-images-l152",
    "ollama-test-server-images-l186",
    "ollama-test-server-images-l220",
    "ollama-test-model-capabilities-capabilities-l93",
    "ollama-test-model-capabilities-capabilities-l116",
    "ollama-test-template-template-l661",
    "ollama-test-template-template-l739",
    "ollama-test-template-template-l870",
}
FAILS = {
    "hf-llama4-latest",
    "gh-qwen3vl-tools-in-range",
    "sammcj-modelfile-goose-toolshim-2",
    "sammcj-modelfile-goose-toolshim-3",
}


@pytest.fixture(scope="module")
def checked(corpus: dict[str, dict[str, Any]]) -> dict[str, Analysis]:
    return {key: analyse(GoChatTemplate(row["template"])) for key, row in corpus.items() if row.get("class")}


def expected(key: str, row: dict[str, Any]) -> str:
    if key in NO_SYSTEM_NO_TOOLS | NEVER_PRINTED | FAILS:
        return "broken"
    if key in THINKING_ONLY:
        return "unstable"
    return "unstable" if row.get("prefix_stable") is False else "stable"


def test_verdicts(corpus: dict[str, dict[str, Any]], checked: dict[str, Analysis]) -> None:
    assert len(checked) == 140
    wrong = {
        key: (found.verdict, expected(key, corpus[key]))
        for key, found in checked.items()
        if found.verdict != expected(key, corpus[key])
    }
    assert wrong == {}
    assert Counter(found.verdict for found in checked.values()) == {"stable": 86, "unstable": 39, "broken": 15}


def test_thinking_alone_makes_three_unstable(corpus: dict[str, dict[str, Any]], checked: dict[str, Analysis]) -> None:
    for key in THINKING_ONLY:
        assert corpus[key]["prefix_stable"] is True
        assert [finding.code for finding in checked[key].findings if finding.severity == "error"][-1:] == ["TF202"]


def test_rendering_and_reading_agree(checked: dict[str, Analysis]) -> None:
    assert {key: found.disagreement for key, found in checked.items() if found.disagreement} == {}


def test_every_error_verdict_has_an_error_finding(checked: dict[str, Analysis]) -> None:
    for key, found in checked.items():
        errors = [finding.code for finding in found.findings if finding.severity == "error"]
        if found.verdict != "stable":
            assert errors, key
        else:
            assert set(errors) <= {"TF301", "TF302", "TF305"}, key


def test_no_stable_template_is_accused_of_moving(checked: dict[str, Analysis]) -> None:
    for key, found in checked.items():
        if found.verdict == "stable":
            moving = {f.code for f in found.findings if f.code < "TF203" and f.code != "TF104"}
            assert moving == set(), key


def test_the_gate_is_the_one_that_the_corpus_names(
    corpus: dict[str, dict[str, Any]], checked: dict[str, Analysis]
) -> None:
    for key, found in checked.items():
        if corpus[key]["class"] in ("B", "C"):
            row = corpus[key]
            data = row["template"].encode()
            gates = [data[f.span.start : f.span.end].decode() for f in found.findings if f.code == "TF101"]
            assert len(gates) == 1, key
            assert row["cond"] in gates[0], key
            assert gates[0].startswith("{{")


def test_templates_without_tools(corpus: dict[str, dict[str, Any]]) -> None:
    verdicts: Counter[str] = Counter()
    for row in corpus.values():
        if not row.get("class") and row["id"] != "ollama-test-template-template-l256":  # refused by Ollama itself
            found = analyse(GoChatTemplate(row["template"]))
            verdicts[found.verdict] += 1
            if found.verdict in ("stable", "unstable"):
                assert found.reason is not None
                assert found.reason.endswith("judged on chats")
    assert verdicts == {"stable": 402, "unstable": 9, "not-evaluated": 2}
