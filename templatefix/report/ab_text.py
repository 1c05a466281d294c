"""An A/B result as a table for the terminal, at most 80 columns wide."""

from __future__ import annotations

import textwrap
from itertools import groupby, zip_longest

from templatefix.lab.figures import AbResult, ArmFigures, RequestFigures

WIDTH = 80
_BLOCK = 35  # columns of one arm
_LABEL = 5
_HEAD = f"{'cached / prompt':>16}{'hit':>8}{'fresh':>6}{'new':>5}"
_SAID = {
    "better": "Better: of the warm prompt tokens, {after} come from the cache with {b}, {before} with {a}.",
    "same": "The same: of the warm prompt tokens, {after} come from the cache with {b}, {before} with {a}.",
    "worse": "Worse: of the warm prompt tokens, {after} come from the cache with {b}, {before} with {a}.",
}


def ab_text(result: AbResult) -> str:
    """The table, a line of totals, and the verdict in words; ends with a newline."""
    lines = _wrapped(f"engine {result.engine}, figures from the {result.source}, tokenizer {result.tokenizer}")
    lines.append("")
    for first in range(0, len(result.arms), 2):
        lines += _side_by_side(result.arms[first : first + 2])
    if result.invalid_reasons:
        lines.append("The run is not valid:")
        for reason in result.invalid_reasons:
            lines += _wrapped(f"- {reason}")
    elif result.verdict is not None:
        one, other = result.arms
        before, after = _percent(one.warm_hit_rate), _percent(other.warm_hit_rate)
        lines += _wrapped(_SAID[result.verdict].format(a=one.name, b=other.name, before=before, after=after))
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, break_on_hyphens=False)


def _side_by_side(arms: tuple[ArmFigures, ...]) -> list[str]:
    lines = ["step".ljust(_LABEL) + "  ".join(_fitted(arm.name).center(_BLOCK) for arm in arms)]
    lines.append(" " * _LABEL + "  ".join(_HEAD for _ in arms))
    loops = [[list(rows) for _, rows in groupby(arm.requests, key=lambda row: row.scenario)] for arm in arms]
    for blocks in zip_longest(*loops, fillvalue=[]):
        lines.append(next(rows[0].scenario for rows in blocks if rows))
        for rows in zip_longest(*blocks):
            label = next(str(row.step) for row in rows if row)
            lines.append(label.rjust(_LABEL - 1) + " " + "  ".join(_row(row) for row in rows))
    lines.append("warm " + "  ".join(_total(arm) for arm in arms))
    return [*lines, ""]


def _row(row: RequestFigures | None) -> str:
    if row is None:
        return " " * _BLOCK
    share = f"{row.cached_tokens} / {row.prompt_tokens}"
    return f"{share:>16}{_percent(row.hit_rate):>8}{row.fresh_tokens:>6}{row.new_tokens:>5}"


def _total(arm: ArmFigures) -> str:
    cached = sum(row.cached_tokens for row in arm.warm)
    prompt = sum(row.prompt_tokens for row in arm.warm)
    fresh = sum(row.fresh_tokens for row in arm.warm)
    new = sum(row.new_tokens for row in arm.warm)
    return f"{f'{cached} / {prompt}':>16}{_percent(arm.warm_hit_rate):>8}{fresh:>6}{new:>5}"


def _percent(rate: float) -> str:
    """Two decimals, rounded down at the top: what is not all is never shown as 100 %."""
    return f"{min(rate * 100, 99.99):.2f}%" if rate < 1 else "100.00%"


def _fitted(name: str) -> str:
    return name if len(name) <= _BLOCK else name[:16] + "…" + name[-18:]
