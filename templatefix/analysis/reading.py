"""What reading a template's tree tells the rest of the analysis, whatever the template language."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

from templatefix.gotemplate.source import Span

TAIL: Final = 1  # changes when messages are added
TOOLS: Final = 2  # holds tool definitions
SYSTEM: Final = 4  # holds the system text
DATA: Final = 8  # holds what a message says: text, thinking, calls
DATE: Final = 16  # changes with the day

SuspectKind: TypeAlias = Literal["gate", "value", "loop", "behind"]


class TooComplex(Exception):
    """A template that cannot be read: loops in loops, or parts that call each other many times over."""


class Branch(Protocol):
    """A condition or a loop with what it holds."""

    @property
    def span(self) -> Span:
        """From its opening tag to its end."""
        ...

    @property
    def open(self) -> Span:
        """Its opening tag."""
        ...


@dataclass(frozen=True, slots=True)
class Place:
    """A place where what is printed for a message can change when others follow."""

    span: Span  # of what decides
    kind: SuspectKind
    shown: Span | None = None  # where it is printed, if that is elsewhere


@dataclass(frozen=True, slots=True)
class Site:
    """A tag, or a branch with what it holds."""

    span: Span
    open: Span  # the opening tag of a branch


class Reading(Protocol):
    """A tree, read on conversations of every kind."""

    @property
    def places(self) -> tuple[Place, ...]:
        """What can render differently when messages are added, in the order of the source; no inner ones."""
        ...

    @property
    def counts(self) -> tuple[int, ...]:
        """Numbers of messages at which a condition may turn, beyond those that every loop passes."""
        ...

    @property
    def conversation(self) -> Span | None:
        """The opening tag of the last loop that prints the messages."""
        ...

    def via(self, span: Span) -> tuple[Branch, ...]:
        """The branches around a node, outermost first."""
        ...

    def conditions(self, span: Span, without: int = 0) -> tuple[Branch, ...]:
        """The branches around a node that are no loops, outermost first; not those made of one of `without`."""
        ...

    def loops(self, span: Span) -> tuple[Branch, ...]:
        """The loops around a node, outermost first."""
        ...

    def gate(self, span: Span) -> Branch | None:
        """The outermost branch around a node that can take another arm when messages are added."""
        ...

    def condition_on(self, span: Span, what: int) -> Branch | None:
        """The outermost condition around a node that is made of one of `what`."""
        ...

    def first_on(self, what: int) -> Site | None:
        """The first tag that prints, or branch that decides by, one of `what`."""
        ...
