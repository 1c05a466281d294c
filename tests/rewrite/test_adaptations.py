"""Changes that are made only when they are asked for by code."""

from __future__ import annotations

import pytest

from templatefix.chat.go import GoChatTemplate
from templatefix.rewrite.patch import patch
from templatefix.rewrite.result import PatchResult

TEMPLATE = """{{- if or .System .Tools }}<s>{{ .System }}{{ range .Tools }}
{{ . }}{{ end }}</s>{{ end }}
{{- range .Messages }}
{{- if eq .Role "user" }}<u>{{ .Content }}</u>
{{- else if eq .Role "assistant" }}<a>ASSISTANT</a>
{{- else if eq .Role "ROLE" }}<r>{{ .Content }}</r>
{{- end }}
{{- end }}"""
GOOD_ASSISTANT = "{{ .Content }}{{ range .ToolCalls }}{{ json .Function }}{{ end }}"
CALLS = "{{ range .ToolCalls }}{{ json .Function }}{{ end }}"
EITHER = "{{ if .Content }}{{ .Content }}{{ else if .ToolCalls }}" + CALLS + "{{ end }}"
CALLS_FIRST = "{{ if .ToolCalls }}" + CALLS + "{{ else }}\n{{ .Content }}{{ end }}"
LIST = "{{ .Content }}{{ if .ToolCalls }}[" + CALLS + "]{{ end }}"


def adapted(assistant: str, role: str, code: str) -> tuple[str, PatchResult]:
    text = TEMPLATE.replace("ASSISTANT", assistant).replace("ROLE", role)
    return text, patch(GoChatTemplate(text), select=[code])


@pytest.mark.parametrize(
    ("assistant", "role", "code", "old", "new"),
    [
        (
            GOOD_ASSISTANT,
            "observation",
            "TF302",
            'if eq .Role "observation"',
            'if or (eq .Role "observation") (and $.Tools (eq "tool" .Role))',
        ),
        (
            EITHER,
            "tool",
            "TF303",
            "{{ else if .ToolCalls }}",
            "{{ end }}{{ if and .ToolCalls (or $.Tools (not .Content)) }}",
        ),
        (
            CALLS_FIRST,
            "tool",
            "TF303",
            "{{ if .ToolCalls }}",
            "{{ if .ToolCalls }}{{ if and $.Tools .Content }}\n{{ .Content }}{{ end }}",
        ),
        (
            LIST,
            "tool",
            "TF304",
            "[{{ range .ToolCalls }}",
            "[{{ range $i, $_ := .ToolCalls }}{{ if and $.Tools $i }}, {{ end }}",
        ),
    ],
)
def test_made_when_named(assistant: str, role: str, code: str, old: str, new: str) -> None:
    text, result = adapted(assistant, role, code)
    assert result.applied == (code,), result.refused
    assert result.template == text.replace(old, new)
    assert result.proof.holds


@pytest.mark.parametrize(
    ("assistant", "role", "code"),
    [(GOOD_ASSISTANT, "observation", "TF302"), (EITHER, "tool", "TF303"), (LIST, "tool", "TF304")],
)
def test_never_made_unasked(assistant: str, role: str, code: str) -> None:
    text = TEMPLATE.replace("ASSISTANT", assistant).replace("ROLE", role)
    result = patch(GoChatTemplate(text))
    assert not result.changed
    assert result.refused == ()
    assert code in {finding.code for finding in result.remaining}


def test_refused_where_no_arm_takes_results() -> None:
    text, result = adapted(GOOD_ASSISTANT, "assistant_call", "TF302")
    assert result.template == text
    assert [(refusal.code, refusal.reason) for refusal in result.refused] == [
        ("TF302", "no arm prints results under another role")
    ]


def test_refused_where_the_tool_call_tag_would_change() -> None:
    text, result = adapted(CALLS_FIRST.replace("{{ range", "CALLS{{ range"), "tool", "TF303")
    assert result.template == text
    assert [(refusal.code, refusal.reason) for refusal in result.refused] == [
        ("TF303", "the tool-call tag was 'CALLS' and would be '{'")
    ]
