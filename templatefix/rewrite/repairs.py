"""Repairs of a template's data: values printed as Go structs, fields asked of the wrong thing.

A repair is not a move: what it changes is wrong in every prompt. It is proved apart, and what follows takes the
repaired template for the original.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from templatefix.analysis.stability import LoopRun
from templatefix.analysis.structs import datum_printed, is_struct
from templatefix.chat.go import GoChatTemplate
from templatefix.chat.rendering import Piece, RenderError, Rendering
from templatefix.gotemplate.edits import Edit, apply_edits
from templatefix.gotemplate.nodes import ActionNode, FieldNode, Node, RangeNode, VariableNode, WithNode
from templatefix.gotemplate.source import Source, Span
from templatefix.gotemplate.visitor import walk
from templatefix.rewrite.layout import Layout
from templatefix.rewrite.operands import path_of, single
from templatefix.rewrite.proof import Baseline, Check
from templatefix.rewrite.traits import derived_traits

_ROUNDS = 16
_FIELD = re.compile(r"can't evaluate field (\w+) in type")
_OF_THE_REQUEST = ("Tools", "System", "Messages", "Think", "ThinkLevel", "IsThinkSet")
_OF_THE_FUNCTION = ("Name", "Description", "Parameters", "Arguments")


@dataclass(frozen=True)
class Repair:
    """A repaired template, what was repaired, and what shows that the rest is as it was."""

    template: GoChatTemplate
    edits: int
    check: Check


def printed_structs(runs: Sequence[LoopRun]) -> list[Span]:
    """The actions that print a tool, or a part of one, as a Go struct."""
    found: dict[Span, None] = {}
    for run in runs:
        for step in run.steps:
            for piece in step.rendering.pieces:
                if piece.span not in found and is_struct(piece):
                    found[piece.span] = None
    return list(found)


def repair_structs(base: Baseline) -> Repair | str:
    """Print as JSON what is printed as a Go struct; a sentence where that cannot be done."""
    template = base.template
    assert isinstance(template, GoChatTemplate)
    edits: list[Edit] = []
    spans = printed_structs(base.runs)
    for span in spans:
        datum = datum_printed(template.tree, span)
        if datum is None:
            return f"line {template.source.position(span.start).line}: the struct is part of a text that is made here"
        edits += _as_json(template, span, datum)
    if not edits:
        return "no Go struct was seen in any prompt"
    repaired = applied(template, edits)
    if repaired is None:
        return "the repaired template does not parse"
    return Repair(repaired, len(spans), _same_but(base, repaired, frozenset(spans)))


def _as_json(template: GoChatTemplate, span: Span, datum: Node) -> list[Edit]:
    """Let the action at a span print a datum as JSON and call nothing else."""
    pipe = next(n.pipe for n in walk(template.tree.root) if isinstance(n, ActionNode) and n.span == span)
    if single(pipe) is datum:
        return [Edit(Span(datum.span.start, datum.span.start), "json ")]
    text = template.source.slice(datum.span)
    return [
        Edit(Span(pipe.cmds[0].span.start, pipe.cmds[-1].span.end), f"json {f'({text})' if datum is pipe else text}")
    ]


def applied(template: GoChatTemplate, edits: Sequence[Edit]) -> GoChatTemplate | None:
    """The template with edits made; None where that is no template."""
    try:
        text = apply_edits(template.source, edits)
        return GoChatTemplate(Source(text, template.source.name), date=template.date, limits=template.limits)
    except (ValueError, RenderError):
        return None


def repair_failures(base: Baseline) -> Repair | str:
    """Mend what makes execution fail when tools are given or called; a sentence where that cannot be done."""
    template = base.template
    assert isinstance(template, GoChatTemplate)
    count = 0
    while (error := _first_error(base, template)) is not None:
        if count >= _ROUNDS:
            return f"execution still fails after {count} repairs: {error}"
        mended = next((each for each in _attempts(base, template, error)), None)
        if mended is None:
            return f"execution fails, and no repair of it is known: {error}"
        template, count = mended, count + 1
    if not count:
        return "execution does not fail"
    return Repair(template, count, _same_but(base, template, frozenset()))


def _first_error(base: Baseline, template: GoChatTemplate) -> RenderError | None:
    return next((run.error for run in base.run(template, base.core) if run.error is not None), None)


def _attempts(base: Baseline, template: GoChatTemplate, error: RenderError) -> Iterator[GoChatTemplate]:
    """Changes after which this failure does not occur any more."""
    found = _FIELD.search(error.message)
    if found is None or error.span is None:
        return
    for edits in _edits(Layout(template.tree), error.span, found.group(1)):
        attempt = applied(template, edits)
        if attempt is None:
            continue
        after = _first_error(base, attempt)
        if after is None or not _same_place(after, error):
            yield attempt


def _same_place(after: RenderError, before: RenderError) -> bool:
    return after.span is None or before.span is None or abs(after.span.start - before.span.start) <= len(".Function")


def _edits(layout: Layout, span: Span, name: str) -> Iterator[list[Edit]]:
    """Ways to ask the right thing for a field, the likeliest first."""
    node = _operand(layout, span)
    if node is None:
        return
    around = [owner for owner, arm in _scopes(layout, span)]
    for owner in around:
        same = path_of(single(owner.pipe) or owner.pipe)[-1:] == (name,)
        if same and isinstance(owner, WithNode):
            yield [Edit(node.span, ".")]
        if same and isinstance(owner, RangeNode):
            word = layout.source.slice(Span(owner.open.start, owner.pipe.span.start))
            start = owner.open.start + word.index("range")
            yield [Edit(Span(start, start + len("range")), "with"), Edit(node.span, ".")]
    if name in _OF_THE_REQUEST:
        yield [Edit(node.span, "$." + ".".join(_from(node, name)))]
    if name in _OF_THE_FUNCTION:  # of a tool or a call
        head = layout.source.slice(node.span)
        at = node.span.start + len(head[: _offset(head, name)].encode("utf-8", "surrogateescape"))
        yield [Edit(Span(at, at), ".Function")]
    if name == "Name":
        head = layout.source.slice(node.span)
        yield [Edit(node.span, head[: _offset(head, name)] + ".ToolName")]


def _offset(text: str, name: str) -> int:
    return text.rindex(f".{name}")


def _from(node: Node, name: str) -> tuple[str, ...]:
    path = path_of(node)
    return path[path.index(name) :]


def _operand(layout: Layout, span: Span) -> FieldNode | VariableNode | None:
    for node in layout.nodes:
        if isinstance(node, (FieldNode, VariableNode)) and node.span == span:
            return node
    return None


def _scopes(layout: Layout, span: Span) -> Iterator[tuple[RangeNode | WithNode, object]]:
    """The branches that set dot around a place, innermost first."""
    inner = layout.at(span)
    if inner is None:
        return
    around: list[tuple[Node, object]] = list(layout.ancestors(inner))
    for owner, arm in around:
        if isinstance(owner, (RangeNode, WithNode)) and arm is owner.list:
            yield owner, arm


def _same_but(base: Baseline, repaired: GoChatTemplate, spans: frozenset[Span]) -> Check:
    """Whether all that rendered before renders to the same, the pieces of some nodes apart."""
    renders = 0
    after_traits = derived_traits(repaired)
    for name, value in base.traits.items():
        if after_traits.get(name) != value:
            return Check(False, 1, f"the {name} was {value!r} and is {after_traits.get(name)!r}")
    for request, before in base.rendered:
        renders += 1
        after = base.render(repaired, request)
        if isinstance(after, RenderError):
            return Check(False, renders, f"a request that rendered before fails: {after}")
        if not spans and before.data != after.data:
            return Check(False, renders, "a prompt that rendered before has changed")
        if spans and not _equal_but(before, after, spans):
            return Check(False, renders, "more has changed than the values printed as structs")
    return Check(True, renders)


def _equal_but(before: Rendering, after: Rendering, spans: frozenset[Span]) -> bool:
    if len(before.pieces) != len(after.pieces):
        return False
    return all(
        old.text == new.text if old.span not in spans else not is_struct(old) or _is_json(new)
        for old, new in zip(before.pieces, after.pieces, strict=True)
    )


def _is_json(piece: Piece) -> bool:
    """Whether a piece is an object or a list, and no text that quotes one."""
    try:
        return isinstance(json.loads(piece.text), (dict, list))
    except ValueError:
        return False
