"""From sources to a session: who belongs to whom, what each prompt could have kept, and which layer lost the rest."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from templatefix.servers.log_events import LogEvent
from templatefix.trace.conversations import conversations, fingerprint
from templatefix.trace.exchange import Exchange
from templatefix.trace.inferred import with_inferred
from templatefix.trace.pair import Pair, layout_of
from templatefix.trace.prompts import SYSTEM, TAIL, TOOLS, Layout
from templatefix.trace.scale import Rates, Scale
from templatefix.trace.session import Missing, PartRole, Session, Traced, TracedPart
from templatefix.trace.sources import joined, read_sources
from templatefix.trace.templates import KnownTemplate, known_templates
from templatefix.trace.verdict import Case, judged

_RECENT = 1000  # requests on a slot that can stand between two of one conversation
_CUT = LogEvent("truncated", 0, None, "its prompt did not grow, though the request did")
_ROLES: Mapping[str, PartRole] = {"system": "system", "user": "user", "assistant": "assistant", "tool": "tool"}


def explain(paths: Sequence[Path], given: Mapping[str | None, KnownTemplate] | None = None) -> Session:
    """Read sources and explain what was read again; raises TraceError.

    `given` holds templates by model, under None the one for all models.
    """
    sources = read_sources(paths)
    exchanges = with_inferred(joined(sources))
    find = known_templates(sources.templates, given or {})
    explainer = _Explainer(exchanges, [find(exchange.model) for exchange in exchanges])
    requests = tuple(explainer.traced(index) for index in range(len(exchanges)))
    return Session(tuple(sources.names), requests, tuple(sources.unread), tuple(explainer.missing(requests)))


class _Explainer:
    """Goes through the exchanges in order; layouts are kept no longer than the next request needs them."""

    def __init__(self, exchanges: Sequence[Exchange], templates: Sequence[KnownTemplate | None]) -> None:
        self._exchanges = exchanges
        self._templates = templates
        self._conversations = conversations(exchanges)
        self._last: dict[int, int] = {}  # the latest request of each conversation
        self._layouts: dict[int, Layout] = {}
        self._rates: dict[tuple[str, bool], Rates] = {}  # by model, and whether its template is known
        self._on_slot: dict[tuple[str, int | None], deque[int]] = {}  # the latest requests
        self._in_force: dict[str, str] = {}  # which template, by model, as the log says
        warm = [
            exchange.cached_tokens
            for exchange, goes_on in zip(exchanges, _going_on(self._conversations), strict=True)
            if goes_on and exchange.cached_tokens is not None and exchange.figures != "estimate"
        ]
        self._cold = len(warm) > 1 and not any(warm)

    def traced(self, index: int) -> Traced:
        """The next request."""
        exchange, conversation = self._exchanges[index], self._conversations[index]
        earlier = self._last.get(conversation)
        self._last[conversation] = index
        template = self._templates[index]
        selected = self._selected(exchange)
        if template is not None and template.template.kind == "go" and selected not in ("", "go_template"):
            template = None  # another one makes this model's prompts
        layout = layout_of(exchange, template)
        if layout is not None:
            self._layouts[index] = layout
        size = self._size(exchange, layout)
        pair, between = None, self._between(index, earlier)
        before = self._exchanges[earlier] if earlier is not None else None
        if before is not None and layout is not None and earlier is not None:
            old = self._layouts.pop(earlier, None)
            if old is not None and (old.rendering is None) == (layout.rendering is None):
                pair = Pair(before, exchange, old, layout, template)
                if exchange.logged is None and pair.seems_cut:
                    exchange = replace(exchange, events=(*exchange.events, _CUT))
                    pair = replace(pair, after=exchange)
        scale = self._scale(pair, exchange, size, layout, between)
        case = Case(
            pair=pair,
            before=before,
            after=exchange,
            prompt_tokens=size,
            cached_tokens=self._cached(exchange, pair, scale, size),
            scale=scale,
            between=tuple([other for other in between if self._conversations[other] != conversation]),
            same_slot=not between,
            cold=self._cold,
            selected=selected,
        )
        verdict = judged(case)
        return Traced(
            index=index,
            exchange=exchange,
            conversation=conversation,
            before=earlier,
            between=case.between,
            figures="estimate" if exchange.cached_tokens is None else exchange.figures,
            prompt_tokens=size,
            cached_tokens=case.cached_tokens,
            new_tokens=verdict.new_tokens,
            parts=tuple(_parts(exchange, layout, scale)),
            losses=verdict.losses,
            note=verdict.note,
        )

    def _selected(self, exchange: Exchange) -> str:
        for event in exchange.events:
            if event.kind == "selection" and event.text:
                self._in_force[exchange.model or ""] = event.text
        return self._in_force.get(exchange.model or "", "")

    def _rates_of(self, exchange: Exchange, layout: Layout) -> Rates:
        known = layout.rendering is not None or exchange.prompt is not None
        return self._rates.setdefault((exchange.model or "", known), Rates())

    def _size(self, exchange: Exchange, layout: Layout | None) -> int:
        if exchange.prompt_tokens is not None or layout is None:
            return exchange.prompt_tokens or 0
        rates = self._rates_of(exchange, layout).by_kind
        return round(Scale(layout, [(0, 0), (layout.size, layout.size)], rates).weight)

    def _between(self, index: int, earlier: int | None) -> list[int]:
        """The requests that came to the same slot since the one before in this conversation."""
        exchange = self._exchanges[index]
        key = (exchange.logged.process if exchange.logged else "", exchange.slot)
        if exchange.model and exchange.slot is None:
            key = (exchange.model, None)
        seen = self._on_slot.setdefault(key, deque(maxlen=_RECENT))
        found: list[int] = []
        for other in reversed(seen):
            if earlier is None or other <= earlier:
                break
            found.append(other)
        seen.append(index)
        return found[::-1]

    def _scale(
        self,
        pair: Pair | None,
        exchange: Exchange,
        size: int,
        layout: Layout | None,
        between: Sequence[int],
    ) -> Scale | None:
        """Bytes in tokens, with the places that the engine told: the end, the earlier prompt, the first difference."""
        if layout is None or not layout.size:
            return None
        known = [(0, 0), (layout.size, size)]
        rates = self._rates_of(exchange, layout)
        if exchange.prompt_tokens is not None:
            rates.add(layout, layout.size, size)
        if pair is not None:
            place = self._known_place(pair, exchange, Scale(layout, known, rates.by_kind), size, between)
            if place is not None:
                known.append(place)
                rates.add(layout, *place)
        return Scale(layout, known, rates.by_kind)

    def _known_place(
        self, pair: Pair, exchange: Exchange, guess: Scale, size: int, between: Sequence[int]
    ) -> tuple[int, int] | None:
        """Where two prompts part, in bytes and in tokens, as far as the engine tells."""
        kept, before = pair.kept_bytes, pair.before.prompt_tokens
        if not pair.exact:
            kept = min((start for start, _ in pair.lost_to_client()), default=0)
        common = exchange.logged.common_tokens if exchange.logged is not None and not between else None
        if not kept or pair.same:
            return None
        if pair.exact and pair.whole:
            return (kept, before) if before is not None and before <= size else None
        if pair.exact and common is not None:
            return kept, common
        near = guess.tokens(kept)
        if exchange.cached_tokens and abs(near - exchange.cached_tokens) <= 0.15 * near + 8:
            return kept, exchange.cached_tokens
        return None

    def _cached(self, exchange: Exchange, pair: Pair | None, scale: Scale | None, size: int) -> int:
        """What the engine said, else what it could have kept at best.

        The time that reading took says that it kept less only where it is twice what the new words explain.
        """
        told = min(exchange.cached_tokens or 0, size)
        timed = exchange.cached_tokens is not None and exchange.figures == "estimate" and not exchange.loaded_anew
        if exchange.cached_tokens is not None and not timed:
            return told
        if exchange.logged is not None or pair is None or scale is None:
            return told
        kept = pair.kept_bytes
        if pair.whole and pair.reply_range is not None and not (pair.change and pair.change.kind == "reply"):
            kept = pair.reply_range[1]
        best = min(round(scale.tokens(kept)), size)
        return told if timed and size - told >= 2 * (size - best) else best

    def missing(self, requests: Sequence[Traced]) -> list[Missing]:
        """What would have said more."""
        said: list[Missing] = []
        if any(not request.exchange.readable for request in requests):
            said.append(
                Missing("the requests themselves (a recording of `trace record`, or OLLAMA_DEBUG_LOG_REQUESTS)")
            )
        models = {
            request.exchange.model or "the model"
            for request, template in zip(requests, self._templates, strict=True)
            if template is None and request.exchange.request is not None
        }
        if models:
            said.append(Missing(f"the template of {', '.join(sorted(models))}", "--template"))
        if any(request.figures == "estimate" for request in requests):
            log = "the server's log, OLLAMA_DEBUG=1 or -lv 4"
            said.append(Missing(f"how much came from the cache ({log}): these are estimates"))
        return said


def _going_on(conversations: Sequence[int]) -> Iterator[bool]:
    """Whether each request goes on from an earlier one."""
    begun: set[int] = set()
    for conversation in conversations:
        yield conversation in begun
        begun.add(conversation)


def _parts(exchange: Exchange, layout: Layout | None, scale: Scale | None) -> list[TracedPart]:
    """What the request holds, in its order, each with the tokens that it takes in the prompt."""
    if layout is None or scale is None:
        return []
    tokens: dict[int, float] = {}
    for part in layout.stretches:
        tokens[part.owner] = tokens.get(part.owner, 0.0) + scale.tokens(part.end) - scale.tokens(part.start)

    def taken(owner: int) -> int:
        return round(tokens.get(owner, 0.0))

    if exchange.request is None:
        return [TracedPart("user", fingerprint(exchange.prompt or ""), taken(SYSTEM))]
    request = exchange.request
    parts: list[TracedPart] = []
    heads = [message for message in request.messages if message.get("role") == "system"]
    leading = 0
    for message in request.messages:
        if message.get("role") != "system":
            break
        leading += 1
    if leading or SYSTEM in tokens:
        parts.append(TracedPart("system", fingerprint([dict(m) for m in heads[:leading]]), taken(SYSTEM)))
    if request.tools:
        parts.append(TracedPart("tools", fingerprint([dict(tool) for tool in request.tools]), taken(TOOLS)))
    for index, message in enumerate(request.messages[leading:], leading):
        role = _ROLES.get(str(message.get("role")), "user")
        parts.append(TracedPart(role, fingerprint(dict(message)), taken(index)))
    parts.append(TracedPart("tail", fingerprint(""), taken(TAIL)))
    return parts
