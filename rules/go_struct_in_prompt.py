"""TF301."""

from __future__ import annotations

from collections.abc import Iterator

from templatefix.analysis.evidence import Evidence
from templatefix.analysis.findings import Finding
from templatefix.analysis.rule import Rule
from templatefix.analysis.structs import datum_printed, is_list_of_parts, is_silent, is_struct
from templatefix.chat.go import GoChatTemplate
from templatefix.chat.rendering import Piece
from templatefix.gotemplate.source import Span


class GoStructInPrompt(Rule):
    """TF301 go-struct-in-prompt

    What it does
        Finds a tool, its parameters or a call printed as Go prints a struct: `{name text {object <nil> [...]}}`. In a
        Jinja template: in Python's notation, `{'name': 'text'}`, or as it is, for which llama-server has no text.

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
        applied. In a Jinja template `tojson` does the same.
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
                    if piece.span not in seen and (message := _said(evidence, piece)):
                        seen.add(piece.span)
                        fixable = _is_fixable(evidence, piece)
                        yield self.finding(evidence, message, piece.span, run, step.index, error=True, fixable=fixable)


def _said(evidence: Evidence, piece: Piece) -> str:
    """What is wrong with a piece; nothing if it is not wrong."""
    if evidence.template.kind == "go":
        what = "A Go struct stands" if is_struct(piece) else ""
    elif is_silent(piece):
        return "An object is printed as it is, and llama-server prints no text for one; the model expects JSON here."
    elif is_list_of_parts(piece):
        return f"A message's text stands in the prompt as a list in Python's notation: `{piece.text[:60]}…`."
    else:
        what = "An object in Python's notation stands" if is_struct(piece) else ""
    return what and f"{what} in the prompt where the model expects JSON: `{piece.text[:60]}…`."


def _is_fixable(evidence: Evidence, piece: Piece) -> bool:
    template = evidence.template
    if isinstance(template, GoChatTemplate):
        return datum_printed(template.tree, piece.span) is not None
    return not is_list_of_parts(piece)
