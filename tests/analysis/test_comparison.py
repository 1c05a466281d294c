"""Two templates compared as structure and as consequence."""

from __future__ import annotations

from typing import Any

import pytest

from templatefix.analysis.analyse import analyse
from templatefix.analysis.comparison import Comparison, LoopChange, Side, compare
from templatefix.analysis.outline import MAIN, Row, outline
from templatefix.chat.go import GoChatTemplate

TOOLS = "{{ if .Tools }}<tools>{{ range .Tools }}{{ . }}{{ end }}</tools>{{ end }}"
TURNS = "{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ range .ToolCalls }}{{ json .Function }}{{ end }}{{ end }}"
STABLE = TOOLS + TURNS
MOVING = (
    "{{ range $i, $m := .Messages }}<{{ .Role }}>"
    "{{ if and $.Tools (eq (len (slice $.Messages $i)) 1) }}{{ $.Tools }}{{ end }}{{ .Content }}"
    "{{ range .ToolCalls }}{{ json .Function }}{{ end }}{{ end }}"
)


def side(text: str) -> Side:
    template = GoChatTemplate(text)
    return Side(template, analyse(template))


def compared(before: str, after: str) -> Comparison:
    return compare(side(before), side(after))


def test_the_outline_leaves_blanks_and_comments_out() -> None:
    text = (
        '{{- if .System }}\n  a  b {{/* c */}}{{ else if .Tools }}{{ . }}{{ end }}{{ define "x" }}{{ break }}{{ end }}'
    )
    text = text.replace("{{ break }}", "z")
    assert outline(GoChatTemplate(text)) == {
        MAIN: (
            Row("{{if .System}}", 1),
            Row("a b", 1),
            Row("{{else}}", 2),
            Row("{{if .Tools}}", 2),
            Row("{{.}}", 2),
            Row("{{end}}", 2),
            Row("{{end}}", 2),
        ),
        "x": (Row("z", 2),),
    }


def test_layout_alone_is_no_change() -> None:
    found = compared(STABLE, STABLE.replace("{{ range .Messages }}", "{{/* turns */}}{{range   .Messages}}"))
    assert (found.outcome, found.structure, found.loops, found.consequences) == ("same", (), (), ())
    assert found.reason == "It was written anew, and nothing follows from that."
    assert compared(STABLE, STABLE).reason == "Nothing changed."


def test_a_template_made_worse() -> None:
    found = compared(STABLE, MOVING)
    assert (found.outcome, found.reason) == ("worse", "The verdict was stable and is unstable.")
    assert "Errors found now: TF101 tools-follow-last-message." in found.consequences
    assert LoopChange("single-call", 1, "kept", True, False) in found.loops
    assert any(change.before == Row("{{if .Tools}}", 1) for change in found.structure)
    assert "{{if and $.Tools (eq (len (slice $.Messages $i)) 1)}}" in [c.after.text for c in found.structure if c.after]


def test_the_way_back_is_better() -> None:
    found = compared(MOVING, STABLE)
    assert (found.outcome, found.reason) == ("better", "The verdict was unstable and is stable.")


@pytest.mark.parametrize(
    ("after", "outcome", "reason"),
    [
        (TURNS, "worse", "A server no longer takes the model to be able of tools."),
        (
            STABLE.replace("{{ . }}", "{{ .Function }}"),
            "worse",
            "Errors found now: TF301 go-struct-in-prompt.",
        ),
        (
            "{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}" + TOOLS,
            "worse",
            "The verdict was stable and is unstable.",
        ),
        ("{{ .Suffix }}" + STABLE, "better", "A server now takes the model to be able of insert."),
        (STABLE.replace("<tools>", "<functions>"), "same", "It was written anew, and nothing follows from that."),
    ],
)
def test_what_decides(after: str, outcome: str, reason: str) -> None:
    found = compared(STABLE, after)
    assert (found.outcome, found.reason) == (outcome, reason)


def test_words_of_the_prompt() -> None:
    found = compared(STABLE, STABLE.replace("</tools>", "</tools>\nAnswer at once.\n"))
    gone, come = found.prompt
    assert "Answer at once." in come
    assert "Answer at once." not in "".join(gone)
    assert [(change.kind, change.after) for change in found.structure] == [
        ("changed", Row("</tools> Answer at once.", 1))
    ]


def test_what_cannot_be_evaluated_is_never_clean() -> None:
    found = compare(side(STABLE), Side(None, None))
    assert (found.outcome, found.reason) == ("worse", "The verdict was stable and is not-evaluated.")


def test_qwen_coder_as_the_library_changed_it(corpus: dict[str, dict[str, Any]]) -> None:
    """From the template that printed tools as JSON to the library's, which prints each as a Go struct."""
    found = compared(
        corpus["sammcj-modelfile-qwen2.5-coder-2"]["template"], corpus["unsloth-qwen-25-coder"]["template"]
    )
    assert (found.outcome, found.reason) == ("worse", "Errors found now: TF301 go-struct-in-prompt.")
    assert any("{lumbrel_lookup " in line for line in found.prompt[1])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("hf-llama3.1-8b", "hkuds-configure-ollama-prompt-cache"),  # R01, R07
        ("unsloth-qwen-25-coder", "sammcj-modelfile-qwen2.5-coder-2"),  # R11
    ],
)
def test_cases_made_better(corpus: dict[str, dict[str, Any]], before: str, after: str) -> None:
    assert compared(corpus[before]["template"], corpus[after]["template"]).outcome == "better"
    assert compared(corpus[after]["template"], corpus[before]["template"]).outcome == "worse"
