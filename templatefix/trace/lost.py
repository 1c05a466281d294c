"""The tokens that a session lost, by the cause that a setting can take away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from templatefix.servers.log_setup import EngineStart, Setup
from templatefix.trace.blame import Loss
from templatefix.trace.cost import CostKind
from templatefix.trace.session import Session, Traced

_ENGINE: Mapping[str, CostKind] = {
    "slot": "slots",
    "swa": "memory",
    "checkpoint": "memory",
    "off": "cache-off",
}
_GONE: Mapping[str, CostKind] = {
    "expired": "keep-alive",
    "dismissed": "keep-alive",
    "room": "models",
    "context": "context-size",
}
_FEW = 4  # tokens that are read anyhow
_RECENT = 64  # conversations that are looked at
_ALIKE = 0.5  # of a prompt that an earlier one must have, to be taken for its beginning


@dataclass
class Lost:
    """What one cause took."""

    kind: CostKind
    requests: list[tuple[Traced, int]] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)
    starts: list[EngineStart] = field(default_factory=list)
    guessed: bool = False  # by a log alone, which does not say whose prompt it is

    @property
    def tokens(self) -> int:
        """In all requests."""
        return sum(tokens for _, tokens in self.requests)

    def evidence(self, key: str) -> Iterator[Any]:
        """What the losses tell under a key, the largest loss first."""
        for loss in sorted(self.losses, key=lambda loss: -loss.tokens):
            if loss.evidence.get(key) is not None:
                yield loss.evidence[key]


def lost_by_cause(session: Session, setup: Setup) -> list[Lost]:
    """The causes, and the most tokens that each took."""
    found: dict[tuple[CostKind, str], Lost] = {}
    starts = {start.line: start for start in setup.starts}
    for request in session.requests:
        for loss in request.losses:
            kind, about = _kind_of(loss, request, session, starts)
            lost = found.setdefault((kind, about), Lost(kind))
            lost.requests.append((request, _own(loss, request)))
            lost.losses.append(loss)
            lost.starts += [start] if (start := _start(request, starts)) is not None and kind in _RESTARTS else []
    for request, kind, tokens in _by_log_alone(session, starts):
        lost = found.setdefault((kind, ""), Lost(kind))
        lost.requests.append((request, tokens))
        lost.starts += [start] if (start := _start(request, starts)) is not None and kind in _RESTARTS else []
        lost.guessed = True
    return list(found.values())


_RESTARTS: tuple[CostKind, ...] = ("keep-alive", "models", "context-size", "restart")


def _own(loss: Loss, request: Traced) -> int:
    """What a cause took by itself.

    Where a change makes an engine forget more than was changed, the rest is the memory's: another would have kept it.
    """
    if isinstance(forgot := loss.evidence.get("together_tokens"), int):
        return forgot
    alone = loss.evidence.get("alone_tokens")
    forgetful = any("together_tokens" in one.evidence for one in request.losses)
    return min(loss.tokens, alone) if forgetful and isinstance(alone, int) else loss.tokens


def _kind_of(loss: Loss, request: Traced, session: Session, starts: Mapping[int, EngineStart]) -> tuple[CostKind, str]:
    """The cause of a loss, and what in it is told apart."""
    if loss.layer == "engine":
        reason = str(loss.evidence.get("reason"))
        if reason != "restart":
            return _ENGINE.get(reason, "unknown"), ""
        start = _start(request, starts)
        return ("context-size" if start is None and _resized(request, session) else _restart(start)), ""
    if loss.layer == "server":
        return ("truncated", "") if truncated(request) or "cut" in loss.message else ("server", "")
    if loss.layer == "client":
        kind = str(loss.evidence.get("kind"))
        if kind == "cache":
            return "cache-off", ""
        return "client", "time" if loss.evidence.get("time_stamp") else kind
    return ("template", str(request.exchange.model)) if loss.layer == "template" else ("unknown", "")


def _resized(request: Traced, session: Session) -> bool:
    """Whether a request asks for another context than the one before in its conversation."""
    asked = request.exchange.context
    before = session.requests[request.before].exchange.context if request.before is not None else None
    return asked is not None and before is not None and asked != before


def truncated(request: Traced) -> str:
    """What the log says of a history that was cut for this request, or nothing."""
    said = [event.text for event in request.exchange.events if event.kind == "truncated"]
    logged = request.exchange.logged
    return said[-1] if said else "the context was full" if logged is not None and logged.truncated else ""


def _start(request: Traced, starts: Mapping[int, EngineStart]) -> EngineStart | None:
    """The engine's latest start before a request, where it stands between that request and the one before."""
    lines = [event.line for event in request.exchange.events if event.kind == "restart"]
    return next((starts[line] for line in reversed(lines) if line in starts), None)


def _restart(start: EngineStart | None) -> CostKind:
    return "restart" if start is None else _GONE.get(start.gone, "restart")


def _by_log_alone(session: Session, starts: Mapping[int, EngineStart]) -> Iterator[tuple[Traced, CostKind, int]]:
    """Requests that begin anew on a slot or an engine, though an earlier prompt was much like a beginning of theirs.

    A log without the requests does not say whose prompt it is: sizes tell, so this is the most that was lost.
    """
    ends: dict[int, Traced] = {}  # the latest request of each conversation, in the order of their use
    holders: dict[int | None, int] = {}  # by slot, whose prompt it held last
    for request in session.requests:
        logged = request.exchange.logged
        if request.before is None and logged is not None and not request.exchange.readable:
            start = _start(request, starts)
            restarted = start is not None and start.again
            if restarted or logged.taken_over:
                own = [
                    end
                    for conversation, end in ends.items()
                    if restarted or conversation != holders.get(request.exchange.slot)
                ]
                sizes = [
                    end.prompt_tokens
                    for end in own
                    if _ALIKE * request.prompt_tokens <= end.prompt_tokens <= request.prompt_tokens
                ]
                tokens = max(sizes, default=0) - request.cached_tokens
                if tokens > _FEW:
                    yield request, _restart(start) if restarted else "slots", tokens
        ends.pop(request.conversation, None)
        ends[request.conversation] = request
        if len(ends) > _RECENT:
            del ends[next(iter(ends))]
        holders[request.exchange.slot] = request.conversation
