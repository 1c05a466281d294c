"""How the tokens that were read again are shared out among the layers that lost them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

Layer = Literal["client", "template", "server", "engine", "unknown"]
LAYERS: tuple[Layer, ...] = ("client", "template", "server", "engine", "unknown")


@dataclass(frozen=True, slots=True)
class Loss:
    """What one layer lost of a prompt that could have come from the cache."""

    layer: Layer
    tokens: int
    message: str
    evidence: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cause:
    """One layer's reason, with the parts of the prompt that it alone would have lost."""

    layer: Layer
    message: str
    ranges: tuple[tuple[float, float], ...]  # in tokens of the prompt
    evidence: Mapping[str, Any] = field(default_factory=dict)
    follows: bool = False  # it takes more only because another layer broke the prompt


def shared_out(
    causes: Sequence[Cause],
    lost: Sequence[tuple[float, float]],
    total: int,
    unexplained: str = "",
    few: float = 2,
) -> tuple[Loss, ...]:
    """Losses that add up to `total`, the tokens in the ranges `lost`.

    A token that several layers would have lost alone is shared among them in equal parts. A cause that only follows
    gets nothing: what it took belongs to the layers that it follows. What nobody lost is unknown; so few tokens that
    they come of reckoning go to the largest cause.
    """
    shares = [0.0] * (len(causes) + 1)
    edges = sorted({edge for pair in (*lost, *[r for cause in causes for r in cause.ranges]) for edge in pair})
    for start, end in pairwise(edges):
        if not _covers(lost, start, end):
            continue
        owners = [i for i, cause in enumerate(causes) if not cause.follows and _covers(cause.ranges, start, end)]
        if not owners and any(cause.follows and _covers(cause.ranges, start, end) for cause in causes):
            owners = _breakers(causes)
        for owner in owners or [len(causes)]:
            shares[owner] += (end - start) / max(1, len(owners))
    counts = _whole(shares, total)
    if causes and counts[-1] <= few:
        counts[max(range(len(causes)), key=lambda i: counts[i])] += counts[-1]
        counts[-1] = 0
    losses = [
        Loss(cause.layer, count, cause.message, {**cause.evidence, "alone_tokens": _alone(cause, lost)})
        for cause, count in zip(causes, counts, strict=False)
    ]
    if counts[-1]:
        losses.append(Loss("unknown", counts[-1], unexplained or "nothing that was recorded says why"))
    return tuple(losses)


def _breakers(causes: Sequence[Cause]) -> list[int]:
    """Who broke the prompt, for what the engine forgot because of it."""
    return [
        i for i, cause in enumerate(causes) if not cause.follows and cause.layer in ("client", "template", "server")
    ]


def _alone(cause: Cause, lost: Sequence[tuple[float, float]]) -> int:
    """What this cause would have cost without the others; one that follows costs nothing alone."""
    if cause.follows:
        return 0
    return round(sum(max(0.0, min(b, d) - max(a, c)) for a, b in cause.ranges for c, d in lost))


def _covers(ranges: Sequence[tuple[float, float]], start: float, end: float) -> bool:
    middle = (start + end) / 2
    return any(first <= middle < last for first, last in ranges)


def _whole(shares: Sequence[float], total: int) -> list[int]:
    """The shares as whole numbers that add up to the total."""
    whole = sum(shares)
    if whole <= 0:
        return [*[0] * (len(shares) - 1), total]
    counts = [int(share * total / whole) for share in shares]
    order = sorted(range(len(shares)), key=lambda i: counts[i] - shares[i] * total / whole)
    for index in order[: total - sum(counts)]:
        counts[index] += 1
    return counts
