"""What an abstract run of a Go chat template yields: things that are printed, and places that can change."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from templatefix.analysis.gotree_values import Role, Value, constant
from templatefix.analysis.reading import DATA, SYSTEM, TOOLS, SuspectKind
from templatefix.gotemplate.nodes import BranchNode, Node
from templatefix.gotemplate.source import Span

DONE: Final = "#done"  # whether this turn of a loop was left by continue or break
BROKEN: Final = "#broken"  # whether the loop was left by break
NEVER: Final = constant(False)
ROUNDS: Final = 24  # turns of a loop until what its variables can be is settled

Via: TypeAlias = "tuple[Via, BranchNode] | None"  # the innermost branch, linked to those around it
State: TypeAlias = "dict[Hashable, Value]"  # values of variables, by where they are kept


@dataclass(frozen=True, slots=True)
class Item:
    """Something that is printed: text, a value, or a choice or repetition of such things."""

    kind: Literal["text", "print", "if", "range", "messages", "turn"]
    node: Node
    via: Via  # the branches that led here
    key: Any  # hashable; equal keys print the same on the same conversation
    raw: int = 0  # what it holds
    parts: tuple[tuple[Item, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Suspect:
    """A place where what is printed for a message can change when others follow."""

    node: Node  # the branch, action, loop or text
    role: Role | None  # of the message it is printed for; None outside the conversation
    kind: SuspectKind
    shown: Span | None = None  # where it is printed, if that is not within the node


@dataclass
class Record:
    """What the runs saw of each node, by its id."""

    raw: dict[int, int] = field(default_factory=dict)  # of an expression: what it is made of
    truths: dict[int, set[bool | None]] = field(default_factory=dict)  # of a condition
    suspects: dict[Hashable, Suspect] = field(default_factory=dict)


def branches(via: Via) -> tuple[BranchNode, ...]:
    """The branches of a path, outermost first."""
    found: list[BranchNode] = []
    while via is not None:
        via, branch = via
        found.append(branch)
    return tuple(reversed(found))


def flatten(items: Sequence[Item]) -> Iterator[Item]:
    """All items, inner ones after the one that holds them."""
    for item in items:
        yield item
        for part in item.parts:
            yield from flatten(part)


def holds(items: Sequence[Item]) -> int:
    """What items print: TOOLS, SYSTEM, DATA."""
    raw = 0
    for item in flatten(items):
        if item.kind == "print":
            raw |= item.raw
    return raw & (TOOLS | SYSTEM | DATA)


def keys(items: Sequence[Item]) -> tuple[Hashable, ...]:
    """The keys of items."""
    return tuple([item.key for item in items])


def grows(loop: Item) -> bool:
    """Whether a loop over the conversation prints something for messages that are added."""
    return any(turn.key[0] in ("later", "far") for part in loop.parts for turn in part)


def prints_always(loop: Item) -> bool:
    """Whether a loop over the conversation prints something for every message of a kind."""
    turns = [turn for part in loop.parts for turn in part if turn.key[0] == "later"]
    return any(item.kind in ("text", "print") for turn in turns for item in turn.parts[0])


def stays(item: Item) -> bool:
    """Whether any of what is printed has to be kept, as a generation tail has not."""
    if item.kind == "turn" and item.key[0] != "last":
        return True
    return bool(holds((item,))) if not item.parts else any(stays(inner) for part in item.parts for inner in part)
