"""Verdicts, severities and what goes with a finding."""

from __future__ import annotations

import pytest

from templatefix.analysis.analyse import Analysis, analyse
from templatefix.chat.go import GoChatTemplate

PLAIN = "{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ json .ToolCalls }}{{ end }}"
MOVING = (
    "{{ range $i, $m := .Messages }}{{ $last := eq (len (slice $.Messages $i)) 1 }}<{{ .Role }}>\n"
    '{{ if eq .Role "user" }}\n'
    "{{- if and $.Tools $last }}\n"
    "Tools: {{ $.Tools }}\n"
    "Question: {{ .Content }}\n"
    "{{- else }}{{ .Content }}\n"
    "{{- end }}\n"
    "{{ else }}{{ .Content }}{{ json .ToolCalls }}{{ end }}{{ end }}"
)


def check(text: str, **options: tuple[str, ...]) -> Analysis:
    return analyse(GoChatTemplate(text), **options)


def codes(found: Analysis) -> list[str]:
    return [finding.code for finding in found.findings]


@pytest.mark.parametrize(
    ("text", "verdict", "reason"),
    [
        ("{{ json .Tools }}" + PLAIN, "stable", None),
        (PLAIN, "stable", "the template has no tools: judged on chats"),
        ("{{ .System }}{{ .Prompt }}{{ .Response }}", "stable", "a legacy template never sees tools: judged on chats"),
        ("{{ .Prompt }}", "stable", "a legacy template never sees tools: judged on chats"),
        ("", "stable", "a legacy template never sees tools: judged on chats"),
        (MOVING, "unstable", None),
        (
            "{{ range $i, $m := .Messages }}"
            "{{ if eq (len (slice $.Messages $i)) 1 }}Last: {{ end }}{{ .Content }}{{ end }}",
            "unstable",
            "the template has no tools: judged on chats",
        ),
        (
            "{{ if .System }}{{ json .Tools }}{{ end }}" + PLAIN,
            "broken",
            "the tool definitions are in no prompt of the loop no-system",
        ),
        (
            "{{ if .Tools }}yes{{ end }}" + PLAIN,
            "broken",
            "the tool definitions are in no prompt of the loop single-call",
        ),
    ],
)
def test_verdicts(text: str, verdict: str, reason: str | None) -> None:
    found = check(text)
    assert (found.verdict, found.reason) == (verdict, reason)


def test_a_template_that_fails_with_calls_is_broken() -> None:
    found = check(
        "{{ json .Tools }}{{ range .Messages }}{{ .Content }}{{ range .ToolCalls }}{{ .Name }}{{ end }}{{ end }}"
    )
    assert found.verdict == "broken"
    assert found.reason is not None
    assert "can't evaluate field Name" in found.reason


def test_a_template_that_always_fails_is_not_evaluated() -> None:
    found = check("{{ range .Messages }}{{ .Nope }}{{ end }}{{ .Tools }}")
    assert found.verdict == "not-evaluated"
    assert found.reason is not None
    assert "can't evaluate field Nope" in found.reason


def test_the_llama_kind() -> None:
    template = GoChatTemplate(MOVING)
    found = analyse(template)
    gate = "{{- if and $.Tools $last }}"
    assert [(f.code, template.source.slice(f.span), f.severity) for f in found.findings if f.code < "TF203"] == [
        ("TF101", gate, "error"),
        ("TF102", gate, "error"),
        ("TF202", "Question:", "error"),
    ]
    first = found.findings[0]
    assert (first.loop, first.step) == ("single-call", 1)
    assert first.cost is not None
    assert first.cost.steps_without_tools == 2
    assert first.cost.kept_bytes < first.cost.prompt_bytes
    assert found.disagreement == ()


def test_select_and_ignore() -> None:
    assert set(codes(check(MOVING, select=("TF101",)))) == {"TF101"}
    assert "TF101" not in codes(check(MOVING, ignore=("TF1",)))
    assert codes(check(MOVING, select=("TF2",), ignore=("TF202",))) == []


def test_a_loop_is_looked_for_where_the_fixed_ones_show_nothing() -> None:
    text = "{{ json .Tools }}{{ if gt (len .Messages) 200 }}This is getting long.{{ end }}" + PLAIN
    found = check(text)
    assert found.verdict == "unstable"
    assert "around-200-messages" in [run.loop.name for run in found.loops]
    assert found.disagreement == ()


def test_small_numbers_do_not_hide_a_large_one() -> None:
    small = "".join([f"{{{{ if eq $i {number} }}}}{{{{ end }}}}" for number in range(5, 10)])
    text = "{{ if lt (len .Messages) 150 }}{{ json .Tools }}{{ end }}{{ range $i, $m := .Messages }}" + small
    text += "<{{ .Role }}>{{ .Content }}{{ range .ToolCalls }}{{ json .Function }}{{ end }}{{ end }}"
    found = check(text)
    assert found.verdict == "unstable"
    assert "around-150-messages" in [run.loop.name for run in found.loops]


def test_a_dependence_that_no_loop_shows_is_said() -> None:
    text = (
        "{{ json .Tools }}{{ $odd := false }}"
        '{{ range .Messages }}{{ if eq .Content "xyzzy" }}{{ $odd = true }}{{ end }}{{ end }}'
        "{{ if $odd }}Odd.{{ end }}" + PLAIN
    )
    found = check(text)
    assert found.verdict == "stable"
    assert found.disagreement == ("line 1 depends on later messages as it reads, but no loop shows it",)


def test_what_a_named_template_prints_stands_under_the_conditions_of_its_call() -> None:
    found = check(
        '{{ define "tools" }}<tools>{{ .Tools }}</tools>{{ end }}'
        '{{ range $i, $m := .Messages }}<{{ .Role }}>{{ if eq (len (slice $.Messages $i)) 1 }}{{ template "tools" $ }}'
        "{{ end }}{{ .Content }}{{ end }}"
    )
    assert found.verdict == "unstable"
    assert found.disagreement == ()


def test_a_change_that_the_text_does_not_explain_is_said_once() -> None:
    # The last message is printed apart, so that the first loop does not print what the second part did.
    found = check(
        "{{ json .Tools }}{{ range $i, $m := .Messages }}{{ if le (len (slice $.Messages $i)) 1 }}{{ break }}{{ end }}"
        "<{{ .Role }}>{{ .Content }}{{ end }}"
        "{{ $last := 0 }}{{ range $i, $m := .Messages }}{{ $last = $i }}{{ end }}"
        "{{ with index .Messages $last }}(({{ .Content }})){{ end }}"
    )
    assert found.verdict == "unstable"
    (sentence,) = found.disagreement
    assert sentence.startswith("line 1 changes on the loops single-call, ")
    assert sentence.endswith(", but its text does not say why")


def test_warnings_do_not_make_a_template_unstable() -> None:
    found = check(
        "{{ .System }}{{ json .Tools }}{{ json .Tools }}{{ range .Messages }}<{{ .Content }}>{{ end }}<assistant>\n\n"
    )
    assert found.verdict == "stable"
    assert {f.code: f.severity for f in found.findings} == {
        "TF105": "warning",
        "TF205": "warning",
        "TF206": "info",
        "TF303": "warning",
    }


def test_line_ends_and_a_mark_of_order_are_no_matter() -> None:
    for text in (MOVING.replace("\n", "\r\n"), "\ufeff" + MOVING):
        found = check(text)
        assert found.verdict == "unstable"
        assert "TF101" in codes(found)
