"""A traced session for the terminal: a timeline, what each layer lost, and what could not be read."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from templatefix.report.style import PLAIN, Style
from templatefix.report.width import WIDTH, wrapped
from templatefix.trace.blame import Layer, Loss
from templatefix.trace.session import Session, Traced

_MOST = 200  # requests that are shown; of a longer session those that lost most, and the first ones
WHO: dict[Layer, str] = {
    "client": "what the client sent again was changed",
    "template": "the template moved or rewrote what it had rendered",
    "server": "the server cut, merged or rendered otherwise",
    "engine": "the engine had it and let it go",
    "unknown": "not told apart",
}


def trace_text(session: Session, style: Style = PLAIN) -> str:
    """The timeline and the totals; ends with a newline."""
    shown = _shown(session)
    lines = [
        style.bold(f"{'#':>4} {'conv':>4} {'slot':>4} {'cached / prompt':>17} {'hit':>7} {'read':>7} {'new':>6}  lost")
    ]
    for request in shown:
        lines += _request(request, style)
    if len(shown) < len(session.requests):
        lines.append(f"     … {len(session.requests) - len(shown)} more requests that lost less")
    if any(request.figures == "estimate" for request in shown):
        lines.append(style.faint("     ~ an estimate: no engine said how much was in its cache"))
    lines += ["", *_totals(session, style)]
    for sentence in session.missing:
        lines += wrapped(f"Missing: {sentence}.", "", "  ", whole=False)
    if session.unread:
        lines += ["", "Not read:"]
        for one in session.unread:
            place = f"{one.source}:{one.line}" if one.line else one.source
            times = f" ({one.count} times)" if one.count > 1 else ""
            lines += wrapped(f"{place}: {one.reason}{times}", "  ", "    ", whole=False)
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _shown(session: Session) -> list[Traced]:
    if len(session.requests) <= _MOST:
        return list(session.requests)
    worst = sorted(session.requests, key=lambda request: -sum(loss.tokens for loss in request.losses))[:_MOST]
    return sorted(worst, key=lambda request: request.index)


def _request(request: Traced, style: Style) -> Iterator[str]:
    slot = "-" if request.exchange.slot is None else str(request.exchange.slot)
    share = f"{request.cached_tokens} / {request.prompt_tokens}"
    hit = f"{request.cached_tokens / request.prompt_tokens:.1%}" if request.prompt_tokens else "-"
    mark = "~" if request.figures == "estimate" else " "
    new = "?" if request.new_tokens is None else str(request.new_tokens)
    lost = sum(loss.tokens for loss in request.losses)
    said = style.bad(str(lost)) if lost else style.faint(request.note)
    yield (
        f"{request.index:>4} {request.conversation:>4} {slot:>4} {mark}{share:>16} {hit:>7} "
        f"{request.fresh_tokens:>7} {new:>6}  {said}"
    )
    if request.losses and request.between:
        yield style.faint(f"     in between on this slot: {', '.join(map(str, request.between[:8]))}")
    for loss in request.losses:
        yield from _loss(loss, style)


def _loss(loss: Loss, style: Style) -> Iterator[str]:
    alone = loss.evidence.get("alone_tokens")
    amount = f"{loss.tokens} tokens"
    if isinstance(alone, int) and alone != loss.tokens and abs(alone - loss.tokens) > 1:
        amount += f", {alone} by itself"
    head = f"{loss.layer}: {amount}: "
    lines = textwrap.wrap(head + loss.message, WIDTH - 7)
    for index, line in enumerate(lines):
        yield "     " + (style.warn("- ") if index == 0 else "  ") + line
    before, after = loss.evidence.get("before"), loss.evidence.get("after")
    if before or after:
        yield from _quoted("was", str(before or ""), style)
        yield from _quoted("now", str(after or ""), style)
    if loss.evidence.get("node"):
        yield from _quoted(f"line {loss.evidence.get('line')}", str(loss.evidence["node"]), style)


def _quoted(label: str, text: str, style: Style) -> Iterator[str]:
    shown = "".join(letter if letter.isprintable() else "�" for letter in text.replace("\n", "⏎"))
    yield style.faint(f"         {label}: {shown[: WIDTH - 12 - len(label)]}")


def _totals(session: Session, style: Style) -> Iterator[str]:
    prompt = sum(request.prompt_tokens for request in session.requests)
    fresh = sum(request.fresh_tokens for request in session.requests)
    conversations = len({request.conversation for request in session.requests})
    counted = f"{_number(len(session.requests), 'request')}, {_number(conversations, 'conversation')}"
    yield f"{counted}: {fresh} of {prompt} prompt tokens were read"
    if not any(session.totals.values()):
        yield style.good("Nothing was lost that could have come from the cache.")
        return
    for layer, tokens in session.totals.items():
        if tokens:
            yield f"  {layer:<9}{tokens:>9}  {WHO[layer]}"


def _number(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"
