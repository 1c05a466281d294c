"""TF302."""

from __future__ import annotations

from collections.abc import Iterator

from templatefix.analysis.evidence import Evidence
from templatefix.analysis.findings import Finding
from templatefix.analysis.rule import Rule
from templatefix.analysis.stability import Step


class ToolResultDropped(Rule):
    """TF302 tool-result-dropped

    What it does
        Finds templates that never print what a tool answered.

    Why it is bad
        The model calls a tool and is asked to go on as if nothing had come back: it calls again, or makes an answer up.

    Example
        {{- range .Messages }}
        {{- if eq .Role "user" }}<user>{{ .Content }}
        {{- else if eq .Role "assistant" }}<assistant>{{ .Content }}{{ range .ToolCalls }}{{ json .Function }}{{ end }}
        {{- end }}
        {{- end }}

    Use instead
        {{- range .Messages }}
        {{- if eq .Role "user" }}<user>{{ .Content }}
        {{- else if eq .Role "tool" }}<result>{{ .Content }}
        {{- else if eq .Role "assistant" }}<assistant>{{ .Content }}{{ range .ToolCalls }}{{ json .Function }}{{ end }}
        {{- end }}
        {{- end }}

    Fix safety
        How the model was trained to see results nobody but its maker knows: a fix is made only when asked for with
        `--select TF302`, and only where the template has an arm for results that never comes true.
    """

    CODE = "TF302"
    NAME = "tool-result-dropped"
    SEVERITY = "error"
    FIXABLE = False
    VALID = ("{{ json .Tools }}{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}",)
    INVALID = (
        '{{ json .Tools }}{{ range .Messages }}{{ if ne .Role "tool" }}<{{ .Role }}>{{ .Content }}{{ end }}{{ end }}',
        '{{ json .Tools }}{{ range .Messages }}{{ if eq .Role "observation" }}<result>{{ .Content }}'
        '{{ else if eq .Role "user" }}<user>{{ .Content }}{{ end }}{{ end }}',
    )

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """Find a prompt that ends with a result and does not hold it."""
        if not evidence.takes_tools:
            return
        for run in evidence.core:
            for step in run.steps:
                if step.after_result and not _holds_result(step):
                    message = "The result of a tool call is in no prompt: the model never learns what its call gave."
                    yield self.finding(evidence, message, evidence.conversation_span, run, step.index, error=True)
                    return


def _holds_result(step: Step) -> bool:
    index = len(step.request.messages) - 1
    content = str(step.request.messages[index].get("content") or "")
    if content in step.rendering.text:
        return True
    return any(
        p.origin is not None and p.origin.kind == "message" and p.origin.index == index and p.origin.field == "content"
        for p in step.rendering.pieces
    )
