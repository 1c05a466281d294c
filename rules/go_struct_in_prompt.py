"""TF301."""

from __future__ import annotations

from collections.abc import Iterator

from templatefix.analysis.evidence import Evidence
from templatefix.analysis.findings import Finding
from templatefix.analysis.rule import Rule
from templatefix.analysis.structs import datum_printed, is_struct
from templatefix.chat.go import GoChatTemplate
from templatefix.gotemplate.source import Span


class GoStructInPrompt(Rule):
    """TF301 go-struct-in-prompt

    What it does
        Finds a tool, its parameters or a call printed as Go prints a struct: `{name text {object <nil> [...]}}`.

    Why it is bad
        The model was trained on JSON and reads braces with values in a row, the names of the fields gone. Users see it
        as tool calls that come out wrong or not at all. `{{ . }}` on a tool prints JSON, and so do arguments;
        `{{ .Function }}` and `{{ .Function.Parameters }}` do not.

    Example
        {{- range .Tools }}{"type": "function", "function": {{ .Function }}}{{ end }}
        {{- range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}

    Use instead
        {{- range .Tools }}{"type": "function", "function": {{ json .Function }}}{{ end }}
        {{- range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}

    Fix safety
        `json` prints the same value as JSON; nothing else changes. Applied unless ignored. The server has to know
        `json`: it does from 0.9 on. Where the struct is part of a text that `printf` or `print` makes, nothing is
        applied.
    """

    CODE = "TF301"
    NAME = "go-struct-in-prompt"
    SEVERITY = "error"
    FIXABLE = True
    REFERENCES = (
        "ollama/ollama#14601 — `{{ .Function }}` prints a tool as a Go struct, which users see as broken tool calls",
    )
    VALID = (
        "{{ range .Tools }}{{ json .Function }}{{ end }}{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}",
        "{{ range .Tools }}{{ . }}{{ end }}{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}",
    )
    INVALID = (
        "{{ range .Tools }}{{ .Function }}{{ end }}{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}",
        "{{ range .Tools }}{{ .Function.Name }} {{ .Function.Parameters }}{{ end }}"
        "{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}",
        "{{ json .Tools }}{{ range .Messages }}<{{ .Role }}>{{ .Content }}"
        "{{ range .ToolCalls }}{{ .Function }}{{ end }}{{ end }}",
    )

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """Find data of tools and calls that is neither text nor JSON."""
        seen: set[Span] = set()
        for run in evidence.core:
            for step in run.steps:
                for piece in step.rendering.pieces:
                    if piece.span not in seen and is_struct(piece):
                        seen.add(piece.span)
                        what = "A Go struct" if evidence.template.kind == "go" else "An object in Python's notation"
                        message = f"{what} stands in the prompt where the model expects JSON: `{piece.text[:60]}…`."
                        fixable = _is_fixable(evidence, piece.span)
                        yield self.finding(evidence, message, piece.span, run, step.index, error=True, fixable=fixable)


def _is_fixable(evidence: Evidence, span: Span) -> bool:
    template = evidence.template
    return isinstance(template, GoChatTemplate) and datum_printed(template.tree, span) is not None
