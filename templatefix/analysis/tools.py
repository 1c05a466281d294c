"""Where the tool definitions stand in a prompt."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from templatefix.chat.rendering import Origin, Piece, Rendering
from templatefix.chat.request import Request

_SHORT: Final = 40  # characters: a name, no definition
_PARAMETERS: Final = ("parameters", "parameters.type", "required", "key")


@dataclass(frozen=True, slots=True)
class Pass:
    """One complete pass over the tool definitions: which pieces, and where in the prompt, in bytes."""

    first: int  # index of the first piece
    last: int  # index of the last piece
    start: int
    end: int


class _Collector:
    """Follows the pieces that print tools; a pass ends where a tool begins anew."""

    def __init__(self, tools: Sequence[list[str]]) -> None:
        self.tools = tools  # the words of each
        self.passes: list[tuple[int, int]] = []
        self._forget()

    def _forget(self) -> None:
        self.fields: dict[int, set[str]] = {}
        self.first = self.last = -1
        self.tool = -1

    def _complete(self) -> bool:
        return len(self.fields) == len(self.tools) and all(
            fields & {"", "function"} or fields >= _needed(self.tools[tool]) for tool, fields in self.fields.items()
        )

    def close(self) -> None:
        """End the pass at hand."""
        if self.first >= 0 and self._complete():
            self.passes.append((self.first, self.last))
        self._forget()

    def add(self, first: int, last: int, tool: int, field: str) -> None:
        """Take in pieces, from the first to the last, that print a field of a tool."""
        again = field in ("", "function", "name") and field in self.fields.get(tool, ())
        if field == "key":
            if tool in self.fields:
                self.fields[tool].add("parameters")
                self.last = last
            return
        # A definition may name its tool twice; only behind all of them a name begins a new pass.
        if tool < self.tool or (again and (tool != self.tool or self._complete())):
            self.close()
        if self.first < 0:
            self.first = first
        self.last, self.tool = last, tool
        self.fields.setdefault(tool, set()).add("parameters" if field in _PARAMETERS else field)


def _needed(words: Sequence[str]) -> set[str]:
    """The fields that make a definition; a tool without parameters is defined by its description."""
    _, told, *parameters = words
    return {"name", "parameters"} if parameters else {"name", "description"} if told.strip() else {"name"}


def _words(tool: Any) -> list[str]:
    # What a definition must show; a call of the tool has no description.
    function = tool.get("function") or {}
    parameters = function.get("parameters") or {}
    told = max(re.findall(r"[\w ]+", str(function.get("description") or "")), key=len, default="")
    return [str(function.get("name", "")), told, *(parameters.get("properties") or {})]


@dataclass(frozen=True, slots=True)
class _Print:
    """Neighbouring pieces that one tag prints of one datum, such as the lines of its JSON, with the blanks between."""

    first: int
    last: int
    text: str
    origin: Origin | None


def _prints(pieces: Sequence[Piece]) -> Iterator[_Print]:
    start = 0
    while start < len(pieces):
        origin, last = pieces[start].origin, start
        if origin is not None and origin.kind in ("tool", "tools") and pieces[start].text:
            for index in range(start + 1, len(pieces)):
                following = pieces[index]
                if following.origin == origin and following.span == pieces[start].span:
                    last = index
                elif following.origin is not None or following.text.strip():
                    break
        text = pieces[start].text if last == start else "".join([piece.text for piece in pieces[start : last + 1]])
        yield _Print(start, last, text, origin)
        start = last + 1


def _fields(printed: _Print, tools: Sequence[list[str]]) -> Iterator[tuple[int, str]]:
    """The tools, with the field, that are printed."""
    origin, text = printed.origin, printed.text
    if origin is not None and origin.kind in ("tool", "tools") and not text:
        return  # an object printed as nothing, or a text that is empty
    if origin is not None and origin.kind == "tools":
        for index in range(len(tools)):
            if _shows(text, tools, index):
                yield index, ""
        return
    if origin is not None and origin.kind == "tool":
        # The word before a value, printed as one of the definition's own keys, is not the definition.
        whole = origin.field not in ("", "function") or _shows(text, tools, origin.index)
        yield origin.index, origin.field if whole else "part"
    if len(text) > _SHORT:
        # Text that was put together in a variable has no origin, or that of one of its parts.
        for index, words in enumerate(tools):
            named = origin is not None and origin.kind == "tool" and origin.index == index
            if not named and all(words) and all(word in text for word in words):
                yield index, ""
    elif origin is None:
        # The keys of a map have no origin.
        for index, words in enumerate(tools):
            if text in words[2:]:
                yield index, "key"


def _shows(text: str, tools: Sequence[list[str]], index: int) -> bool:
    return index < len(tools) and tools[index][0] in text


def tool_passes(rendering: Rendering, request: Request) -> tuple[Pass, ...]:
    """The complete passes over the definitions of the request's tools; a list of names is none."""
    if not request.tools:
        return ()
    words = [_words(tool) for tool in request.tools]
    collector = _Collector(words)
    offsets = [0]
    total = 0
    for printed in _prints(rendering.pieces):
        for tool, field in _fields(printed, words):
            collector.add(printed.first, printed.last, tool, field)
    for piece in rendering.pieces:
        total += len(piece.text.encode("utf-8", "surrogateescape"))
        offsets.append(total)
    collector.close()
    return tuple([Pass(first, last, offsets[first], offsets[last + 1]) for first, last in collector.passes])
