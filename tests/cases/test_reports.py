"""Faults that people reported in public, with the right answer (numbers as in the shared list of cases)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from templatefix.analysis.analyse import Analysis, analyse
from templatefix.chat.go import GoChatTemplate

Check = Callable[[str], Analysis]
Corpus = dict[str, dict[str, Any]]


@pytest.fixture
def check(corpus: Corpus) -> Check:
    return lambda key: analyse(GoChatTemplate(corpus[key]["template"]))


def places(corpus: Corpus, key: str, found: Analysis) -> dict[str, list[str]]:
    """The text of each finding's span, by code."""
    data = corpus[key]["template"].encode()
    said: dict[str, list[str]] = {}
    for finding in found.findings:
        said.setdefault(finding.code, []).append(data[finding.span.start : finding.span.end].decode())
    return said


def test_r01_llama31(corpus: Corpus, check: Check) -> None:
    found = check("hf-llama3.1-8b")
    said = places(corpus, "hf-llama3.1-8b", found)
    assert found.verdict == "unstable"
    assert said["TF101"] == said["TF102"] == ["{{- if and $.Tools $last }}"]
    loop = next(run for run in found.loops if run.loop.name == "single-call")
    assert [step.tools for step in loop.steps] == [1, 0, 1, 0, 1]
    # The prompt before is kept nearly whole at the second main request; it is the new one that is read again.
    assert loop.steps[2].kept_bytes > 0.9 * loop.steps[1].prompt_bytes
    assert loop.steps[2].kept_bytes < 0.5 * loop.steps[2].prompt_bytes


def test_r02_mistral_small(corpus: Corpus, check: Check) -> None:
    said = places(corpus, "hf-mistral-small-24b", check("hf-mistral-small-24b"))
    gate = "{{- if and (le (len (slice $.Messages $index)) 2) $.Tools }}"
    assert said["TF101"] == said["TF102"] == [gate]


@pytest.mark.parametrize("key", ["unsloth-devstral", "gh-ministral-3"])
def test_r03_index_of_the_last_user_message(corpus: Corpus, check: Check, key: str) -> None:
    found = check(key)
    said = places(corpus, key, found)
    assert said["TF101"] == ["{{- if and (eq $lastUserIndex $index) $.Tools }}"]
    assert "TF102" not in said
    assert all(step.tools == 1 for run in found.loops if run.loop.core for step in run.steps)


def test_r04_first_message(check: Check) -> None:
    found = check("sammcj-modelfile-gemma-2")
    assert found.verdict == "stable"
    assert {finding.code for finding in found.findings} == {"TF301"}
    assert found.disagreement == ()


def test_r05_mistral_v03(corpus: Corpus, check: Check) -> None:
    said = places(corpus, "unsloth-mistral-v03", check("unsloth-mistral-v03"))
    assert said["TF101"] == ["{{- if and (eq (len (slice $.Messages $index)) 1) $.Tools }}"]
    assert said["TF201"] == ["{{ if and $.System (eq (len (slice $.Messages $index)) 1) }}"]


def test_r07_the_guide_s_variant(check: Check) -> None:
    found = check("hkuds-configure-ollama-prompt-cache")
    assert found.verdict == "stable"
    assert not [finding for finding in found.findings if finding.severity == "error"]


@pytest.mark.parametrize("key", ["sammcj-modelfile-qwen2.5-coder", "sammcj-modelfile-qwq", "hf-command-r7b-arabic-7b"])
def test_r11_go_struct(corpus: Corpus, check: Check, key: str) -> None:
    found = check(key)
    assert places(corpus, key, found)["TF301"] == ["{{ .Function }}"]
    assert [f.fixable for f in found.findings if f.code == "TF301"] == [True]


def test_r12_llama4(corpus: Corpus, check: Check) -> None:
    found = check("hf-llama4-latest")
    assert found.verdict == "broken"
    assert places(corpus, "hf-llama4-latest", found)["TF305"] == [".Tools"]
    failing = next(finding for finding in found.findings if finding.code == "TF305")
    assert "can't evaluate field Tools in type template.templateTools" in failing.message


def test_r14_empty_think_block(corpus: Corpus, check: Check) -> None:
    found = check("gh-copilot-qwen35-nothink-lastuser")
    assert places(corpus, "gh-copilot-qwen35-nothink-lastuser", found)["TF206"] == ["<think>\n\n</think>\n\n"]


@pytest.mark.parametrize("key", ["hf-llama3.1-8b", "ollama-testdata-qwen2.5", "hf-granite3.2-8b"])
def test_r15_late_system_message(check: Check, key: str) -> None:
    late = [finding for finding in check(key).findings if finding.code == "TF205"]
    assert [(f.severity, f.loop) for f in late] == [("warning", "late-system")]


def test_r16_command_r_plus(corpus: Corpus, check: Check) -> None:
    found = check("ollama-testdata-command-r-plus-2")
    assert found.verdict == "stable"
    assert places(corpus, "ollama-testdata-command-r-plus-2", found)["TF104"] == ["{{- if .Tools }}"]
    assert [f.severity for f in found.findings if f.code == "TF104"] == ["warning"]


@pytest.mark.parametrize("key", ["hf-mistral-7b", "ollama-testdata-firefunction", "ollama-testdata-xlam"])
def test_r17_two_calls_without_a_comma(check: Check, key: str) -> None:
    found = [finding for finding in check(key).findings if finding.code == "TF304"]
    assert [(f.severity, f.fixable) for f in found] == [("warning", False)]


def test_r18_xlam_drops_results(check: Check) -> None:
    assert [f.severity for f in check("ollama-testdata-xlam").findings if f.code == "TF302"] == ["error"]


@pytest.mark.parametrize("key", ["hf-llama3.1-8b", "hf-mistral-7b", "ollama-testdata-qwen3"])
def test_r19_text_or_call_lost(check: Check, key: str) -> None:
    assert [f.loop for f in check(key).findings if f.code == "TF303"] == ["text-with-call"]


def test_r20_question_label(corpus: Corpus, check: Check) -> None:
    assert places(corpus, "hf-llama3.1-8b", check("hf-llama3.1-8b"))["TF202"] == ["Question:"]


def test_r28_raw_string_with_braces(corpus: Corpus, check: Check) -> None:
    found = check("hf-deepseek-v3.1-latest")
    assert found.verdict == "stable"
    at = corpus["hf-deepseek-v3.1-latest"]["template"].encode().index(b"{{additional_tool_calls}}")
    assert not [finding for finding in found.findings if finding.span.start <= at < finding.span.end]


@pytest.mark.parametrize("key", ["hf-granite3.2-8b", "ollama-builtin-cohere2"])
def test_r29_last_of_the_tools(check: Check, key: str) -> None:
    found = check(key)
    assert found.verdict == "stable"
    assert found.disagreement == ()


def test_r30_tools_in_the_system_branch_of_the_loop(corpus: Corpus, check: Check) -> None:
    found = check("acon96-zephyr-legacy-ollama")
    assert found.verdict == "broken"
    assert places(corpus, "acon96-zephyr-legacy-ollama", found) == {"TF103": ['{{- if eq .Role "system" }}']}
