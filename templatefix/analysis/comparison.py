"""Two templates compared as structure and as consequence: what was changed, and whether that is better or worse."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from templatefix.analysis.analyse import Analysis
from templatefix.analysis.findings import Severity
from templatefix.analysis.outline import MAIN, Row, outline
from templatefix.analysis.stability import LoopRun
from templatefix.chat.go import GoChatTemplate
from templatefix.chat.rendering import ChatTemplate

Outcome = Literal["better", "same", "worse"]

POINT = 0.01  # a difference of shares that counts, as in an A/B
_RANKS = {"stable": 0, "unstable": 1, "broken": 2, "not-evaluated": 3}


@dataclass(frozen=True)
class Side:
    """A template with what a check found in it; without an analysis it could not be evaluated."""

    template: ChatTemplate | None
    analysis: Analysis | None

    @property
    def verdict(self) -> str:
        """The verdict; never a clean one for what was not looked at."""
        return "not-evaluated" if self.analysis is None else self.analysis.verdict

    @property
    def capabilities(self) -> frozenset[str]:
        """What a server takes the model to be able to do."""
        found = self.template
        return frozenset(found.derived.capabilities) if isinstance(found, GoChatTemplate) else frozenset()

    def codes(self, severity: Severity) -> frozenset[str]:
        """The codes of the findings of a severity."""
        found = () if self.analysis is None else self.analysis.findings
        return frozenset(finding.code for finding in found if finding.severity == severity)

    @property
    def lost(self) -> float:
        """The share of a prompt that is read again although it stood in the one before, over the core loops."""
        if self.analysis is None:
            return 0.0
        sizes = [step.prompt_bytes for run in self.analysis.core for step in run.steps[1:]]
        return self.analysis.lost_bytes() * len(sizes) / sum(sizes) if sum(sizes) else 0.0

    @property
    def bare(self) -> float:
        """The share of the requests with tools whose prompt has none."""
        return (self.analysis.without_tools() or 0.0) if self.analysis is not None else 0.0


@dataclass(frozen=True, slots=True)
class Change:
    """A row of the outline that went, came, or became another."""

    part: str  # the definition it stands in; empty for the template itself
    before: Row | None
    after: Row | None

    @property
    def kind(self) -> Literal["added", "removed", "changed"]:
        """What happened to it."""
        return "added" if self.before is None else "removed" if self.after is None else "changed"


@dataclass(frozen=True, slots=True)
class LoopChange:
    """A figure of one request of a loop that is another now."""

    scenario: str
    step: int | None  # None: of the loop as a whole
    figure: Literal["tools", "kept", "requests"]  # passes over the tools; whether it keeps enough; how many rendered
    before: Any
    after: Any


@dataclass(frozen=True)
class Comparison:
    """What became of a template, and what that means for an agent."""

    outcome: Outcome
    reason: str  # what decided, in one sentence
    consequences: tuple[str, ...]  # all that follows, one sentence each, what decided first
    structure: tuple[Change, ...]
    loops: tuple[LoopChange, ...]
    prompt: tuple[tuple[str, ...], tuple[str, ...]]  # lines of a loop's last prompt that went, and that came


def compare(before: Side, after: Side) -> Comparison:
    """Compare two templates, checked by the same rules.

    The outcome is that of the first of these that differs: whether a server takes the model to know tools, the verdict,
    how many errors, how many prompts lack the tools, how much is read again (a point or more), how many warnings, other
    abilities.
    """
    told = list(_consequences(before, after))
    unmoved = "It was written anew, and nothing follows from that." if _differ(before, after) else "Nothing changed."
    decided: tuple[Outcome, str] = next((one for one in told if one[0] != "same"), ("same", unmoved))
    return Comparison(
        *decided,
        tuple([sentence for _, sentence in told]),
        tuple(_structure(before.template, after.template)),
        tuple(_loop_changes(before.analysis, after.analysis)),
        _prompt_lines(before.analysis, after.analysis),
    )


def _differ(before: Side, after: Side) -> bool:
    texts = [side.template.source.text if side.template is not None else None for side in (before, after)]
    return texts[0] != texts[1]


def _consequences(before: Side, after: Side) -> Iterator[tuple[Outcome, str]]:
    """All that differs, what weighs most first."""
    if after.template is not None:
        yield from _abilities(before, after)
    if before.verdict != after.verdict:
        outcome: Outcome = "worse" if _RANKS[after.verdict] > _RANKS[before.verdict] else "better"
        why = f": {after.analysis.reason}" if after.analysis is not None and after.analysis.reason else ""
        yield outcome, f"The verdict was {before.verdict} and is {after.verdict}{why}."
    if "not-evaluated" in (before.verdict, after.verdict):
        return
    yield from _codes(before, after, "error")
    if abs(after.bare - before.bare) >= POINT:
        yield (
            "worse" if after.bare > before.bare else "better",
            f"Of the prompts that should hold tools, {after.bare:.0%} have none; it was {before.bare:.0%}.",
        )
    if abs(after.lost - before.lost) >= POINT:
        yield (
            "worse" if after.lost > before.lost else "better",
            f"Of a prompt, {after.lost:.0%} is read again although it stood in the one before; it was "
            f"{before.lost:.0%}.",
        )
    yield from _codes(before, after, "warning")
    yield from _abilities(before, after, rest=True)


def _abilities(before: Side, after: Side, rest: bool = False) -> Iterator[tuple[Outcome, str]]:
    """What a server takes the model to be able to do: tools, or the `rest`."""
    old, new = before.capabilities, after.capabilities
    if gone := {name for name in old - new if (name != "tools") == rest}:
        yield "worse", f"A server no longer takes the model to be able of {_listed(gone)}."
    if came := {name for name in new - old if (name != "tools") == rest}:
        yield "better", f"A server now takes the model to be able of {_listed(came)}."


def _codes(before: Side, after: Side, severity: Severity) -> Iterator[tuple[Outcome, str]]:
    old, new = before.codes(severity), after.codes(severity)
    if old == new:
        return
    outcome: Outcome = "worse" if len(new) > len(old) else "better" if len(new) < len(old) else "same"
    named = {f.code: f.name for side in (before, after) if side.analysis for f in side.analysis.findings}
    said = [
        f"{verb} {_listed([f'{code} {named[code]}' for code in codes])}"
        for verb, codes in (("found now:", new - old), ("gone:", old - new))
        if codes
    ]
    yield outcome, f"{severity.capitalize()}s {'; '.join(said)}."


def _structure(before: ChatTemplate | None, after: ChatTemplate | None) -> Iterator[Change]:
    """Rows that went or came, by their place; deepdiff finds them in the outlines of both trees."""
    if before is None or after is None or before.source.text == after.source.text:
        return
    old, new = outline(before), outline(after)
    found = [
        _change(old, new, kind, level)
        for kind, level in _differences(_texts(old), _texts(new))
        if kind.startswith(("iterable", "values"))
    ]
    yield from sorted(found, key=lambda change: (change.part, (change.after or change.before or Row("", 0)).line))


def _texts(parts: Mapping[str, Sequence[Row]]) -> dict[str, list[str]]:
    return {name: [row.text for row in rows] for name, rows in parts.items()}


def _change(old: Mapping[str, Sequence[Row]], new: Mapping[str, Sequence[Row]], kind: str, level: Any) -> Change:
    part = level.path(output_format="list")[0]
    index, later = _indexes(kind, level)
    return Change(part, None if index is None else old[part][index], None if later is None else new[part][later])


def _indexes(kind: str, level: Any) -> tuple[int | None, int | None]:
    """The places in both lists of an item that went, came, or became another."""
    first, second = level.up.t1_child_rel, level.up.t2_child_rel
    index, later = (first or second).param, (second or first).param  # where both are the same, deepdiff gives one
    return None if kind == "iterable_item_added" else index, None if kind == "iterable_item_removed" else later


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """What deepdiff finds, as pairs of a kind and a place; both mappings are given the same keys."""
    from deepdiff import DeepDiff  # slow to import

    keys = dict.fromkeys((*before, *after))
    tree = DeepDiff({key: before.get(key, []) for key in keys}, {key: after.get(key, []) for key in keys}, view="tree")
    for kind, levels in tree.items():
        for level in levels:
            yield kind, level


def _loop_changes(before: Analysis | None, after: Analysis | None) -> Iterator[LoopChange]:
    """Figures of the rendered loops that are others now, by loop and step."""
    if before is None or after is None:
        return
    found = []
    for _, level in _differences(_figures(before), _figures(after)):
        path = level.path(output_format="list")
        if len(path) == 3:
            found.append(LoopChange(path[0], path[1], path[2], level.t1, level.t2))
    for name, (old, new) in _both(before, after).items():
        if len(old.steps) != len(new.steps):
            found.append(LoopChange(name, None, "requests", len(old.steps), len(new.steps)))
    yield from sorted(found, key=lambda change: (change.scenario, -1 if change.step is None else change.step))


def _both(before: Analysis, after: Analysis) -> dict[str, tuple[LoopRun, LoopRun]]:
    later = {run.loop.name: run for run in after.core}
    return {run.loop.name: (run, later[run.loop.name]) for run in before.core if run.loop.name in later}


def _figures(analysis: Analysis) -> dict[str, list[dict[str, Any]]]:
    return {
        run.loop.name: [{"tools": step.tools, "kept": step.index not in run.lost} for step in run.steps]
        for run in analysis.core
    }


def _prompt_lines(before: Analysis | None, after: Analysis | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The lines of the last prompt of the first loop that both render, as deepdiff tells them apart."""
    runs = next(
        (pair for pair in (_both(before, after) if before and after else {}).values() if all(r.steps for r in pair)),
        None,
    )
    if runs is None:
        return (), ()
    lines = [[line for line in run.steps[-1].rendering.text.splitlines() if line.strip()] for run in runs]
    places = [_indexes(kind, level) for kind, level in _differences({MAIN: lines[0]}, {MAIN: lines[1]})]
    gone, come = ({pair[side] for pair in places} - {None} for side in (0, 1))
    return (
        tuple([line for index, line in enumerate(lines[0]) if index in gone]),
        tuple([line for index, line in enumerate(lines[1]) if index in come]),
    )


def _listed(words: Collection[str]) -> str:
    return ", ".join(sorted(words))
