"""One request of a recorded session and what a server made of it, however it was recorded."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Literal

from templatefix.chat.request import Request
from templatefix.servers.log_events import LogEvent, LoggedRequest

Figures = Literal["engine", "field", "log", "estimate"]
_FRACTION = re.compile(r"\.\d+")
_LOADING = 200.0  # milliseconds: a model in memory is found in tens of them


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request with its answer; what nobody recorded is None."""

    source: str  # file
    line: int = 0  # of the file; 0: all of it
    time: str | None = None
    path: str = ""
    model: str | None = None
    request: Request | None = None
    prompt: str | None = None  # sent as text, past every template
    context: int | None = None  # num_ctx that the request asks for
    reply: Mapping[str, Any] | None = None  # the assistant's message, as the server answered it
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    slot: int | None = None
    prompt_ms: float | None = None  # for the tokens that were read
    token_ms: float | None = None  # for each token of the answer
    load_ms: float | None = None  # until the model was there to read them
    keep_alive: float | None = None  # seconds that the request asks the model to stay; infinite: for ever
    no_cache: bool = False  # the request asks for none of the cache
    figures: Figures = "estimate"
    logged: LoggedRequest | None = None
    events: tuple[LogEvent, ...] = ()  # that the log holds between the request before and this one, or figures tell
    dump: str = ""  # name of the file that the server wrote the request to

    @property
    def place(self) -> str:
        """File and line."""
        return f"{self.source}:{self.line}" if self.line else self.source

    @property
    def loaded_anew(self) -> bool:
        """Whether the model was not in memory when the request came."""
        return self.load_ms is not None and self.load_ms >= _LOADING

    @property
    def readable(self) -> bool:
        """Whether the request itself is known."""
        return self.request is not None or self.prompt is not None


def _six_digits(fraction: re.Match[str]) -> str:
    return fraction[0][:7].ljust(7, "0")


def seconds_of(time: str | None) -> float | None:
    """A time of a recording in seconds, to be compared with others; None where it cannot be read."""
    if time is None:
        return None
    try:
        # Python 3.10 reads fractions of three or six digits, and no Z.
        found = datetime.fromisoformat(_FRACTION.sub(_six_digits, time.replace("Z", "+00:00"), count=1))
    except ValueError:
        return None
    return (found if found.tzinfo is not None else found.replace(tzinfo=timezone.utc)).timestamp()


@dataclass(frozen=True, slots=True)
class Unread:
    """Something in a source that could not be read."""

    source: str
    line: int  # 1-based; 0: the whole
    reason: str
    count: int = 1  # of the same kind; the line is the first one's


@dataclass(frozen=True, slots=True)
class TemplateSeen:
    """A template that a recording holds for a model."""

    model: str
    text: str
    kind: Literal["go", "jinja"]
    of_ollama: bool = False  # else a llama-server renders a Jinja text, as far as is known
