"""TF203."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from templatefix.analysis.changes import Change
from templatefix.analysis.evidence import Evidence
from templatefix.analysis.findings import Finding
from templatefix.analysis.rule import Rule
from templatefix.analysis.wording import is_words, words_span
from templatefix.gotemplate.source import Span

# What a change in the history costs beyond the text behind it.
_MEMORY = {
    "swa": " This model sees a window: without a checkpoint that fits, or --swa-full, the whole prompt is read again.",
    "recurrent": " This model has one state for all that it read: without a checkpoint that fits, the whole prompt is "
    "read again.",
}
_WITHOUT = "where no checkpoint fits"


class HistoryRewritten(Rule):
    """TF203 history-rewritten

    What it does
        Finds assistant turns and tool results that render differently later on: thinking that is dropped, an empty
        think block that comes or goes, a mark that only the latest result has.

    Why it is bad
        The cache is lost from the turn that changed. Where that happens once a user turn, a long job in between is not
        touched; where it happens at every step, everything since the last user turn is read again each time.

    Example
        {{- range $i, $_ := .Messages }}<{{ .Role }}>
        {{- if and .Thinking (eq (len (slice $.Messages $i)) 2) }}<think>{{ .Thinking }}</think>{{ end }}
        {{- .Content }}</{{ .Role }}>
        {{- end }}

    Use instead
        {{- range .Messages }}<{{ .Role }}>
        {{- if .Thinking }}<think>{{ .Thinking }}</think>{{ end }}{{ .Content }}</{{ .Role }}>
        {{- end }}

    By design
        Many thinking models were trained on histories without their former thinking. Then the loss is the price of
        the format. It is an error where conversations of every kind lose it, and a warning where only those do in
        which a client hands thinking back.

    Fix safety
        Where a conversation without thinking is rewritten, the mark is given to every turn or to none. Thinking stays
        in the history of a Jinja template with `patch --keep-thinking`, which changes what the model sees; in a Go
        template it is left to the author.
    """

    CODE = "TF203"
    NAME = "history-rewritten"
    SEVERITY = "warning"
    FIXABLE = True
    REFERENCES = (
        "ggml-org/llama.cpp#20225, #21903, #21912, #22746 — "
        "with a sliding window or recurrent memory, a history that renders differently costs the whole prompt",
    )
    VALID = (
        "{{ json .Tools }}{{ range .Messages }}<{{ .Role }}>{{ .Thinking }}{{ .Content }}"
        "{{ json .ToolCalls }}{{ end }}",
        # The end mark that an unfinished answer lacks.
        "{{ json .Tools }}{{ range $i, $m := .Messages }}<{{ .Role }}>{{ .Content }}{{ json .ToolCalls }}"
        "{{ if gt (len (slice $.Messages $i)) 1 }}</s>{{ end }}{{ end }}",
    )
    INVALID = (
        "{{ json .Tools }}{{ range $i, $m := .Messages }}<{{ .Role }}>"
        '{{ if and (eq .Role "tool") (eq (len (slice $.Messages $i)) 1) }}Latest: {{ end }}{{ .Content }}{{ end }}',
        "{{ json .Tools }}{{ $at := -1 }}"
        '{{ range $i, $m := .Messages }}{{ if eq .Role "user" }}{{ $at = $i }}{{ end }}{{ end }}'
        "{{ range $i, $m := .Messages }}<{{ .Role }}>{{ if gt $i $at }}<think>{{ .Thinking }}</think>{{ end }}"
        "{{ .Content }}{{ end }}",
    )

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """Find assistant and tool turns that a later step has in other words."""
        # Of changes at one place the first is told: thoughts say more than the marks around them.
        for change in sorted(evidence.core_changes, key=lambda change: not _drops_thinking(change)):
            if _is_history(change):
                message = f"A{_an(change)} turn is rendered differently once others follow."
                if _drops_thinking(change):
                    message = f"Thinking is shown for a while and then dropped from the history.{_switch(evidence)}"
                message += _MEMORY.get(evidence.serving.memory or "", "")
                place = _place(evidence, change)
                found = self.finding(evidence, message, place, change.run, change.step, error=True)
                if found.cost is not None and evidence.serving.memory in _MEMORY:
                    found = replace(found, cost=replace(found.cost, kept_bytes=0, when=_WITHOUT))
                drops = evidence.template.kind == "jinja" and _drops_thinking(change)
                yield replace(found, option="--keep-thinking") if drops else found
        for change in evidence.other_changes:
            if _is_history(change) and change.run.loop.name != "late-system":
                message = f"A{_an(change)} turn is rendered differently later on."
                if _drops_thinking(change):
                    message = "Thinking is shown for a while and then dropped from the history, as many models want it."
                yield self.finding(evidence, message, _place(evidence, change), change.run, change.step, fixable=False)


def _is_history(change: Change) -> bool:
    return change.role in ("assistant", "tool") and not change.tools and not change.system


def _drops_thinking(change: Change) -> bool:
    return any(piece.origin is not None and piece.origin.field == "thinking" for piece in change.pieces)


def _switch(evidence: Evidence) -> str:
    switch = evidence.thinking_switch
    return f" `--chat-template-kwargs '{switch}'` keeps it." if switch else ""


def _an(change: Change) -> str:
    return "n earlier assistant" if change.role == "assistant" else "n earlier tool"


def _place(evidence: Evidence, change: Change) -> Span:
    if change.gate is not None:
        return change.gate.open
    word = next((piece for piece in change.pieces if is_words(piece)), None)
    return words_span(evidence.template.source, word) if word is not None else evidence.place(change)
