"""What an A/B result says in words, for every kind of report: of two arms, A is the first and B the second."""

from __future__ import annotations

from templatefix.lab.figures import AbResult
from templatefix.lab.quality import LEVEL, Difference
from templatefix.servers.standin import Attention

MEMORY: dict[Attention, str] = {
    "full": "every token by itself",
    "swa": "a sliding window",
    "recurrent": "one recurrent state",
}
_SAID = {"better": "Better", "same": "The same", "worse": "Worse"}


def source_words(result: AbResult) -> str:
    """Where the figures come from."""
    memory = f", memory: {memory_words(result)}" if result.attention in ("swa", "recurrent") else ""
    return f"engine {result.engine}, figures from the {result.source}, tokenizer {result.tokenizer}{memory}"


def memory_words(result: AbResult) -> str:
    """Which kind of memory the model has, and how many of its states the engine was told to keep."""
    kind = MEMORY[result.attention or "full"]
    if result.checkpoints is None:
        return kind
    return f"{kind}, {result.checkpoints or 'no'} checkpoint{'s' if result.checkpoints != 1 else ''}"


def verdict_words(result: AbResult) -> str:
    """The verdict with its main figure; empty for a run without one."""
    if result.verdict is None:
        return ""
    one, other = result.arms
    before, after = percent(one.warm_hit_rate), percent(other.warm_hit_rate)
    told = f"of the warm prompt tokens, {after} come from the cache with B, {before} with A."
    quality = result.quality
    if quality is None or quality.verdict == "same" or quality.verdict != result.verdict:
        return f"{_SAID[result.verdict]}: {told}"
    often = "less" if quality.verdict == "worse" else "more"
    return f"{_SAID[result.verdict]}, as tools are called or questions answered {often} often: {told}"


def further_words(result: AbResult, rate: float | None = None) -> list[str]:
    """What else two arms say of each other; `rate`: tokens of a prompt that the user's model reads in a second."""
    if len(result.arms) != 2 or not all(arm.warm for arm in result.arms):
        return []
    one, other = result.arms
    lines: list[str] = []
    if one.fresh_over_new is not None and other.fresh_over_new is not None:
        lines.append(
            f"Read for each token that had to be read: {other.fresh_over_new:.2f} with B, "
            f"{one.fresh_over_new:.2f} with A."
        )
    saved = result.saved_ms
    if saved is not None and saved > 0 and one.prompt_ms and result.verdict != "same":  # else it differs by chance
        lines.append(f"Prompt time saved: {seconds(saved / 1000)} of {seconds(one.prompt_ms / 1000 / result.repeats)}.")
    if rate is not None:
        lines.append(
            f"A model that reads {rate:g} tokens a second spends {seconds(other.seconds_a_request(rate))} on a prompt "
            f"with B, {seconds(one.seconds_a_request(rate))} with A."
        )
    return lines + _quality_words(result)


def _quality_words(result: AbResult) -> list[str]:
    quality = result.quality
    if quality is None:
        return []
    rows = (
        ("Tools called where one was due", quality.called),
        ("Calls with valid arguments", quality.valid),
        ("Right answers", quality.answered),
    )
    lines = [f"{name}: {_shares(share)}" for name, share in rows if share.first.of or share.second.of]
    rewritten = [arm.rewritten_tokens for arm in result.arms]
    if None not in rewritten:
        lines.append(
            f"Tokens of replies that later prompts word otherwise: {rewritten[1]} with B, {rewritten[0]} with A."
        )
    return lines


def _shares(share: Difference) -> str:
    told = f"{share.second.done} of {share.second.of} with B, {share.first.done} of {share.first.of} with A"
    if share.interval is None:
        return told + "."
    low, high = (f"{value * 100:+.0f}" for value in share.interval)
    return f"{told} ({LEVEL:.0%} interval of the difference: {low} to {high} points)."


def percent(rate: float) -> str:
    """Two decimals, rounded down at the top: what is not all is never shown as 100 %."""
    return f"{min(rate * 100, 99.99):.2f}%" if rate < 1 else "100.00%"


def seconds(value: float) -> str:
    """A duration with about three digits."""
    if abs(value) < 1:
        return f"{value * 1000:.0f} ms"
    return f"{value:.1f} s" if abs(value) < 100 else f"{value:.0f} s"
