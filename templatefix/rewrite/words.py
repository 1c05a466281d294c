"""A prompt as words: what two renderings are compared by when text may have moved.

Template text is cut at white space and around marks such as `<|eot_id|>` or `[INST]`; a datum (a message's text, a
tool definition) is one word. Every word remembers the white space in front of it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from templatefix.chat.rendering import Origin, Rendering

_TOKEN = re.compile(r"\s+|<[^<>\s]{1,60}>|\[[^\[\]\s]{1,60}\]|[^\s<\[]+|[<\[]")


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a prompt."""

    text: str
    gap: str | None  # the white space in front of it; None: not to be compared
    origin: Origin | None  # the datum it is, None for text of the template

    @property
    def is_message(self) -> bool:
        """Whether it is a text, name, … of a message: such words never change their order."""
        return self.origin is not None and self.origin.kind == "message"

    @property
    def is_tool(self) -> bool:
        """Whether it belongs to a tool definition."""
        return self.origin is not None and self.origin.kind in ("tool", "tools")

    @property
    def is_system(self) -> bool:
        """Whether it is the joined system text."""
        return self.origin is not None and self.origin.kind == "system"


def split_text(text: str) -> list[str]:
    """The words of a template's text, white space left out."""
    return [token for token in _TOKEN.findall(text) if not token.isspace()]


def words_of(rendering: Rendering) -> list[Word]:
    """The words of a prompt, in order; empty data are left out."""
    result: list[Word] = []
    gap = ""
    text: list[str] = []

    def flush() -> None:
        nonlocal gap
        for token in _TOKEN.findall("".join(text)):
            if token.isspace():
                gap += token
            else:
                result.append(Word(token, gap, None))
                gap = ""
        text.clear()

    for piece in rendering.pieces:
        if piece.origin is None:
            text.append(piece.text)
        elif piece.text:
            flush()
            result.append(Word(piece.text, gap, piece.origin))
            gap = ""
    flush()
    if gap:
        result.append(Word("", gap, None))
    return result


def count(words: Iterable[Word]) -> Counter[str]:
    """How often each word of the template's own text occurs."""
    return Counter(word.text for word in words if word.origin is None and word.text)


def count_texts(texts: Iterable[str]) -> Counter[str]:
    """How often each word occurs in some texts."""
    return Counter(token for text in texts for token in split_text(text))


def runs_between(words: Sequence[Word]) -> list[list[Word]]:
    """Cut behind every message datum: n runs that end with one, and the rest.

    The joined system text is taken out (it may move); what follows it compares without its white space.
    """
    runs: list[list[Word]] = [[]]
    loose = False
    for word in words:
        if word.is_system:
            loose = True
            continue
        runs[-1].append(Word(word.text, None, word.origin) if loose else word)
        loose = False
        if word.is_message:
            runs.append([])
    return runs


def same(left: Word, right: Word) -> bool:
    """Whether two words are equal, white space in front of them included where it counts."""
    if left.text != right.text or left.origin != right.origin:
        return False
    return left.gap is None or right.gap is None or left.gap == right.gap
