"""TF103."""

from __future__ import annotations

from collections.abc import Iterator

from templatefix.analysis.evidence import Evidence
from templatefix.analysis.findings import Finding
from templatefix.analysis.reading import SYSTEM, TOOLS, Branch, Reading
from templatefix.analysis.rule import Rule
from templatefix.gotemplate.source import Span


class ToolsNeedSystemMessage(Rule):
    """TF103 tools-need-system-message

    What it does
        Finds tool definitions that reach the prompt only if the conversation has a system message.

    Why it is bad
        A client that sends no system message, or whose server cut it from a long history, talks to a model that does
        not know its tools. Nothing fails; tools are just never called.

    Example
        {{- if .System }}<system>{{ .System }}
        {{- if .Tools }}<tools>{{ .Tools }}</tools>{{ end }}</system>
        {{- end }}
        {{- range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}

    Use instead
        {{- if or .System .Tools }}<system>{{ .System }}
        {{- if .Tools }}<tools>{{ .Tools }}</tools>{{ end }}</system>
        {{- end }}
        {{- range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}

    Fix safety
        Conversations with a system message render as before, and so do those without tools. With tools and without a
        system message there is now a system block that holds the definitions alone.
    """

    CODE = "TF103"
    NAME = "tools-need-system-message"
    SEVERITY = "error"
    FIXABLE = True
    VALID = (
        "{{ if or .System .Tools }}<s>{{ .System }}{{ json .Tools }}{{ end }}"
        "{{ range .Messages }}{{ .Content }}{{ end }}",
    )
    INVALID = (
        "{{ if .System }}<s>{{ .System }}{{ json .Tools }}{{ end }}{{ range .Messages }}{{ .Content }}{{ end }}",
        '{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ if eq .Role "system" }}{{ range $.Tools }}{{ . }}{{ end }}'
        "{{ end }}{{ end }}",
    )

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """Find a loop without a system message whose prompts hold no definitions, though others do."""
        if not evidence.takes_tools:
            return
        for run in evidence.core:
            asked = any(m.get("role") == "system" for request in run.loop.requests for m in request.messages)
            if asked or run.error is not None or any(step.tools for step in run.steps):
                continue
            span = _gate(evidence)
            if span is not None:
                message = (
                    "Without a system message the tool definitions are in no prompt: the model does not know its tools."
                )
                yield self.finding(evidence, message, span, run, 0, error=True)
            return


def _gate(evidence: Evidence) -> Span | None:
    reading = evidence.reading
    shown = next(((step, step.passes[0]) for run in evidence.core for step in run.steps if step.passes), None)
    if shown is not None:
        span = shown[0].rendering.pieces[shown[1].first].span
        branch = _deciding(reading, span) if reading is not None else None
        return branch.open if branch is not None else span
    # With a system message nothing could be rendered: only the tree tells where the tools stand.
    node = reading.first_on(TOOLS) if reading is not None else None
    branch = reading.condition_on(node.span, SYSTEM) if reading is not None and node is not None else None
    return branch.open if branch is not None else None


def _deciding(reading: Reading, span: Span) -> Branch | None:
    on_system = reading.condition_on(span, SYSTEM)
    if on_system is not None:
        return on_system
    around = reading.conditions(span, without=TOOLS)
    return around[-1] if around else None
