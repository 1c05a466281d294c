"""What becomes of a template that is patched."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from templatefix.analysis.findings import Finding
from templatefix.rewrite.adaptations import LOST, PARALLEL, RESULTS
from templatefix.rewrite.candidates import Placement
from templatefix.rewrite.proof import Check, Proof

STRUCTS, FAILS = "TF301", "TF305"
ADAPTED = (RESULTS, LOST, PARALLEL)  # changed only where they are asked for by code
NO_VERDICT = frozenset({"TF301", "TF302", "TF401", "TF402"})  # errors that leave a template stable


@dataclass(frozen=True, slots=True)
class Refusal:
    """What could not be mended, and why."""

    code: str
    reason: str

    def to_json(self) -> dict[str, Any]:
        """As in the contract."""
        return {"code": self.code, "reason": self.reason}


@dataclass(frozen=True)
class PatchResult:
    """What became of a template. Unless `changed`, `template` is the original's text, untouched."""

    original: str
    template: str
    changed: bool
    applied: tuple[str, ...] = ()  # codes that the variant no longer shows
    refused: tuple[Refusal, ...] = ()
    placement: Placement = "system"
    proof: Proof = field(default_factory=Proof)
    remaining: tuple[Finding, ...] = ()
    dropped_text: tuple[str, ...] = ()
    added_text: tuple[str, ...] = ()
    apart: str | None = None  # what may differ without tools as well, because it was asked for by name
    tools: bool = True  # whether tools reach the prompt; without them, chats were judged
    instead: str | None = None  # why the tools do not stand where they were asked for
    notes: tuple[str, ...] = ()  # where reading and rendering `template` do not say the same, one sentence each

    def diff(self, name: str = "template") -> str:
        """The change as a unified diff; empty without one."""
        before, after = self.original.splitlines(keepends=True), self.template.splitlines(keepends=True)
        lines = difflib.unified_diff(before, after, f"a/{name}", f"b/{name}")
        return "".join([line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines])

    def declined(self, reason: str, findings: Sequence[Finding]) -> PatchResult:
        """The original untouched, since its variant will not do; `findings` are those of the original."""
        refused = tuple([Refusal(code, reason) for code in self.applied or ("",)])
        return PatchResult(
            self.original,
            self.original,
            False,
            refused=refused,
            placement=self.placement,
            remaining=tuple(findings),
            tools=self.tools,
        )

    def to_json(self, target: str) -> dict[str, Any]:
        """The JSON of `patch`; `tag` is for the caller to fill in."""
        remaining = [{"code": f.code, "severity": f.severity, "message": f.message} for f in self.remaining]
        return {
            "version": 1,
            "target": target,
            "changed": self.changed,
            "applied": list(self.applied),
            "refused": [refusal.to_json() for refusal in self.refused],
            "placement": self.placement,
            "proof": self.proof.results() if self.proof.checks else {},
            "proof_renders": self.proof.renders() if self.proof.checks else {},
            "remaining": remaining,
            "notes": list(self.notes),
            "dropped_text": list(self.dropped_text),
            "added_text": list(self.added_text),
            **({} if self.apart is None else {"apart": self.apart}),
            "template": self.template,
            "diff": self.diff(),
            "tag": None,
        }


def with_repairs(proof: Proof, repairs: Sequence[Check]) -> Proof:
    """A proof, with the renders that compared the repaired template with the one before."""
    if not repairs:
        return proof
    more = sum(each.renders for each in repairs)
    told = dict(proof.checks)
    for name in ("no_tools_identical", "conserved"):
        told[name] = Check(told[name].holds, told[name].renders + more, told[name].reason)
    return Proof(told)
