"""What a check has to say about one target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from templatefix.analysis.analyse import Analysis
from templatefix.analysis.findings import Finding, Severity, Verdict
from templatefix.gotemplate.source import Position, Source, Span

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")  # worst first


@dataclass(frozen=True)
class Checked:
    """A target with its analysis, or with the reason why there is none."""

    target: str
    kind: Literal["go", "jinja"] = "go"
    text: str | None = None  # of the template; None: it could not be read
    file: Source | None = None  # whose lines people see: a Modelfile where the template came in one
    position: Callable[[int], Position] | None = None  # in that file, of a byte of the template
    analysis: Analysis | None = None
    failure: str | None = None  # why there is no analysis: a sentence, perhaps with a picture below it
    note: str | None = None  # why the template is not what prompts are made with
    path: Path | None = None  # of the file; None for models and standard input
    failed_at: Span | None = None  # bytes of the template that keep it from being evaluated, where they are known

    @property
    def verdict(self) -> Verdict:
        """The verdict; never a clean one for what was not looked at."""
        return self.analysis.verdict if self.analysis is not None else "not-evaluated"

    @property
    def reason(self) -> str | None:
        """What stands behind the verdict, in one sentence, where that is needed."""
        if self.analysis is None:
            return self.failure.partition("\n")[0] if self.failure else None
        return self.analysis.reason or self.note

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings, worst first, then by place."""
        if self.analysis is None:
            return ()
        return tuple(sorted(self.analysis.findings, key=lambda f: (SEVERITIES.index(f.severity), f.span, f.code)))

    def place(self, offset: int) -> Position:
        """The place in the file of a byte of the template."""
        if self.position is None:
            raise ValueError(f"{self.target} has no text")
        return self.position(offset)

    def lost_bytes(self) -> float:
        """What a request reads again although it was there before, in bytes, on average over the core loops."""
        return self.analysis.lost_bytes() if self.analysis is not None else 0.0

    def without_tools(self) -> float | None:
        """The share of the requests with tools whose prompt has none, over the core loops; None where none has any."""
        return self.analysis.without_tools() if self.analysis is not None else None

    def at_least(self, severity: Severity) -> bool:
        """Whether there is a finding as bad as this, or worse."""
        return any(SEVERITIES.index(f.severity) <= SEVERITIES.index(severity) for f in self.findings)
