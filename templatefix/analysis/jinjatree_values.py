"""What is known of a value in a Jinja chat template before it is run, and what is printed of it.

An abstract value stands for what an expression gives on every conversation that fits the assumptions. `TAIL` among its
flags says that it can change when messages are added; a value that is known in spite of a tail in its making
(`loop.last` where the message is assumed to be the last) has lost the flag, but keeps it in `raw`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias

from templatefix.analysis.reading import DATA, SYSTEM, TAIL, TOOLS
from templatefix.gotemplate.source import Span

Shape: TypeAlias = Literal[
    "scalar",
    "string",
    "row",  # a list of data
    "range",  # numbers; inner: any of them
    "text",  # inner: its items
    "optional",  # a text, or undefined, which prints nothing; inner: its items
    "list",  # inner: its values
    "dict",  # inner: its members
    "messages",  # inner: which part of the conversation
    "numbers",  # places in the conversation; inner: which part, and where the first of them is counted from
    "message",
    "part",  # of the content of a message
    "loop",  # inner: the view of the loop
    "namespace",  # inner: where its members are kept
    "macro",  # inner: its node, and the scope that it sees
    "function",  # inner: its name
    "other",
]
Role: TypeAlias = Literal["system", "user", "assistant", "tool"]
Scope: TypeAlias = tuple[Hashable, ...]  # where variables are kept, the innermost last

# Beside what all readings tell, `raw` says what can be changed from elsewhere: by each bit from LISTS on a place of the
# template that makes a list, by SPACES a namespace.
SPACES: Final = 1 << 5
LISTS: Final = 1 << 6


class _Mark:
    """A value that is no value of a template."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name

    def __bool__(self) -> bool:
        return False


UNKNOWN: Final = _Mark("unknown")
UNDEFINED: Final = _Mark("undefined")


@dataclass(frozen=True, slots=True)
class Item:
    """Something that is printed: text, a value, or a choice or repetition of such things."""

    kind: Literal["text", "print", "if", "loop", "messages", "turn"]
    span: Span  # the literal, tag or block that prints it
    via: Via  # the branches that led here
    key: Hashable  # equal keys print the same on the same conversation
    text: str = ""  # where it is known
    flags: int = 0  # of all that is in it
    raw: int = 0
    moves: bool = False  # whether the value, or what decides, can change when messages are added
    parts: tuple[tuple[Item, ...], ...] = ()
    decider: Hashable = None  # the key of what decides
    size: int = 1  # items in it
    site: Span | None = None  # of a choice within an expression: the tag that it stands in


UNPLACED: Final = Span(-1, -1)  # of what is not printed yet
Via: TypeAlias = "tuple[Via, int] | None"  # the id of the innermost branch, linked to those around it


@dataclass(frozen=True, slots=True)
class Value:
    """An abstract value. Two values with one key, in one run, are the same value."""

    key: Hashable
    shape: Shape = "scalar"
    known: Any = UNKNOWN  # a str, int, float, bool, None, or UNDEFINED
    truth: bool | None = None
    flags: int = 0
    raw: int = 0
    low: int | None = None  # bounds of an integer
    high: int | None = None
    base: Hashable = None  # the key of an index that the integer is counted from,
    above: tuple[int | None, int | None] = (0, 0)  # and the bounds of how far it is above that
    among: tuple[str, ...] = ()  # the strings that it can be; the roles of a message
    inner: Any = None
    span: Span | None = field(default=None, compare=False)  # of the literal that a text comes from

    @property
    def is_known(self) -> bool:
        """Whether the value is a constant."""
        return self.known is not UNKNOWN

    @property
    def moves(self) -> bool:
        """Whether the value can change when messages are added."""
        return bool(self.flags & TAIL)


@dataclass(frozen=True, slots=True)
class Part:
    """Part of the conversation, in its order or backwards."""

    offset: Value  # where it starts
    drop: int = 0  # messages left out at the end
    backwards: bool = False
    tests: tuple[tuple[str, str, tuple[Value, ...], bool], ...] = ()  # attribute, test, arguments, wanted


@dataclass(frozen=True, slots=True)
class LastOf:
    """The place of the last message of a role, as a loop before has found it, and a number added to it."""

    role: str
    step: int


@dataclass(frozen=True, slots=True)
class Frame:
    """The message that a loop over the conversation stands at."""

    index: Value
    message: Value
    low: int  # messages from this one to the end, itself included
    high: int | None
    next_roles: tuple[str, ...] = ()
    nested: bool = False
    calls: bool | None = None  # whether the message has calls, where that is known


@dataclass(frozen=True, slots=True)
class View:
    """What a loop knows of itself as `loop`."""

    key: Hashable
    position: Value
    flags: int  # of what it goes over
    frame: Frame | None = None  # of a loop over the conversation
    part: Part | None = None


def constant(value: Any, raw: int = 0, span: Span | None = None) -> Value:
    """A known value."""
    number = value if isinstance(value, int) and not isinstance(value, bool) else None
    key = ("const", type(value).__name__, value)
    return Value(key, "scalar", value, bool(value), 0, raw, number, number, span=span)


def unknown(key: Hashable, flags: int = 0, truth: bool | None = None, raw: int = 0, shape: Shape = "scalar") -> Value:
    """A value of which only its dependences are known."""
    return Value(key, shape, truth=truth, flags=flags, raw=flags | raw)


def integer(
    key: Hashable,
    low: int | None,
    high: int | None,
    flags: int = 0,
    raw: int = 0,
    base: Hashable = None,
    above: tuple[int | None, int | None] = (0, 0),
) -> Value:
    """An integer between two bounds; a constant where they meet."""
    if low is not None and low == high:
        return constant(low, flags | raw)
    truth = True if (low is not None and low > 0) or (high is not None and high < 0) else None
    return Value(key, "scalar", UNKNOWN, truth, flags, flags | raw, low, high, base, above)


def message(key: Hashable, roles: Sequence[str], flags: int = 0) -> Value:
    """One message of the conversation."""
    raw = DATA | (SYSTEM if "system" in roles else 0)
    return Value(key, "message", truth=True, flags=flags, raw=raw | flags, among=tuple(roles))


NOTHING: Final = constant(UNDEFINED)
EMPTY: Final = constant("")
_LARGEST: Final = 400  # items of one text; of larger ones only their dependences are kept


def text(items: Sequence[Item], key: Hashable) -> Value:
    """A text that is made of items."""
    size = sum(item.size for item in items)
    flags, raw = 0, 0
    for item in items:
        flags |= item.flags
        raw |= item.raw
    truth: bool | None = True if any(item.text for item in items) else None if items else False
    if not items:
        return EMPTY
    if size > _LARGEST:
        return unknown(key, flags, truth, raw)
    if all(item.kind == "text" for item in items):
        return replace(constant("".join([item.text for item in items]), raw), shape="text", inner=tuple(items))
    return Value(key, "text", truth=truth, flags=flags, raw=raw | flags, inner=tuple(items))


def merge(first: Value, second: Value, key: Hashable, flags: int = 0) -> Value:
    """What is known of a value that is either of two; bounds that differ are given up."""
    if first.key == second.key:
        return first
    low = first.low if first.low is not None and second.low is not None and first.low <= second.low else None
    high = first.high if first.high is not None and second.high is not None and first.high >= second.high else None
    among: tuple[str, ...] = ()
    mine, theirs = strings(first), strings(second)
    if mine and theirs and len(mine) + len(theirs) < 20:
        among = tuple(dict.fromkeys((*mine, *theirs)))
    same = first.shape == second.shape and first.inner == second.inner
    return Value(
        key,
        first.shape if same else "other",
        UNKNOWN,
        first.truth if first.truth == second.truth else None,
        first.flags | second.flags | flags,
        first.raw | second.raw | flags,
        low,
        high,
        among=among,
        inner=first.inner if same else None,
    )


def strings(value: Value) -> tuple[str, ...]:
    """The strings that a value can be, where they are few."""
    return (value.known,) if isinstance(value.known, str) else value.among if value.shape == "string" else ()


def moving(value: Value, key: Hashable) -> Value:
    """The value made one that changes with the conversation."""
    shape: Shape = value.shape if value.shape in ("namespace", "macro") else "other"
    return Value(
        key,
        shape,
        flags=value.flags | TAIL,
        raw=value.raw | TAIL,
        inner=value.inner if shape != "other" else None,
    )


def opaque(key: Hashable, values: Iterable[Value], truth: bool | None = None) -> Value:
    """Something made of values."""
    flags = raw = 0
    for value in values:
        flags |= value.flags
        raw |= value.raw
    return Value(key, "other", truth=truth, flags=flags, raw=raw)


def retruthed(value: Value, truth: bool | None) -> Value:
    """The value with its truth known."""
    return value if value.truth is truth else replace(value, truth=truth)


def walk(items: Iterable[Item]) -> Iterator[Item]:
    """All items, inner ones after the one that holds them."""
    stack = list(items)[::-1]
    while stack:
        item = stack.pop()
        yield item
        for part in reversed(item.parts):
            stack += reversed(part)


def holds(items: Iterable[Item]) -> int:
    """What items print: TOOLS, SYSTEM, DATA."""
    raw = 0
    for item in walk(items):
        if item.kind == "print":
            raw |= item.raw
    return raw & (TOOLS | SYSTEM | DATA)


def keys(items: Iterable[Item]) -> tuple[Hashable, ...]:
    """The keys of items; texts that stand side by side are one."""
    found: list[Hashable] = []
    words: list[str] = []
    for item in items:
        if item.kind == "text" or (item.kind == "print" and item.text):
            words.append(item.text)
            continue
        if words:
            found.append("".join(words))
            words = []
        found.append(item.key)
    if words:
        found.append("".join(words))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What is taken for granted of the request and of what the server does to it."""

    system: bool  # whether there is a system message, at the start
    given: Mapping[str, Any]  # variables that the server sets, with their values
    tools: bool = True
    thoughts: bool = False  # assistant turns may hold thinking
    think: bool | None = True
    texts: bool = True  # content is a string, else a list of parts
    joined: bool = False  # the system text is part of the first user's message
    answered: bool = False  # results are part of the turn that called (the first templates of Gemma 4)
    channels: bool = False  # thinking goes by `thinking` (gpt-oss)

    def calls(self, role: str, following: str | None) -> tuple[bool | None, ...]:
        """Whether a message may have calls, by what follows it; None for the end of a request."""
        if role != "assistant" or not self.tools:
            return (None,)
        if self.answered:
            return (True, False) if following is not None else (True,)
        return (following == "tool",)

    @property
    def roles(self) -> tuple[Role, ...]:
        """The roles of the messages that come after the first user's."""
        return ("user", "assistant", "tool") if self.tools and not self.answered else ("user", "assistant")

    def following(self, role: str) -> tuple[Role, ...]:
        """The roles of what may follow a message."""
        if role == "system":
            return ("user",)
        if role == "user":
            return ("assistant",)
        if role == "tool":
            return ("tool", "assistant", "user")
        if self.answered:
            return ("user", "assistant")
        return ("tool", "user") if self.tools else ("user",)

    def before(self, role: str) -> tuple[Role, ...]:
        """The roles of what may stand before a message."""
        every: tuple[Role, ...] = ("system", *self.roles)
        return tuple([one for one in every if role in self.following(one)])

    @property
    def ends(self) -> tuple[Role, ...]:
        """The roles of the last message of a request."""
        if self.answered:
            return ("user", "assistant")
        return ("user", "tool") if self.tools else ("user",)
