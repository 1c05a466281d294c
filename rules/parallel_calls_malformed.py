"""TF304."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from templatefix.analysis.evidence import Evidence
from templatefix.analysis.findings import Finding
from templatefix.analysis.rule import Rule
from templatefix.analysis.stability import Step
from templatefix.gotemplate.source import Span

_ARRAY = re.compile(r"\[\s*(?=\{)")


class ParallelCallsMalformed(Rule):
    """TF304 parallel-calls-malformed

    What it does
        Finds two calls of one assistant turn that come out as a list without a comma: `[{...}{...}]`.

    Why it is bad
        The model reads its own history in a syntax it never wrote. It may learn from it and answer with a list that no
        parser takes; and what it wrote differs from what is read back, so the cache is lost from there on.

    Example
        {{- range .Messages }}<{{ .Role }}>{{ .Content }}
        {{- if .ToolCalls }}[{{ range .ToolCalls }}{"name": "{{ .Function.Name }}"}{{ end }}]{{ end }}
        {{- end }}

    Use instead
        {{- range .Messages }}<{{ .Role }}>{{ .Content }}
        {{- if .ToolCalls }}[{{ range $i, $call := .ToolCalls }}{{ if $i }}, {{ end }}
        {{- "" }}{"name": "{{ $call.Function.Name }}"}{{ end }}]{{ end }}
        {{- end }}

    Fix safety
        Never changed silently: with one call the prompt would stay the same, with two it would not, and what the model
        was trained on is not known.
    """

    CODE = "TF304"
    NAME = "parallel-calls-malformed"
    SEVERITY = "warning"
    FIXABLE = False
    VALID = (
        "{{ json .Tools }}{{ range .Messages }}{{ .Content }}{{ if .ToolCalls }}[{{ range $i, $c := .ToolCalls }}"
        "{{ if $i }}, {{ end }}{{ json $c.Function }}{{ end }}]{{ end }}{{ end }}",
        # One call a line is no list.
        "{{ json .Tools }}{{ range .Messages }}{{ .Content }}"
        "{{ range .ToolCalls }}\n{{ json .Function }}{{ end }}{{ end }}",
    )
    INVALID = (
        "{{ json .Tools }}{{ range .Messages }}{{ .Content }}{{ if .ToolCalls }}[{{ range .ToolCalls }}"
        "{{ json .Function }}{{ end }}]{{ end }}{{ end }}",
        '{{ json .Tools }}{{ range .Messages }}{{ .Content }}{{ if .ToolCalls }}{"calls": [\n{{ range .ToolCalls }}'
        '{"name": "{{ .Function.Name }}", "arguments": {{ .Function.Arguments }}}\n{{ end }}]}{{ end }}{{ end }}',
    )

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """Find a turn with several calls that holds a list of objects with nothing between them."""
        for run in evidence.core:
            for step in run.steps:
                for index, message in enumerate(step.request.messages):
                    if len(message.get("tool_calls") or ()) > 1 and _malformed(step, index):
                        text = "Two calls in one turn come out as a list without a comma between them."
                        yield self.finding(evidence, text, _place(evidence, step, index), run, step.index)
                        return


def _malformed(step: Step, index: int) -> bool:
    text = "".join([piece.text for piece in step.rendering.pieces if piece.message == index])
    decoder = json.JSONDecoder()
    for match in _ARRAY.finditer(text):
        try:
            _, end = decoder.raw_decode(text, match.end())
        except ValueError:
            continue
        if text[end:].lstrip().startswith("{"):
            return True
    return False


def _place(evidence: Evidence, step: Step, index: int) -> Span:
    for piece in step.rendering.pieces:
        if (
            piece.message == index
            and piece.origin is not None
            and piece.origin.field in ("name", "arguments", "tool_calls")
        ):
            loops = evidence.reading.loops(piece.span) if evidence.reading is not None else ()
            return loops[-1].open if loops else piece.span
    return evidence.conversation_span
