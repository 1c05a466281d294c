"""A system block in any of its spellings takes the tools in: there is one system turn, not two."""

from __future__ import annotations

import pytest

from templatefix.chat.go import GoChatTemplate
from templatefix.chat.request import Request
from templatefix.rewrite.patch import patch

LOOP = (
    '{{ range $i, $m := .Messages }}{{ if eq .Role "user" }}<turn>user\n'
    "{{ if and $.Tools (eq (len (slice $.Messages $i)) 1) }}At hand:\n{{ range $.Tools }}{{ . }}\n{{ end }}\n{{ end }}"
    '{{ .Content }}<end>\n{{ else if eq .Role "assistant" }}<turn>assistant\n{{ .Content }}'
    '{{ range .ToolCalls }}{{ json .Function }}{{ end }}<end>\n{{ else if eq .Role "tool" }}<turn>result\n'
    "{{ .Content }}<end>\n{{ end }}{{ end }}<turn>assistant\n"
)
TOOLS = ({"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}},)
USER = {"role": "user", "content": "hello"}
SYSTEM = {"role": "system", "content": "Be kind."}
DEFAULT = "You help."

BLOCKS = {
    "if": ("{{ if .System }}<turn>system\n{{ .System }}<end>\n{{ end }}", ""),
    "with": ("{{ with .System }}<turn>system\n{{ . }}<end>\n{{ end }}", ""),
    "with, trimmed": ("{{- with .System }}<turn>system\n{{ . }}<end>\n{{- end }}\n", ""),
    "with, named": ("{{ with $said := .System }}<turn>system\n{{ $said }}<end>\n{{ end }}", ""),
    "with, of the request": ("{{ with .System }}<turn>system\n{{ $.System }}<end>\n{{ end }}", ""),
    "with and else": (
        "{{ with .System }}<turn>system\n{{ . }}<end>\n{{ else }}<turn>system\n"
        f"{DEFAULT}<end>\n{{{{ end }}}}",
        DEFAULT,
    ),
    "else": (
        "{{ if .System }}<turn>system\n{{ .System }}<end>\n{{ else }}<turn>system\n"
        f"{DEFAULT}<end>\n{{{{ end }}}}",
        DEFAULT,
    ),
    "else if tools": (
        "{{ if .System }}<turn>system\n{{ .System }}<end>\n{{ else if .Tools }}<turn>system\n"
        f"{DEFAULT}<end>\n{{{{ end }}}}",
        DEFAULT,
    ),
    "else if and else": (
        "{{ if .System }}<turn>system\n{{ .System }}<end>\n{{ else if .Think }}<turn>system\nThink.<end>\n"
        f"{{{{ else }}}}<turn>system\n{DEFAULT}<end>\n{{{{ end }}}}",
        DEFAULT,
    ),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_the_tools_go_into_the_system_turn(name: str) -> None:
    block, default = BLOCKS[name]
    original = GoChatTemplate(f"{block}{LOOP}")
    result = patch(original)
    assert result.changed, result.refused
    assert (result.proof.holds, result.placement, result.dropped_text) == (True, "system", ())
    variant = GoChatTemplate(result.template)
    tail = "\n<end>\n<turn>user\nhello<end>\n<turn>assistant\n"
    for messages, words in (((SYSTEM, USER), "Be kind."), ((USER,), default)):
        prompt = variant.render(Request(messages, TOOLS)).text
        assert prompt.count("<turn>system\n") == 1
        head, rest = prompt.split("At hand:\n", 1)
        assert head.removeprefix("<turn>system").strip() == words
        assert rest.startswith("{")
        assert rest.endswith("}" + tail)
        assert variant.render(Request(messages)).text == original.render(Request(messages)).text


def test_a_with_that_uses_its_text_twice_gets_a_block_beside_it() -> None:
    block = "{{ with .System }}<turn>system\n{{ . }}{{ if . }}!{{ end }}<end>\n{{ end }}"
    result = patch(GoChatTemplate(f"{block}{LOOP}"))
    assert result.changed, result.refused
    assert result.proof.holds
    assert result.template.startswith(block)
