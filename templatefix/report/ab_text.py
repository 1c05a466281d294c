"""An A/B result as a table for the terminal, at most 80 columns wide."""

from __future__ import annotations

from itertools import groupby, pairwise, zip_longest

from templatefix.lab.figures import AbResult, ArmFigures, RequestFigures
from templatefix.report.ab_words import further_words, percent, source_words, verdict_words
from templatefix.report.width import wrapped

_BLOCK = 37  # columns of one arm
_LABEL = 5
_HEAD = f"{'cached / prompt':>16}{'hit':>8}{'fresh':>7}{'new':>6}"
_FIRST, _LAST = 8, 4  # rows of a long loop that are shown,
_STRIKING = 6  # and so many between them that lose what those around them keep

_Rows = tuple[RequestFigures | None, ...]


def ab_text(result: AbResult, rate: float | None = None) -> str:
    """The table, a line of totals, and the verdict in words; ends with a newline.

    `rate`: tokens of a prompt that the user's model reads in a second.
    """
    lines = wrapped(source_words(result), whole=False)
    if result.repeats > 1:
        lines.append(f"means of {result.repeats} repeats")
    lines.append("")
    for first in range(0, len(result.arms), 2):
        lines += _side_by_side(result.arms[first : first + 2])
    if result.invalid_reasons:
        lines.append("The run is not valid:")
        for reason in result.invalid_reasons:
            lines += wrapped(f"- {reason}", whole=False)
    elif result.verdict is not None:
        lines += wrapped(verdict_words(result), whole=False)
    for words in further_words(result, rate):
        lines += wrapped(words, whole=False)
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _side_by_side(arms: tuple[ArmFigures, ...]) -> list[str]:
    names = (
        [f"{letter}: {arm.name}" for letter, arm in zip("AB", arms, strict=True)] if len(arms) == 2 else [arms[0].name]
    )
    lines = ["step".ljust(_LABEL) + " ".join(_fitted(name).center(_BLOCK) for name in names)]
    lines.append(" " * _LABEL + " ".join(_HEAD for _ in arms))
    loops = [[list(rows) for _, rows in groupby(arm.averaged, key=lambda row: row.scenario)] for arm in arms]
    for blocks in zip_longest(*loops, fillvalue=[]):
        lines.append(next(rows[0].scenario for rows in blocks if rows))
        lines += _loop(list(zip_longest(*blocks)))
    lines.append("warm " + " ".join(_total(arm) for arm in arms))
    return [*lines, ""]


def _loop(rows: list[_Rows]) -> list[str]:
    """The rows of a loop; the middle of a long one is left out, but for the few requests that lose much in it."""
    if len(rows) <= _FIRST + _LAST + 1:
        return [_line(row) for row in rows]
    middle = range(_FIRST, len(rows) - _LAST)
    striking = [index for index in middle if _loses_much(rows[index])]
    shown = [*range(_FIRST), *(striking if len(striking) <= _STRIKING else []), *range(middle.stop, len(rows))]
    lines = [_line(rows[0])]
    for before, index in pairwise(shown):
        if index > before + 1:
            more = index - before - 1
            lines.append(f"{'…':>{_LABEL - 1}} {more} more request{'s' if more > 1 else ''}")
        lines.append(_line(rows[index]))
    return lines


def _loses_much(rows: _Rows) -> bool:
    """Whether an arm reads a tenth of its prompt again."""
    return any(10 * (row.fresh_tokens - row.new_tokens) >= row.prompt_tokens for row in rows if row)


def _line(rows: _Rows) -> str:
    label = next(str(row.step) for row in rows if row)
    return label.rjust(_LABEL - 1) + " " + " ".join(_row(row) for row in rows)


def _row(row: RequestFigures | None) -> str:
    if row is None:
        return " " * _BLOCK
    share = f"{row.cached_tokens} / {row.prompt_tokens}"
    return f"{share:>16}{percent(row.hit_rate):>8}{row.fresh_tokens:>7}{row.new_tokens:>6}"


def _total(arm: ArmFigures) -> str:
    warm = [row for row in arm.averaged if row.step > 0]
    cached = sum(row.cached_tokens for row in warm)
    prompt = sum(row.prompt_tokens for row in warm)
    fresh = sum(row.fresh_tokens for row in warm)
    new = sum(row.new_tokens for row in warm)
    return f"{f'{cached} / {prompt}':>16}{percent(arm.warm_hit_rate):>8}{fresh:>7}{new:>6}"


def _fitted(name: str) -> str:
    return name if len(name) <= _BLOCK else name[:17] + "…" + name[-19:]
