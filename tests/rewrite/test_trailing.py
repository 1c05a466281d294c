"""System blocks behind the messages: with tools they come first, without tools they stay where they are."""

from __future__ import annotations

import pytest

from templatefix.analysis.analyse import analyse
from templatefix.chat.go import GoChatTemplate
from templatefix.chat.request import Request
from templatefix.rewrite.patch import patch

LOOP = (
    '{{ range .Messages }}{{ if ne .Role "system" }}<turn>{{ .Role }}\n{{ .Content }}'
    "{{ range .ToolCalls }}{{ json .Function }}{{ end }}<end>\n{{ end }}{{ end }}"
)
TOOLS = ({"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}},)
USER = {"role": "user", "content": "hello"}
SYSTEM = {"role": "system", "content": "Be kind."}
HELLO = "<turn>user\nhello<end>\n"

BLOCKS = {
    "one block": (
        "{{ if or .System .Tools }}<turn>system\n{{ .System }}{{ if .Tools }}\n# Tools\n{{ range .Tools }}{{ . }}\n"
        "{{ end }}{{ end }}<end>\n{{ end }}",
        "<turn>system\nBe kind.\n# Tools\nTOOL\n<end>\n",
    ),
    "two blocks": (
        "{{ if .System }}<turn>system\n{{ .System }}<end>\n{{ end }}"
        "{{ if .Tools }}<turn>system\n{{ range .Tools }}{{ . }}{{ end }}<end>\n{{ end }}",
        "<turn>system\nBe kind.<end>\n<turn>system\nTOOL<end>\n",
    ),
    "two forms of a block": (
        "{{ if .Tools }}<turn>system\n{{ with .System }}{{ . }}\n{{ end }}{{ range .Tools }}{{ . }}{{ end }}<end>\n"
        "{{ else if .System }}<turn>system\n{{ .System }}<end>\n{{ end }}",
        "<turn>system\nBe kind.\nTOOL<end>\n",
    ),
    "trimmed": (
        "{{- if or .System .Tools }}<turn>system\n{{ .System }}{{ if .Tools }}\n{{ range .Tools }}{{ . }}{{ end }}"
        "{{ end }}<end>\n{{- end }}\n",
        "<turn>system\nBe kind.\nTOOL<end>",
    ),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_the_block_stands_in_front_with_tools_and_behind_without(name: str) -> None:
    block, printed = BLOCKS[name]
    original = GoChatTemplate(f"{LOOP}{block}<turn>assistant\n")
    assert analyse(original).verdict == "unstable"
    result = patch(original)
    assert result.changed, result.refused
    assert (result.proof.holds, result.placement) == (True, "system")
    assert (result.dropped_text, result.added_text) == ((), ())
    variant = GoChatTemplate(result.template)
    assert analyse(variant).verdict == "stable"
    tool = original.render(Request((USER,), TOOLS)).text
    tool = tool[tool.index("{") : tool.rindex("}") + 1]
    prompt = variant.render(Request((SYSTEM, USER), TOOLS)).text
    assert prompt.startswith(printed.replace("TOOL", tool) + HELLO)
    assert prompt.endswith("<turn>assistant\n")
    assert prompt.count("system") == printed.count("system")
    for messages in ((USER,), (SYSTEM, USER), (SYSTEM,)):
        assert variant.render(Request(messages)).text == original.render(Request(messages)).text


def test_without_a_branch_the_obstacle_is_named() -> None:
    text = (
        f"{LOOP}<turn>system\n{{{{ .System }}}}{{{{ if .Tools }}}}{{{{ .Tools }}}}{{{{ end }}}}<end>\n<turn>assistant\n"
    )
    result = patch(GoChatTemplate(text))
    assert not result.changed
    assert {refusal.reason.split(": ")[1] for refusal in result.refused} == {
        "the system text behind the messages stands in no branch of its own"
    }


def test_a_block_whose_variables_are_set_later_stays() -> None:
    block = BLOCKS["one block"][0].replace("{{ .System }}", "{{ $said }}{{ .System }}")
    count = '{{ range .Messages }}{{ if eq .Role "user" }}{{ $said = .Content }}{{ end }}{{ end }}'
    text = f'{{{{ $said := "" }}}}{LOOP}{count}{block}<turn>assistant\n'
    result = patch(GoChatTemplate(text))
    assert not result.changed
    assert "uses variables that are set after they begin" in result.refused[0].reason
