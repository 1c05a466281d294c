"""Counts tokens of a vocabulary without the model: for servers that tell no pieces."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from templatefix.servers.embedded import EmbeddedSession
    from templatefix.servers.standin import Standin

_BYTES_A_TOKEN = 4  # where nothing is known


class TokenCounter:
    """A vocabulary, read when it is first needed; without one, or without the engine, tokens are four bytes long."""

    def __init__(self, standin: Callable[[], Standin | None]) -> None:
        """`standin` makes the stand-in that carries the vocabulary, or None where there is none."""
        self._standin = standin
        self._stack = ExitStack()
        self._session: EmbeddedSession | None = None
        self._asked = False

    def __enter__(self) -> TokenCounter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def token_ends(self, prompt: str) -> list[int]:
        """Where each token of a prompt ends, in bytes of its UTF-8."""
        session = self._begun()
        if session is not None:
            return session.token_ends(prompt)
        size = len(prompt.encode("utf-8", "surrogateescape"))
        return [*range(_BYTES_A_TOKEN, size, _BYTES_A_TOKEN), size] if size else []

    def _begun(self) -> EmbeddedSession | None:
        from templatefix.servers.embedded import EmbeddedEngine, EngineError

        if not self._asked:
            self._asked = True
            standin = self._standin()
            if standin is not None:
                try:
                    self._session = self._stack.enter_context(EmbeddedEngine(standin).session(0))
                except EngineError:
                    self._session = None
        return self._session
