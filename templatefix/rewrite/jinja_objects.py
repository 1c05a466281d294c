"""Objects of tools and calls that stand in a Jinja template's prompt as Python writes them, or not at all (TF301)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, Final

from templatefix.analysis.structs import is_list_of_parts, is_silent, is_struct
from templatefix.chat.jinja import JinjaChatTemplate
from templatefix.chat.jinja_layout import LaidToken
from templatefix.chat.jinja_values import Record, Row
from templatefix.chat.rendering import Piece, Rendering
from templatefix.chat.request import Request
from templatefix.gotemplate.edits import Edit
from templatefix.gotemplate.source import Span
from templatefix.rewrite.jinja_repairs import JinjaRepair, edited, rendered, traits_lost
from templatefix.rewrite.jinja_tags import JinjaTags
from templatefix.rewrite.proof import Baseline, Check

_ROUNDS: Final = 8
_JSON: Final = json.JSONDecoder()


def repair_objects(base: Baseline) -> JinjaRepair | str:
    """Print as JSON what is printed in Python's notation or not at all; a sentence where that cannot be done."""
    template = base.template
    assert isinstance(template, JinjaChatTemplate)
    original, requests = template, [request for request, _ in base.rendered]
    if any(is_list_of_parts(piece) for _, before in base.rendered for piece in before.pieces):
        return "a message's text is printed as a list of its parts, and JSON of it would be no better"
    for _ in range(_ROUNDS):
        fault = _first_fault(base, template, requests)
        if fault is None:
            return JinjaRepair(template, _same_but_objects(base, original, template))
        request, span = fault
        mended = next(
            (each for each in _as_json(template, span) if not _is_at_fault(base, each, request, template, span)), None
        )
        if mended is None:
            line = template.source.position(span.start).line
            return f"line {line}: the object is part of a text that is made elsewhere"
        template = mended
    return f"objects are still printed as they are after {_ROUNDS} repairs"


def is_fault(piece: Piece) -> bool:
    """Whether a piece is an object of a tool or a call that is no JSON."""
    return is_struct(piece) or is_silent(piece)


def _first_fault(
    base: Baseline, template: JinjaChatTemplate, requests: Sequence[Request]
) -> tuple[Request, Span] | None:
    for request in requests:
        found = rendered(base, template, request)
        for piece in found.pieces if found is not None else ():
            if is_fault(piece):
                return request, piece.span
    return None


def _is_at_fault(
    base: Baseline, variant: JinjaChatTemplate, request: Request, before: JinjaChatTemplate, span: Span
) -> bool:
    """Whether a change does not mend the place, or something else is no longer the same."""
    old, new = rendered(base, before, request), rendered(base, variant, request)
    return old is None or new is None or not same_but_json(old, new, variant.data(request), span)


def _as_json(template: JinjaChatTemplate, span: Span) -> Iterator[JinjaChatTemplate]:
    """Ways to print the object at a tag as JSON, the plainest first."""
    tags = JinjaTags(template.source)
    tokens = _printed_by(tags, span)
    names = {token.text for token in tokens if token.kind == "name"}
    sets = [tag.tokens[2:] for tag in tags.tags if tag.name == "set" and _assigns(tag.tokens, names)]
    for expression in (tokens, *sets):
        for part in _parts(expression):
            for edit in _to_json(tags, part):
                variant = edited(template, (edit,))
                if variant is not None:
                    yield variant


def _printed_by(tags: JinjaTags, span: Span) -> list[LaidToken]:
    """The expression of the tag that prints at a place."""
    inside: list[LaidToken] = []
    start: LaidToken | None = None
    for token in tags.layout.tokens:
        if token.kind == "variable_begin":
            start, inside = token, []
        elif token.kind == "variable_end" and start is not None:
            if tags.layout.span(start.start, token.end).contains(Span(span.start, span.start + 1)):
                return inside
            start = None
        elif start is not None and token.kind != "whitespace":
            inside.append(token)
    return []


def _assigns(tokens: Sequence[LaidToken], names: set[str]) -> bool:
    return len(tokens) > 2 and tokens[0].text in names and tokens[1].text == "="


def _parts(tokens: Sequence[LaidToken]) -> Iterator[list[LaidToken]]:
    """What `+`, `~`, `if`, `else`, `or` and round brackets put together, the smallest parts first, and the whole."""
    parts: list[list[LaidToken]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token.kind == "operator" and token.text in "([{") - (token.kind == "operator" and token.text in ")]}")
        if depth == 0 and (token.text in ("+", "~") or (token.kind == "name" and token.text in ("if", "else", "or"))):
            parts.append([])
        else:
            parts[-1].append(token)
    if len(parts) > 1:
        for part in parts:
            yield from _parts(part)
    elif len(tokens) > 2 and tokens[0].text == "(" and tokens[-1].text == ")":
        yield from _parts(tokens[1:-1])
    if any(token.kind == "name" for token in tokens):
        yield list(tokens)


def _to_json(tags: JinjaTags, part: Sequence[LaidToken]) -> Iterator[Edit]:
    span = tags.layout.span(part[0].start, part[-1].end)
    if [token.text for token in part[-2:]] == ["|", "string"]:
        part = part[:-2]
    text = tags.text(part)
    plain = (
        text
        if all(
            token.kind == "name" or token.text in (".", "[", "]", "|") or token.kind in ("string", "integer")
            for token in part
        )
        else f"({text})"
    )
    yield Edit(span, f"{plain} | tojson")
    yield Edit(span, f"({plain} | tojson if {plain} else '')")


def _same_but_objects(base: Baseline, original: JinjaChatTemplate, repaired: JinjaChatTemplate) -> Check:
    """Whether all that rendered before renders to the same, but for JSON where an object was to stand."""
    renders = 0
    if lost := traits_lost(original, repaired):
        return Check(False, 1, lost)
    for request, before in base.rendered:
        renders += 1
        after = rendered(base, repaired, request)
        if after is None:
            return Check(False, renders, "a request that rendered before fails")
        if not same_but_json(before, after, repaired.data(request)):
            return Check(False, renders, "more has changed than the objects that are no JSON")
    return Check(True, renders)


def same_but_json(before: Rendering, after: Rendering, data: Mapping[str, Any], only: Span | None = None) -> bool:
    """Whether a prompt is as before with an object's JSON in the place of it: of each, or of those that one tag prints.

    `data` is what the template was given: there is the object that a piece was made of.
    """
    at = index = 0
    while index < len(before.pieces):
        piece = before.pieces[index]
        if is_fault(piece) and only in (None, piece.span):
            try:
                value, at = _JSON.raw_decode(after.text, at)
            except ValueError:
                return False
            taken = _pieces_of(value, before.pieces[index:], data)
            if not taken:
                return False
            index += taken
        elif after.text.startswith(piece.text, at):
            at += len(piece.text)
            index += 1
        else:
            return False
    return at == len(after.text)


def _pieces_of(value: Any, pieces: Sequence[Piece], data: Mapping[str, Any]) -> int:
    """How many of the first pieces were made of the data that a JSON value shows: a list is printed item by item."""
    origins = [piece.origin for piece in takewhile(lambda each: each.span == pieces[0].span, pieces)]
    for one in _objects(data):
        if one == value and one.origin == origins[0]:
            return 1
        items = [getattr(item, "origin", None) for item in one] if isinstance(one, Row) else []
        if one == value and items and items == origins[: len(items)]:
            return len(items)
    return 0


def _objects(value: Any) -> Iterator[Record | Row]:
    """The objects and lists of a request within a value, and the value itself if it is one."""
    if isinstance(value, (Record, Row)):
        yield value
    if isinstance(value, (dict, list)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _objects(each)
