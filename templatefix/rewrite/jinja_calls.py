"""Jinja templates that stop at more than one call in a turn, made to print them all (TF305)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from templatefix.analysis.jinja_faults import refuses_several_calls, why_it_fails
from templatefix.chat.calls import CallNumbers
from templatefix.chat.jinja import JinjaChatTemplate
from templatefix.chat.jinja_layout import LaidToken
from templatefix.chat.rendering import RenderError
from templatefix.chat.request import Request
from templatefix.gotemplate.edits import Edit
from templatefix.gotemplate.source import Span
from templatefix.rewrite.jinja_repairs import JinjaRepair, edited, rendered, traits_lost
from templatefix.rewrite.jinja_tags import Arm, Branch, JinjaTags
from templatefix.rewrite.proof import Baseline, Check


def repair_failures(base: Baseline) -> JinjaRepair | str:
    """Print every call of a turn where the template stops at more than one; a sentence where that cannot be done."""
    template = base.template
    assert isinstance(template, JinjaChatTemplate)
    error = next((run.error for run in base.runs if run.error is not None), None)
    if error is None:
        return "execution does not fail"
    if not refuses_several_calls(template, error) or error.span is None:
        return _placed(template, error)
    reasons: list[str] = []
    for edits in _calls_one_by_one(JinjaTags(template.source), error.span):
        repaired = edited(template, edits)
        if repaired is None:
            continue
        left = next((run.error for run in base.run(repaired, base.core) if run.error is not None), None)
        if left is not None:
            reasons.append(_placed(repaired, left))
            continue
        check = _same_and_apart(base, template, repaired)
        if check.holds:
            return JinjaRepair(repaired, check)
        reasons.append(f"{check.reason}")
    return reasons[0] if reasons else "the calls of a turn cannot be told from the rest of it"


def _placed(template: JinjaChatTemplate, error: RenderError) -> str:
    place = "" if error.span is None else f"line {template.source.position(error.span.start).line}: "
    return place + why_it_fails(error)


def _calls_one_by_one(tags: JinjaTags, raised: Span) -> Iterator[tuple[Edit, ...]]:
    """Edits that put a loop over the calls around what prints the first one."""
    around = tags.around(raised.start)
    if not around:
        return
    guard = around[0]
    arm = guard.arm_at(raised.start)
    if arm is not None and len(guard.arms) == 1:
        body = Span(guard.span.end, _end_of_body(tags, guard))
        yield from _looped(tags, guard.span, body, None)
    elif arm is not None and len(guard.arms) == 2:
        other: Arm = guard.arms[0] if arm is guard.arms[1] else guard.arms[1]
        end = next((later.tag.span for earlier, later in pairwise(guard.arms) if earlier is other), None)
        # Of `if` and `else` the arm that prints stays, with its tag and all behind it taken for the loop's.
        if end is not None:
            yield from _looped(tags, other.tag.span, other.body, Span(end.start, guard.span.end))


def _end_of_body(tags: JinjaTags, guard: Branch) -> int:
    """Where the smallest arm or loop around a branch ends."""
    bodies = [arm.body for branch in tags.branches if branch is not guard for arm in branch.arms]
    ends = {tag.span.end: tag.span.start for tag in tags.tags if tag.name == "endfor"}
    bodies += [Span(loop.tag.span.end, ends[loop.span.end]) for loop in tags.loops]
    inner = [body for body in bodies if body.contains(guard.span)]
    return min(inner, key=len).end if inner else len(tags.source.data)


def _looped(tags: JinjaTags, opening: Span, body: Span, closing: Span | None) -> Iterator[tuple[Edit, ...]]:
    calls, firsts = first_calls(tags, body)
    if not calls or _asks_for_the_loop(tags, body):
        return
    name = next(each for each in ("call", "each_call", "one_call") if each not in tags.names)
    data = tags.source.data
    left = "-" if data[opening.start + 2 : opening.start + 3] == b"-" else ""
    right = "-" if data[opening.end - 3 : opening.end - 2] == b"-" else ""
    begin = Edit(opening, f"{{%{left} for {name} in {calls} %}}".replace(" %}", f" {right}%}}"))
    inner = [Edit(first, name) for first in firsts]
    if closing is not None:
        end_left = "-" if data[closing.start + 2 : closing.start + 3] == b"-" else ""
        end_right = "-" if data[closing.end - 3 : closing.end - 2] == b"-" else ""
        yield (begin, *inner, Edit(closing, f"{{%{end_left} endfor {end_right}%}}"))
        return
    at = body.start + len(data[body.start : body.end].rstrip())
    indent = data[data.rfind(b"\n", 0, opening.start) + 1 : opening.start].decode("utf-8", "surrogateescape")
    line = f"\n{indent}" if indent.isspace() else ""
    yield (begin, *inner, Edit(Span(at, at), f"{line}{{%- endfor %}}"))
    yield (begin, *inner, Edit(Span(body.end, body.end), "{% endfor %}"))


def first_calls(tags: JinjaTags, body: Span) -> tuple[str, list[Span]]:
    """What a body calls the calls of a message, and where it takes the first of them."""
    tokens = [token for token in tags.layout.tokens if token.kind not in ("whitespace", "data")]
    names: dict[str, None] = {}
    found: list[Span] = []
    for index, token in enumerate(tokens):
        member = [each.text for each in tokens[max(0, index - 1) : index + 2]]
        if token.kind == "name" and member[:2] == [".", "tool_calls"]:
            last = index  # of `message.tool_calls`
        elif member in (["[", "'tool_calls'", "]"], ["[", '"tool_calls"', "]"]):
            last = index + 1
        else:
            continue
        end, first = _first_behind(tokens, last + 1), _path_before(tokens, index - 1)
        if end is None or first is None:
            continue
        span = tags.layout.span(tokens[first].start, tokens[end].end)
        if body.contains(span):
            found.append(span)
            names.setdefault(tags.text(tokens[first : last + 1]))
    return (next(iter(names)), found) if len(names) == 1 else ("", [])


def _path_before(tokens: Sequence[LaidToken], at: int) -> int | None:
    """The index of the first token of a name, or of names with dots between them, in front of an index."""
    first = at - 1
    while first >= 2 and tokens[first].kind == "name" and tokens[first - 1].text == ".":
        first -= 2
    return first if first >= 0 and tokens[first].kind == "name" else None


def _first_behind(tokens: Sequence[LaidToken], at: int) -> int | None:
    """The index of the last token of `[0]` or `| first` at an index."""
    texts = [token.text for token in tokens[at : at + 3]]
    if texts == ["[", "0", "]"]:
        return at + 2
    return at + 1 if texts[:2] == ["|", "first"] else None


def _asks_for_the_loop(tags: JinjaTags, body: Span) -> bool:
    """Whether a body uses `loop` outside the loops that it holds."""
    inner = [loop.span for loop in tags.loops if body.contains(loop.span)]
    for token in tags.layout.tokens:
        span = tags.layout.span(token.start, token.end)
        if token.text == "loop" and body.contains(span) and not any(each.contains(span) for each in inner):
            return True
    return False


def _same_and_apart(base: Baseline, before: JinjaChatTemplate, after: JinjaChatTemplate) -> Check:
    """Whether all that rendered stays, and several calls are printed as the original prints them one in a turn."""
    renders = several = 0
    if lost := traits_lost(before, after):
        return Check(False, 1, lost)
    for request, old in base.rendered:
        renders += 1
        new = rendered(base, after, request)
        if new is None or new.data != old.data:
            return Check(False, renders, "a prompt that rendered before has changed")
    for loop in (*base.core, *base.others):
        for request in loop.requests:
            if not any(len(message.get("tool_calls") or ()) > 1 for message in request.messages):
                continue
            apart = rendered(base, before, calls_apart(request))
            new = rendered(base, after, request)
            renders += 2
            several += 1
            if apart is None or new is None or apart.data != new.data:
                return Check(False, renders, "several calls are not printed as if each had a turn of its own")
    return Check(True, renders) if several else Check(False, renders, "no conversation has several calls in a turn")


def calls_apart(request: Request) -> Request:
    """The same conversation with each call in a turn of its own, the text with the first; calls keep their numbers."""
    messages: list[Mapping[str, Any]] = []
    numbers = CallNumbers()
    for message in request.messages:
        calls = message.get("tool_calls") or ()
        if calls:
            numbers.begin()
        elif message.get("role") == "tool" and (number := numbers.result(str(message.get("tool_call_id") or ""))):
            message = {**message, "tool_call_id": number}
        for index, call in enumerate(calls):
            numbers.call(str(call.get("id") or ""), isinstance(call["function"].get("arguments"), str))
            shown = message if index == 0 else {"role": message["role"], "content": ""}
            messages.append({**shown, "tool_calls": [call]})
        if not calls:
            messages.append(message)
    return replace(request, messages=tuple(messages))
