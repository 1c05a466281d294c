"""TF104."""

from __future__ import annotations

from collections.abc import Iterator

from templatefix.analysis.evidence import Evidence
from templatefix.analysis.findings import Finding
from templatefix.analysis.reading import TOOLS
from templatefix.analysis.rule import Rule
from templatefix.analysis.wording import is_words, words
from templatefix.gotemplate.source import Span

_REMINDER = 4  # words; fewer are a mark or a header


class ToolReminderMoves(Rule):
    """TF104 tool-reminder-moves

    What it does
        Finds words about the tools that stand at the last message, or behind all messages, while the definitions
        themselves have a fixed place.

    Why it is bad
        Words at the last message are gone from it at the next turn, and the cache is lost from there on: an error.
        Words behind all messages keep the cache, but are read again with every request: a warning.

    Example
        {{- if .Tools }}<tools>{{ .Tools }}</tools>{{ end }}
        {{- range $i, $_ := .Messages }}<{{ .Role }}>{{ .Content }}
        {{- if and $.Tools (eq (len (slice $.Messages $i)) 1) }} Use the tools above first.{{ end }}</{{ .Role }}>
        {{- end }}

    Use instead
        {{- if .Tools }}<tools>{{ .Tools }}</tools> Use the tools above first.{{ end }}
        {{- range .Messages }}<{{ .Role }}>{{ .Content }}</{{ .Role }}>{{ end }}

    Fix safety
        A reminder that moves is printed at every user message, or given up and listed. One that trails is left alone:
        models were trained to be told last.
    """

    CODE = "TF104"
    NAME = "tool-reminder-moves"
    SEVERITY = "warning"
    FIXABLE = True
    VALID = (
        "{{ if .Tools }}{{ .Tools }} Use the tools above first.{{ end }}"
        "{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}<assistant>",
        # After every user message alike.
        '{{ json .Tools }}{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ if and $.Tools (eq .Role "user") }}'
        " Use the tools above first.{{ end }}{{ end }}",
    )
    INVALID = (
        "{{ json .Tools }}{{ range $i, $m := .Messages }}<{{ .Role }}>"
        "{{ if and $.Tools (eq (len (slice $.Messages $i)) 1) }}Use the tools above first. {{ end }}"
        "{{ .Content }}{{ end }}",
        "{{ json .Tools }}{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}"
        "{{ if .Tools }}<system>Write the name of the tool to call.{{ end }}<assistant>",
    )

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """Find words that go with tools: lost by a later step, or in the generation tail."""
        for change in evidence.core_changes:
            if change.tools or change.system or change.holds_content or not change.asks_for_tools(evidence.reading):
                continue
            message = "Text that goes with the tools stands at the last message and is gone from it at the next turn."
            yield self.finding(evidence, message, evidence.place(change), change.run, change.step, error=True)
        yield from self._trailing(evidence)

    def _trailing(self, evidence: Evidence) -> Iterator[Finding]:
        run, plain = evidence.core[0], evidence.plain
        if not evidence.takes_tools or not run.steps or not plain.steps:
            return
        tail = run.steps[0].rendering.pieces[run.tails[0] :]
        bare = plain.steps[0].rendering.pieces[plain.tails[0] :]
        known = {piece.text for piece in bare}
        more = [piece for piece in tail if is_words(piece) and piece.text not in known]
        if len(words(" ".join([piece.text for piece in more]))) < _REMINDER:
            return
        message = "A reminder about the tools stands behind all messages: it is read again with every request."
        yield self.finding(evidence, message, _place(evidence, more[0].span), run, 0, fixable=False)


def _place(evidence: Evidence, span: Span) -> Span:
    branch = evidence.reading.condition_on(span, TOOLS) if evidence.reading is not None else None
    return branch.open if branch is not None else span
