"""What prompts are made of, what of it changes between requests, and how much a request reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median_high

from templatefix.trace.session import Session, TracedPart

PARTS = ("system", "tools", "history", "tail")


@dataclass(frozen=True)
class Makeup:
    """What the longest prompt with known parts is made of, in tokens, and what its kind changes."""

    request: int
    prompt_tokens: int
    parts: Mapping[str, int]  # system, tools, history, tail
    goes_on: int  # requests with known parts that go on from another
    changed: Mapping[str, int]  # in how many of those system, tools, or the history before differ from the one before
    median_fresh: int  # tokens that a request reads which goes on from another
    median_changed: int  # of that, tokens that had been there before


def makeup_of(session: Session) -> Makeup | None:
    """The makeup; None where no request's parts are known."""
    known = [one for one in session.requests if one.parts]
    if not known:
        return None
    longest = max(known, key=lambda one: one.prompt_tokens)
    parts = dict.fromkeys(PARTS, 0)
    for part in longest.parts:
        parts[part.role if part.role in parts else "history"] += part.tokens or 0
    warm = [one for one in session.requests if one.before is not None]
    pairs = [
        (session.requests[one.before].parts, one.parts)
        for one in known
        if one.before is not None and session.requests[one.before].parts
    ]
    return Makeup(
        request=longest.index,
        prompt_tokens=longest.prompt_tokens,
        parts=parts,
        goes_on=len(pairs),
        changed={name: sum(_differ(before, after, name) for before, after in pairs) for name in PARTS[:3]},
        median_fresh=median_high([one.fresh_tokens for one in warm] or [0]),
        median_changed=median_high([sum(loss.tokens for loss in one.losses) for one in warm] or [0]),
    )


def _differ(before: Sequence[TracedPart], after: Sequence[TracedPart], name: str) -> bool:
    """Whether a request holds anything else where the one before had system text, tools, or history."""
    old = _digests(before, name)
    return _digests(after, name)[: len(old)] != old


def _digests(parts: Sequence[TracedPart], name: str) -> list[str]:
    return [
        part.sha256
        for part in parts
        if part.role == name or (name == "history" and part.role not in ("system", "tools", "tail"))
    ]
