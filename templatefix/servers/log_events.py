"""What a server's log tells: requests with their cache figures, and what disturbs them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

EventKind = Literal["restart", "truncated", "selection", "http", "dump"]


@dataclass(frozen=True, slots=True)
class LoggedRequest:
    """One prompt as an engine read it; what the log does not say is None."""

    line: int  # 1-based, where the prompt begins
    time: str | None  # as the log writes it
    process: str  # of several engines behind one log, else empty
    slot: int | None
    task: int | None
    prompt_tokens: int | None
    cached_tokens: int | None
    truncated: bool = False
    forced: bool = False  # read in full although the text was there: a sliding window, or recurrent memory
    taken_over: bool = False  # the slot held another conversation
    prompt_ms: float | None = None
    common_tokens: int | None = None  # how much of the prompt its slot held when it came, as the engine compared them
    checkpoint: int | None = None  # tokens of a copy of the memory that the engine went back to
    context: int | None = None  # of the slot, in tokens

    @property
    def too_long(self) -> bool:
        """Whether the prompt is longer than its context, so that it was refused."""
        return self.prompt_tokens is not None and self.context is not None and self.prompt_tokens > self.context

    @property
    def fresh_tokens(self) -> int | None:
        """Tokens that were read."""
        if self.prompt_tokens is None or self.cached_tokens is None:
            return None
        return self.prompt_tokens - self.cached_tokens


@dataclass(frozen=True, slots=True)
class LogEvent:
    """Something else that matters: an engine that started, a prompt that was cut, a template that was chosen."""

    kind: EventKind
    line: int
    time: str | None
    text: str  # for people: of a selection the choice, of an HTTP request method and path, of a dump its file
    model: str = ""  # full name, of a selection
    source: str = ""  # the log's file, where several are read


LogItem = LoggedRequest | LogEvent
