"""A diagnosis for the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from templatefix.report.style import PLAIN, Style
from templatefix.report.width import readable
from templatefix.trace.cost import Cost
from templatefix.trace.diagnosis import Diagnosis
from templatefix.trace.patient import ModelSeen

WIDTH = 80


def doctor_text(found: Diagnosis, style: Style = PLAIN) -> str:
    """The server, its costs in order, what a prompt is made of, and what was not seen; ends with a newline."""
    lines = [*_server(found, style), *_session(found), ""]
    if found.blind:
        lines.append(style.warn("Nothing was seen that could tell what makes agents slow here."))
    elif not found.costs:
        lines.append(style.good("Nothing was found that makes agents slow here."))
    for number, cost in enumerate(found.costs, 1):
        lines += _cost(number, cost, style)
    lines.append("")
    for sentence in found.missing:
        lines += _wrapped(f"Not seen: {sentence}.", "", "  ")
    for one in found.session.unread if found.session is not None else ():
        times = f" ({one.count} times)" if one.count > 1 else ""
        place = f"{one.source}:{one.line}" if one.line else one.source
        lines += _wrapped(f"Not read: {place}: {one.reason}{times}.", "", "  ")
    return "\n".join(line.rstrip() for line in lines).rstrip("\n") + "\n"


def _server(found: Diagnosis, style: Style) -> Iterator[str]:
    server = found.server
    if server is not None:
        version = f" {server.version}" if server.version and server.version != "0.0.0" else ""
        slots = f", {_count(server.slots, 'slot')}" if server.slots else ""
        yield style.bold(f"{server.kind}{version} at {server.url}{slots}")
        for model in server.models:
            yield from _wrapped(_model(model), "  ", "    ")
    setup = found.setup
    told = [
        f"{setup.slots} slot{'' if setup.slots == 1 else 's'}" if setup.slots else "",
        f"context {setup.context}" if setup.context else "",
        "" if setup.prompt_cache is None else f"memory of former prompts {'on' if setup.prompt_cache else 'off'}",
        f"sliding window {setup.window}{' kept whole' if setup.full_window else ''}" if setup.window else "",
        "recurrent memory" if setup.recurrent else "",
        "" if setup.checkpoints is None else f"{setup.checkpoints or 'no'} checkpoints",
    ]
    if any(told):
        yield from _wrapped("engine, by the log: " + ", ".join(word for word in told if word), "  ", "    ")


def _model(model: ModelSeen) -> str:
    held = f", context {model.context}" if model.context else ""
    state = "in memory" if model.loaded else "not in memory"
    if model.not_in_force:
        verdict = f"its template is not in force: {model.not_in_force}"
    elif model.analysis is None:
        verdict = "its template could not be judged"
    else:
        kind = "Go" if model.known is not None and model.known.template.kind == "go" else "Jinja"
        verdict = f"{kind} template in force, {model.analysis.verdict}"
    return f"{model.name}: {state}{held}; {verdict}"


def _session(found: Diagnosis) -> Iterator[str]:
    figures = found.figures
    if not figures.requests:
        return
    speed = f", {figures.tokens_per_second:.0f} tokens a second" if figures.tokens_per_second else ""
    read = f"{figures.fresh_tokens} of {figures.prompt_tokens} prompt tokens were read"
    counts = f"{_count(figures.requests, 'request')}, {_count(figures.conversations, 'conversation')}"
    yield from _wrapped(f"{counts}: {read}{speed}", "  ", "    ")
    makeup = found.makeup
    if makeup is None:
        return
    parts = ", ".join(f"{name} {tokens}" for name, tokens in makeup.parts.items() if tokens)
    yield from _wrapped(
        f"longest prompt (request {makeup.request}, {makeup.prompt_tokens} tokens): {parts}", "  ", "    "
    )
    if makeup.goes_on:
        often = ", ".join(f"{name} {times}" for name, times in makeup.changed.items())
        of_all = _count(makeup.goes_on, "request")
        yield from _wrapped(f"sent otherwise than before, of {of_all} that go on from another: {often}", "  ", "    ")
    seconds = figures.seconds(makeup.median_fresh)
    took = f", {seconds:.2f} s" if seconds is not None else ""
    changed = f"{makeup.median_changed} of them had been there before"
    yield from _wrapped(f"a request reads {makeup.median_fresh} tokens{took} (median); {changed}", "  ", "    ")


def _cost(number: int, cost: Cost, style: Style) -> Iterator[str]:
    figure = "not measured" if cost.share is None else f"{cost.share:.1%} of the prompts"
    if cost.tokens is not None:
        figure += f", {cost.tokens} tokens"
    if cost.seconds is not None:
        figure += f", {cost.seconds:.2f} s"
    paint = style.bad if cost.much else style.warn
    yield paint(f"{number}. {cost.kind}: {figure}")
    yield from _wrapped(cost.message, "   ", "   ")
    for said in cost.evidence:
        yield from (style.faint(line) for line in _wrapped(said[:240], "   - ", "     "))
    yield from _wrapped(f"Change: {cost.setting}.", "   ", "     ")


def _wrapped(text: str, first: str, then: str) -> list[str]:
    clean = readable(text.replace("\n", "⏎"))
    return textwrap.wrap(clean, WIDTH, initial_indent=first, subsequent_indent=then)


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
