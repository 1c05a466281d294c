"""TF205."""

from __future__ import annotations

from collections.abc import Iterator

from templatefix.analysis.evidence import Evidence
from templatefix.analysis.findings import Finding
from templatefix.analysis.rule import Rule


class LateSystemMovesUp(Rule):
    """TF205 late-system-moves-up

    What it does
        Finds a system message sent in mid-conversation that is joined to the system text at the prompt's head.

    Why it is bad
        Agents send such messages when a file has changed or a rule is new. Each one rewrites the head, and the whole
        conversation is read again. The model is also told of it out of its order.

    Example
        {{- if .System }}<system>{{ .System }}</system>{{ end }}
        {{- range .Messages }}{{ if ne .Role "system" }}<{{ .Role }}>{{ .Content }}</{{ .Role }}>{{ end }}{{ end }}

    Use instead
        {{- range .Messages }}<{{ .Role }}>{{ .Content }}</{{ .Role }}>{{ end }}

    Fix safety
        Nothing is changed: many models were trained with one system message at the head. A client can send such news
        in a user message.
    """

    CODE = "TF205"
    NAME = "late-system-moves-up"
    SEVERITY = "warning"
    FIXABLE = False
    REFERENCES = ("ollama/ollama#18431 — a system message in mid-conversation is joined into the head of the prompt",)
    VALID = ("{{ json .Tools }}{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}",)
    INVALID = (
        '{{ .System }}{{ json .Tools }}{{ range .Messages }}{{ if ne .Role "system" }}<{{ .Role }}>{{ .Content }}'
        "{{ end }}{{ end }}",
        '{{ $all := "" }}'
        '{{ range .Messages }}{{ if eq .Role "system" }}{{ $all = print $all .Content "." }}{{ end }}{{ end }}'
        '{{ $all }}{{ json .Tools }}{{ range .Messages }}{{ if ne .Role "system" }}<{{ .Role }}>{{ .Content }}'
        "{{ end }}{{ end }}",
    )

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """Find what a late system message changes in front of it."""
        for change in evidence.other_changes:
            if change.run.loop.name == "late-system" and change.system:
                message = "A system message sent later is joined into the head: the whole conversation is read again."
                yield self.finding(evidence, message, evidence.place(change), change.run, change.step)
                return
