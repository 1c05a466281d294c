"""Cache figures of requests and arms, and what they say of one arm against another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, Literal

from templatefix.lab.engine import Source

Verdict = Literal["better", "same", "worse"]
POINT = Fraction(1, 100)


@dataclass(frozen=True, slots=True)
class RequestFigures:
    """One request of a loop, in tokens."""

    scenario: str
    step: int
    prompt_tokens: int
    cached_tokens: int
    fresh_tokens: int
    new_tokens: int  # of a loop's first request: all
    prompt_ms: float
    tools_in_prompt: bool
    tool_called: bool | None = None  # None: nothing was generated

    @property
    def hit_rate(self) -> float:
        """Cached tokens over prompt tokens."""
        return float(_rate([self]))


@dataclass(frozen=True, slots=True)
class ArmFigures:
    """One template over all loops."""

    name: str
    requests: tuple[RequestFigures, ...]

    @property
    def warm(self) -> tuple[RequestFigures, ...]:
        """The requests that can find something in the cache: all but each loop's first."""
        return tuple([request for request in self.requests if request.step > 0])

    @property
    def hit_rate(self) -> float:
        """Cached over prompt tokens of all requests."""
        return float(_rate(self.requests))

    @property
    def warm_hit_rate(self) -> float:
        """Cached over prompt tokens of the warm requests."""
        return float(_rate(self.warm))

    @property
    def fresh_tokens(self) -> int:
        """Tokens that were read, over all requests."""
        return sum(request.fresh_tokens for request in self.requests)

    @property
    def new_tokens(self) -> int:
        """Tokens that had to be read, over all requests."""
        return sum(request.new_tokens for request in self.requests)

    @property
    def fresh_over_new(self) -> float | None:
        """Tokens read for each one that had to be, over warm requests: 1.00 at best; None where none had to be."""
        new = sum(request.new_tokens for request in self.warm)
        return sum(request.fresh_tokens for request in self.warm) / new if new else None


@dataclass(frozen=True, slots=True)
class AbResult:
    """An A/B run as far as it came; invalid ones say why and give no verdict."""

    engine: str
    source: Source
    tokenizer: str
    arms: tuple[ArmFigures, ...]
    invalid_reasons: tuple[str, ...] = ()
    repeats: int = 1

    @property
    def valid(self) -> bool:
        """Whether the figures can be compared."""
        return not self.invalid_reasons

    @property
    def verdict(self) -> Verdict | None:
        """The second arm against the first; None for an invalid run and for a single arm."""
        if not self.valid or len(self.arms) != 2:
            return None
        return compared(*self.arms)


def compared(first: ArmFigures, second: ArmFigures) -> Verdict:
    """What the second arm is against the first: better or worse from one point of warm hit rate on."""
    gain = _rate(second.warm) - _rate(first.warm)
    if abs(gain) < POINT:
        return "same"
    return "better" if gain > 0 else "worse"


def overlapping(ends: Sequence[int], ranges: Iterable[tuple[int, int]]) -> int:
    """How many tokens lie in the ranges, in whole or in part; `ends` as an engine gives them, all in bytes."""
    ranges = sorted(ranges)
    count = at = start = 0
    for end in ends:
        while at < len(ranges) and ranges[at][1] <= start:
            at += 1
        if at < len(ranges) and ranges[at][0] < end and start < end:
            count += 1
        start = end
    return count


def to_json(result: AbResult) -> dict[str, Any]:
    """The result as the command line writes it."""
    return {
        "version": 1,
        "engine": result.engine,
        "source": result.source,
        "tokenizer": result.tokenizer,
        "valid": result.valid,
        "invalid_reasons": list(result.invalid_reasons),
        "verdict": result.verdict,
        "repeats": result.repeats,
        "interval": None,
        "arms": [_arm_json(arm) for arm in result.arms],
    }


def _arm_json(arm: ArmFigures) -> dict[str, Any]:
    return {
        "name": arm.name,
        "requests": [asdict(request) for request in arm.requests],
        "hit_rate": arm.hit_rate,
        "warm_hit_rate": arm.warm_hit_rate,
        "fresh_tokens": arm.fresh_tokens,
        "new_tokens": arm.new_tokens,
        "fresh_over_new": arm.fresh_over_new,
    }


def _rate(requests: Sequence[RequestFigures]) -> Fraction:
    prompt = sum(request.prompt_tokens for request in requests)
    return Fraction(sum(request.cached_tokens for request in requests), prompt) if prompt else Fraction(0)
