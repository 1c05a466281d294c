"""TF201."""

from __future__ import annotations

from collections.abc import Iterator

from templatefix.analysis.evidence import Evidence
from templatefix.analysis.findings import Finding
from templatefix.analysis.rule import Rule


class SystemFollowsLastMessage(Rule):
    """TF201 system-follows-last-message

    What it does
        Finds a system text that is printed at the last message only, or that otherwise depends on what comes later:
        the system message itself, and the words of the template that stand in front of the conversation.

    Why it is bad
        At the next turn it has left its place: the cache is lost from there on. Behind a tool result it is often gone
        altogether, and the model works without its instructions.

    Example
        {{- range $i, $_ := .Messages }}
        {{- if eq .Role "user" }}[INST] {{ if and $.System (eq (len (slice $.Messages $i)) 1) }}{{ $.System }}
        {{ end }}{{ .Content }}[/INST]{{ else }}{{ .Content }}{{ end }}
        {{- end }}

    Use instead
        {{- $first := -1 }}
        {{- range $i, $_ := .Messages }}{{ if and (lt $first 0) (eq .Role "user") }}{{ $first = $i }}{{ end }}{{ end }}
        {{- range $i, $_ := .Messages }}
        {{- if eq .Role "user" }}[INST] {{ if and $.System (eq $i $first) }}{{ $.System }}
        {{ end }}{{ .Content }}[/INST]{{ else }}{{ .Content }}{{ end }}
        {{- end }}

    By design
        Mistral's former formats ask for the system text in front of the last user message.

    Fix safety
        With tools the text goes to the first user message. Without tools the prompt stays, byte for byte, what it was.
    """

    CODE = "TF201"
    NAME = "system-follows-last-message"
    SEVERITY = "error"
    FIXABLE = True
    VALID = (
        "{{ .System }}{{ json .Tools }}{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}",
        "{{ json .Tools }}{{ $first := true }}{{ range .Messages }}<{{ .Role }}>"
        '{{ if and $first (eq .Role "user") }}{{ $.System }}{{ $first = false }}{{ end }}{{ .Content }}{{ end }}',
    )
    INVALID = (
        '{{ json .Tools }}{{ range $i, $m := .Messages }}{{ if ne .Role "system" }}<{{ .Role }}>'
        "{{ if eq (len (slice $.Messages $i)) 1 }}{{ $.System }} {{ end }}{{ .Content }}{{ end }}{{ end }}",
        '{{ json .Tools }}{{ range .Messages }}{{ if ne .Role "system" }}<{{ .Role }}>{{ .Content }}{{ end }}{{ end }}'
        "{{ .System }}",
        "{{ if gt (len .Messages) 4 }}This is a long talk.{{ end }}{{ json .Tools }}"
        "{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}",
    )

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """Find a system text, or words in front of the conversation, that a later step has otherwise."""
        for change in evidence.core_changes:
            message = ""
            if change.system:
                message = "The system text follows the last message: it leaves its place at the next turn."
            elif change.role in (None, "system") and not change.tools and not change.asks_for_tools(evidence.reading):
                message = "The words in front of the conversation depend on later messages."
            if message:
                yield self.finding(evidence, message, evidence.place(change), change.run, change.step, error=True)
