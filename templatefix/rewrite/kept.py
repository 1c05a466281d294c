"""Prompts of a variant that keeps what the original drops from the history, compared without what is kept."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from templatefix.analysis.stability import LoopRun
from templatefix.chat.rendering import Origin, Rendering
from templatefix.chat.request import Request
from templatefix.rewrite.words import Word, count_texts, words_of

Datum = tuple[str, Origin | None]


def has_thoughts(request: Request) -> bool:
    """Whether a message of a request holds thinking."""
    return any(message.get("thinking") for message in request.messages)


def by_thinking_alone(runs: Iterable[LoopRun]) -> bool:
    """Whether loops lose something, and only those whose history holds thinking."""
    losing = [run for run in runs if run.lost]
    return bool(losing) and all(has_thoughts(run.loop.requests[-1]) for run in losing)


def has_system(request: Request) -> bool:
    """Whether a request has a system message."""
    return any(message.get("role") == "system" for message in request.messages)


class Kept:
    """What the original showed so far of a conversation; only that, and thinking, may stay longer in a variant."""

    def __init__(self) -> None:
        self.shown: set[Datum] = set()

    def without(self, old: Sequence[Word], new: Sequence[Word]) -> list[Word]:
        """The variant's words but for the data of messages that the original no longer has in this prompt."""
        expected = [(word.text, word.origin) for word in old if word.is_message]
        result: list[Word] = []
        at = 0
        for word in new:
            if not word.is_message:
                result.append(word)
            elif at < len(expected) and expected[at] == (word.text, word.origin):
                at += 1
                result.append(word)
            elif not self._may_stay(word):
                result.append(word)
        self.shown.update(expected)
        return result

    def _may_stay(self, word: Word) -> bool:
        field = word.origin.field if word.origin is not None else ""
        return field == "thinking" or (word.text, word.origin) in self.shown


def explained(before: Rendering, after: Rendering, request: Request, *, added: Iterable[str], system: bool) -> bool:
    """Whether a prompt without tools differs only by thinking that is kept, or by the place of the system text.

    `added` are the texts that stand around thinking; `system` says whether the system text may move.
    """
    if not (has_thoughts(request) or (system and has_system(request))):
        return False
    old, new = words_of(before), words_of(after)
    marks = frozenset(count_texts(added)) if has_thoughts(request) else frozenset()
    kept = Kept().without(old, new)
    return _bare(old, marks, system) == _bare(kept, marks, system) and _told(old) == _told(kept)


def _bare(words: Iterable[Word], marks: Collection[str], system: bool) -> list[Datum]:
    said = [word for word in words if word.origin is not None or word.text not in marks]
    return [(word.text, word.origin) for word in said if word.text and not (system and word.is_system)]


def _told(words: Iterable[Word]) -> list[str]:
    return sorted(word.text for word in words if word.is_system)
