"""Whether tools stand in every prompt of a variant, once and always the same, whatever the messages say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from templatefix.analysis.stability import LoopRun, Step
from templatefix.chat.go import GoChatTemplate
from templatefix.chat.rendering import ChatTemplate
from templatefix.gotemplate.source import Span
from templatefix.rewrite.layout import Layout
from templatefix.rewrite.said import Said


def not_once(before: Sequence[LoopRun], after: Sequence[LoopRun], wanted: int) -> str | None:
    """What is wrong with a variant's tools on the core loops: each prompt has to hold them as often as `wanted`."""
    for was, run in zip(before, after, strict=True):
        known = next((_passed(step) for step in was.steps if step.tools), None)
        for step in run.steps:
            if step.tools != wanted:
                return _times(run, step)
            text = _passed(step) if step.tools else known
            if known is not None and text != known:
                return f"loop {run.loop.name}, step {step.index}: the definitions differ"
            known = text
    return None


def no_more_once(before: Sequence[LoopRun], after: Sequence[LoopRun]) -> str | None:
    """The first step where the original has the tools once and the variant has not."""
    for was, run in zip(before, after, strict=True):
        for old, step in zip(was.steps, run.steps, strict=False):
            if old.tools == 1 and step.tools != 1:
                return _times(run, step)
    return None


def not_always_once(before: Sequence[LoopRun], after: Sequence[LoopRun]) -> str | None:
    """The first step without the tools, or with more of them, of a loop in which the original shows them at all."""
    for was, run in zip(before, after, strict=True):
        if len(run.steps) < len(was.steps):
            return f"loop {run.loop.name}: {run.error}"
        wrong = next((step for step in run.steps if step.tools != 1), None)
        if wrong is not None and any(step.tools for step in was.steps):
            return _times(run, wrong)
    return None


def _times(run: LoopRun, step: Step) -> str:
    return f"loop {run.loop.name}, step {step.index}: the tools stand {step.tools} times"


def _passed(step: Step) -> str:
    """The text of the first pass over the definitions, as it stands in the prompt."""
    found = step.passes[0]
    return "".join([piece.text for piece in step.rendering.pieces[found.first : found.last + 1]])


def taken_by_texts(before: Sequence[LoopRun], variant: ChatTemplate, after: Sequence[LoopRun]) -> str | None:
    """What a variant's tools depend on in what messages say, or None.

    `before` and `after` are the same loops of the original and of the variant. Tools that stand where they stood are
    not looked at: what they depend on is as it was.
    """
    if not _moved(before, after):
        return None
    places = dict.fromkeys(span for run in after for step in run.steps for span in _printed(step))
    for span in places:
        tag = _deciding(variant, span)
        if tag is not None:
            line = variant.source.position(tag.start).line
            return f"whether the tools stand depends on what a message says, line {line} of the variant"
    return None


def _moved(before: Sequence[LoopRun], after: Sequence[LoopRun]) -> bool:
    return any(
        _where(old) != _where(new)
        for was, run in zip(before, after, strict=True)
        for old, new in zip(was.steps, run.steps, strict=False)
    )


def _where(step: Step) -> list[int | None]:
    """The messages that the tools stand with."""
    return [step.rendering.pieces[each.first].message for each in step.passes]


def _printed(step: Step) -> list[Span]:
    pieces = [piece for each in step.passes for piece in step.rendering.pieces[each.first : each.last + 1]]
    return [piece.span for piece in pieces if piece.origin is not None and piece.origin.kind in ("tool", "tools")]


def _deciding(template: ChatTemplate, span: Span) -> Span | None:
    """The tag of the branch by which a place loses its tools when a message says something else."""
    if template.kind == "go":
        layout = Layout(cast(GoChatTemplate, template).tree)
        node = layout.at(span)
        branch = None if node is None else Said(layout).deciding(node)
        return None if branch is None else branch.open
    from templatefix.rewrite.jinja_said import JinjaSaid  # with jinja2, which Go templates do without
    from templatefix.rewrite.jinja_tags import JinjaTags

    return JinjaSaid(JinjaTags(template.source)).deciding(span)
