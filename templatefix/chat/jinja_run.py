"""What one prompt may cost: nodes executed and characters gone through, counted before the work is done.

No clock is asked: what is beyond a limit is beyond it on every machine.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from jinja2 import TemplateRuntimeError

from templatefix.chat.jinja_text import LONGEST, Text
from templatefix.chat.jinja_values import Record

_NODES: Final = 4_000_000  # nodes executed for one prompt, by their weight
_NODES_A_STEP: Final = 3  # as heavy as one of a Go template
_MADE: Final = 4 * LONGEST  # characters made or gone through for one prompt
_CHARACTERS_A_STEP: Final = 64
_AN_ITEM: Final = 8  # characters that an item of a new list, or one more run of a text, counts as
_A_PART: Final = 64  # those of each text that one is split into
_AT_ONCE: Final = 32  # characters that a search compares in the time of one


class Run:
    """One prompt in the making: the message at hand, and what may still be spent."""

    __slots__ = ("frames", "left", "message", "numbers", "room")

    def __init__(self) -> None:
        self.left = _NODES
        self.room = _MADE
        self.message: int | None = None
        self.numbers = False  # the message at hand was found by its number
        self.frames: list[int | None] = []

    def push(self) -> None:
        """A loop begins."""
        self.frames.append(self.message)

    def pop(self) -> None:
        """A loop is over."""
        self.message = self.frames.pop()
        self.numbers = self.numbers and bool(self.frames)

    def step(self, weight: int) -> None:
        """Nodes of some weight are to be executed: of a branch, a macro, a pass of a loop."""
        self.left -= weight
        if self.left < 0:
            raise TemplateRuntimeError(f"template: more than {_NODES} nodes executed")

    def enter(self, item: Any = None) -> None:
        """A pass of a loop begins."""
        if item.__class__ is Record and item.origin.field == "":
            self.message, self.numbers = item.message, False

    def bound(self, value: Any) -> None:
        """A variable is set; in a loop over numbers it may be the message at hand."""
        about = value.message if value.__class__ is Record and not value.origin.field else None
        if about is not None and self.frames and (self.message is None or self.numbers):
            self.message, self.numbers = about, True

    @property
    def steps(self) -> int:
        """What was spent, in steps as a Go template takes them; 64 characters count as one."""
        nodes, characters = _NODES - max(0, self.left), _MADE - max(0, self.room)
        return nodes // _NODES_A_STEP + characters // _CHARACTERS_A_STEP

    def spend(self, size: int) -> None:
        """Characters are made, or gone through."""
        self.room -= size
        if self.room < 0:
            raise TemplateRuntimeError(f"template: more than {_MADE} characters made or read")

    def lines(self, text: str) -> None:
        """A text is put together of lines."""
        self.spend(_A_PART * text.count("\n"))

    def text(self, text: str) -> None:
        """A text is made or gone through with all its runs."""
        runs = text.runs if text.__class__ is Text else ()
        self.spend(len(text) + _AN_ITEM * (len(runs) - 1) if len(runs) > 1 else len(text))

    def items(self, count: int) -> None:
        """A list of so many items is made."""
        self.spend(_AN_ITEM * count)

    def result(self, value: Any, *, parts: bool = False) -> None:
        """What a filter or a method made; with `parts`, each text in a list is new."""
        if isinstance(value, str):
            self.text(value)
        elif isinstance(value, list):
            self.spend((_A_PART if parts else _AN_ITEM) * len(value))

    def weigh(self, values: Iterable[Any], each: int = 1, *, products: bool = False) -> None:
        """All that is within some values, to any depth, is gone through; a value of a list weighs `each`.

        With `products`, each text is searched for the others.
        """
        characters = longest = 0
        waiting = list(values)
        self.step(each * len(waiting))
        while waiting:
            value = waiting.pop()
            if isinstance(value, str):
                self.text(value)
                characters += len(value)
                longest = max(longest, len(value))
            elif isinstance(value, (dict, list, tuple, range)):
                self.step(each * (1 + len(value)))
                # Past what watches the use of a value: to be counted is no use of it.
                if isinstance(value, dict):
                    waiting += dict.keys(value)
                    waiting += dict.values(value)
                elif isinstance(value, list):
                    waiting += list.__iter__(value)
                elif isinstance(value, tuple):
                    waiting += value
        if products:
            self.spend(longest * ((characters - longest) // _AT_ONCE))
