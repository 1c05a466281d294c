"""The search for a variant: one change after the other, until every prompt is kept and the proof holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from templatefix.analysis.stability import LoopRun
from templatefix.chat.go import GoChatTemplate
from templatefix.chat.rendering import ChatTemplate, RenderError
from templatefix.gotemplate.edits import Edit, apply_edits
from templatefix.gotemplate.source import Source, Span
from templatefix.rewrite.candidates import Candidate, Candidates, Obstacle, Placement
from templatefix.rewrite.proof import Baseline, Proof, prove

_DEPTH = 5  # changes one after the other
_TRIALS = 60  # templates looked at
_PROOFS = 12  # full proofs made


@dataclass(frozen=True)
class Found:
    """A variant with what was done to get it."""

    template: GoChatTemplate
    steps: tuple[Candidate, ...]
    proof: Proof

    @property
    def placement(self) -> Placement | None:
        """Where the tools were put; None if they stayed where they were."""
        return next((step.placement for step in self.steps if step.placement is not None), None)

    @property
    def dropped(self) -> tuple[str, ...]:
        """The texts given up."""
        return tuple([text for step in self.steps for text in step.dropped])

    @property
    def added(self) -> tuple[str, ...]:
        """The texts that are new, or that stand at more places than before."""
        return tuple([text for step in self.steps for text in step.added])


def is_sound(runs: Sequence[LoopRun]) -> bool:
    """Whether every request renders, shows the tools and keeps the prompt before it."""
    return not any(run.error or run.lost or any(not step.tools for step in run.steps) for run in runs)


class Search:
    """Looks for a variant of one template."""

    def __init__(self, base: Baseline, placement: Placement, changes: Callable[[ChatTemplate], bool]) -> None:
        self.base = base
        self.placement = placement
        self.changes = changes  # whether patching a variant would change it again
        self.seen: set[str] = set()
        self.proofs = 0
        self.failures: list[Obstacle] = []

    def run(self) -> Found | None:
        """The first variant whose proof holds; None if there is none, `obstacle` tells why."""
        template = self.base.template
        assert isinstance(template, GoChatTemplate)
        return self._from(template, (), self.base.runs)

    @property
    def obstacle(self) -> Obstacle | None:
        """What stood in the way, in the words of the trial that came furthest."""
        return self.failures[0] if self.failures else None

    def _from(self, template: GoChatTemplate, steps: tuple[Candidate, ...], runs: Sequence[LoopRun]) -> Found | None:
        candidates = Candidates(template.tree, runs, self.placement)
        whole = Span(0, len(template.source.data))
        for candidate in candidates.propose():
            variant = self._apply(template, candidate)
            if variant is None or len(self.seen) > _TRIALS:
                continue
            taken = (*steps, candidate)
            after = self.base.run(variant, self.base.core)
            if is_sound(after):
                found = self._proved(variant, taken, candidate.edits[0].span if candidate.edits else whole)
            elif len(taken) < _DEPTH:
                found = self._from(variant, taken, after)
            else:
                found = None
            if found is not None:
                return found
        if not steps:
            self.failures = [*candidates.certain, *self.failures, *candidates.obstacles]
        return None

    def _apply(self, template: GoChatTemplate, candidate: Candidate) -> GoChatTemplate | None:
        """The changed template; None where it is not one, or not new."""
        if not candidate.edits:
            return None
        try:
            text = apply_edits(template.source, _in_lines_of(template.source, candidate.edits))
            if text in self.seen or text == template.source.text:
                return None
            self.seen.add(text)
            return GoChatTemplate(Source(text, template.source.name), date=template.date, limits=template.limits)
        except (ValueError, RenderError):
            return None

    def _proved(self, variant: GoChatTemplate, steps: tuple[Candidate, ...], span: Span) -> Found | None:
        if self.proofs >= _PROOFS:
            return None
        self.proofs += 1
        found = Found(variant, steps, Proof())
        proof = prove(self.base, variant, dropped=found.dropped, added=found.added, patch_again=self.changes)
        if proof.holds:
            return Found(variant, steps, proof)
        what = ", then ".join([step.what for step in steps])
        self.failures.append(Obstacle(f"{what}: {proof.failure}", span))
        return None


def _in_lines_of(source: Source, edits: Sequence[Edit]) -> Sequence[Edit]:
    """The edits with the line ends that a template uses throughout."""
    if source.text.count("\r\n") != source.text.count("\n") or "\n" not in source.text:
        return edits
    return [Edit(edit.span, edit.replacement.replace("\r\n", "\n").replace("\n", "\r\n")) for edit in edits]
