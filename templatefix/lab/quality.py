"""How often an arm did what it should, and whether the difference between two arms is more than chance.

The interval of a difference is Newcombe's: Wilson's intervals of both shares, put together. It holds for small numbers
and for shares of 0 and 1, where the usual one does not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import hypot, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from templatefix.lab.figures import ArmFigures

Verdict = Literal["better", "same", "worse"]
LEVEL = 0.95
_Z = NormalDist().inv_cdf(0.5 + LEVEL / 2)


@dataclass(frozen=True, slots=True)
class Share:
    """So many of so many."""

    done: int
    of: int

    @property
    def rate(self) -> float | None:
        """The share; None of nothing."""
        return self.done / self.of if self.of else None

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's interval; all of [0, 1] where there is nothing."""
        if not self.of:
            return 0.0, 1.0
        rate, square = self.done / self.of, _Z * _Z / self.of
        centre = rate + square / 2
        spread = _Z * sqrt(rate * (1 - rate) / self.of + square / self.of / 4)
        low, high = (centre - spread) / (1 + square), (centre + spread) / (1 + square)
        return (0.0 if self.done == 0 else low), (1.0 if self.done == self.of else high)


@dataclass(frozen=True, slots=True)
class Difference:
    """A share of the first arm and of the second."""

    first: Share
    second: Share

    @property
    def interval(self) -> tuple[float, float] | None:
        """What the second share has more than the first, at the level; None where one of them is of nothing."""
        before, after = self.first.rate, self.second.rate
        if before is None or after is None:
            return None
        gain = after - before
        (low_1, high_1), (low_2, high_2) = self.first.interval, self.second.interval
        return gain - hypot(after - low_2, high_1 - before), gain + hypot(high_2 - after, before - low_1)

    @property
    def verdict(self) -> Verdict:
        """Better or worse where the interval leaves out zero."""
        interval = self.interval
        if interval is None or interval[0] <= 0.0 <= interval[1]:
            return "same"
        return "better" if interval[0] > 0.0 else "worse"


@dataclass(frozen=True, slots=True)
class Quality:
    """Both arms of a live run beside each other."""

    called: Difference  # a tool was called where one was due
    valid: Difference  # its arguments fit its parameters, of the calls that came
    answered: Difference  # the answer says what it should

    @property
    def verdict(self) -> Verdict:
        """Worse as soon as tools are called or questions answered less often beyond the interval."""
        verdicts = [self.called.verdict, self.answered.verdict]
        return "worse" if "worse" in verdicts else "better" if "better" in verdicts else "same"


def quality_of(first: ArmFigures, second: ArmFigures) -> Quality:
    """What the requests of two arms say."""
    return Quality(
        called=Difference(*[_share(row.tool_called for row in arm.requests) for arm in (first, second)]),
        valid=Difference(*[_share(row.arguments_valid for row in arm.requests) for arm in (first, second)]),
        answered=Difference(*[_share(row.answered for row in arm.requests) for arm in (first, second)]),
    )


def _share(outcomes: Iterable[bool | None]) -> Share:
    judged = [outcome for outcome in outcomes if outcome is not None]
    return Share(sum(judged), len(judged))
