"""Structs that functions print: put right by `json`, or not called fixable."""

from __future__ import annotations

import pytest

from templatefix.analysis.analyse import analyse
from templatefix.chat.go import GoChatTemplate
from templatefix.rewrite.patch import patch

STABLE = """{{- if or .System .Tools }}<s>{{ .System }}{{ range .Tools }}
{{ . }}{{ end }}</s>{{ end }}
{{- range .Messages }}{{ if ne .Role "system" }}<{{ .Role }}>{{ .Content }}
{{- range .ToolCalls }}{{ .Function.Name }}{{ .Function.Arguments }}{{ end }}</m>{{ end }}{{ end }}"""


@pytest.mark.parametrize(
    "printed",
    [
        "{{ .Function | print }}",
        '{{ printf "%v" .Function }}',
        '{{ .Function | printf "%+v" }}',
        "{{ (print .Function) }}",
        "{{ html .Function }}",
    ],
)
def test_a_struct_that_is_printed_by_a_function_is_printed_as_json(printed: str) -> None:
    text = STABLE.replace("\n{{ . }}{{ end }}</s>", f"\n{printed}{{{{ end }}}}</s>")
    assert [f.fixable for f in analyse(GoChatTemplate(text)).findings if f.code == "TF301"] == [True]
    result = patch(GoChatTemplate(text))
    assert result.refused == ()
    assert result.template == text.replace(printed, "{{ json .Function }}")
    assert result.proof.holds


@pytest.mark.parametrize(
    "printed",
    ["{{ $text := print .Function }}{{ $text }}", '{{ print .Function "!" }}', '{{ printf "%v;" .Function }}'],
)
def test_a_struct_within_text_that_is_made_is_not_called_fixable(printed: str) -> None:
    text = STABLE.replace("\n{{ . }}{{ end }}</s>", f"\n{printed}{{{{ end }}}}</s>")
    assert [f.fixable for f in analyse(GoChatTemplate(text)).findings if f.code == "TF301"] == [False]
    result = patch(GoChatTemplate(text))
    assert not result.changed
    assert [(r.code, r.reason) for r in result.refused] == [
        ("TF301", "line 2: the struct is part of a text that is made here")
    ]
