"""Templates that do not know `.Messages`, run once an exchange; expected values are real Go's by Ollama's rules."""

from __future__ import annotations

from typing import Any

import pytest
from support.oracle import Oracle

from templatefix.chat.go import GoChatTemplate
from templatefix.chat.rendering import RenderError
from templatefix.chat.request import Request

TWO_TURNS = [
    {"role": "system", "content": "S"},
    {"role": "user", "content": "U1"},
    {"role": "assistant", "content": "A1"},
    {"role": "user", "content": "U2"},
]
WITH_TOOL_AND_LATE_SYSTEM = [
    {"role": "user", "content": "U1"},
    {"role": "tool", "content": "T"},
    {"role": "user", "content": "U2"},
    {"role": "assistant", "content": "A"},
    {"role": "system", "content": "S1"},
    {"role": "system", "content": "S2"},
]
RENDERED = [
    ("<{{ .System }}|{{ .Prompt }}|{{ .Response }}>", TWO_TURNS, "<S|U1|A1><|U2|"),
    ("<{{ .System }}|{{ .Prompt }}|{{ .Response }}>", WITH_TOOL_AND_LATE_SYSTEM, "<|U2|A><S1\n\nS2||"),
    ("[{{ .Prompt }}]", TWO_TURNS, "[U1]A1[U2]"),
    ("{{ if .Prompt }}({{ .Prompt }}:{{ .Response }}){{ end }}!", TWO_TURNS, "(U1:A1)!(U2:"),
    ('{{ .Prompt }}{{ .Response | printf "%s" }}!', TWO_TURNS, "U1A1!U2"),
    ('{{ .Prompt }}{{ print .Response "x" }}!', TWO_TURNS, "U1A1x!U2"),
    ("{{ .Prompt }}{{ $.Response }}!", TWO_TURNS, "U1A1!U2!"),
    ("{{ .Prompt }}{{ .Response }}{{ json .Prompt }}", TWO_TURNS, 'U1A1"U1"U2'),
    ("{{ .Prompt }}{{ if .Response }}>{{ end }}{{ .Response }}<", TWO_TURNS, "U1>A1<U2"),
]
AT = 'template: :1:{}: executing "" at <{}>: {}'
FAILING = [
    (
        "{{ if .Prompt }}{{ .Response }}{{ else }}x{{ end }}",
        "interface conversion: parse.Node is nil, not *parse.ListNode",
    ),
    ("{{ json .Prompt }}{{ .Response }}", AT.format(3, "json", '"json" is not a defined function')),
    (
        '{{ define "u" }}{{ . }}{{ end }}{{ template "u" .Prompt }}{{ .Response }}',
        AT.format(44, '{{template "u" .Prompt}}', 'template "u" not defined'),
    ),
    (
        '{{ print .Response | printf "%s" .Response }}',
        AT.format(33, ".Response", "Response is not a method but has arguments"),
    ),
    ("{{ .Nope.x }}{{ .Response }}", AT.format(8, ".Nope.x", "nil pointer evaluating interface {}.x")),
    (
        "{{ (index .Messages 0).Content }}",
        AT.format(4, "index .Messages 0", "error calling index: index of untyped nil"),
    ),
]


@pytest.mark.parametrize(("template", "messages", "prompt"), RENDERED)
def test_renders(template: str, messages: list[dict[str, Any]], prompt: str) -> None:
    parsed = GoChatTemplate(template)
    assert parsed.legacy
    assert parsed.render(Request(tuple(messages))).text == prompt


@pytest.mark.parametrize(("template", "sentence"), FAILING)
def test_fails(template: str, sentence: str) -> None:
    parsed = GoChatTemplate(template)
    with pytest.raises(RenderError) as caught:
        parsed.render(Request(tuple(TWO_TURNS)))
    assert (caught.value.stage, caught.value.message) == ("exec", sentence)


def test_go_says_the_same(go_oracle: Oracle) -> None:
    for template, messages, prompt in RENDERED:
        answer = go_oracle.ask({"op": "chat", "template": template, "messages": messages})
        assert answer == {"ok": True, "output": prompt}, template
    for template, sentence in FAILING:
        answer = go_oracle.ask({"op": "chat", "template": template, "messages": TWO_TURNS})
        assert answer == {"ok": False, "stage": "exec", "error": sentence}, template
