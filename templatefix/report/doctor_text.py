"""A diagnosis for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from templatefix.report.style import PLAIN, Style
from templatefix.report.width import counted, readable, wrapped
from templatefix.servers.log_setup import Setup
from templatefix.servers.standin import Attention
from templatefix.trace.cost import Cost
from templatefix.trace.diagnosis import Diagnosis
from templatefix.trace.patient import ModelSeen

MOST = 240  # characters of a piece of evidence
_MEMORY: Mapping[Attention, str] = {"full": "", "swa": ", sliding window", "recurrent": ", recurrent memory"}
_PARTS = {"system": "system text", "tools": "tools", "history": "history", "tail": "the answer's header"}


def doctor_text(found: Diagnosis, style: Style = PLAIN) -> str:
    """The server, its costs in order, what a prompt is made of, and what was not seen; ends with a newline."""
    lines = [*_server(found, style), *_session(found), "", *_costs(found, style), ""]
    for sentence in found.missing:
        lines += _lines(f"Not seen: {sentence}.", "", "  ")
    for one in found.session.unread if found.session is not None else ():
        times = f" ({one.count} times)" if one.count > 1 else ""
        place = f"{one.source}:{one.line}" if one.line else one.source
        lines += _lines(f"Not read: {place}: {one.reason}{times}.", "", "  ")
    return "\n".join(line.rstrip() for line in lines).rstrip("\n") + "\n"


def _server(found: Diagnosis, style: Style) -> Iterator[str]:
    server = found.server
    if server is not None:
        version = f" {server.version}" if server.version and server.version != "0.0.0" else ""
        slots = f", {counted(server.slots, 'slot')}" if server.slots else ""
        router = ", a router to one server a model" if server.router else ""
        yield style.bold(f"{server.kind}{version} at {server.url}{slots}{router}")
        for model in server.models:
            yield from _lines(_model(model), "  ", "    ")
    setup = found.setup
    told = [
        counted(setup.slots, "slot") if setup.slots else "",
        f"context {setup.context}" if setup.context else "",
        ""
        if setup.prompt_cache is None
        else f"former prompts {'kept' if setup.prompt_cache else 'not kept'} in memory",
        f"sliding window of {setup.window}{', kept whole' if setup.full_window else ''}" if setup.window else "",
        "recurrent memory" if setup.recurrent else "",
        _checkpoints(setup) if setup.window or setup.recurrent else "",
    ]
    if any(told):
        yield from _lines("engine, by the log: " + ", ".join(word for word in told if word), "  ", "    ")


def _checkpoints(setup: Setup) -> str:
    """How many copies of a memory that cannot be wound back there are to go back to."""
    if setup.checkpoints is None:
        return ""
    return f"{counted(setup.checkpoints, 'checkpoint')} at most" if setup.checkpoints else "no checkpoints"


def _model(model: ModelSeen) -> str:
    held = f", context {model.context}" if model.context else ""
    state = "in memory" if model.loaded else "not in memory"
    memory = _MEMORY[model.memory] if model.memory is not None else ""
    if model.not_in_force:
        verdict = f"its template is not in force: {model.not_in_force}"
    elif model.analysis is None:
        verdict = "its template could not be judged"
    else:
        kind = "Go" if model.known is not None and model.known.template.kind == "go" else "Jinja"
        verdict = f"{kind} template in force, {model.analysis.verdict}"
    return f"{model.name}: {state}{held}{memory}; {verdict}"


def _session(found: Diagnosis) -> Iterator[str]:
    figures, session = found.figures, found.session
    if not figures.requests or session is None:
        return
    speed = f", at {figures.tokens_per_second:.0f} tokens a second" if figures.tokens_per_second else ""
    counts = f"{counted(figures.requests, 'request')} in {counted(figures.conversations, 'conversation')}"
    about = "about " if any(one.figures == "estimate" for one in session.requests) else ""
    cached = "the rest" if figures.fresh_tokens < figures.prompt_tokens else "nothing"
    read = f"{about}{figures.fresh_tokens} of {figures.prompt_tokens} prompt tokens were read{speed}"
    yield from _lines(f"{counts}: {read}; {cached} came from the cache", "  ", "    ")
    makeup = found.makeup
    if makeup is None:
        return
    parts = ", ".join(f"{_PARTS[name]} {tokens}" for name, tokens in makeup.parts.items() if tokens)
    longest = f"longest prompt (request {makeup.request}): {makeup.prompt_tokens} tokens"
    yield from _lines(f"{longest}: {parts}", "  ", "    ")
    if not makeup.goes_on:
        return
    changed = [f"{_PARTS[name]} in {times}" for name, times in makeup.changed.items() if times]
    of_all = f"of {counted(makeup.goes_on, 'request')} that {'goes' if makeup.goes_on == 1 else 'go'} on from another"
    said = ", ".join(changed) if changed else "nothing"
    yield from _lines(f"changed by the client, {of_all}: {said}", "  ", "    ")
    if not makeup.median_fresh:
        return
    seconds = figures.seconds(makeup.median_fresh)
    took = f" in {seconds:.2f} s" if seconds is not None else ""
    again = f"{makeup.median_changed} of them it had read before" if makeup.median_changed else "all of them new"
    yield from _lines(
        f"such a request reads {counted(makeup.median_fresh, 'token')}{took}, {again} (median)", "  ", "    "
    )


def _costs(found: Diagnosis, style: Style) -> Iterator[str]:
    costs = [cost for cost in found.costs if not cost.little]
    trifles = sum(cost.tokens or 0 for cost in found.costs if cost.little)
    if found.blind:
        yield style.warn("Nothing was seen that could tell what makes agents slow here.")
    elif not costs:
        yield style.good("Nothing was found that makes agents slow here.")
    elif any(cost.share is not None for cost in costs):
        yield from _lines(
            "What costs most comes first; the share is that of prompts that could have come from the cache.", "", ""
        )
    for number, cost in enumerate(costs, 1):
        yield from _cost(number, cost, style)
    if trifles:
        beside = f"{'Beside that, ' if costs else ''}{counted(trifles, 'token')} read again"
        yield f"{beside}: too few to matter (less than a hundredth)."
    for cost in found.costs:
        if cost.little and cost.tokens is None and cost.share is not None:
            said = f"{cost.message[:1].upper()}{cost.message[1:]}"
            yield from _lines(f"{said}: {cost.share:.1%}, less than a hundredth.", "", "  ")
            yield from _lines(f"Change: {cost.setting}.", "  ", "    ")


def _cost(number: int, cost: Cost, style: Style) -> Iterator[str]:
    figure = "not measured" if cost.share is None else f"{cost.share:.1%} of the prompts"
    if cost.tokens is not None:
        figure += f", {'' if cost.share is not None else 'at most '}{counted(cost.tokens, 'token')} read again"
    if cost.seconds is not None:
        figure += f", {cost.seconds:.2f} s"
    paint = style.bad if cost.much else style.warn
    yield paint(f"{number}. {cost.kind}: {figure}")
    yield from _lines(cost.message, "   ", "   ")
    for said in cost.evidence:
        yield from (style.faint(line) for line in _lines(_short(said), "   - ", "     "))
    yield from _lines(f"Change: {cost.setting}.", "   ", "     ")


def _short(text: str) -> str:
    """No more than three lines of it."""
    return text if len(text) <= MOST else f"{text[: MOST - 1].rstrip()}…"


def _lines(text: str, first: str, then: str) -> list[str]:
    return wrapped(readable(text.replace("\n", "⏎")), first, then, whole=False)
