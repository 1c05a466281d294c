"""What stood in a prompt and where: rendered by its template where that is known, else laid out as most do it.

Places are bytes of the prompt.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from templatefix.analysis.tools import tool_passes
from templatefix.chat.rendering import Rendering
from templatefix.chat.request import Request

SYSTEM, TOOLS, TAIL = -3, -2, -1  # owners that are no message


@dataclass(frozen=True, slots=True)
class Stretch:
    """Neighbouring bytes of a prompt with one owner: a message by its index, or one of the three above."""

    owner: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Layout:
    """A prompt in stretches, in order, and all of it."""

    stretches: tuple[Stretch, ...]
    data: bytes
    rendering: Rendering | None = None  # None: laid out without its template

    @property
    def size(self) -> int:
        """Its bytes."""
        return len(self.data)


def rendered(rendering: Rendering, request: Request) -> Layout:
    """The layout of a prompt that a template made."""
    passes = [(found.start, found.end) for found in tool_passes(rendering, request)]
    behind = [index for index, piece in enumerate(rendering.pieces) if piece.message is not None and piece.text]
    last = behind[-1] if behind else -1
    heads = sum(1 for message in request.messages if message.get("role") == "system")
    stretches: list[Stretch] = []
    owner, at = SYSTEM, 0
    for index, piece in enumerate(rendering.pieces):
        start, at = at, at + len(piece.text.encode("utf-8", "surrogateescape"))
        origin = piece.origin
        if (origin is not None and origin.kind in ("tool", "tools")) or any(a <= start and at <= b for a, b in passes):
            own = TOOLS
        elif index > last:
            own = TAIL
        elif origin is not None and origin.kind == "system":
            own = owner = SYSTEM
        elif piece.message is None:
            own = owner
        else:
            role = request.messages[piece.message].get("role") if piece.message < len(request.messages) else ""
            own = owner = SYSTEM if role == "system" and piece.message < heads else piece.message
        _extend(stretches, own, start, at)
    return Layout(tuple(stretches), rendering.data, rendering)


def laid_out(request: Request) -> Layout:
    """The layout of a request whose template nobody knows: system text, tools, messages."""
    texts: list[tuple[int, str]] = []
    head = [index for index, message in enumerate(request.messages) if message.get("role") == "system"]
    texts += [(SYSTEM, _text(request.messages[index])) for index in head]
    texts += [(TOOLS, json.dumps(tool, ensure_ascii=False, default=str)) for tool in request.tools]
    texts += [(index, _text(message)) for index, message in enumerate(request.messages) if index not in head]
    stretches: list[Stretch] = []
    data = b""
    for owner, text in texts:
        start = len(data)
        data += f"<{owner if owner < 0 else 'turn'}>{text}\n".encode("utf-8", "surrogatepass")
        _extend(stretches, owner, start, len(data))
    _extend(stretches, TAIL, len(data), len(data) + 8)
    return Layout(tuple(stretches), data + b"<answer>")


def as_text(prompt: str) -> Layout:
    """The layout of a prompt that was sent as text."""
    data = prompt.encode("utf-8", "surrogatepass")
    return Layout((Stretch(SYSTEM, 0, len(data)),), data)


def _text(message: object) -> str:
    assert isinstance(message, dict)
    parts = [str(message.get("role", "")), str(message.get("thinking") or ""), str(message.get("content") or "")]
    if message.get("tool_calls"):
        calls = [call.get("function", call) for call in message["tool_calls"] if isinstance(call, dict)]
        parts.append(json.dumps(calls, ensure_ascii=False, default=str))
    return "\n".join(part for part in parts if part)


def _extend(stretches: list[Stretch], owner: int, start: int, end: int) -> None:
    if start == end:
        return
    if stretches and stretches[-1].owner == owner and stretches[-1].end == start:
        stretches[-1] = Stretch(owner, stretches[-1].start, end)
    else:
        stretches.append(Stretch(owner, start, end))
