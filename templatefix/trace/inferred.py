"""What a recording without a log tells of the cache all the same: by the time that loading and reading took.

Ollama's answers do not say how much of a prompt came from the cache before version 0.34. But a model that was loaded
for a request had an empty cache; and reading a whole prompt takes its time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from templatefix.trace.exchange import Exchange

_LONG = 2000.0  # milliseconds: what is shorter may as well have waited for something else
_MOST = 0.5  # of a prompt: whoever takes longer than for that much has read it
_BUSY = 2.0  # times the shortest time for a token of an answer: something else kept the machine busy


def with_inferred(exchanges: Sequence[Exchange]) -> list[Exchange]:
    """The exchanges, with an estimate of the cached tokens where their times tell that there were few or none."""
    clocks = {
        model: _Clock([one for one in exchanges if one.model == model]) for model in {one.model for one in exchanges}
    }
    return [
        exchange
        if (cached := clocks[exchange.model].cached(exchange)) is None
        else replace(exchange, cached_tokens=cached, figures="estimate")
        for exchange in exchanges
    ]


class _Clock:
    """The times of one model."""

    def __init__(self, exchanges: Sequence[Exchange]) -> None:
        self._quickest = min((one.token_ms for one in exchanges if one.token_ms), default=None)
        whole = [one for one in exchanges if one.loaded_anew and self._says(one)]
        speeds = [(one.prompt_tokens or 0) / (one.prompt_ms or 1.0) for one in whole]
        self._speed = min(speeds, default=None)  # tokens a millisecond, the slowest of prompts read as a whole

    def _says(self, exchange: Exchange) -> bool:
        """Whether the time that reading took says anything."""
        if exchange.token_ms is None or self._quickest is None or exchange.token_ms > _BUSY * self._quickest:
            return False
        return bool(exchange.prompt_tokens) and (exchange.prompt_ms or 0.0) >= _LONG

    def cached(self, exchange: Exchange) -> int | None:
        """Tokens from the cache; None where nothing is to be told."""
        size = exchange.prompt_tokens
        if exchange.cached_tokens is not None or exchange.logged is not None or not size:
            return None
        if exchange.loaded_anew:
            return 0
        if self._speed is None or not self._says(exchange):
            return None
        read = self._speed * (exchange.prompt_ms or 0.0)
        return max(0, size - round(read)) if read >= _MOST * size else None
