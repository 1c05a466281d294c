"""A model on an Ollama server as an engine: cold sessions, and cache figures from the best source at hand.

Tags on the same weights share one engine with its cache and its memory of former prompts, so a session begins with
the model unloaded and loaded again. The figures come from the server's own field where it has one, from the engine's
timings where the engine is a process on this machine, from the server's log where that is given, else they are an
estimate.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, Protocol, TypeVar

from templatefix.servers.engine_child import EngineChild, engine_children
from templatefix.servers.errors import NotMeasurable, ServerError
from templatefix.servers.host import is_local
from templatefix.servers.llama_server import LlamaServer, LlamaSession
from templatefix.servers.logs import LogTail
from templatefix.servers.memory import attention_of
from templatefix.servers.ollama import OllamaClient
from templatefix.servers.ollama_session import ApiSession, Watch
from templatefix.servers.shown import Shown
from templatefix.servers.timings import Generated, Sampling, Timings
from templatefix.servers.tokens import TokenCounter

_PATIENCE = 15.0  # seconds for an engine to end
_PAUSE = 0.1

Source = Literal["engine", "field", "log", "estimate"]
_T = TypeVar("_T")


class OllamaSession(Protocol):
    """What both kinds of session do."""

    def evaluate(self, prompt: str, *, n_predict: int = 1, cold: bool = False) -> Timings:
        """Read a prompt into the cache, `cold` without use of what is there."""

    def generate(self, prompt: str, sampling: Sampling, *, cold: bool = False) -> Generated:
        """Go on from a prompt."""

    def token_ends(self, prompt: str) -> list[int]:
        """Where each token of a prompt ends, in bytes of its UTF-8."""


class OllamaEngine:
    """One model on a server."""

    name: Literal["ollama"] = "ollama"

    def __init__(
        self,
        client: OllamaClient,
        shown: Shown,
        counter: TokenCounter,
        *,
        context: int | None = None,
        log: LogTail | None = None,
    ) -> None:
        """`counter` knows the model's vocabulary; `context` overrides the model's own, in tokens.

        Nothing is asked of the server before a session begins.
        """
        self._client = client
        self._shown = shown
        self._counter = counter
        self._context = context
        self._watch = Watch(log)
        self._source: Source = "estimate"
        self.tokenizer = f"{shown.name} on {client.url}"
        self.attention = attention_of(shown.model_info)
        self.checkpoints = None  # Ollama has no setting for it

    @property
    def source(self) -> Source:
        """Where the figures of the sessions so far came from."""
        return self._source

    @property
    def notes(self) -> tuple[str, ...]:
        """What two sources say differently, one sentence each."""
        return tuple(self._watch.notes)

    @contextmanager
    def session(self, prompt_bytes: int) -> Iterator[OllamaSession]:
        """Unload the model and load it again; it is unloaded at the end. Raises ServerError."""
        del prompt_bytes  # what does not fit, the server refuses
        try:
            self._begin()
            yield self._begun()
        finally:
            with contextlib.suppress(ServerError):
                self._client.unload(self._shown.name)

    def _begin(self) -> None:
        """Start a fresh engine that has seen nothing."""
        self._client.unload(self._shown.name)
        deadline = time.monotonic() + _PATIENCE
        while self._running() and time.monotonic() < deadline:
            time.sleep(_PAUSE)
        self._client.load(self._shown.name, self._context)
        self._watch.start(self._shown.name)

    def _begun(self) -> OllamaSession:
        # A server that counts itself is asked itself; that is the way that users' requests go.
        api = ApiSession(self._client, self._shown.name, self._context, self._begin, self._counter, self._watch)
        children = self._children()
        if not api.counts() and children:
            with contextlib.suppress(ServerError):  # an engine in a container has its loopback for itself
                session = _ChildSession(self._client, children[-1], self._watch)
                self._source = "engine"
                return session
        self._source = api.source
        return api

    def _running(self) -> bool:
        return bool(self._children()) or self._shown.name in self._client.loaded()

    def _children(self) -> list[EngineChild]:
        if not self._shown.weights or not is_local(self._client.url):
            return []
        return engine_children(self._shown.weights, self._shown.store)


class _ChildSession:
    """The engine itself, asked over loopback."""

    def __init__(self, client: OllamaClient, child: EngineChild, watch: Watch) -> None:
        self._client = client
        self._child = child
        self._watch = watch
        self._session = LlamaSession(LlamaServer(child.url))

    def evaluate(self, prompt: str, *, n_predict: int = 1, cold: bool = False) -> Timings:
        timings = self._asked(lambda: self._session.evaluate(prompt, n_predict=n_predict, cold=cold))
        self._watch.compare(self._session.told)
        return timings

    def generate(self, prompt: str, sampling: Sampling, *, cold: bool = False) -> Generated:
        made = self._asked(lambda: self._session.generate(prompt, sampling, cold=cold))
        self._watch.compare(self._session.told)
        return made

    def token_ends(self, prompt: str) -> list[int]:
        return self._asked(lambda: self._session.token_ends(prompt))

    def _asked(self, ask: Callable[[], _T]) -> _T:
        try:
            return ask()
        except NotMeasurable:
            raise
        except ServerError as error:
            self._client.loaded()  # a server that is gone says so itself
            raise NotMeasurable(f"{self._client.url} ended or restarted its engine in mid-run") from error
