"""`tojson` as llama-server's engine writes it: a blank behind `,` and `:`, nothing escaped that need not be."""

from __future__ import annotations

from collections.abc import Mapping
from json.encoder import encode_basestring as quoted
from typing import Any

from templatefix.chat.jinja_text import LONGEST, Mark, Text, TooLong, join_texts
from templatefix.chat.jinja_values import Record, Row
from templatefix.chat.rendering import Origin


def to_json(value: Any, indent: int | None = None, colon: str = ": ", comma: str | None = None) -> Text:
    """The JSON of a value; what belongs to a request keeps its origin."""
    parts: list[str] = []
    _write(value, parts, None, _Layout(indent, colon, (", " if indent is None else ",") if comma is None else comma), 0)
    return join_texts(parts)


class _Layout:
    """Where blanks and line breaks stand."""

    def __init__(self, indent: int | None, colon: str, comma: str) -> None:
        self.indent = indent
        self.colon = colon
        self.comma = comma
        self.size = 0  # of what was written so far

    def wrote(self, size: int) -> None:
        """So many characters are written; raises TooLong."""
        self.size += size
        if self.size > LONGEST:
            raise TooLong

    def line(self, depth: int) -> str:
        """What begins a line at a depth; raises TooLong."""
        self.wrote((self.indent or 0) * depth)
        return "" if self.indent is None else "\n" + " " * (self.indent * depth)


def number(value: float) -> str:
    """A float as JSON."""
    if value != value or value in (float("inf"), float("-inf")):
        return "null"
    return repr(value)


def _write(value: Any, parts: list[str], origin: Mark | None, layout: _Layout, depth: int) -> None:
    mine = origin or mark_of(value)

    def say(text: str) -> None:
        layout.wrote(len(text))
        if mine is not None:
            made = str.__new__(Text, text)
            made.runs = ((len(text), mine),)
            parts.append(made)
        else:
            parts.append(text)

    if len(parts) > LONGEST // 32:
        raise TooLong
    if value is None or isinstance(value, bool):
        say("null" if value is None else "true" if value else "false")
    elif isinstance(value, str):
        say(quoted(value))
    elif isinstance(value, int):
        say(str(value))
    elif isinstance(value, float):
        say(number(value))
    elif isinstance(value, Mapping):
        say("{")
        for index, (key, item) in enumerate(value.items()):
            say((layout.comma if index else "") + layout.line(depth + 1) + quoted(str(key)) + layout.colon)
            _write(item, parts, mine, layout, depth + 1)
        say((layout.line(depth) if value else "") + "}")
    elif isinstance(value, (list, tuple)):
        say("[")
        for index, item in enumerate(list.__iter__(value) if isinstance(value, list) else value):
            say((layout.comma if index else "") + layout.line(depth + 1))
            _write(item, parts, mine, layout, depth + 1)
        say((layout.line(depth) if value else "") + "]")
    else:
        say("null")


def mark_of(value: Any) -> Mark | None:
    """Where a value of a request comes from; None where it is of the template's own making."""
    if isinstance(value, Record):
        return Mark(None, value.origin, value.message)
    if isinstance(value, Row):
        origin: Origin = value.origin
        return Mark(None, origin, origin.index if origin.kind in ("message", "system") else None)
    if isinstance(value, Text) and value.runs:
        marks = {mark for _, mark in value.runs if mark.origin is not None}
        return Mark(None, next(iter(marks)).origin, next(iter(marks)).message) if len(marks) == 1 else None
    return None
