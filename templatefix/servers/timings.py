"""What an engine says about one prompt, and how it is asked to go on from it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timings:
    """How much of a prompt was in the cache; the two counts add up to the prompt's tokens."""

    cached_tokens: int
    fresh_tokens: int  # evaluated; llama.cpp always evaluates the last one
    prompt_ms: float  # for the fresh tokens

    @property
    def prompt_tokens(self) -> int:
        """Length of the prompt in tokens."""
        return self.cached_tokens + self.fresh_tokens


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to generate; the same figures give the same text on the same engine."""

    seed: int = 1
    temperature: float = 0.7
    max_tokens: int = 256
    stop: tuple[str, ...] = ()  # texts that end a reply, no part of it
    grammar: str = ""  # GBNF that the output is bound to


@dataclass(frozen=True, slots=True)
class Generated:
    """What an engine generated behind a prompt."""

    text: str
    ended: bool  # by itself, not by the limit of tokens
    timings: Timings
