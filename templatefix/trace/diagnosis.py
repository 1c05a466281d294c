"""What makes agents slow on a server, in order of cost: from the server as it runs, its log, and recorded requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from templatefix.analysis.analyse import Analysis
from templatefix.servers.log_setup import Setup, SetupReader
from templatefix.trace import settings
from templatefix.trace.cost import Cost, CostKind, Figures, figures_of, place, worst
from templatefix.trace.explain import explain
from templatefix.trace.logfile import opened_log
from templatefix.trace.lost import Lost, lost_by_cause, truncated
from templatefix.trace.patient import ModelSeen, ServerKind, ServerSeen
from templatefix.trace.session import Session, Traced, TracedPart
from templatefix.trace.sources import TraceError
from templatefix.trace.templates import KnownTemplate

_FULL = 0.9  # of a context
_SAID: Mapping[CostKind, str] = {
    "template": "the template moves or rewrites what it had rendered",
    "client": "the client changes what it had sent",
    "cache-off": "nothing comes from the cache: it is switched off",
    "slots": "another conversation takes the slot in between",
    "memory": "the engine cannot go back in its memory and reads again",
    "context-size": "requests with another num_ctx start the engine anew",
    "keep-alive": "the model was unloaded between turns, and its cache with it",
    "models": "several models push each other out of memory",
    "restart": "the engine was started anew between turns",
    "truncated": "histories do not fit: they are cut, so prompts open otherwise",
    "server": "the server makes other messages of those that it gets",
    "unknown": "read again, and what was looked at does not say why",
}


@dataclass(frozen=True)
class Makeup:
    """What the longest prompt with known parts is made of, in tokens."""

    request: int
    prompt_tokens: int
    parts: Mapping[str, int]  # system, tools, history, tail
    goes_on: int  # requests with known parts that go on from another
    changed: Mapping[str, int]  # in how many of those system, tools, or the history before differ from the one before
    median_fresh: int  # read a request that goes on from another
    median_changed: int  # of that, tokens that had been there before


@dataclass(frozen=True)
class Diagnosis:
    """All of it."""

    server: ServerSeen | None
    kind: ServerKind
    setup: Setup
    figures: Figures
    makeup: Makeup | None
    costs: tuple[Cost, ...]  # the dearest first; what has no figure last
    missing: tuple[str, ...]
    session: Session | None

    @property
    def ill(self) -> bool:
        """Whether something costs more than a tenth of the prompt."""
        return any(cost.much for cost in self.costs)

    @property
    def blind(self) -> bool:
        """Whether nothing was seen that could have told of a cost."""
        judged = any(model.analysis is not None for model in (self.server.models if self.server is not None else ()))
        return not judged and not self.figures.requests and not self.costs


def diagnose(server: ServerSeen | None, logs: Sequence[Path] = (), traces: Sequence[Path] = ()) -> Diagnosis:
    """Put together what was seen; raises TraceError where a log or a recording cannot be read."""
    setup = _setup(logs)
    own = server if server is not None and _logged(setup) in (None, server.kind) else None
    session = explain([*traces, *logs], _templates(own)) if logs or traces else None
    kind = _logged(setup) or (server.kind if server is not None else _kind(session))
    figures = figures_of(session) if session is not None else Figures()
    costs = list(_of_session(session, setup, kind, figures)) if session is not None else []
    costs = _with_templates(costs, own, session)
    if session is None and server is not None:
        costs += _slot_full(server)
    costs.sort(key=lambda cost: (-(cost.share or 0.0), cost.share is None))
    makeup = _makeup(session) if session is not None else None
    return Diagnosis(
        server, kind, setup, figures, makeup, tuple(costs), tuple(_missing(server, own, session, logs)), session
    )


def _setup(logs: Sequence[Path]) -> Setup:
    reader = SetupReader()
    for path in logs:
        try:
            with opened_log(path) as blocks:
                reader.read(blocks)
        except (OSError, EOFError) as error:
            raise TraceError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    return reader.setup


def _templates(server: ServerSeen | None) -> dict[str | None, KnownTemplate]:
    if server is None:
        return {}
    one = server.kind == "llama-server"  # whatever name the requests give
    return {
        None if one else model.name: model.known
        for model in server.models
        if model.known is not None and not model.not_in_force
    }


def _logged(setup: Setup) -> ServerKind | None:
    """Whose log it is, where that is plain: Ollama's says what it starts."""
    return "ollama" if setup.starts else "llama-server" if setup.slots else None


def _kind(session: Session | None) -> ServerKind:
    paths = {request.exchange.path for request in session.requests} if session is not None else set()
    return "ollama" if any(path.startswith("/api/") for path in paths) else "llama-server"


def _of_session(session: Session, setup: Setup, kind: ServerKind, figures: Figures) -> Iterator[Cost]:
    found = lost_by_cause(session, setup)
    guessed = {request.index for lost in found for request, _ in lost.requests}
    could = sum(one.prompt_tokens for one in session.requests if one.before is not None or one.index in guessed)
    for lost in found:
        cost = _cost(lost, setup, kind, session)
        yield replace(cost, share=lost.tokens / could if could else None, seconds=figures.seconds(lost.tokens))
    yield from _full(session, setup, kind, cut=any(lost.kind == "truncated" for lost in found))
    yield from _thinking(session, kind)


def _cost(lost: Lost, setup: Setup, kind: ServerKind, session: Session) -> Cost:
    message = _SAID[lost.kind]
    if lost.losses and lost.kind in ("client", "server", "unknown", "cache-off"):
        message = max(lost.losses, key=lambda loss: loss.tokens).message
    if lost.guessed:
        message += "; by a log without the requests, this is the most that it cost"
    evidence = [*worst(lost.requests), *_facts(lost, setup, session)]
    return Cost(lost.kind, lost.tokens, None, message, tuple(evidence), _setting(lost, setup, kind, session))


def _changed(lost: Lost) -> bool:
    """Whether the engine forgot because prompts had changed in front."""
    return any(True for key in ("changed_at", "together_tokens") for _ in lost.evidence(key))


def _setting(lost: Lost, setup: Setup, kind: ServerKind, session: Session) -> str:
    first = lost.requests[0][0]
    longest = max(max(one.prompt_tokens, _context(one, setup) or 0) for one in session.requests)  # what was cut is more
    if lost.kind == "slots":
        return settings.slots(setup, kind, _conversations(lost, session))
    if lost.kind == "memory":
        return settings.memory(setup, kind, _changed(lost))
    if lost.kind == "client":
        return settings.client(lost)
    if lost.kind in ("keep-alive", "models", "context-size", "restart"):
        return settings.restart(lost, kind)
    if lost.kind == "template":
        return settings.template(kind, first.exchange.model or "MODEL")
    if lost.kind == "truncated":
        return settings.context(kind, longest)
    if lost.kind == "cache-off":
        asked = any(request.exchange.no_cache for request, _ in lost.requests)
        return "in the client: leave out cache_prompt: false" if asked else "take --no-cache-prompt away"
    if lost.kind == "server":
        return "in the client: send messages of one role as one message"
    return "look closer: `templatefix trace explain` with a recording, the log and the template of the same time"


def _conversations(lost: Lost, session: Session) -> int:
    """How many there are; a log alone shows that there are two, but not that one goes on."""
    return 2 if lost.guessed else len({one.conversation for one in session.requests})


def _facts(lost: Lost, setup: Setup, session: Session) -> Iterator[str]:
    """What else shows a cause."""
    if lost.kind == "slots":
        more = " or more" if lost.guessed else ""
        count = _number(_conversations(lost, session), "conversation")
        yield f"{_number(setup.slots, 'slot')} for {count}{more}"
        if setup.prompt_cache is not None:
            yield (
                f"the memory of former prompts is on: {setup.saved} saved, {setup.restored} brought back"
                if setup.prompt_cache
                else "the memory of former prompts is off (--cache-ram 0)"
            )
    elif lost.kind == "memory":
        if setup.window or setup.recurrent:
            yield "its memory is recurrent" if setup.recurrent else f"a sliding window of {setup.window} tokens"
        if setup.checkpoints is not None:
            yield f"at most {setup.checkpoints} checkpoints" if setup.checkpoints else "checkpoints are switched off"
        changed = sorted(set(lost.evidence("changed_at")))
        if changed:
            yield f"the prompt itself had changed at token {changed[0]}, by the client or its template"
    elif lost.starts:
        sizes = [f"num_ctx {start.context}" if start.context else "" for start in lost.starts[:3]]
        yield from (
            f"log line {start.line}: the engine starts {size}".rstrip()
            for start, size in zip(lost.starts, sizes, strict=False)
        )
    for before, after in zip(lost.evidence("before"), lost.evidence("after"), strict=False):
        if before or after:
            yield f"was: {before}"
            yield f"now: {after}"
            break
    node = next(lost.evidence("node"), None)
    if node:
        line, code = next(lost.evidence("line"), "?"), next(lost.evidence("code"), "no rule")
        yield f"line {line} of the template, {code}: {node}"
    events = [said for request, _ in lost.requests if lost.kind == "truncated" and (said := truncated(request))]
    yield from events[:1]


def _full(session: Session, setup: Setup, kind: ServerKind, cut: bool) -> Iterator[Cost]:
    """Prompts near the end of their context, and histories that were cut with nothing to compare them with."""
    longest = max(session.requests, key=lambda one: one.prompt_tokens, default=None)
    if longest is None:
        return
    cuts = [(request, request.fresh_tokens) for request in session.requests if truncated(request)]
    if cuts and not cut:
        said = tuple(dict.fromkeys(truncated(request) for request, _ in cuts))[:2]
        message = f"{_number(len(cuts), 'history')} cut to fit: the model has lost the beginning"
        yield Cost(
            "truncated",
            None,
            None,
            message,
            (*worst(cuts), *said),
            settings.context(kind, max(longest.prompt_tokens, _context(longest, setup) or 0)),
        )
    full = [(one, held) for one in session.requests if (held := _context(one, setup))]
    one, held = max(full, key=lambda pair: pair[0].prompt_tokens / pair[1], default=(longest, 0))
    if held and not cuts and one.prompt_tokens >= _FULL * held:
        message = f"a prompt takes {one.prompt_tokens / held:.0%} of its context of {held} tokens"
        yield Cost("context-full", None, None, message, (place(one),), settings.context(kind, one.prompt_tokens))


def _slot_full(server: ServerSeen) -> Iterator[Cost]:
    """The same, as the slots of a running server tell it."""
    if server.fullest is None or server.fullest[0] < _FULL * server.fullest[1]:
        return
    size, held = server.fullest
    said = (f"the last prompt of a slot has {size} tokens, by the server's /slots",)
    message = f"a prompt takes {size / held:.0%} of its context of {held} tokens"
    yield Cost("context-full", None, None, message, said, settings.context(server.kind, size))


def _context(request: Traced, setup: Setup) -> int | None:
    logged = request.exchange.logged
    return (logged.context if logged is not None else None) or request.exchange.context or setup.context


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
        message = f"{len(silent)} of {_number(len(replies), 'answer')} are thinking alone, with an empty content"
        evidence = tuple(f"request {one.index} ({one.exchange.place})" for one in silent[:3])
        yield Cost("thinking", None, None, message, evidence, settings.thinking(kind))


def _with_templates(costs: Sequence[Cost], server: ServerSeen | None, session: Session | None) -> list[Cost]:
    """The costs with those of templates that are not stable.

    What no recording explains is taken for theirs; where no session says, it is what the loops of `check` read again.
    """
    kept = list(costs)
    for model in server.models if server is not None else ():
        analysis = model.analysis
        if analysis is None or analysis.verdict == "stable" or model.not_in_force:
            continue
        message = f"the template of {model.name} is {analysis.verdict}"
        message += f": {analysis.reason}" if analysis.reason else ""
        errors = tuple(f"{one.code} {one.name}: {one.message}" for one in analysis.findings if one.severity == "error")
        found = next((cost for cost in kept if cost.kind in ("template", "unknown")), None)
        if found is not None:
            if found.kind == "unknown":
                message = f"prompts change in front of what is new, most likely since {message}"
            else:
                message = f"{found.message}: {message}"
            kept.remove(found)
            evidence = (*found.evidence, *errors[:3])
            kept.append(replace(found, kind="template", message=message, evidence=evidence))
            kept[-1] = replace(kept[-1], setting=settings.template(server.kind if server else "ollama", model.name))
            continue
        share = None if session is not None and _seen_in(session, model) else _share(analysis)
        message += "; the share is that of check's own loops" if share is not None else "; no request here shows it"
        setting = settings.template(server.kind if server is not None else "ollama", model.name)
        kept.append(Cost("template", None, share, message, errors[:3], setting))
    return kept


def _seen_in(session: Session, model: ModelSeen) -> bool:
    """Whether a session goes on with this model, so that its template had the chance to lose something."""
    return model.known is not None and any(
        one.exchange.model in (None, model.name)
        and (one.before is not None or 2 * one.cached_tokens > one.prompt_tokens)
        for one in session.requests
    )


def _share(analysis: Analysis) -> float:
    """Of the prompts that go on from another in the core loops, how much is read again."""
    lost = whole = 0
    for run in analysis.core:
        for index in range(1, len(run.steps)):
            whole += run.steps[index].prompt_bytes
            lost += max(0, run.needed(index - 1) - run.steps[index].kept_bytes)
    return lost / whole if whole else 0.0


def _makeup(session: Session) -> Makeup | None:
    known = [one for one in session.requests if one.parts]
    warm = [one for one in session.requests if one.before is not None]
    if not known:
        return None
    longest = max(known, key=lambda one: one.prompt_tokens)
    parts = {"system": 0, "tools": 0, "history": 0, "tail": 0}
    for part in longest.parts:
        parts[part.role if part.role in parts else "history"] += part.tokens or 0
    fresh = sorted(one.fresh_tokens for one in warm) or [0]
    changed = sorted(sum(loss.tokens for loss in one.losses) for one in warm) or [0]
    middle = len(fresh) // 2
    pairs = [
        (session.requests[one.before].parts, one.parts)
        for one in known
        if one.before is not None and session.requests[one.before].parts
    ]
    differ = {
        name: sum(_held(after, name)[: len(old)] != old for before, after in pairs for old in [_held(before, name)])
        for name in ("system", "tools", "history")
    }
    return Makeup(longest.index, longest.prompt_tokens, parts, len(pairs), differ, fresh[middle], changed[middle])


def _held(parts: Sequence[TracedPart], name: str) -> list[str]:
    """The digests of what a request holds of system text, tools, or history."""
    return [
        part.sha256
        for part in parts
        if part.role == name or (name == "history" and part.role not in ("system", "tools", "tail"))
    ]


def _missing(
    server: ServerSeen | None, own: ServerSeen | None, session: Session | None, logs: Sequence[Path]
) -> Iterator[str]:
    if server is not own and server is not None:
        yield f"the server of this log: the one at {server.url} is {server.kind}, so its templates say nothing here"
    if not logs:
        yield "the server's log (--log FILE; OLLAMA_DEBUG=1, or llama-server -lv 4)"
    if session is not None:
        yield from (sentence.replace(" (--template)", "") for sentence in session.missing)
    else:
        yield "requests: a recording of `trace record` (--trace FILE)"
    for model in server.models if server is not None else ():
        if model.failure:
            yield f"the template of {model.name}: {model.failure}"
    if server is not None and not server.models:
        yield "a model in memory, or its name (--model NAME): no template was looked at"


def _number(count: int | None, word: str) -> str:
    if count is None:
        return f"an unknown number of {word}s"
    plural = f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"
    return f"{count} {word if count == 1 else plural}"
