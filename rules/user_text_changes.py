"""TF202."""

from __future__ import annotations

import re
from collections.abc import Iterator

from templatefix.analysis.changes import Change
from templatefix.analysis.evidence import Evidence
from templatefix.analysis.findings import Finding
from templatefix.analysis.rule import Rule
from templatefix.analysis.wording import is_words, joined, labels, words_span
from templatefix.gotemplate.source import Span

_CLOSERS = re.compile(r"(?:\s*(?:</[^<>]*>|\[/[^\[\]]*\]))+\s*")


class UserTextChanges(Rule):
    """TF202 user-text-changes

    What it does
        Finds words around a user's message that are there only while it is the last one: a label such as `Question:`,
        a frame, a `/no_think`.

    Why it is bad
        At the next turn the message is worded differently, and the cache is lost from there on. With a job of many
        turns that is little in bytes each time, but the model also reads a history that never was.

    Example
        {{- range $i, $_ := .Messages }}
        {{- if and (eq .Role "user") (eq (len (slice $.Messages $i)) 1) }}<user>Question: {{ .Content }}</user>
        {{- else }}<{{ .Role }}>{{ .Content }}</{{ .Role }}>{{ end }}
        {{- end }}

    Use instead
        {{- range .Messages }}<{{ .Role }}>{{ .Content }}</{{ .Role }}>{{ end }}

    Fix safety
        The words are given to every user message or to none. Words that are given up are listed in `dropped_text`,
        and the prompt of a conversation without tools stays as it was.
    """

    CODE = "TF202"
    NAME = "user-text-changes"
    SEVERITY = "warning"
    FIXABLE = True
    VALID = (
        '{{ json .Tools }}{{ range .Messages }}<{{ .Role }}>{{ if eq .Role "user" }}Question: {{ end }}'
        "{{ .Content }}{{ end }}",
        # Behind the text and at the end of the prompt: the header of the answer.
        "{{ json .Tools }}{{ range $i, $m := .Messages }}<{{ .Role }}>{{ .Content }}"
        "{{ if eq (len (slice $.Messages $i)) 1 }}<assistant>{{ end }}{{ end }}",
    )
    INVALID = (
        "{{ json .Tools }}{{ range $i, $m := .Messages }}<{{ .Role }}>"
        '{{ if and (eq .Role "user") (eq (len (slice $.Messages $i)) 1) }}Question: {{ end }}{{ .Content }}{{ end }}',
        "{{ json .Tools }}{{ $at := -1 }}"
        '{{ range $i, $m := .Messages }}{{ if eq .Role "user" }}{{ $at = $i }}{{ end }}{{ end }}'
        "{{ range $i, $m := .Messages }}<{{ .Role }}>{{ .Content }}{{ if eq $i $at }} /hush{{ end }}</>{{ end }}",
    )

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """Find words beside a user's text that a later step no longer has, or has anew."""
        for change in evidence.core_changes:
            if change.role == "user":
                span = _wording(evidence, change)
                if span is not None:
                    message = "The user's message is worded differently once it is no longer the last one."
                    yield self.finding(evidence, message, span, change.run, change.step, error=True)
        for change in evidence.other_changes:
            if change.role == "user" and change.run.loop.name in ("thinking-history", "thinking-off"):
                span = _wording(evidence, change)
                if span is not None:
                    message = (
                        "With thinking set this way the user's message is worded differently once it is no longer last."
                    )
                    yield self.finding(evidence, message, span, change.run, change.step)


def _wording(evidence: Evidence, change: Change) -> Span | None:
    source = evidence.template.source
    if change.holds_content:
        before, behind = labels(change.removed)
        before_later, behind_later = labels(change.added)
        if not _same(joined(before), joined(before_later)):
            spoken = before if joined(before) else before_later
            return words_span(source, next(piece for piece in reversed(spoken) if is_words(piece)))
        if joined(behind) and joined(behind) != joined(behind_later):
            return words_span(source, next(piece for piece in behind if is_words(piece)))
        return None if change.tools or change.system else evidence.place(change)
    if change.tools or change.system or change.asks_for_tools(evidence.reading):
        return None  # words about the tools: TF101 or TF104
    word = next((piece for piece in change.pieces if is_words(piece)), None)
    return words_span(source, word) if word is not None else evidence.place(change)


def _same(said: str, says: str) -> bool:
    # `[/AVAILABLE_TOOLS][INST]` against `[INST]`: what closes the definitions is no wording of the message.
    return said == says or (said.endswith(says) and _CLOSERS.fullmatch(said, 0, len(said) - len(says)) is not None)
