"""What `watch` found, for the terminal and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from templatefix.analysis.comparison import Change, Comparison, LoopChange
from templatefix.report.lock import Entry
from templatefix.report.style import PLAIN, Style
from templatefix.report.watched import OUTCOMES, Watched
from templatefix.report.width import WIDTH, readable, wrapped

_ROWS = 12  # of a difference that are shown


def watch_text(results: Sequence[Watched], style: Style = PLAIN) -> str:
    """Every target, worst first, and a line that sums up; ends with a newline."""
    lines: list[str] = []
    for watched in sorted(results, key=lambda one: (OUTCOMES.index(one.outcome), one.target)):
        lines += _target(watched, style)
    counts = [(outcome, sum(one.outcome == outcome for one in results)) for outcome in OUTCOMES]
    lines.append(f"{len(results)} watched: {', '.join(f'{count} {name}' for name, count in counts if count)}.")
    return "\n".join(lines) + "\n"


def _target(watched: Watched, style: Style) -> Iterator[str]:
    paint = {"worse": style.bad, "not-compared": style.warn, "better": style.good, "same": style.faint}
    head = f"{readable(watched.target)}: {watched.outcome.replace('-', ' ')}"
    yield style.bold(paint[watched.outcome](head))
    yield from _lines(watched.reason)
    if watched.now is None or watched.comparison is None:
        yield ""
        return
    if watched.rewritten:
        yield f"  template  {_known(watched.then)}"
        yield f"        now {_known(watched.now, 'seen')}"
    for sentence in watched.comparison.consequences:
        if sentence != watched.reason:
            yield from _lines(sentence, "  - ")
    yield from _differences(watched.comparison, style)
    yield ""


def _known(entry: Entry, word: str = "locked") -> str:
    return f"{entry.template[:19]}, {word} {entry.locked}, {entry.verdict}"


def _differences(comparison: Comparison, style: Style) -> Iterator[str]:
    rows = [row for change in comparison.structure for row in _change(change, style)]
    yield from _shown("structure, with lines of the template", rows)
    if comparison.loops:
        yield "  loops, with their steps"
    for line in loop_words(comparison.loops):
        yield from _lines(line, "    ")
    gone, come = comparison.prompt
    words = [style.bad("- " + _fit(line)) for line in gone] + [style.good("+ " + _fit(line)) for line in come]
    yield from _shown("lines of a prompt", words)


def _shown(title: str, rows: Sequence[str]) -> Iterator[str]:
    if rows:
        yield f"  {title}"
        yield from (f"    {row}" for row in rows[:_ROWS])
    if len(rows) > _ROWS:
        yield f"    … {len(rows) - _ROWS} more (--format json has all)"


def _change(change: Change, style: Style) -> Iterator[str]:
    where = f"{{{{define {change.part}}}}} " if change.part else ""
    if change.before is not None:
        yield style.bad(f"- {change.before.line:>4} {where}{_fit(change.before.text)}")
    if change.after is not None:
        yield style.good(f"+ {change.after.line:>4} {where}{_fit(change.after.text)}")


def _fit(text: str) -> str:
    text = readable(text)
    return text if len(text) <= WIDTH - 12 else text[: WIDTH - 13] + "…"


def loop_words(loops: Sequence[LoopChange]) -> list[str]:
    """Figures of loops that are others now: a line a kind of change, with the loops and their steps."""
    found: dict[str, dict[str, list[str]]] = {}
    for change in loops:
        words = {
            "tools": f"tools {_tools(change.before)} → {_tools(change.after)}",
            "kept": "keeps what it should → reads it again" if change.before else "reads again → keeps what it should",
            "requests": f"{change.before} requests render → {change.after}",
        }[change.figure]
        steps = found.setdefault(words, {}).setdefault(change.scenario, [])
        steps += [] if change.step is None else [str(change.step)]
    return [
        f"{words}: " + "; ".join(" ".join([name, ", ".join(steps)]).strip() for name, steps in scenarios.items())
        for words, scenarios in found.items()
    ]


def _tools(count: int) -> str:
    return {0: "none", 1: "once"}.get(count, f"{count} times")


def _lines(text: str, indent: str = "  ") -> list[str]:
    return wrapped(readable(" ".join(text.split())), indent, " " * len(indent))


def watch_json(results: Sequence[Watched], lock: str) -> dict[str, Any]:
    """The document that `watch --format json` writes; `lock` is the path of the lock file."""
    return {"version": 1, "lock": lock, "results": [_result(watched) for watched in results]}


def _result(watched: Watched) -> dict[str, Any]:
    found = watched.comparison
    return {
        "target": watched.target,
        "outcome": watched.outcome,
        "reason": watched.reason,
        "before": _side(watched.then),
        "after": None if watched.now is None else _side(watched.now),
        "consequences": list(found.consequences) if found is not None else [],
        "structure": [{"kind": one.kind, **asdict(one)} for one in (found.structure if found is not None else ())],
        "loops": [asdict(one) for one in (found.loops if found is not None else ())],
        "prompt": {"removed": list(found.prompt[0]), "added": list(found.prompt[1])} if found is not None else None,
    }


def _side(entry: Entry) -> dict[str, Any]:
    return {
        "source": entry.source,
        "date": entry.locked,
        "manifest": entry.manifest,
        "template": entry.template,
        "verdict": entry.verdict,
        "findings": [finding["code"] for finding in entry.findings],
        "not_in_force": entry.not_in_force,
        "server": entry.server,
    }
