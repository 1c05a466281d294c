"""What every rule is made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar

from templatefix.analysis.evidence import Evidence
from templatefix.analysis.findings import Finding, Severity
from templatefix.analysis.stability import LoopRun
from templatefix.chat.serving import Serving
from templatefix.gotemplate.source import Span


class Rule(ABC):
    """A rule; its docstring is the page that `explain` prints.

    `VALID` and `INVALID` are small Go templates that it passes and finds something in; the tests run them.
    `REFERENCES` are threads in public trackers, for reports.
    """

    CODE: ClassVar[str]
    NAME: ClassVar[str]
    SEVERITY: ClassVar[Severity]  # where the verdict does not hang on it
    FIXABLE: ClassVar[bool]
    VALID: ClassVar[tuple[str, ...]]
    INVALID: ClassVar[tuple[str, ...]]
    EXAMPLES_ON: ClassVar[Serving] = Serving()  # the server that the examples are for
    REFERENCES: ClassVar[tuple[str, ...]] = ()  # what is known in public: "owner/name#1234 — what it says"

    @abstractmethod
    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """Yield what is wrong, each with a loop that shows it."""

    def finding(
        self,
        evidence: Evidence,
        message: str,
        span: Span,
        run: LoopRun,
        step: int,
        *,
        error: bool = False,
        fixable: bool | None = None,
    ) -> Finding:
        """A finding of this rule; an error where it decides the verdict.

        Nothing can be mended of a template without tools: without them every prompt stays as it is.
        """
        return Finding(
            self.CODE,
            self.NAME,
            "error" if error else self.SEVERITY,
            message,
            span,
            run.loop.name,
            step,
            evidence.takes_tools and (self.FIXABLE if fixable is None else fixable),
            evidence.cost(run, step),
        )
