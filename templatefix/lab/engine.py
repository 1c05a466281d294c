"""What the laboratory asks of an engine."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Literal, Protocol

from templatefix.servers.standin import Attention
from templatefix.servers.timings import Timings

Source = Literal["engine", "field", "log", "estimate"]


class Session(Protocol):
    """One slot of a running engine, whose cache holds the prompt before and nothing else."""

    def evaluate(self, prompt: str, *, n_predict: int = 1, cold: bool = False) -> Timings:
        """Read a prompt into the cache, `cold` without use of what is there.

        Raises NotMeasurable where the figures would be worth nothing; that ends the run as an invalid one.
        """
        ...

    def token_ends(self, prompt: str) -> Sequence[int]:
        """Where each token of a prompt ends, in bytes of its UTF-8; tokens that the engine puts in front end at 0."""
        ...


class Engine(Protocol):
    """A source of sessions that share nothing."""

    @property
    def name(self) -> str:
        """As in `--engine`."""
        ...

    @property
    def source(self) -> Source:
        """Where the cache figures come from."""
        ...

    @property
    def tokenizer(self) -> str:
        """Where the vocabulary comes from, for people."""
        ...

    @property
    def attention(self) -> Attention | None:
        """Which kind of memory the model has; None where nobody knows."""
        ...

    @property
    def checkpoints(self) -> int | None:
        """How many states of a window or recurrent memory it was told to keep; None where it was told nothing."""
        ...

    def session(self, prompt_bytes: int) -> AbstractContextManager[Session]:
        """Begin a session that remembers nothing, with room for prompts of this size."""
        ...
