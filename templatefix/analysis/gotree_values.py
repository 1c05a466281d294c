"""What is known of a value in a Go chat template before it is run: constants, bounds, truth, and what it depends on.

An abstract value stands for what an expression gives on every conversation that fits the assumptions. `TAIL` among its
flags says that it can change when messages are added; a value that is known in spite of a tail in its making (the
length of a slice that is assumed to be 1) has lost the flag, but keeps it in `raw`.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

from templatefix.analysis.reading import DATA, SYSTEM, TAIL, TOOLS

Shape: TypeAlias = Literal["scalar", "root", "messages", "message", "tools", "other"]
Role: TypeAlias = Literal["system", "user", "assistant", "tool"]


class Unknown:
    """The mark of a value that is not known."""


UNKNOWN: Final = Unknown()


@dataclass(frozen=True, slots=True)
class Value:
    """An abstract value. Two values with one key, in one run, are the same value."""

    key: Hashable
    shape: Shape = "scalar"
    known: Any = UNKNOWN  # str, int, float, bool, None, or () for an empty list
    low: int | None = None  # bounds of an integer, of the length of a list of messages
    high: int | None = None
    truth: bool | None = None
    flags: int = 0
    raw: int = 0
    role: Role | None = None  # of a message
    offset: Value | None = None  # of a list of messages: where it starts in the conversation; of a text: its length
    base: Hashable = None  # the key of an index that the integer is counted from,
    above: tuple[int, int | None] = (0, 0)  # and the bounds of how far it is above that

    @property
    def is_known(self) -> bool:
        """Whether the value is a constant."""
        return self.known is not UNKNOWN

    @property
    def moves(self) -> bool:
        """Whether the value can change when messages are added."""
        return bool(self.flags & TAIL)


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What is taken for granted of the request."""

    tools: bool | None = True
    system: bool | None = True
    think: bool = False
    thoughts: bool = False  # assistant turns of the history may hold thinking


@dataclass(frozen=True, slots=True)
class Frame:
    """The message that a loop over the conversation stands at."""

    index: Value
    message: Value
    low: int  # messages from this one to the end, itself included
    high: int | None


def constant(value: Any, raw: int = 0) -> Value:
    """A known value."""
    number = value if isinstance(value, int) and not isinstance(value, bool) else None
    return Value(("const", type(value).__name__, value), "scalar", value, number, number, bool(value), 0, raw)


def unknown(key: Hashable, flags: int = 0, truth: bool | None = None, shape: Shape = "scalar", raw: int = 0) -> Value:
    """A value of which only its dependences are known."""
    return Value(key, shape, truth=truth, flags=flags, raw=flags | raw)


def integer(
    key: Hashable,
    low: int | None,
    high: int | None,
    flags: int,
    base: Hashable = None,
    above: tuple[int, int | None] = (0, 0),
) -> Value:
    """An integer between two bounds; a constant where they meet."""
    if low is not None and low == high:
        return constant(low, flags)
    truth = True if (low is not None and low > 0) or (high is not None and high < 0) else None
    return Value(key, "scalar", UNKNOWN, low, high, truth, flags, flags, base=base, above=above)


def root(assumptions: Assumptions) -> Value:
    """The data that a template starts with."""
    return Value(("root", assumptions), "root", truth=True)


def conversation(offset: Value | None = None) -> Value:
    """The messages from `offset` on."""
    start = offset or constant(0)
    at_start = start.known == 0
    return Value(
        ("messages", start.key), "messages", truth=True if at_start else None, flags=TAIL, raw=TAIL, offset=start
    )


def message(key: Hashable, role: Role | None) -> Value:
    """One message of the conversation."""
    flags = DATA | (SYSTEM if role == "system" else 0)
    return Value(key, "message", truth=True, raw=flags, role=role)


def merge(first: Value, second: Value, key: Hashable, flags: int = 0) -> Value:
    """What is known of a value that is either of two."""
    if first.key == second.key:
        return first
    low = min(first.low, second.low) if first.low is not None and second.low is not None else None
    high = max(first.high, second.high) if first.high is not None and second.high is not None else None
    starts = [value.offset.key if value.offset is not None else None for value in (first, second)]
    same = first.shape == second.shape and (starts[0] == starts[1] or first.shape != "messages")
    return Value(
        key,
        first.shape if same else "other",
        UNKNOWN,
        low,
        high,
        first.truth if first.truth == second.truth else None,
        first.flags | second.flags | flags,
        first.raw | second.raw | flags,
        first.role if first.role == second.role else None,
        first.offset if same and starts[0] == starts[1] else None,
    )


def moving(value: Value, key: Hashable) -> Value:
    """The value made one that changes with the conversation."""
    return replace(
        value, key=key, known=UNKNOWN, low=None, high=None, truth=None, flags=value.flags | TAIL, raw=value.raw | TAIL
    )


def root_field(name: str, assumptions: Assumptions) -> Value:
    """A top-level name of the data."""
    if name == "Messages":
        return conversation()
    if name == "Tools":
        if assumptions.tools is False:
            return constant((), TOOLS)
        return Value("tools", "tools", truth=assumptions.tools, flags=TOOLS, raw=TOOLS)
    if name == "System":
        return constant("", SYSTEM) if assumptions.system is False else unknown("system", SYSTEM, assumptions.system)
    if name in ("Think", "IsThinkSet"):
        return constant(assumptions.think)
    if name in ("Response", "ThinkLevel"):
        return constant("")
    return constant(None)


def message_field(value: Value, name: str, assumptions: Assumptions) -> Value:
    """A field of a message."""
    key = ("field", value.key, name)
    flags = DATA | (SYSTEM if value.role == "system" else 0) | (value.flags & TAIL)
    if name == "Role":
        if value.role is not None:
            return constant(value.role, DATA)
        return unknown(key, value.flags & TAIL, True, raw=DATA)
    if name == "ToolCalls" and value.role not in ("assistant", None):
        return constant((), DATA)
    if name == "Thinking" and (value.role not in ("assistant", None) or not assumptions.thoughts):
        return constant("", DATA)
    if name in ("ToolName", "ToolCallID") and value.role not in ("tool", None):
        return constant("", DATA)
    shape: Shape = "other" if name in ("ToolCalls", "Images") else "scalar"
    return unknown(key, flags, None, shape)


def field(value: Value, name: str, assumptions: Assumptions) -> Value:
    """A field of any value."""
    if value.shape == "root":
        return root_field(name, assumptions)
    if value.shape == "message":
        return message_field(value, name, assumptions)
    return unknown(("field", value.key, name), value.flags, None, "other", value.raw)
