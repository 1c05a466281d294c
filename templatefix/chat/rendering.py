"""What a chat template makes of a request: the prompt in pieces, each with its place and its source.

Nothing here knows a template language.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol, runtime_checkable

from templatefix.chat.request import Request
from templatefix.gotemplate.source import Source, Span


@dataclass(frozen=True, slots=True)
class Origin:
    """The datum that a piece of a prompt was printed from."""

    kind: Literal["message", "system", "tool", "tools"]
    index: int  # of the message or tool in the request; of the first system message for "system"; -1 for "tools"
    field: str  # "content", "thinking", "role", "name", "arguments", …; for tools: "" is the whole definition


def is_of_tools(origin: Origin | None) -> bool:
    """Whether a datum is a tool, a call, or an object of one."""
    if origin is None:
        return False
    return origin.kind in ("tool", "tools") or (
        origin.kind == "message" and origin.field in ("tool_calls", "arguments")
    )


@dataclass(frozen=True, slots=True)
class Piece:
    """Text of a prompt, from one template node."""

    text: str
    span: Span  # of the template node that printed it
    origin: Origin | None  # None: text of the template itself
    message: int | None  # index of the request's message it belongs to, by its datum or by the loop it stands in


@dataclass(frozen=True)
class Rendering:
    """A prompt in pieces; joined, they are the prompt. Empty pieces of data are kept, they mark where a text stands."""

    pieces: tuple[Piece, ...]

    @cached_property
    def text(self) -> str:
        """The prompt (bytes that are not UTF-8 as lone surrogates)."""
        return "".join([piece.text for piece in self.pieces])

    @cached_property
    def data(self) -> bytes:
        """The prompt's bytes."""
        return self.text.encode("utf-8", "surrogateescape")


class RenderError(Exception):
    """A template that could not be parsed or executed; the message is the template engine's own sentence."""

    def __init__(self, stage: Literal["parse", "exec"], message: str, span: Span | None = None) -> None:
        super().__init__(stage, message, span)
        self.stage = stage
        self.message = message
        self.span = span

    def __str__(self) -> str:
        return self.message


class ChatTemplate(Protocol):
    """A template of any language, ready to render requests."""

    @property
    def kind(self) -> Literal["go", "jinja"]:
        """The template language."""
        ...

    @property
    def source(self) -> Source:
        """The template's text."""
        ...

    def render(self, request: Request) -> Rendering:
        """Render a request, `think` taken literally; raises RenderError."""
        ...


@runtime_checkable
class ServedTemplate(ChatTemplate, Protocol):
    """A template that knows what its server makes of a request before it sees it."""

    def as_served(self, request: Request) -> Request:
        """The request as the template sees it."""
        ...


@runtime_checkable
class DatedTemplate(ChatTemplate, Protocol):
    """A template that may see the day."""

    def on_day(self, date: datetime.date) -> ChatTemplate:
        """The same template on another day."""
        ...


@runtime_checkable
class SwitchedTemplate(ChatTemplate, Protocol):
    """A template with variables that a client or the server's command line may set."""

    @property
    def switches(self) -> Collection[str]:
        """The variables that the template asks for and neither it nor the server sets."""
        ...

    @property
    def presets(self) -> Mapping[str, bool]:
        """The switches of the template that the server sets so that thinking stays in the history."""
        ...

    def with_kwargs(self, kwargs: Mapping[str, Any]) -> ChatTemplate:
        """The same template with some of them set."""
        ...
