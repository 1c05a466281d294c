"""One attempt to patch a template: what is wanted of it, what it may cost, and how it says why there is none."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection

from templatefix.analysis.evidence import Evidence
from templatefix.chat.rendering import ChatTemplate
from templatefix.rewrite.candidates import Placement
from templatefix.rewrite.proof import Check
from templatefix.rewrite.result import FAILS, NO_VERDICT, STRUCTS, PatchResult, Refusal
from templatefix.rewrite.spending import PatchBudget, TooSlow


class Attempt(ABC):
    """What a patch of a template has in common in every language."""

    def __init__(
        self, template: ChatTemplate, placement: Placement, select: Collection[str], ignore: Collection[str]
    ) -> None:
        self.template = template
        self.placement = placement
        self.select = [code.upper() for code in select]
        self.ignore = [code.upper() for code in ignore]
        self.evidence = Evidence(template)
        self.tools = self.evidence.takes_tools
        self.budget = PatchBudget()
        self.analysis = self.judged = self.budget.check(template)  # of the template as it came, and once it is repaired
        self.refused: list[Refusal] = []
        self.checks: list[Check] = []  # of the repairs

    def run(self) -> PatchResult:
        """Repair, look for a change, and prove it; refuse where that takes too much."""
        try:
            return self.changes()
        except TooSlow as error:
            return self.unchanged(self.each(f"{error}"))

    @abstractmethod
    def changes(self) -> PatchResult:
        """What becomes of the template; raises TooSlow."""

    def wanted(self, code: str) -> bool:
        """Whether a code may be mended."""
        if self.select and not any(code.startswith(prefix) for prefix in self.select):
            return False
        return not self.left_out(code)

    def left_out(self, code: str) -> bool:
        """Whether a code is to stay by name."""
        return any(code.startswith(prefix) for prefix in self.ignore)

    def errors(self) -> list[str]:
        """The codes that make the template unstable or broken."""
        errors = [finding.code for finding in self.judged.findings if finding.severity == "error"]
        return list(dict.fromkeys(code for code in errors if code not in NO_VERDICT))

    def unwanted(self) -> list[Refusal]:
        """The codes that would have to be mended and may not be."""
        reason = "left out by the choice of codes, and the rest is not enough"
        return [Refusal(code, reason) for code in self.errors() if not self.wanted(code)]

    def needs_patch(self, template: ChatTemplate) -> bool:
        """Whether patching a variant in the same way would change it, or be refused."""
        after = self.budget.check(template)
        told = {refusal.code for refusal in self.refused}
        mended = {code for code in (STRUCTS, FAILS) if self.wanted(code) and code not in told}
        return after.verdict != "stable" or any(
            finding.code in mended or (finding.severity == "error" and finding.code not in NO_VERDICT)
            for finding in after.findings
        )

    def each(self, reason: str) -> list[Refusal]:
        """The same reason for everything that makes the template unstable or broken."""
        return [Refusal(code, reason) for code in self.errors()] or [Refusal("", reason)]

    def unchanged(self, refused: list[Refusal]) -> PatchResult:
        """The template as it came, with all that was found in it."""
        text, findings = self.template.source.text, self.analysis.findings
        given = tuple(refused)
        return PatchResult(
            text,
            text,
            False,
            refused=given,
            placement=self.placement,
            remaining=findings,
            tools=self.tools,
            notes=self.analysis.disagreement,
        )
