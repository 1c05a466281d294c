"""TF303."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from templatefix.analysis.evidence import Evidence
from templatefix.analysis.findings import Finding
from templatefix.analysis.rule import Rule
from templatefix.analysis.stability import Step
from templatefix.gotemplate.source import Span


class ContentOrCallLost(Rule):
    """TF303 content-or-call-lost

    What it does
        Finds templates that print either the text or the calls of an assistant turn that has both.

    Why it is bad
        Models often say what they are about to do and then call a tool. If the call is dropped, the result that
        follows answers nothing; if the text is dropped, the model forgets its plan. Either way the history is not what
        the model wrote, so the cache is lost from the turn on.

    Example
        {{- range .Messages }}<{{ .Role }}>
        {{- if .Content }}{{ .Content }}{{ else }}{{ range .ToolCalls }}{{ json .Function }}{{ end }}{{ end }}
        {{- end }}

    Use instead
        {{- range .Messages }}<{{ .Role }}>{{ .Content }}{{ range .ToolCalls }}{{ json .Function }}{{ end }}{{ end }}

    Fix safety
        Nothing is changed: how text and calls stand side by side is a matter of training.
    """

    CODE = "TF303"
    NAME = "content-or-call-lost"
    SEVERITY = "warning"
    FIXABLE = False
    VALID = (
        "{{ json .Tools }}{{ range .Messages }}<{{ .Role }}>{{ .Content }}"
        "{{ range .ToolCalls }}{{ json .Function }}{{ end }}{{ end }}",
    )
    INVALID = (
        "{{ json .Tools }}{{ range .Messages }}<{{ .Role }}>{{ if .Content }}{{ .Content }}{{ else }}"
        "{{ range .ToolCalls }}{{ json .Function }}{{ end }}{{ end }}{{ end }}",
        "{{ json .Tools }}{{ range .Messages }}<{{ .Role }}>{{ if .ToolCalls }}"
        "{{ range .ToolCalls }}{{ json .Function }}{{ end }}{{ else }}{{ .Content }}{{ end }}{{ end }}",
    )

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """Find an assistant turn with text and calls of which the prompt holds only one."""
        if not evidence.takes_tools:
            return
        for run in evidence.core:
            for step in run.steps:
                for index, message in enumerate(step.request.messages):
                    calls = message.get("tool_calls")
                    if calls and message.get("content"):
                        lost = _lost(step, message)
                        if lost:
                            text = f"An assistant turn with text and a call loses its {lost}."
                            yield self.finding(evidence, text, _place(evidence, step, index), run, step.index)
                            return


def _lost(step: Step, message: Mapping[str, Any]) -> str:
    prompt = step.rendering.text
    names = [str(call["function"]["name"]) for call in message["tool_calls"]]
    values = [str(v) for call in message["tool_calls"] for v in (call["function"].get("arguments") or {}).values()]
    index = step.request.messages.index(message)
    own = "".join([piece.text for piece in step.rendering.pieces if piece.message == index])
    call_there = all(name in own for name in names) and all(value in own for value in values)
    text_there = str(message["content"]) in prompt
    if call_there and text_there:
        return ""
    if call_there:
        return "text"
    return "call" if text_there else "text and its call"


def _place(evidence: Evidence, step: Step, index: int) -> Span:
    if evidence.reading is not None:
        for piece in step.rendering.pieces:
            if piece.message == index and piece.origin is not None and piece.origin.field not in ("role", ""):
                branches = evidence.reading.conditions(piece.span)
                return branches[-1].open if branches else piece.span
    return evidence.conversation_span
