"""TF101."""

from __future__ import annotations

from collections.abc import Iterator

from templatefix.analysis.evidence import Evidence
from templatefix.analysis.findings import Finding
from templatefix.analysis.rule import Rule


class ToolsFollowLastMessage(Rule):
    """TF101 tools-follow-last-message

    What it does
        Finds tool definitions that are printed at the last (user) message only, or that move along with it.

    Why it is bad
        The definitions are most of an agent's prompt. When they move, everything behind their former place has to be
        read again at every turn: the server's cache is lost from there on. Often they are gone altogether while the
        model reads a tool's result (TF102).

    Example
        {{- range $i, $_ := .Messages }}
        {{- $last := eq (len (slice $.Messages $i)) 1 }}<{{ .Role }}>
        {{- if and $.Tools $last (eq .Role "user") }}<tools>{{ $.Tools }}</tools>{{ end }}
        {{- .Content }}</{{ .Role }}>
        {{- end }}

    Use instead
        {{- if or .System .Tools }}<system>{{ .System }}
        {{- if .Tools }}<tools>{{ .Tools }}</tools>{{ end }}</system>{{ end }}
        {{- range .Messages }}
        {{- if ne .Role "system" }}<{{ .Role }}>{{ .Content }}</{{ .Role }}>{{ end }}
        {{- end }}

    By design
        Mistral's own format has `[AVAILABLE_TOOLS]` in front of the last user message. A cache cannot live with that;
        where the tools stand then is a matter of measuring whether the model still calls them.

    Fix safety
        The definitions get another place: in the system block, in a block of their own in front of the first turn, or
        in front of the first user message (`--placement first-user`). The proof shows that nothing else changes and
        that conversations without tools render as before. Models may call tools more or less readily: compare with
        `templatefix ab`.
    """

    CODE = "TF101"
    NAME = "tools-follow-last-message"
    SEVERITY = "error"
    FIXABLE = True
    REFERENCES = (
        "HKUDS/nanobot#4867 — 44 % of an agent's prompt came from the cache, 99.8 % with the tools in the system block",
        "ollama/ollama#13334 — the same condition, written with the length of a slice of the messages",
        "ollama/ollama#9680 — tools bound to the first message, by its position, do not move",
    )
    VALID = (
        "{{ if .Tools }}<tools>{{ .Tools }}</tools>{{ end }}"
        "{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ range .ToolCalls }}{{ json .Function }}{{ end }}{{ end }}",
        # By position, not by what comes later.
        "{{ $first := true }}{{ range .Messages }}<{{ .Role }}>{{ if and $first $.Tools }}{{ $.Tools }}{{ end }}"
        "{{ .Content }}{{ $first = false }}{{ end }}",
    )
    INVALID = (
        "{{ range $i, $m := .Messages }}<{{ .Role }}>"
        '{{ if eq .Role "user" }}{{ if and $.Tools (eq (len (slice $.Messages $i)) 1) }}{{ $.Tools }}{{ end }}{{ end }}'
        "{{ .Content }}{{ end }}",
        "{{ range $i, $m := .Messages }}<{{ .Role }}>"
        '{{ if and (ge 2 (len (slice $.Messages $i))) $.Tools (eq .Role "user") }}{{ json $.Tools }}{{ end }}'
        "{{ .Content }}{{ end }}",
        '{{ $at := -1 }}{{ range $i, $m := .Messages }}{{ if eq .Role "user" }}{{ $at = $i }}{{ end }}{{ end }}'
        "{{ range $i, $m := .Messages }}<{{ .Role }}>{{ if eq $i $at }}{{ range $.Tools }}{{ . }}{{ end }}{{ end }}"
        "{{ .Content }}{{ end }}",
        "{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}{{ range .Tools }}{{ . }}{{ end }}<assistant>",
    )

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """Find definitions that a later step no longer has at their place, or that stand behind all messages."""
        for change in evidence.core_changes:
            if change.tools:
                yield self.finding(
                    evidence, _message(evidence), evidence.place(change), change.run, change.step, error=True
                )
        for run in evidence.core:
            for step in run.steps:
                if run.tools_behind(step.index):
                    message = (
                        "The tool definitions stand behind the last message, so they are read again at every turn."
                    )
                    yield self.finding(
                        evidence, message, evidence.tools_span(run, step.index), run, step.index, error=True
                    )
                    return


def _message(evidence: Evidence) -> str:
    message = (
        "The tool definitions follow the last user message: each turn moves or drops them, and the rest is read anew."
    )
    if "[AVAILABLE_TOOLS]" in evidence.template.source.text:
        message += " Mistral's format does so by design."
    return message
