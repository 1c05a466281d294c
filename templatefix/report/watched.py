"""A locked target beside what it is now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from templatefix.analysis.comparison import Comparison
from templatefix.report.lock import Entry

Outcome = Literal["better", "same", "worse", "not-compared"]
OUTCOMES: tuple[Outcome, ...] = ("worse", "not-compared", "better", "same")  # worst first


@dataclass(frozen=True)
class Watched:
    """A target with its entry in the lock, what it is now, and what became of it; or why it could not be compared."""

    target: str
    then: Entry
    now: Entry | None = None
    comparison: Comparison | None = None
    failure: str | None = None

    @property
    def outcome(self) -> Outcome:
        """What became of it; never the same where nothing was compared."""
        return self.comparison.outcome if self.comparison is not None else "not-compared"

    @property
    def reason(self) -> str:
        """Why, in one sentence."""
        if self.comparison is None:
            return self.failure or "It could not be compared."
        if self.updated and self.outcome == "same" and not self.rewritten:
            return "The tag was updated; its template is the same."
        return self.comparison.reason

    @property
    def rewritten(self) -> bool:
        """Whether the template is another."""
        return self.now is not None and self.now.template != self.then.template

    @property
    def updated(self) -> bool:
        """Whether the manifest is another, where both are known from the same source."""
        if self.now is None or self.now.source != self.then.source:
            return False
        return None not in (self.now.manifest, self.then.manifest) and self.now.manifest != self.then.manifest
