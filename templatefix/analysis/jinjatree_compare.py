"""What is printed for a message as the last one, compared with what is printed once others follow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final

from templatefix.analysis.jinjatree_values import Item, keys, walk
from templatefix.analysis.reading import DATA, SYSTEM, TOOLS
from templatefix.gotemplate.source import Span

_MANY: Final = 400  # things printed for one message, beyond which only the first that changes is named


def changed_items(last: Sequence[Item], later: Sequence[Item]) -> Iterator[Item]:
    """The things that change; text behind all the rest that the message no longer has later is the generation tail."""
    others = {item.span for item in walk(later) if item.kind in ("text", "print")}
    yield from _changed(last, later, others, True)


def _changed(last: Sequence[Item], later: Sequence[Item], others: set[Span], at_end: bool) -> Iterator[Item]:
    mine, theirs = list(last), list(later)
    start = 0
    while start < min(len(mine), len(theirs)):
        one, other = mine[start], theirs[start]
        if _said(one) and _said(other) and one.text != other.text:
            if one.text.startswith(other.text):
                mine[start : start + 1] = [other, _cut(one, len(other.text))]
            elif other.text.startswith(one.text):
                theirs[start : start + 1] = [one, _cut(other, len(one.text))]
            else:
                break
        elif one.key != other.key and not (_said(one) and _said(other)):
            if one.kind == other.kind == "if" and one.decider == other.decider:
                behind = at_end and start == len(mine) - 1
                for index, part in enumerate(one.parts):
                    yield from _changed(part, other.parts[index], others, behind)
            else:
                break
        start += 1
    mine, theirs = mine[start:], theirs[start:]
    end = len(mine)
    while at_end and end and _is_tail(mine[end - 1], others):
        end -= 1
    if not end and (at_end or not theirs):
        return
    if max(end, len(theirs)) > _MANY:
        yield (mine or theirs)[0]
        return
    yield from _unequal(mine[:end], theirs, at_end)


def _unequal(mine: Sequence[Item], theirs: Sequence[Item], at_end: bool) -> Iterator[Item]:
    old, new = ([keys((item,)) for item in items] for items in (mine, theirs))
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal" or keys(mine[i1:i2]) == keys(theirs[j1:j2]):
            continue
        if i1 == i2 == len(mine) and at_end:
            continue  # what only comes behind the rest
        yield from mine[i1 : min(i2, i1 + 1)]
        yield from theirs[j1 : min(j2, j1 + 1)]


def _said(item: Item) -> bool:
    return item.kind == "text" or (item.kind == "print" and bool(item.text))


def _cut(item: Item, start: int) -> Item:
    text = item.text[start:]
    return Item(item.kind, item.span, item.via, ("text", text), text, 0, item.raw)


def _is_tail(item: Item, others: set[Span]) -> bool:
    # Text of the template that only the last message has, or white space.
    for inner in walk((item,)):
        if inner.kind == "print" and inner.raw & (TOOLS | SYSTEM | DATA):
            return False
        if inner.span in others and inner.kind in ("text", "print") and not (inner.text and not inner.text.strip()):
            return False
    return True
