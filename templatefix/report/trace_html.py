"""A traced session as one page that needs nothing else: bars, verdicts with their evidence, totals."""

from __future__ import annotations

from dataclasses import dataclass

from templatefix import __version__
from templatefix.report.html import html_page
from templatefix.report.trace_text import WHO
from templatefix.trace.blame import LAYERS
from templatefix.trace.session import Session, Traced

_MOST = 500  # requests on a page


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of a bar; its width in percent of the widest prompt."""

    kind: str  # cached, new, or the layer that lost it
    tokens: int
    width: float


@dataclass(frozen=True, slots=True)
class Row:
    """A request."""

    request: Traced
    hit: str
    time: str
    segments: tuple[Segment, ...]


def trace_html(session: Session) -> str:
    """The page."""
    requests = session.requests[:_MOST]
    widest = max((request.prompt_tokens for request in requests), default=1) or 1
    conversations: dict[int, list[Row]] = {}
    for request in requests:
        conversations.setdefault(request.conversation, []).append(_row(request, widest))
    lost = sum(session.totals.values())
    return html_page(
        "trace.html.j2",
        session=session,
        conversations=conversations,
        totals=[(layer, session.totals[layer], WHO[layer]) for layer in LAYERS if session.totals[layer]],
        lost=lost,
        prompt=sum(request.prompt_tokens for request in session.requests),
        fresh=sum(request.fresh_tokens for request in session.requests),
        left_out=len(session.requests) - len(requests),
        version=__version__,
    )


def _row(request: Traced, widest: int) -> Row:
    cells = [("cached", request.cached_tokens)]
    cells += [(loss.layer, loss.tokens) for loss in request.losses]
    cells.append(("new", max(0, request.prompt_tokens - sum(tokens for _, tokens in cells))))
    segments = [Segment(kind, tokens, round(tokens * 100 / widest, 3)) for kind, tokens in cells if tokens]
    hit = f"{request.cached_tokens / request.prompt_tokens:.1%}" if request.prompt_tokens else "–"
    time = (request.exchange.time or "").replace("T", " ")[:19]
    return Row(request, hit, time, tuple(segments))
