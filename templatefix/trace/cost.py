"""What makes agents slow on a server: one cause with its figure, its evidence, and the setting to change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from templatefix.trace.session import Session, Traced

CostKind = Literal[
    "template",
    "client",
    "cache-off",
    "slots",
    "memory",
    "context-size",
    "keep-alive",
    "models",
    "restart",
    "truncated",
    "context-full",
    "thinking",
    "server",
    "unknown",
]
MUCH = 0.1  # of the prompt
LITTLE = 0.01


@dataclass(frozen=True, slots=True)
class Cost:
    """One cause; what was not measured is None."""

    kind: CostKind
    tokens: int | None  # that were read although they had been there
    share: float | None  # of the prompts that could have come from the cache in part
    message: str
    evidence: tuple[str, ...]
    setting: str  # what to change, one sentence
    seconds: float | None = None  # that reading them took
    model: str = ""  # whose template it is

    @property
    def much(self) -> bool:
        """Whether it costs more than a tenth of the prompt."""
        return self.share is not None and self.share > MUCH

    @property
    def little(self) -> bool:
        """Whether it costs less than a hundredth of the prompt."""
        return self.share is not None and self.share < LITTLE


@dataclass(frozen=True, slots=True)
class Figures:
    """Sums over a session."""

    requests: int = 0
    conversations: int = 0
    prompt_tokens: int = 0
    fresh_tokens: int = 0
    tokens_per_second: float | None = None  # at which prompts are read

    def seconds(self, tokens: int | None) -> float | None:
        """How long so many tokens take to read."""
        if tokens is None or not self.tokens_per_second:
            return None
        return tokens / self.tokens_per_second


def figures_of(session: Session) -> Figures:
    """The sums."""
    read = [one for one in session.requests if not one.refused]
    timed = [(one.fresh_tokens, spent) for one in read if (spent := prompt_ms(one)) and one.fresh_tokens]
    milliseconds = sum(spent for _, spent in timed)
    return Figures(
        len(read),
        len({one.conversation for one in read}),
        sum(one.prompt_tokens for one in read),
        sum(one.fresh_tokens for one in read),
        sum(tokens for tokens, _ in timed) * 1000 / milliseconds if milliseconds else None,
    )


def prompt_ms(request: Traced) -> float | None:
    """How long the engine read at this prompt."""
    logged = request.exchange.logged
    told = logged.prompt_ms if logged is not None else None
    return told if told is not None else request.exchange.prompt_ms


def place(request: Traced) -> str:
    """Where a request stands, with its figures."""
    logged = request.exchange.logged
    line = f", log line {logged.line}" if logged is not None and request.exchange.readable else ""
    told = request.exchange.cached_tokens is not None
    figures = f"{request.cached_tokens} of {request.prompt_tokens}" if told else f"{request.prompt_tokens}"
    return f"request {request.index} ({request.exchange.place}{line}): {figures} tokens{' from the cache' * told}"


def worst(requests: Sequence[tuple[Traced, int]], most: int = 3) -> tuple[str, ...]:
    """The places of the requests that lost most."""
    ordered = sorted(requests, key=lambda pair: -pair[1])
    said = [place(request) for request, _ in ordered[:most]]
    more = len(ordered) - len(said)
    return (*said, f"and {more} more") if more else tuple(said)
