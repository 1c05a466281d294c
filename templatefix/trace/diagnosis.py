"""What makes agents slow on a server, in order of cost: from the server as it runs, its log, and recorded requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from templatefix.servers.log_setup import Setup, SetupReader
from templatefix.trace.cost import Cost, Figures, figures_of
from templatefix.trace.explain import explain
from templatefix.trace.logfile import by_server, opened_log
from templatefix.trace.makeup import Makeup, makeup_of
from templatefix.trace.patient import ServerKind, ServerSeen
from templatefix.trace.session import Session
from templatefix.trace.session_costs import FULL, Conditions, session_costs
from templatefix.trace.sources import TraceError
from templatefix.trace.template_costs import with_templates
from templatefix.trace.templates import KnownTemplate


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
    costs = list(session_costs(session, _conditions(kind, setup, own))) if session is not None else []
    if own is not None:
        costs = with_templates(costs, own, session)
    costs.sort(key=lambda cost: (-(cost.share or 0.0), cost.share is None))
    figures = figures_of(session) if session is not None else Figures()
    makeup = makeup_of(session) if session is not None else None
    missing = tuple(_missing(server, own, session, logs))
    return Diagnosis(server, kind, setup, figures, makeup, tuple(costs), missing, session)


def _setup(logs: Sequence[Path]) -> Setup:
    reader = SetupReader()
    for path in [path for group in by_server(logs) for path in group]:
        try:
            with opened_log(path) as blocks:
                reader.read(blocks, str(path))
        except (OSError, EOFError) as error:
            raise TraceError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    return reader.setup


def _templates(server: ServerSeen | None) -> dict[str | None, KnownTemplate]:
    """By the names that requests can give; None is for any."""
    found: dict[str | None, KnownTemplate] = {}
    for model in server.models if server is not None else ():
        if model.known is not None and not model.not_in_force:
            names = (None,) if server is not None and server.only is model else model.names
            found.update(dict.fromkeys(names, model.known))
    return found


def _conditions(kind: ServerKind, setup: Setup, server: ServerSeen | None) -> Conditions:
    """By the log, and where it says nothing, by the server."""
    if server is None:
        return Conditions(kind, setup)
    if setup.slots is None:
        setup = replace(setup, slots=server.slots)
    memories = {model.memory for model in server.models}
    contexts: dict[str | None, int] = {
        name: model.context for model in server.models if model.context for name in model.names
    }
    if server.only is not None and server.only.context:
        contexts[None] = server.only.context
    memory = memories.pop() if len(memories) == 1 else None
    target = server.target(server.only) if server.only is not None else ""
    return Conditions(kind, setup, memory, contexts, server.only is not None, target)


def _logged(setup: Setup) -> ServerKind | None:
    """Whose log it is, where that is plain: Ollama's says what it starts."""
    if setup.starts and not setup.router:
        return "ollama"
    return "llama-server" if setup.slots or setup.router else None


def _kind(session: Session | None) -> ServerKind:
    paths = {request.exchange.path for request in session.requests} if session is not None else set()
    return "ollama" if any(path.startswith("/api/") for path in paths) else "llama-server"


def _missing(
    server: ServerSeen | None, own: ServerSeen | None, session: Session | None, logs: Sequence[Path]
) -> Iterator[str]:
    if server is not own and server is not None:
        yield f"the server of this log: the one at {server.url} is {server.kind}, so its templates say nothing here"
    if not logs:
        yield "the server's log (--log FILE; OLLAMA_DEBUG=1, or llama-server -lv 4)"
    if session is not None:
        yield from (one.what for one in session.missing)  # the options are those of another command
    else:
        yield "requests: a recording of `trace record` (--trace FILE)"
        yield from _last_prompt(server)
    for model in server.models if server is not None else ():
        if model.failure:
            yield f"the template of {model.name}: {model.failure}"
    if server is not None and not server.models:
        yield "a model in memory, or its name (--model NAME): no template was looked at"


def _last_prompt(server: ServerSeen | None) -> Iterator[str]:
    """A slot that is nearly full: its server says neither when that was nor who had sent it."""
    if server is not None and server.fullest is not None and server.fullest[0] >= FULL * server.fullest[1]:
        size, held = server.fullest
        told = f"the last prompt of a slot had {size} tokens, {size / held:.0%} of its context of {held}"
        yield f"whether agents fill their context: {told}, whoever sent it (a log or a recording says more)"
