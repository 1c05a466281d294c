"""Tokens that were lost by a log alone, which tells sizes, not whose prompts they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Literal

from templatefix.servers.log_setup import Setup
from templatefix.trace.session import Session, Traced

_FEW = 4  # tokens that are read anyhow
_RECENT = 64  # conversations that are looked at
_ALIKE = 0.5  # of a prompt that an earlier one must have, to be taken for its beginning
_SHORT = 0.8  # of a long prompt
_OPENS = 0.8  # of a short prompt, kept of a long one: it opens alike
_MOSTLY = 0.75  # of all prompts: whoever chats alone sends longer ones with each turn

Anew = Literal["engine", "slot", "front"]  # begun on a new engine, on another's slot, or with another opening


def lost_by_log(session: Session, setup: Setup) -> Iterator[tuple[Traced, int, Anew]]:
    """Requests that begin anew on a slot or an engine, though an earlier prompt was much like a beginning of theirs.

    Sizes are all that tells them from new conversations, so this is the most that was lost. Where former prompts are
    remembered and none was thrown away, one that goes on would have come back, so nobody has lost a slot. But where no
    request goes on from any other, and they grow all the same, it is their openings that change.
    """
    again = {(start.source, start.line) for start in setup.starts if start.again}
    remembered = bool(setup.prompt_cache) and not setup.dropped
    growing = _growing(session)
    ends: dict[int, Traced] = {}  # the latest request of each conversation, in the order of their use
    holders: dict[int | None, int] = {}  # by slot, whose prompt it held last
    for request in session.requests:
        logged, slot = request.exchange.logged, request.exchange.slot
        if request.before is None and logged is not None and not request.exchange.readable:
            anew: Anew | None = None
            if any((event.source, event.line) in again for event in request.exchange.events):
                anew = "engine"
            elif logged.taken_over:
                anew = "front" if growing else None if remembered else "slot"
            others = [end for own, end in ends.items() if anew != "slot" or own != holders.get(slot)]
            tokens = _largest_opening(request, others) - request.cached_tokens
            if anew is not None and tokens > _FEW:
                yield request, tokens, anew
        ends.pop(request.conversation, None)
        ends[request.conversation] = request
        if len(ends) > _RECENT:
            del ends[next(iter(ends))]
        holders[slot] = request.conversation


def _growing(session: Session) -> bool:
    """Whether no request goes on from any other although they become longer, one after the other."""
    sizes = [one.prompt_tokens for one in session.requests]
    if len(sizes) < 3 or any(one.before is not None or one.exchange.readable for one in session.requests):
        return False
    return sum(before < after for before, after in pairwise(sizes)) >= _MOSTLY * (len(sizes) - 1)


def _largest_opening(request: Traced, others: Iterable[Traced]) -> int:
    """The size of the longest earlier prompt that can have been the beginning of this one."""
    size = request.prompt_tokens
    return max((one.prompt_tokens for one in others if _ALIKE * size <= one.prompt_tokens <= size), default=0)


def short_and_long(session: Session) -> list[tuple[Traced, int]]:
    """Long prompts that follow on short ones although a long one had been there, with what they read of it at most.

    So it looks where tools stand in the prompt at a user's turn alone: behind a tool's result it opens as before and is
    short, and then long again. New chats that read a long file each look the same.
    """
    found: list[tuple[Traced, int]] = []
    drops = 0
    slots: dict[tuple[str, int | None], list[Traced]] = {}
    for request in session.requests:
        logged = request.exchange.logged
        if logged is None or request.exchange.readable or request.refused:
            continue
        held = slots.setdefault((logged.process, request.exchange.slot), [])
        if logged.taken_over or any(event.kind == "restart" for event in request.exchange.events):
            held.clear()
        size, kept = request.prompt_tokens, request.cached_tokens
        if held and size < _SHORT * held[-1].prompt_tokens and kept >= _OPENS * size:
            drops += 1
        long = next((one for one in reversed(held) if one.prompt_tokens >= _SHORT * size), None)
        if long is not None and long is not held[-1] and kept < _SHORT * long.prompt_tokens <= size:
            found.append((request, min(size, long.prompt_tokens) - kept))
        held.append(request)
        del held[:-_RECENT]
    return found if drops > 1 else []
