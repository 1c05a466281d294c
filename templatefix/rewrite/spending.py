"""What all renders of one patch may cost together: of the search, of every proof, and of the checks in between."""

from __future__ import annotations

from typing import Final

from templatefix.analysis.analyse import Analysis, analyse
from templatefix.analysis.metering import Budget
from templatefix.chat.rendering import ChatTemplate

WORK: Final = 10_000_000  # pieces, or what costs as much; the dearest templates that people have need two fifths


class TooSlow(Exception):
    """The renders of a patch cost more than they may; the string is a sentence about the template."""


class PatchBudget(Budget):
    """A budget that ends the whole patch, and not a render of it, where nothing is left."""

    def __init__(self) -> None:
        super().__init__(WORK)

    def spent(self) -> TooSlow:
        """The end of the patch."""
        return too_slow(f"its renders took more than {self.work} pieces, or as much work")

    def check(self, template: ChatTemplate) -> Analysis:
        """What a check finds; it has its own limit, and is paid as well."""
        own = Budget()
        found = analyse(template, budget=own)
        self.left -= own.used
        return found


def too_slow(why: str) -> TooSlow:
    """The reason in full."""
    return TooSlow(f"the template is too slow to be proved: {why}")


def refuse_cut(analysis: Analysis) -> None:
    """Raise TooSlow where a check could not render all core loops: a proof has more of them."""
    error = next((run.error for run in analysis.core if run.beyond), None)
    if error is not None:
        raise too_slow(f"{error}")
