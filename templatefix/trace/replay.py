"""Recorded conversations as loops, so that an A/B can send them again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from templatefix.analysis.loops import Loop
from templatefix.chat.request import Request
from templatefix.trace.conversations import conversations
from templatefix.trace.sources import TraceError, joined, read_sources


def loops_from(paths: Sequence[Path]) -> tuple[Loop, ...]:
    """A loop for each conversation with more than one request, in the order of their beginnings; raises TraceError.

    The requests are sent as the client sent them, changes and all.
    """
    exchanges = joined(read_sources(paths))
    sent: dict[int, list[Request]] = {}
    for exchange, conversation in zip(exchanges, conversations(exchanges), strict=True):
        if exchange.request is not None:
            sent.setdefault(conversation, []).append(exchange.request)
    loops = [
        Loop(f"conversation {number}", tuple(requests), False) for number, requests in sent.items() if len(requests) > 1
    ]
    if not loops:
        names = ", ".join(map(str, paths))
        raise TraceError(f"there is no conversation of two requests or more in {names}")
    return tuple(loops)
