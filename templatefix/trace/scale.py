"""Bytes of prompts in tokens: learned from what engines say of whole prompts and of what they kept of them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from templatefix.trace.prompts import SYSTEM, TOOLS, Layout

_KINDS = 3  # system text, tools, the rest: JSON has other tokens than prose
_PRIOR = 0.002  # weight of the common rate against what was seen
_TOKENS_A_BYTE = 0.25  # before anything was seen

Sizes = tuple[float, ...]  # bytes of each kind


class Rates:
    """Tokens a byte of each kind, by least squares over all prompts that were seen so far."""

    def __init__(self) -> None:
        self._rows: list[tuple[Sizes, int]] = []
        self._solved: Sizes | None = None

    def add(self, layout: Layout, end: int, tokens: int) -> None:
        """The engine said that so many bytes of a prompt are so many tokens."""
        if end > 0 and tokens > 0:
            self._rows.append((_sizes(layout, end), tokens))
            del self._rows[:-200]
            self._solved = None

    @property
    def by_kind(self) -> Sizes:
        """Tokens a byte."""
        if self._solved is None:
            self._solved = self._solve()
        return self._solved

    def _solve(self) -> Sizes:
        total = sum(sum(sizes) for sizes, _ in self._rows)
        common = sum(tokens for _, tokens in self._rows) / total if total else _TOKENS_A_BYTE
        square = [[sum(row[i] * row[j] for row, _ in self._rows) for j in range(_KINDS)] for i in range(_KINDS)]
        right = [sum(row[i] * tokens for row, tokens in self._rows) for i in range(_KINDS)]
        weight = _PRIOR * max(1.0, sum(square[i][i] for i in range(_KINDS)) / _KINDS)
        for i in range(_KINDS):
            square[i][i] += weight
            right[i] += weight * common
        found = _solved(square, right)
        return tuple(min(max(rate, common / 4), common * 4) for rate in found)


def _solved(square: list[list[float]], right: list[float]) -> list[float]:
    """The solution of a positive definite system, by elimination."""
    size = len(right)
    for i in range(size):
        for j in range(i + 1, size):
            factor = square[j][i] / square[i][i]
            for k in range(i, size):
                square[j][k] -= factor * square[i][k]
            right[j] -= factor * right[i]
    found = [0.0] * size
    for i in reversed(range(size)):
        found[i] = (right[i] - sum(square[i][k] * found[k] for k in range(i + 1, size))) / square[i][i]
    return found


def _kind(owner: int) -> int:
    return 0 if owner == SYSTEM else 1 if owner == TOOLS else 2


def _sizes(layout: Layout, end: int) -> Sizes:
    sizes = [0.0] * _KINDS
    for part in layout.stretches:
        sizes[_kind(part.owner)] += max(0, min(part.end, end) - part.start)
    return tuple(sizes)


class Scale:
    """Bytes of one prompt in tokens, by rates between the places where both are known."""

    def __init__(self, layout: Layout, known: Sequence[tuple[int, int]], rates: Sizes) -> None:
        """`known` holds pairs of bytes and tokens; those that contradict an earlier one are left out."""
        self._ends = [0]
        self._weights = [0.0]
        self._rates: list[float] = []
        for part in layout.stretches:
            rate = rates[_kind(part.owner)]
            self._ends.append(part.end)
            self._weights.append(self._weights[-1] + (part.end - part.start) * rate)
            self._rates.append(rate)
        self._places: list[float] = []
        self._tokens: list[int] = []
        last = max(tokens for _, tokens in known)
        for place, tokens in sorted(known):
            if self._places and (self._weight(place) <= self._places[-1] or not self._tokens[-1] <= tokens <= last):
                continue
            self._places.append(self._weight(place))
            self._tokens.append(tokens)

    def _weight(self, place: int) -> float:
        at = min(max(bisect_right(self._ends, place), 1), len(self._ends) - 1)
        return self._weights[at - 1] + (min(place, self._ends[at]) - self._ends[at - 1]) * self._rates[at - 1]

    @property
    def weight(self) -> float:
        """Tokens of the whole by the rates alone."""
        return self._weights[-1]

    def tokens(self, place: int) -> float:
        """Tokens in front of a byte."""
        weight = self._weight(place)
        at = min(max(bisect_right(self._places, weight), 1), len(self._places) - 1)
        (w0, w1), (t0, t1) = self._places[at - 1 : at + 1], self._tokens[at - 1 : at + 1]
        return min(max(t0 + (weight - w0) * (t1 - t0) / (w1 - w0), 0), self._tokens[-1])
