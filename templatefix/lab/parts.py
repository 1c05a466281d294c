"""What a prompt is made of, in tokens: system text, tools, the turns, the opening of the answer to come."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from templatefix.analysis.tools import tool_passes
from templatefix.chat.rendering import Rendering
from templatefix.chat.request import Request

Kind = Literal["system", "tools", "user", "assistant", "tool", "tail"]
_ROLES: dict[str, Kind] = {"system": "system", "user": "user", "assistant": "assistant", "tool": "tool"}


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of a prompt."""

    kind: Kind
    tokens: int


def parts_of(rendering: Rendering, request: Request, ends: Sequence[int]) -> tuple[Part, ...]:
    """The stretches in order, two neighbours never alike; `ends` as an engine gives them, all tokens are counted.

    A token belongs to the stretch in which it begins. Text of the template itself belongs to what it stands around.
    """
    stretches = list(_stretches(rendering, request))
    parts: list[Part] = []
    at = start = 0
    for end in ends:
        while at < len(stretches) - 1 and stretches[at][1] <= start:
            at += 1
        kind = stretches[at][0] if stretches else "tail"
        if parts and parts[-1].kind == kind:
            parts[-1] = Part(kind, parts[-1].tokens + 1)
        else:
            parts.append(Part(kind, 1))
        start = end
    return tuple(parts)


def _stretches(rendering: Rendering, request: Request) -> Iterator[tuple[Kind, int]]:
    """Each piece as its kind and the byte where it ends."""
    passes = [(found.start, found.end) for found in tool_passes(rendering, request)]
    kinds = [_kind(rendering, index, request) for index in range(len(rendering.pieces))]
    last = max((index for index, kind in enumerate(kinds) if kind is not None), default=-1)
    kind: Kind = "system"
    end = 0
    for index, piece in enumerate(rendering.pieces):
        start, end = end, end + len(piece.text.encode("utf-8", "surrogateescape"))
        if any(first <= start and end <= until for first, until in passes):
            yield "tools", end
            continue
        kind = "tail" if index > last else kinds[index] or kind
        yield kind, end


def _kind(rendering: Rendering, index: int, request: Request) -> Kind | None:
    """What a piece shows; None for text of the template that belongs to no message."""
    piece = rendering.pieces[index]
    if piece.origin is not None and piece.origin.kind in ("tool", "tools"):
        return "tools"
    if piece.origin is not None and piece.origin.kind == "system":
        return "system"
    if piece.message is None or piece.message >= len(request.messages):
        return None
    return _ROLES.get(str(request.messages[piece.message].get("role", "")).lower())
