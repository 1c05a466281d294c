"""What a recording without a log tells of the cache all the same: by the time that loading and reading took.

Ollama's answers do not say how much of a prompt came from the cache before version 0.34. But a model that was loaded
for a request had an empty cache; and reading a whole prompt takes its time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from templatefix.trace.exchange import Exchange

_LONG = 500.0  # milliseconds: shorter readings say nothing
_MOST = 0.5  # of a prompt: whoever takes longer than for that much has read it


def with_inferred(exchanges: Sequence[Exchange]) -> list[Exchange]:
    """The exchanges, with an estimate of the cached tokens where their times tell that there were few or none."""
    speeds = _speeds(exchanges)
    return [
        exchange
        if (cached := _cached(exchange, speeds)) is None
        else replace(exchange, cached_tokens=cached, figures="estimate")
        for exchange in exchanges
    ]


def _untold(exchange: Exchange) -> bool:
    return exchange.cached_tokens is None and exchange.logged is None and bool(exchange.prompt_tokens)


def _speeds(exchanges: Sequence[Exchange]) -> dict[str, float]:
    """Tokens a millisecond by model, the slowest of prompts that were read as a whole, just after it was loaded."""
    read: dict[str, list[tuple[int, float]]] = {}
    for exchange in exchanges:
        if _untold(exchange) and exchange.loaded_anew and (exchange.prompt_ms or 0.0) >= _LONG:
            read.setdefault(exchange.model or "", []).append((exchange.prompt_tokens or 0, exchange.prompt_ms or 0.0))
    return {model: min(tokens / spent for tokens, spent in found) for model, found in read.items()}


def _cached(exchange: Exchange, speeds: dict[str, float]) -> int | None:
    """None where nothing is to be told."""
    if not _untold(exchange):
        return None
    if exchange.loaded_anew:
        return 0
    speed, spent, size = speeds.get(exchange.model or ""), exchange.prompt_ms or 0.0, exchange.prompt_tokens or 0
    if speed is None or spent < _LONG or speed * spent < _MOST * size:
        return None
    return max(0, size - round(speed * spent))
