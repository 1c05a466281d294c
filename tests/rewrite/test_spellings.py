"""One fault in many spellings: each is mended, with a full proof."""

from __future__ import annotations

import pytest

from templatefix.chat.go import GoChatTemplate
from templatefix.rewrite.patch import patch

HEAD = """{{- if or .System .Tools }}<|head|>system<|/head|>
{{- if .System }}

{{ .System }}
{{- end }}
{{- if .Tools }}

You can call tools.
{{- end }}<|eot|>
{{- end }}
"""
TAIL = """
{{- else if eq .Role "assistant" }}<|head|>assistant<|/head|>
{{- if .ToolCalls }}
{{ range .ToolCalls }}
{"name": "{{ .Function.Name }}", "parameters": {{ .Function.Arguments }}}{{ end }}
{{- else }}

{{ .Content }}
{{- end }}<|eot|>
{{- else if eq .Role "tool" }}<|head|>result<|/head|>

{{ .Content }}<|eot|>
{{- end }}
{{- end }}<|head|>assistant<|/head|>

"""
LOOP = "{{- range $i, $m := .Messages }}\n"
LAST = "{{- $last := eq (len (slice $.Messages $i)) 1 }}\n"
TOOLS = """

Pick from these tools:

{{ range $.Tools }}
{{- . }}
{{ end }}"""
USER = '{{- if eq .Role "user" }}<|head|>user<|/head|>\n'


def gated(condition: str, before: str = "", loop: str = LOOP) -> str:
    """The usual if/else under a condition."""
    return (
        HEAD
        + loop
        + before
        + USER
        + "{{- if "
        + condition
        + " }}"
        + TOOLS
        + "\nQuestion: {{ .Content }}<|eot|>\n{{- else }}\n\n{{ .Content }}<|eot|>\n{{- end }}"
        + TAIL
    )


COUNTED = "{{- $n := len .Messages }}\n" + LOOP
CONDITIONS = {
    "last and tools": gated("and $last $.Tools", LAST),
    "inline": gated("and $.Tools (eq (len (slice $.Messages $i)) 1)"),
    "operands swapped": gated("and (eq 1 (len (slice $.Messages $i))) $.Tools"),
    "less than": gated("and $.Tools (lt (len (slice $.Messages $i)) 2)"),
    "not greater": gated("and $.Tools (not (gt (len (slice $.Messages $i)) 1))"),
    "at most two": gated("and $.Tools (le (len (slice $.Messages $i)) 2)"),
    "greater, swapped": gated("and $.Tools (ge 2 (len (slice $.Messages $i)))"),
    "one or two": gated("and (or (eq (len (slice $.Messages $i)) 1) (eq (len (slice $.Messages $i)) 2)) $.Tools"),
    "length variable": gated("and $.Tools (eq $left 1)", "{{- $left := len (slice $.Messages $i) }}\n"),
    "two variables": gated(
        "and $.Tools $last", "{{- $left := len (slice $.Messages $i) }}{{- $last := eq $left 1 }}\n"
    ),
    "one variable for both": gated("$show", LAST + "{{- $show := and $.Tools $last }}\n"),
    "length of tools": gated("and (gt (len $.Tools) 0) $last", LAST),
    "has tools": gated("and $has $last", LAST, "{{- $has := gt (len .Tools) 0 }}\n" + LOOP),
    "nested and": gated("and (and $last true) (and $.Tools)", LAST),
    "default and change": gated(
        "and $.Tools $last",
        "{{- $last := false }}{{- if eq (len (slice $.Messages $i)) 1 }}{{- $last = true }}{{- end }}\n",
    ),
    "looks ahead": gated(
        "and $.Tools $final",
        "{{- $final := true }}{{- range $j, $x := slice $.Messages $i }}"
        '{{- if and (gt $j 0) (eq $x.Role "user") }}{{- $final = false }}{{- end }}{{- end }}\n',
    ),
    "last index by loop": gated(
        "and $.Tools (eq $i $end)",
        "",
        "{{- $end := 0 }}{{- range $i, $_ := .Messages }}{{- $end = $i }}{{- end }}\n" + LOOP,
    ),
    "last user index": gated(
        "and $.Tools (eq $i $end)",
        "",
        "{{- $end := 0 }}{{- range $i, $m := .Messages }}"
        '{{- if eq $m.Role "user" }}{{- $end = $i }}{{- end }}{{- end }}\n' + LOOP,
    ),
    "last index by length": gated("and $.Tools (eq $i (len (slice $.Messages 1)))"),
}

ARMS = {
    "arms swapped": HEAD
    + LOOP
    + LAST
    + USER
    + "{{- if not (and $.Tools $last) }}\n\n{{ .Content }}<|eot|>\n{{- else }}"
    + TOOLS
    + "\n{{ .Content }}<|eot|>\n{{- end }}"
    + TAIL,
    "arms swapped by or": HEAD
    + LOOP
    + LAST
    + USER
    + "{{- if or (not $.Tools) (not $last) }}\n\n{{ .Content }}<|eot|>\n{{- else }}"
    + TOOLS
    + "\n{{ .Content }}<|eot|>\n{{- end }}"
    + TAIL,
    "arm of its own": HEAD
    + LOOP
    + LAST
    + '{{- if and (eq .Role "user") $.Tools $last }}<|head|>user<|/head|>'
    + TOOLS
    + '\n{{ .Content }}<|eot|>\n{{- else if eq .Role "user" }}<|head|>user<|/head|>\n\n{{ .Content }}<|eot|>'
    + TAIL,
    "second of three arms": HEAD
    + LOOP
    + LAST
    + USER
    + "{{- if not $.Tools }}\n\n{{ .Content }}<|eot|>\n{{- else if $last }}"
    + TOOLS
    + "\n{{ .Content }}<|eot|>\n{{- else }}\n\n{{ .Content }}<|eot|>\n{{- end }}"
    + TAIL,
    "nested ifs": HEAD
    + LOOP
    + LAST
    + USER
    + "{{- if $last }}{{ if $.Tools }}"
    + TOOLS
    + "{{ end }}{{ end }}\n\n{{ .Content }}<|eot|>"
    + TAIL,
    "with": HEAD
    + LOOP
    + LAST
    + USER
    + "{{- if $last }}{{ with $.Tools }}\n\nPick from these tools:\n\n{{ . }}{{ end }}{{ end }}"
    + "\n\n{{ .Content }}<|eot|>"
    + TAIL,
    "behind the text": HEAD
    + LOOP
    + LAST
    + USER
    + "\n\n{{ .Content }}{{ if and $last $.Tools }}"
    + TOOLS
    + "{{ end }}<|eot|>"
    + TAIL,
    "two complementary ifs": HEAD
    + LOOP
    + LAST
    + USER
    + "{{- if and $.Tools $last }}"
    + TOOLS
    + "\n{{ .Content }}<|eot|>{{ end }}{{ if not (and $.Tools $last) }}\n\n{{ .Content }}<|eot|>{{ end }}"
    + TAIL,
    "with results too": HEAD
    + LOOP
    + LAST
    + USER
    + "{{- if and $.Tools $last }}"
    + TOOLS
    + "{{ end }}\n\n{{ .Content }}<|eot|>"
    + TAIL.replace(
        "<|head|>result<|/head|>\n", "<|head|>result<|/head|>\n{{- if and $.Tools $last }}" + TOOLS + "{{ end }}\n"
    ),
    "named template": '{{ define "tools" }}'
    + TOOLS
    + "{{ end }}"
    + HEAD
    + LOOP
    + LAST
    + USER
    + '{{- if and $.Tools $last }}{{ template "tools" $ }}{{ end }}\n\n{{ .Content }}<|eot|>'
    + TAIL,
    "tools in a variable": "{{- $all := .Tools }}"
    + HEAD
    + LOOP
    + LAST
    + USER
    + "{{- if and $all $last }}\n\nPick from these tools:\n{{ $all }}{{ end }}\n\n{{ .Content }}<|eot|>"
    + TAIL,
    "messages in a variable": "{{- $all := .Messages }}"
    + HEAD
    + LOOP.replace(".Messages", "$all")
    + LAST.replace("$.Messages", "$all")
    + USER
    + "{{- if and $.Tools $last }}"
    + TOOLS
    + "{{ end }}\n\n{{ .Content }}<|eot|>"
    + TAIL,
    "message variable": HEAD
    + LOOP
    + LAST
    + USER.replace(".Role", "$m.Role")
    + "{{- if and $.Tools $last }}"
    + TOOLS
    + "\nQuestion: {{ $m.Content }}<|eot|>\n{{- else }}\n\n{{ $m.Content }}<|eot|>\n{{- end }}"
    + TAIL,
}


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in {**CONDITIONS, **ARMS}.items()])
def test_tools_go_to_the_system_block(text: str) -> None:
    result = patch(GoChatTemplate(text))
    assert result.changed, result.refused
    assert result.placement == "system"
    assert result.proof.holds
    assert not result.refused
    assert patch(GoChatTemplate(result.template)).changed is False


WITH_USERS = {name: text for name, text in {**CONDITIONS, **ARMS}.items() if name != "with results too"}


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in WITH_USERS.items()])
def test_tools_go_to_the_first_user_message(text: str) -> None:
    result = patch(GoChatTemplate(text), placement="first-user")
    assert result.changed, result.refused
    assert result.placement == "first-user"
    assert result.proof.holds


def test_a_history_cut_to_no_user_turn_must_not_lose_the_tools() -> None:
    result = patch(GoChatTemplate(ARMS["with results too"]), placement="first-user")
    assert not result.changed
    assert result.template == ARMS["with results too"]
    assert "loop cut-history, step 3: the tools stand 0 times" in result.refused[0].reason


@pytest.mark.parametrize("gate", ["with (slice (slice $.Messages $i) 1)", "if gt (len (slice $.Messages $i)) 1"])
def test_tools_in_the_else_arm_take_one_edit(gate: str) -> None:
    """The condition is turned round at once, not wrapped again and again."""
    text = (
        "{{ range $i, $m := .Messages }}<{{ .Role }}>"
        '{{ if eq .Role "user" }}{{ GATE }}{{ else }}{{ if $.Tools }}[{{ $.Tools }}]\n{{ end }}{{ end }}{{ end }}'
        "{{ .Content }}{{ range .ToolCalls }}{{ .Function.Name }}{{ .Function.Arguments }}{{ end }}</{{ .Role }}>\n"
        "{{ end }}<assistant>"
    ).replace("GATE", gate)
    result = patch(GoChatTemplate(text), placement="first-user")
    assert result.changed
    assert "(and $.Tools (not (eq $i $first)))" in result.template
    assert "$first2" not in result.template
