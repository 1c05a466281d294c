"""A session explained: each request with its anatomy and what every layer lost of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from templatefix.trace.blame import LAYERS, Layer, Loss
from templatefix.trace.exchange import Exchange, Figures, Unread

PartRole = Literal["system", "tools", "user", "assistant", "tool", "tail"]


@dataclass(frozen=True, slots=True)
class TracedPart:
    """A part of a prompt."""

    role: PartRole
    sha256: str  # of the part as it was sent; of the tail: of nothing
    tokens: int | None


@dataclass(frozen=True, slots=True)
class Traced:
    """One request of a session."""

    index: int
    exchange: Exchange
    conversation: int
    before: int | None  # index of the request before it in its conversation
    between: tuple[int, ...]  # what ran in between on the same slot
    figures: Figures
    prompt_tokens: int
    cached_tokens: int
    new_tokens: int | None
    parts: tuple[TracedPart, ...]
    losses: tuple[Loss, ...]
    note: str = ""  # why nothing could be lost

    @property
    def fresh_tokens(self) -> int:
        """Tokens that were read."""
        return self.prompt_tokens - self.cached_tokens

    @property
    def refused(self) -> bool:
        """Whether it was longer than its context, so that the engine did not read it."""
        return self.exchange.logged is not None and self.exchange.logged.too_long


@dataclass(frozen=True, slots=True)
class Missing:
    """Something that would say more, in words, and the option of `trace` that gives it."""

    what: str
    option: str = ""

    def __str__(self) -> str:
        return f"{self.what} ({self.option})" if self.option else self.what


@dataclass(frozen=True, slots=True)
class Session:
    """All requests of all sources."""

    sources: tuple[str, ...]
    requests: tuple[Traced, ...]
    unread: tuple[Unread, ...]
    missing: tuple[Missing, ...] = ()

    @property
    def totals(self) -> dict[Layer, int]:
        """Tokens that each layer lost."""
        return {
            layer: sum(loss.tokens for request in self.requests for loss in request.losses if loss.layer == layer)
            for layer in LAYERS
        }


def to_json(session: Session) -> dict[str, Any]:
    """The session as the command line writes it."""
    return {
        "version": 1,
        "sources": list(session.sources),
        "requests": [_request(request) for request in session.requests],
        "totals": session.totals,
        "missing": [str(one) for one in session.missing],
        "unread": [
            {"source": one.source, "line": one.line, "reason": one.reason, "count": one.count} for one in session.unread
        ],
    }


def json_lines(session: Session) -> Iterator[bytes]:
    """What to_json returns, written out a request at a time: all those of a long log are too much text for memory."""
    empty = {**to_json(replace(session, requests=())), "totals": session.totals}
    head, mark, tail = _json(empty).partition('"requests": [')
    yield _encoded(head + mark)
    for index, request in enumerate(session.requests):
        text = _json(_request(request)).replace("\n", "\n    ")
        yield _encoded(f"{',' if index else ''}\n    {text}")
    yield _encoded(("\n  " if session.requests else "") + tail + "\n")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def _encoded(text: str) -> bytes:
    """In UTF-8; half characters, which it does not carry, become JSON's escapes."""
    return text.encode("utf-8", "backslashreplace")


def _request(request: Traced) -> dict[str, Any]:
    exchange = request.exchange
    return {
        "index": request.index,
        "time": exchange.time,
        "model": exchange.model,
        "slot": exchange.slot,
        "conversation": request.conversation,
        "prompt_tokens": request.prompt_tokens,
        "cached_tokens": request.cached_tokens,
        "fresh_tokens": request.fresh_tokens,
        "new_tokens": request.new_tokens,
        "figures": request.figures,
        "source": exchange.place,
        "path": exchange.path,
        "before": request.before,
        "between": list(request.between),
        "note": request.note,
        "parts": [{"role": part.role, "sha256": part.sha256, "tokens": part.tokens} for part in request.parts],
        "losses": _losses(request.losses),
    }


def _losses(losses: Sequence[Loss]) -> list[dict[str, Any]]:
    return [
        {"layer": loss.layer, "tokens": loss.tokens, "message": loss.message, "evidence": dict(loss.evidence)}
        for loss in losses
    ]
