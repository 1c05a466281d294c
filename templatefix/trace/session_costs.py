"""The costs that requests and a log show: each cause in words, with its evidence and the setting to change."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from templatefix.servers.log_setup import Setup
from templatefix.servers.standin import Attention
from templatefix.trace import settings
from templatefix.trace.cost import Cost, CostKind, figures_of, place, worst
from templatefix.trace.lost import Lost, lost_by_cause, pause, truncated
from templatefix.trace.lost_by_log import short_and_long
from templatefix.trace.patient import ServerKind
from templatefix.trace.session import Session, Traced
from templatefix.trace.sources import TOO_LONG

FULL = 0.9  # of a context
_SAID: Mapping[CostKind, str] = {
    "template": "the template moves or rewrites what it had rendered",
    "client": "the client changes what it had sent",
    "cache-off": "nothing comes from the cache: it is switched off",
    "slots": "another conversation takes the slot, the server's place for one prompt, in between",
    "memory": "where a prompt changes, the engine cannot go back in its memory and reads all of it again",
    "context-size": "requests with another num_ctx start the engine anew",
    "keep-alive": "the model was unloaded between turns, and its cache with it",
    "models": "several models push each other out of memory",
    "restart": "the engine was started anew between turns",
    "truncated": "histories do not fit: they are cut, so prompts open otherwise",
    "server": "the server makes other messages of those that it gets",
    "unknown": "read again, and what was looked at does not say why",
}
_GUESSED = "; by a log without the requests, this is the most that it cost"
_OPENINGS = "no prompt goes on from the one before although each is longer: something at their very beginning changes"
_IN_TURN = (
    "prompts are short and long in turn, and the long ones are read for the most part: tools that a template shows at "
    "the user's turn alone, or new chats with long texts; a log alone does not say which"
)
_SIZE = re.compile(r"\bprompt=(\d+)")


@dataclass(frozen=True, slots=True)
class Conditions:
    """What a session ran on, by the log or else by the server."""

    kind: ServerKind
    setup: Setup
    memory: Attention | None = None  # the model's
    contexts: Mapping[str | None, int] | None = None  # tokens by model, None for whichever
    one_model: bool = False  # it runs one, whatever name a request gives
    target: str = ""  # what `patch` reads the template of that one from

    def context(self, request: Traced) -> int | None:
        """Tokens that the context of a request holds."""
        logged, exchange, known = request.exchange.logged, request.exchange, self.contexts or {}
        told = (logged.context if logged is not None else None) or exchange.context
        return told or known.get(exchange.model) or known.get(None) or self.setup.context


def session_costs(session: Session, on: Conditions) -> Iterator[Cost]:
    """The costs, in no order."""
    found = lost_by_cause(session, on.setup, on.memory, on.one_model)
    guessed = {request.index for lost in found if lost.guessed for request, _ in lost.requests}
    could = could_be_cached(session, guessed)
    figures = figures_of(session)
    for lost in found:
        share = lost.tokens / could if could else None
        yield Cost(
            lost.kind,
            lost.tokens,
            share,
            _message(lost),
            (*worst(lost.requests), *_facts(lost, on, session)),
            _setting(lost, on, session),
            figures.seconds(lost.tokens),
            lost.requests[0][0].exchange.model or "" if lost.kind == "template" else "",
        )
    yield from _full(session, on, cut=any(lost.kind == "truncated" for lost in found))
    yield from _thinking(session, on.kind)
    yield from _in_turns(session)


def could_be_cached(session: Session, guessed: Collection[int] = ()) -> int:
    """Tokens of the prompts that could have come from the cache in part."""
    return sum(one.prompt_tokens for one in session.requests if one.before is not None or one.index in guessed)


def _in_turns(session: Session) -> Iterator[Cost]:
    """Prompts that are short and long in turn: a log alone does not say whether they could have been kept."""
    found = short_and_long(session)
    if found:
        yield Cost("unknown", sum(tokens for _, tokens in found), None, _IN_TURN, worst(found), settings.UNKNOWN)


def _message(lost: Lost) -> str:
    if lost.guessed and lost.kind == "unknown":
        return _OPENINGS + _GUESSED
    message = _SAID[lost.kind]
    if lost.losses and lost.kind in ("client", "server", "unknown", "cache-off"):
        message = max(lost.losses, key=lambda loss: loss.tokens).message
    return message + (_GUESSED if lost.guessed else "")


def _setting(lost: Lost, on: Conditions, session: Session) -> str:
    kind, setup = on.kind, on.setup
    if lost.kind == "slots":
        return settings.slots(setup, kind, _conversations(lost, session))
    if lost.kind == "memory":
        changed = any(True for key in ("changed_at", "together_tokens") for _ in lost.evidence(key))
        return settings.memory(setup, kind, on.memory, changed)
    if lost.kind == "client":
        return settings.client(lost)
    if lost.kind in ("keep-alive", "models", "context-size", "restart"):
        return settings.restart(lost, kind)
    if lost.kind == "template":
        return settings.template(kind, _patched(lost, on), set(lost.evidence("code")))
    if lost.kind == "truncated":
        return settings.context(kind, _longest(session, on))
    if lost.kind == "cache-off":
        return settings.cache(asked=any(request.exchange.no_cache for request, _ in lost.requests))
    if lost.kind == "server":
        return "in the client: send messages of one role as one message"
    return settings.UNKNOWN


def _patched(lost: Lost, on: Conditions) -> str:
    """What `patch` calls the template that lost most."""
    return lost.requests[0][0].exchange.model or "" if on.kind == "ollama" else on.target


def _conversations(lost: Lost, session: Session) -> int:
    """How many there are; a log alone shows that there are two, but not that one goes on."""
    return 2 if lost.guessed else len({one.conversation for one in session.requests})


def _longest(session: Session, on: Conditions) -> int:
    """Tokens of the longest prompt; one that was cut had more than its context, or as many as the log says."""
    sizes = [size for one in session.requests for size in (one.prompt_tokens, on.context(one) or 0)]
    told = [int(size[1]) for one in session.requests if (size := _SIZE.search(truncated(one)))]
    return max([*sizes, *told], default=0)


def _facts(lost: Lost, on: Conditions, session: Session) -> Iterator[str]:
    """What else shows a cause."""
    if lost.kind == "slots":
        yield from _of_slots(lost, on.setup, session)
    elif lost.kind == "memory":
        yield from _of_memory(lost, on)
    elif lost.kind in ("keep-alive", "models", "context-size", "restart"):
        yield from _of_restart(lost, on, session)
    elif lost.kind == "truncated":
        yield from islice(filter(None, (truncated(request) for request, _ in lost.requests)), 1)
    for before, after in zip(lost.evidence("before"), lost.evidence("after"), strict=False):
        if before or after:
            yield f"was: {before}"
            yield f"now: {after}"
            break
    node = next(lost.evidence("node"), None)
    if node:
        line, code = next(lost.evidence("line"), "?"), next(lost.evidence("code"), "no rule")
        yield f"line {line} of the template, {code}: {node}"


def _of_slots(lost: Lost, setup: Setup, session: Session) -> Iterator[str]:
    count = counted(_conversations(lost, session), "conversation") + (" or more" if lost.guessed else "")
    yield f"{counted(setup.slots, 'slot')} for {count}"
    if setup.prompt_cache is not None:
        yield (
            f"former prompts are kept in the host's memory: {setup.saved} saved, {setup.restored} brought back, "
            f"{setup.dropped} thrown away for want of room"
            if setup.prompt_cache
            else "no former prompts are kept in the host's memory (--cache-ram 0)"
        )


def _of_memory(lost: Lost, on: Conditions) -> Iterator[str]:
    setup = on.setup
    if setup.recurrent or on.memory == "recurrent":
        yield "its memory is recurrent: one state for all that was read"
    elif setup.window:
        yield f"its memory is a sliding window of {setup.window} tokens"
    elif on.memory == "swa":
        yield "its memory is a sliding window"
    if setup.checkpoints is not None:
        most = f"at most {counted(setup.checkpoints, 'copy')} of its memory to go back to"
        yield f"{most} (--ctx-checkpoints)" if setup.checkpoints else "copies of its memory are switched off"
    changed = sorted(set(lost.evidence("changed_at")))
    if changed:
        layers = {loss.layer for request, _ in lost.requests for loss in request.losses}
        whose = " and the ".join(name for name in ("client", "template") if name in layers) or "client or its template"
        yield f"the prompt itself had changed at token {changed[0]}, by the {whose}"


def _of_restart(lost: Lost, on: Conditions, session: Session) -> Iterator[str]:
    request = max(lost.requests, key=lambda pair: pair[1])[0]
    if not lost.starts and request.exchange.load_ms is not None:
        yield f"the model was loaded for it, in {request.exchange.load_ms / 1000:.1f} s"
    waited = pause(request, session)
    if lost.kind == "keep-alive" and waited is not None:
        yield f"the request came {waited:.0f} s after the one before"
    if lost.kind == "models":
        names = sorted({one.exchange.model for one in session.requests if one.exchange.model})
        weights = {start.weights for start in lost.starts}
        if names or len(weights) > 1:
            yield f"models of these requests: {', '.join(names)}" if names else f"{len(weights)} models in turn"
    if lost.kind == "context-size":
        sizes = sorted({one.exchange.context for one in session.requests if one.exchange.context})
        if len(sizes) > 1:
            yield f"the requests ask for num_ctx {', '.join(map(str, sizes))}"
    several = len({start.source for start in on.setup.starts}) > 1
    for start in lost.starts[:3]:
        line = f"{start.source}:{start.line}" if several else f"log line {start.line}"
        size = f" with num_ctx {start.context}" if start.context else ""
        whose = f" for {start.weights}" if on.setup.router else ""
        yield f"{line}: the engine is started{whose}{size}"


def _full(session: Session, on: Conditions, cut: bool) -> Iterator[Cost]:
    """Prompts near the end of their context, and those that were cut or refused with nothing to compare them with."""
    if cut:
        return  # what was lost to that is told already, with the same setting
    setting = settings.context(on.kind, _longest(session, on))
    cuts = [(request, request.fresh_tokens) for request in session.requests if truncated(request)]
    if cuts:
        said = tuple(dict.fromkeys(truncated(request) for request, _ in cuts))[:2]
        message = f"{counted(len(cuts), 'history')} cut to fit: the model has lost what stood in front"
        yield Cost("truncated", None, None, message, (*worst(cuts), *said), setting)
        return
    held = [(one, size) for one in session.requests if (size := on.context(one))]
    refused = [one for one in session.requests if one.refused]
    unread = [one for one in session.unread if one.reason == TOO_LONG]
    count = max(len(refused), sum(one.count for one in unread))
    if count:
        message = f"{counted(count, 'request')} refused: longer than the context"
        places = [f"{one.source}:{one.line}" for one in unread] or [place(one) for one in refused]
        yield Cost("context-full", None, None, message, tuple(places[:3]), setting)
        return
    one, size = max(held, key=lambda pair: pair[0].prompt_tokens / pair[1], default=(None, 0))
    if one is not None and one.prompt_tokens >= FULL * size:
        taken = f"a prompt takes {one.prompt_tokens / size:.0%} of its context of {size} tokens"
        near = settings.context(on.kind, one.prompt_tokens)
        yield Cost("context-full", None, None, f"{taken}: more is cut or refused", (place(one),), near)


def _thinking(session: Session, kind: ServerKind) -> Iterator[Cost]:
    """Answers whose text stands where a client may not look."""
    replies = [(one, one.exchange.reply) for one in session.requests if one.exchange.reply]
    silent = [
        one
        for one, reply in replies
        if reply
        and reply.get("thinking")
        and not str(reply.get("content") or "").strip()
        and not reply.get("tool_calls")
    ]
    if silent:
        where = "`thinking`" if kind == "ollama" else "`reasoning_content`"
        message = f"{len(silent)} of {counted(len(replies), 'answer')} are thinking alone, in {where}: content is empty"
        evidence = tuple(f"request {one.index} ({one.exchange.place})" for one in silent[:3])
        yield Cost("thinking", None, None, message, evidence, settings.thinking(kind))


def counted(count: int | None, word: str) -> str:
    """A number with its word; None is not known."""
    plural = f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"
    if count is None:
        return f"an unknown number of {plural}"
    return f"{count} {word if count == 1 else plural}"
