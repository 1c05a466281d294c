"""A report for maintainers: everything that its Markdown template can use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from templatefix.analysis.analyse import Analysis
from templatefix.analysis.findings import Finding
from templatefix.analysis.registry import shipped_rules
from templatefix.analysis.stability import LoopRun, run_loop
from templatefix.chat.rendering import ChatTemplate
from templatefix.gotemplate.source import Source
from templatefix.report.checked import SEVERITIES, Checked
from templatefix.report.pictures import span_lines
from templatefix.report.upstream_prompts import Excerpts, excerpts
from templatefix.report.upstream_requests import Pair, Repo, commands, smallest_pair
from templatefix.report.upstream_words import SENT_BY, main_finding, notes, sentences, title
from templatefix.rewrite.proof import NAMES
from templatefix.rewrite.result import PatchResult

TEMPLATE = "upstream.md.j2"


@dataclass(frozen=True)
class Subject:
    """What a report is about: a checked template with what is known of where it came from."""

    name: str  # as maintainers know it: a model, or a file without its folders
    model: str  # what the reproduction asks for
    checked: Checked
    template: ChatTemplate
    facts: tuple[tuple[str, str], ...]  # versions and digests
    private: tuple[tuple[str, str], ...] = ()  # the tag's own texts, where they may be shown


@dataclass(frozen=True)
class Variant:
    """What patch made of the template; without a template there is none, and `reasons` say why."""

    template: ChatTemplate | None
    analysis: Analysis | None
    result: PatchResult | None
    reasons: tuple[str, ...] = ()

    @property
    def diff(self) -> str:
        """The change, empty without one."""
        return self.result.diff() if self.result is not None and self.template is not None else ""

    @property
    def apart(self) -> str | None:
        """What the change gives another form without tools as well."""
        return self.result.apart if self.result is not None else None

    @property
    def proof(self) -> list[tuple[str, str, int]]:
        """What was proved: name, holds or fails, and how many renders were compared."""
        if self.result is None or self.template is None:
            return []
        holds, renders = self.result.proof.results(), self.result.proof.renders()
        return [(name, "holds" if holds[name] else "fails", renders[name]) for name in NAMES]


@dataclass(frozen=True, slots=True)
class Place:
    """A finding with its lines."""

    code: str
    name: str
    severity: str
    message: str
    line: int
    column: int
    lines: str


def upstream_values(
    subject: Subject, variant: Variant, repo: Repo, ab: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The values for the Markdown template; raises ValueError where there is nothing to report."""
    finding, analysis = main_finding(subject.checked), subject.checked.analysis
    if finding is None or analysis is None:
        raise ValueError(f"nothing was found in {subject.name}")
    pair = smallest_pair(subject.template, finding, analysis.loops)
    sent, language = commands(pair.requests, repo, subject.model, subject.checked.kind == "jinja")
    loop = _run_of(analysis, finding.loop)
    return {
        "title": title(subject.name, finding),
        "repo": repo,
        "kind": subject.checked.kind,
        "name": subject.name,
        "model": subject.model,
        "made": subject.model != subject.name,
        "verdict": subject.checked.verdict,
        "sentences": sentences(subject.checked, finding),
        "finding": _place(subject, finding),
        "others": [_place(subject, other) for other in subject.checked.findings if other is not finding],
        "template": subject.template.source.text,
        "commands": sent,
        "language": language,
        "sent_by": SENT_BY[repo],
        "small": pair.small,
        "before": excerpts(pair.run),
        "after": _after(pair, variant),
        "loop_name": loop.loop.name if loop is not None else "",
        "rows": loop_rows(loop, _run_of(variant.analysis, finding.loop)),
        "codes": _codes(analysis),
        "codes_left": _codes(variant.analysis),
        "mended": variant.analysis.verdict if variant.analysis is not None else "",
        "ab": None if ab is None else ab_values(ab),
        "diff": variant.diff,
        "proof": variant.proof,
        "moved": variant.result is not None and any(code.startswith("TF1") for code in variant.result.applied),
        "reasons": variant.reasons,
        "dropped": variant.result.dropped_text if variant.result is not None else (),
        "added": variant.result.added_text if variant.result is not None else (),
        "notes": notes(repo, subject.checked.kind, variant.apart) if variant.diff else (),
        "facts": subject.facts,
        "references": references(subject.checked.findings),
        "private": subject.private,
    }


def _codes(analysis: Analysis | None) -> list[str]:
    return sorted({finding.code for finding in analysis.findings}) if analysis is not None else []


def _place(subject: Subject, finding: Finding) -> Place:
    """A finding in the template's own lines: a Modelfile's other texts are none of a maintainer's business."""
    source: Source = subject.template.source
    start, end = source.position(finding.span.start), source.position(finding.span.end)
    picture = "\n".join(line.removeprefix("  ") for line in span_lines(source, start, end))
    return Place(finding.code, finding.name, finding.severity, finding.message, start.line, start.column, picture)


def _run_of(analysis: Analysis | None, name: str | None) -> LoopRun | None:
    return next((run for run in analysis.loops if run.loop.name == name), None) if analysis is not None else None


def _after(pair: Pair, variant: Variant) -> Excerpts | None:
    if variant.template is None:
        return None
    steps = pair.run.loop
    served = {id(request): step.request for request, step in zip(steps.requests, pair.run.steps, strict=False)}
    return excerpts(run_loop(variant.template, steps, lambda request: served.get(id(request), request)))


def loop_rows(before: LoopRun | None, after: LoopRun | None) -> list[tuple[object, ...]]:
    """A loop's requests: number, last message, then for each side prompt bytes, kept of those due, read, and tools."""
    if before is None:
        return []
    rows = []
    for index, request in enumerate(before.loop.requests):
        last = str(request.messages[-1].get("role", "")) if request.messages else ""
        sides = [cell for run in (before, *([after] if after is not None else [])) for cell in _cells(run, index)]
        rows.append((index + 1, last, *sides))
    return rows


def _cells(run: LoopRun, index: int) -> tuple[object, ...]:
    if index >= len(run.steps):
        return ("fails" if index == len(run.steps) and run.error is not None else "–", "–", "–", "–")
    step = run.steps[index]
    kept = f"{min(step.kept_bytes, run.needed(index - 1))} / {run.needed(index - 1)}" if index else "–"
    tools = {0: "none", 1: "once"}.get(step.tools, f"{step.tools} times")
    return step.prompt_bytes, kept, step.prompt_bytes - step.kept_bytes, tools


def ab_values(ab: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of an A/B, without the names of its arms and scenarios, which can be a user's own.

    Raises ValueError where this is no result of `ab`.
    """
    try:
        arms = ab["arms"]
        rows = [
            (
                letter,
                len(arm["requests"]),
                f"{min(arm['warm_hit_rate'] * 100, 99.99 if arm['warm_hit_rate'] < 1 else 100):.2f} %",
                arm["fresh_tokens"],
                arm["new_tokens"],
            )
            for letter, arm in zip("AB", arms, strict=False)
        ]
        if ab["version"] != 1 or not rows:
            raise ValueError
        return {
            "rows": rows,
            "engine": str(ab["engine"]),
            "source": str(ab["source"]),
            "repeats": int(ab["repeats"]),
            "verdict": ab["verdict"],
            "valid": bool(ab["valid"]),
            "invalid_reasons": [str(reason) for reason in ab["invalid_reasons"]],
        }
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise ValueError("this is no result of templatefix ab --format json") from error


def references(findings: Sequence[Finding]) -> list[tuple[str, str]]:
    """What is known in public of the worst that was found: pairs of a code and a thread with what it says.

    A thread that several rules name stands there once.
    """
    worst = min((SEVERITIES.index(finding.severity) for finding in findings), default=0)
    codes = {finding.code for finding in findings if SEVERITIES.index(finding.severity) == worst}
    found: dict[str, tuple[str, str]] = {}
    for rule in shipped_rules():
        for text in rule.REFERENCES if rule.CODE in codes else ():
            found.setdefault(text.partition(" — ")[0], (rule.CODE, text))
    return list(found.values())
