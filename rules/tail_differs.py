"""TF206."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from templatefix.analysis.evidence import Evidence
from templatefix.analysis.findings import Finding
from templatefix.analysis.rule import Rule
from templatefix.analysis.stability import Step
from templatefix.gotemplate.source import Source, Span


class TailDiffers(Rule):
    """TF206 tail-differs

    What it does
        Finds an end of the prompt, where the model is to answer, that differs from the header of the same answer once
        it is in the history: an empty think block, a line break more or less.

    Why it is bad
        It is not bad, but it costs: the few tokens of the header and the whole answer behind it are read once more at
        the next request.

    Example
        {{- range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}<assistant><think></think>

    Use instead
        {{- range .Messages }}<{{ .Role }}>{{ if eq .Role "assistant" }}<think></think>{{ end }}{{ .Content }}{{ end }}
        {{- "" }}<assistant><think></think>

    Fix safety
        Nothing is changed: the model was trained on both texts.
    """

    CODE = "TF206"
    NAME = "tail-differs"
    SEVERITY = "info"
    FIXABLE = False
    REFERENCES = (
        "QwenLM/Qwen3#1826 — an empty think block stands in the generation tail, and in no turn of the history",
    )
    VALID = (
        "{{ json .Tools }}{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ json .ToolCalls }}{{ end }}<assistant>",
        "{{ json .Tools }}{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ json .ToolCalls }}{{ end }}",
    )
    INVALID = ("{{ json .Tools }}{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}<assistant><think></think>",)

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """Find tails of which a later step keeps only a part."""
        seen: set[Span] = set()
        for run in evidence.core:
            for before, step in zip(run.steps, run.steps[1:], strict=False):
                if step.kept_bytes < run.needed(before.index) or step.kept_bytes >= before.prompt_bytes:
                    continue
                index = bisect_right(before.offsets, step.kept_bytes) - 1
                node = before.rendering.pieces[index].span
                if node not in seen:
                    seen.add(node)
                    message = (
                        "The end of the prompt differs from the same header in the history: the answer is read again."
                    )
                    span = _rest(evidence.template.source, before, index, step.kept_bytes)
                    yield self.finding(evidence, message, span, run, step.index)


def _rest(source: Source, step: Step, index: int, offset: int) -> Span:
    # From the first mark or byte that differs, where the node is plain text.
    piece = step.rendering.pieces[index]
    if source.slice(piece.span) != piece.text:
        return piece.span
    data = piece.text.encode("utf-8", "surrogateescape")
    start = offset - step.offsets[index]
    opened = data.rfind(b"<", 0, start)  # not in the middle of a mark
    if opened >= 0 and b">" not in data[opened:start]:
        start = opened
    return Span(piece.span.start + start, piece.span.end)
