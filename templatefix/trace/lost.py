"""The tokens that a session lost, by the cause that a setting can take away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from templatefix.servers.log_setup import EngineStart, Setup
from templatefix.servers.standin import Attention
from templatefix.trace.blame import Loss
from templatefix.trace.cost import CostKind
from templatefix.trace.exchange import seconds_of
from templatefix.trace.lost_by_log import lost_by_log
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
_RESTARTS: tuple[CostKind, ...] = ("keep-alive", "models", "context-size", "restart")
_Starts = Mapping[tuple[str, int], EngineStart]  # by the log's file and line


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


def lost_by_cause(
    session: Session, setup: Setup, memory: Attention | None = None, one_model: bool = False
) -> list[Lost]:
    """The causes, and the most tokens that each took.

    `memory` is the model's, where its server tells; `one_model` says that the server runs one, whatever requests name.
    """
    found: dict[tuple[CostKind, str], Lost] = {}
    starts = {(start.source, start.line): start for start in setup.starts}

    def add(request: Traced, kind: CostKind, about: str, tokens: int) -> Lost:
        lost = found.setdefault((kind, about), Lost(kind))
        lost.requests.append((request, tokens))
        start = _start(request, starts)
        lost.starts += [start] if start is not None and kind in _RESTARTS else []
        return lost

    unsaid = _unsaid(session, memory)
    in_turn = not one_model and _in_turn(session)
    for request in session.requests:
        for loss in request.losses:
            kind, about = _kind_of(loss, request, session, starts)
            kind = unsaid.get(str(loss.evidence.get("reason")), kind)
            kind = "models" if kind == "cache-off" and loss.layer == "engine" and in_turn else kind
            add(request, kind, about, _own(loss, request)).losses.append(loss)
    for request, tokens, anew in lost_by_log(session, setup):
        kind = _restart(_start(request, starts)) if anew == "engine" else "slots" if anew == "slot" else "unknown"
        add(request, kind, "", tokens).guessed = True
    return [lost for lost in found.values() if lost.tokens > 0]


def _unsaid(session: Session, memory: Attention | None) -> dict[str, CostKind]:
    """The cause by its reason, where no log says why little or nothing of a changed prompt came from the cache.

    A cache that is off forgets also what only grew; a memory that can be wound back keeps what stands in front.
    """
    reasons = {loss.evidence.get("reason") for request in session.requests for loss in request.losses}
    return {
        "cold": "cache-off" if "off" in reasons or memory == "full" else "memory",
        "time": "memory" if memory in ("swa", "recurrent") else "unknown",
    }


def _in_turn(session: Session) -> bool:
    """Whether, by the requests, another model ran in front of each that goes on from an earlier one."""
    found = [(session.requests[one.before : one.index], one) for one in session.requests if one.before is not None]
    return bool(found) and all(
        any(other.exchange.model != one.exchange.model for other in between) for between, one in found
    )


def _own(loss: Loss, request: Traced) -> int:
    """What a cause took by itself.

    Where a change makes an engine forget more than was changed, the rest is the memory's: another would have kept it.
    """
    if isinstance(forgot := loss.evidence.get("together_tokens"), int):
        return forgot
    alone = loss.evidence.get("alone_tokens")
    forgetful = any("together_tokens" in one.evidence for one in request.losses)
    return min(loss.tokens, alone) if forgetful and isinstance(alone, int) else loss.tokens


def _kind_of(loss: Loss, request: Traced, session: Session, starts: _Starts) -> tuple[CostKind, str]:
    """The cause of a loss, and what in it is told apart."""
    if loss.layer == "engine":
        reason = str(loss.evidence.get("reason"))
        if reason != "restart":
            return _ENGINE.get(reason, "unknown"), ""
        start = _start(request, starts)
        return (_recorded_restart(request, session) if start is None else _restart(start)), ""
    if loss.layer == "server":
        return ("truncated", "") if truncated(request) or "cut" in loss.message else ("server", "")
    if loss.layer == "client":
        kind = str(loss.evidence.get("kind"))
        if kind == "cache":
            return "cache-off", ""
        return "client", "time" if loss.evidence.get("time_stamp") else kind
    return ("template", str(request.exchange.model)) if loss.layer == "template" else ("unknown", "")


def truncated(request: Traced) -> str:
    """What the log says of a history that was cut for this request, or nothing."""
    said = [event.text for event in request.exchange.events if event.kind == "truncated"]
    logged = request.exchange.logged
    return said[-1] if said else "the context was full" if logged is not None and logged.truncated else ""


def _start(request: Traced, starts: _Starts) -> EngineStart | None:
    """The engine's latest start before a request, where it stands between that request and the one before."""
    places = [(event.source, event.line) for event in request.exchange.events if event.kind == "restart"]
    return next((starts[place] for place in reversed(places) if place in starts), None)


def _restart(start: EngineStart | None) -> CostKind:
    return "restart" if start is None else _GONE.get(start.gone, "restart")


def _recorded_restart(request: Traced, session: Session) -> CostKind:
    """Why an engine was started anew, by the requests alone: what they ask for, and what ran in between."""
    if request.before is None:
        return "restart"
    before, after = session.requests[request.before].exchange, request.exchange
    if after.context is not None and before.context is not None and after.context != before.context:
        return "context-size"
    if not after.loaded_anew:
        return "restart"
    others = [session.requests[index].exchange for index in range(request.before, request.index)]
    same = [one for one in others if one.model == after.model]
    if any(one.keep_alive == 0 for one in same):
        return "keep-alive"
    if len(same) < len(others):
        return "models"
    return "keep-alive" if pause(request, session) is not None else "restart"


def pause(request: Traced, session: Session) -> float | None:
    """Seconds since the last request to the same model; None where their times are not known."""
    same = [one.exchange for one in session.requests[: request.index] if one.exchange.model == request.exchange.model]
    times = seconds_of(request.exchange.time), seconds_of(same[-1].time) if same else None
    return None if times[0] is None or times[1] is None else max(0.0, times[0] - times[1])
