"""TF105."""

from __future__ import annotations

from collections.abc import Iterator

from templatefix.analysis.evidence import Evidence
from templatefix.analysis.findings import Finding
from templatefix.analysis.rule import Rule
from templatefix.gotemplate.source import Span


class ToolsRepeated(Rule):
    """TF105 tools-repeated

    What it does
        Finds prompts that hold the complete tool definitions more than once.

    Why it is bad
        Every request pays for them again in tokens, and the context is full sooner. If the repetition stands at each
        user message, it grows with the conversation.

    Example
        {{- range .Messages }}
        {{- if eq .Role "user" }}<tools>{{ $.Tools }}</tools>{{ end }}<{{ .Role }}>{{ .Content }}</{{ .Role }}>
        {{- end }}

    Use instead
        {{- if .Tools }}<tools>{{ .Tools }}</tools>{{ end }}
        {{- range .Messages }}<{{ .Role }}>{{ .Content }}</{{ .Role }}>{{ end }}

    Fix safety
        Nothing is changed: some models were trained on the repetition. Once is enough for most; measure it.
    """

    CODE = "TF105"
    NAME = "tools-repeated"
    SEVERITY = "warning"
    FIXABLE = False
    REFERENCES = (
        "nomic-ai/gpt4all#3273 — the text of the last user message is looked for, and an earlier one may be the same",
    )
    VALID = (
        "{{ json .Tools }}{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}",
        # A list of names is no second definition.
        "{{ json .Tools }}{{ range .Tools }}{{ .Function.Name }}, {{ end }}"
        "{{ range .Messages }}{{ .Content }}{{ end }}",
    )
    INVALID = (
        "{{ json .Tools }}{{ range .Tools }}{{ .Function }}{{ end }}{{ range .Messages }}{{ .Content }}{{ end }}",
        '{{ range .Messages }}{{ if eq .Role "user" }}{{ range $.Tools }}{{ . }}{{ end }}{{ end }}'
        "{{ .Content }}{{ end }}",
    )

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """Find the first prompt with two passes over the definitions."""
        for run in evidence.core:
            for step in run.steps:
                if step.tools > 1:
                    first, second = (step.rendering.pieces[found.first].span for found in step.passes[:2])
                    message = f"The tool definitions stand in one prompt {step.tools} times."
                    yield self.finding(evidence, message, _place(evidence, first, second), run, step.index)
                    return


def _place(evidence: Evidence, first: Span, second: Span) -> Span:
    if evidence.reading is None:
        return second
    # The branch that prints the second pass and not the first; the same one where a loop repeats it.
    mine, theirs = evidence.reading.via(second), {branch.open for branch in evidence.reading.via(first)}
    own = [branch.open for branch in mine if branch.open not in theirs]
    return own[0] if own else second
