"""What a patch says of where the tools stand now, and why not where they were asked for."""

from __future__ import annotations

import pytest

from templatefix.chat.go import GoChatTemplate
from templatefix.report.patch_text import patch_text
from templatefix.rewrite.patch import patch

LOOP = (
    '{{ range $i, $m := .Messages }}{{ if ne .Role "system" }}<turn>{{ .Role }}\n'
    "%s{{ .Content }}{{ range .ToolCalls }}{{ json .Function }}{{ end }}<end>\n{{ end }}{{ end }}"
)
LAST = (
    '{{ if and (eq .Role "user") $.Tools (eq (len (slice $.Messages $i)) 1) }}# Tools\n'
    "{{ range $.Tools }}{{ . }}\n{{ end }}\n{{ end }}"
)
NAMES = (
    "{{ if or .System .Tools }}<turn>system\n{{ .System }}{{ if .Tools }}\nNames:"
    "{{ range .Tools }} {{ .Function.Name }}{{ end }}{{ end }}<end>\n{{ end }}"
)


def test_a_placement_that_falls_back_says_why() -> None:
    result = patch(GoChatTemplate(NAMES + LOOP % LAST + "<turn>assistant\n"), placement="system")
    assert result.changed, result.refused
    assert result.to_json("x")["placement"] == "first-user"
    assert (result.instead or "").startswith("line 3, column ")
    said = patch_text("x", result, result.diff())
    assert "tools stand in the first user message\n  not in the system block: line 3, column " in said
    asked = patch(GoChatTemplate(NAMES + LOOP % LAST + "<turn>assistant\n"), placement="first-user")
    assert asked.instead is None
    assert "not in the system block" not in patch_text("x", asked, asked.diff())


@pytest.mark.parametrize(
    ("text", "judged"),
    [
        ("{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}", "judged on chats, every prompt only grows"),
        ("{{ .System }} {{ .Prompt }}", "judged on chats, every prompt only grows"),
        ("{{ json .Tools }}" + LOOP % "", "every tool loop only grows"),
    ],
)
def test_what_was_judged_is_said(text: str, judged: str) -> None:
    result = patch(GoChatTemplate(text))
    assert (result.changed, result.refused) == (False, ())
    assert patch_text("x", result, "").startswith(f"x: nothing to do, {judged} already\n")


@pytest.mark.parametrize("printed", ["{{ json .Tools }}", "<tools>{{ .Tools }}</tools>"])
def test_tools_that_are_printed_whether_or_not_there_are_any(printed: str) -> None:
    text = LOOP % "" + printed + "<turn>assistant\n"
    result = patch(GoChatTemplate(text))
    assert not result.changed
    line = next(line for line in text.splitlines() if printed in line)
    column = line.index("{{ json .Tools" if "json" in printed else "{{ .Tools") + 1
    said = "this prints without tools as well, and without tools every prompt has to stay as it is"
    assert result.refused[0].reason == f"line 3, column {column}: {said}"
