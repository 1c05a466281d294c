"""Cache figures of requests and arms, and what they say of one arm against another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any

from templatefix.lab.engine import Source
from templatefix.lab.parts import Part
from templatefix.lab.quality import LEVEL, Quality, Verdict, quality_of
from templatefix.servers.standin import Attention

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
    tool_called: bool | None = None  # None: nothing was generated, or no call was due
    repeat: int = 0
    parts: tuple[Part, ...] = ()  # empty where the prompt is not known
    arguments_valid: bool | None = None  # of all calls; None: no call was due, or none came
    answered: bool | None = None  # whether the answer says what it should; None: this was no answer, or any will do
    rewritten_tokens: int | None = None  # read again because the prompt words the reply before it otherwise; live only

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
    def averaged(self) -> tuple[RequestFigures, ...]:
        """One row for each request of a scenario: the mean over the repeats that came so far, in whole tokens."""
        groups: dict[tuple[str, int], list[RequestFigures]] = {}
        for request in self.requests:
            groups.setdefault((request.scenario, request.step), []).append(request)
        return tuple([_mean(rows) for rows in groups.values()])

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
    def prompt_ms(self) -> float:
        """Milliseconds spent on reading warm prompts."""
        return sum(request.prompt_ms for request in self.warm)

    def seconds_a_request(self, tokens_a_second: float) -> float:
        """What a model that reads so fast spends on a warm prompt, on average."""
        warm = self.warm
        return sum(request.fresh_tokens for request in warm) / len(warm) / tokens_a_second if warm else 0.0

    @property
    def rewritten_tokens(self) -> int | None:
        """Tokens of replies that later prompts word otherwise than they were generated; None where nobody knows."""
        known = [row.rewritten_tokens for row in self.requests if row.rewritten_tokens is not None]
        return sum(known) if known else None

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
    attention: Attention | None = None
    checkpoints: int | None = None  # as the engine was told
    live: bool = False
    interrupted: bool = False

    @property
    def valid(self) -> bool:
        """Whether the figures can be compared."""
        return not self.invalid_reasons

    @property
    def verdict(self) -> Verdict | None:
        """The second arm against the first; None for an invalid run and for a single arm."""
        if not self.valid or len(self.arms) != 2:
            return None
        cache = compared(*self.arms)
        quality = self.quality
        if quality is None or cache == "worse":
            return cache
        return quality.verdict if quality.verdict != "same" else cache

    @property
    def quality(self) -> Quality | None:
        """How well the arms of a live run did what the script asks for; None for a scripted one."""
        return quality_of(*self.arms) if self.live and len(self.arms) == 2 else None

    @property
    def saved_ms(self) -> float | None:
        """Milliseconds of reading warm prompts that the second arm saves, a repeat; None for a single arm."""
        if len(self.arms) != 2 or not self.repeats:
            return None
        return (self.arms[0].prompt_ms - self.arms[1].prompt_ms) / self.repeats


def _mean(rows: Sequence[RequestFigures]) -> RequestFigures:
    """The mean of the counts; what is no count is that of the first row."""
    if len(rows) == 1:
        return rows[0]
    cached = round(sum(row.cached_tokens for row in rows) / len(rows))
    fresh = round(sum(row.fresh_tokens for row in rows) / len(rows))
    return replace(
        rows[0],
        prompt_tokens=cached + fresh,
        cached_tokens=cached,
        fresh_tokens=fresh,
        new_tokens=round(sum(row.new_tokens for row in rows) / len(rows)),
        prompt_ms=sum(row.prompt_ms for row in rows) / len(rows),
    )


def compared(first: ArmFigures, second: ArmFigures) -> Verdict:
    """What the second arm is against the first: better or worse from one point of warm hit rate on."""
    gain = _rate(second.warm) - _rate(first.warm)
    if abs(gain) < POINT:
        return "same"
    return "better" if gain > 0 else "worse"


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
        "interval": _interval_json(result.quality),
        "attention": result.attention,
        "checkpoints": result.checkpoints,
        "live": result.live,
        "interrupted": result.interrupted,
        "quality": _quality_json(result.quality),
        "prompt_ms_saved": result.saved_ms,
        "arms": [_arm_json(arm) for arm in result.arms],
    }


def _interval_json(quality: Quality | None) -> dict[str, float] | None:
    """Of the difference in calls made, else in answers given."""
    shares = [quality.called, quality.answered] if quality else []
    found = next((share.interval for share in shares if share.interval is not None), None)
    return {"level": LEVEL, "low": found[0], "high": found[1]} if found else None


def _quality_json(quality: Quality | None) -> dict[str, Any] | None:
    if quality is None:
        return None
    return {
        name: {
            "first": {"done": share.first.done, "of": share.first.of},
            "second": {"done": share.second.done, "of": share.second.of},
            "interval": None if share.interval is None else list(share.interval),
        }
        for name, share in (("called", quality.called), ("valid", quality.valid), ("answered", quality.answered))
    }


def _arm_json(arm: ArmFigures) -> dict[str, Any]:
    return {
        "name": arm.name,
        "requests": [_request_json(request) for request in arm.requests],
        "hit_rate": arm.hit_rate,
        "warm_hit_rate": arm.warm_hit_rate,
        "fresh_tokens": arm.fresh_tokens,
        "new_tokens": arm.new_tokens,
        "fresh_over_new": arm.fresh_over_new,
    }


def _request_json(request: RequestFigures) -> dict[str, Any]:
    parts = [{"role": part.kind, "tokens": part.tokens} for part in request.parts]
    return {**asdict(request), "parts": parts}


def _rate(requests: Sequence[RequestFigures]) -> Fraction:
    prompt = sum(request.prompt_tokens for request in requests)
    return Fraction(sum(request.cached_tokens for request in requests), prompt) if prompt else Fraction(0)
