"""What an engine says about one prompt."""

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
