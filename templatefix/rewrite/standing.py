"""What an original says at a place of a conversation with tools and without: no variant may lose it there.

Marks that end a turn, headers and the generation prompt are of this kind. Nothing that a change declares as given up
counts here: labels, reminders and the system text, which may go or move, are not said at the same place every time.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from templatefix.analysis.stability import LoopRun, Step
from templatefix.chat.rendering import Origin, Rendering
from templatefix.rewrite.words import Word, words_of

Key = tuple[str, Origin | None, int]  # the datum that a run of words ends with, and which of its kind it is
Runs = Mapping[Key | None, Sequence[Word]]  # None: what stands behind the last datum
Demands = Mapping[Key | None, Counter[str]]
Moving = tuple[Counter[str], Counter[str]]  # words said only with tools, words said only with a system message

_MARK = re.compile(r"<[^<>\s]{1,60}>|\[/?[A-Z][A-Z0-9_ ]{0,60}\]")
_PART = re.compile(r"<[^<>\s]{1,60}>|\[/?[A-Z][A-Z0-9_]*\]")  # a mark as one word


def marks_in(texts: Iterable[str]) -> tuple[str, ...]:
    """The marks in some texts, each once: `<|im_end|>`, `</s>`, `[/INST]`."""
    return tuple(dict.fromkeys(mark for text in texts for mark in _MARK.findall(text)))


def words_between_marks(texts: Iterable[str]) -> tuple[str, ...]:
    """What some texts say besides marks: that may be given up where the marks are said all the same."""
    return tuple([part.strip() for text in texts for part in _MARK.split(text) if part.strip()])


def printed_mark(texts: Iterable[str], runs: Iterable[LoopRun]) -> str | None:
    """The first mark in some texts that stands in a prompt as text of the template."""
    marks = marks_in(texts)
    if not marks:
        return None
    said = {piece.text for run in runs for step in run.steps for piece in step.rendering.pieces if piece.origin is None}
    return next((mark for mark in marks if any(mark in text for text in said)), None)


def demands(run: LoopRun, plains: Sequence[Rendering | None], moving: Moving) -> list[Demands]:
    """For each step of an original's loop, the words that a variant has to say in front of each datum.

    `plains` are the same steps without tools, `moving` the words that come with tools and with a system message.
    """
    seen = [
        (step, _keyed(words_of(step.rendering)), None if plain is None else _keyed(words_of(plain)))
        for step, plain in zip(run.steps, plains, strict=True)
    ]
    settled: dict[Key | None, Counter[str]] = {}
    for step, runs, plain in seen:
        for key, words in runs.items():
            if _is_settled(key, step):
                said = _said(words, plain, key, moving[0])
                settled[key] = settled[key] & said if key in settled else said
    return [_of_step(step, runs, plain, settled, moving) for step, runs, plain in seen]


def _of_step(step: Step, runs: Runs, plain: Runs | None, settled: Demands, moving: Moving) -> Demands:
    result: dict[Key | None, Counter[str]] = {}
    for key, words in runs.items():
        if _is_settled(key, step):
            result[key] = settled[key]
            continue
        others = words if plain is None or key not in plain else plain[key]
        firm = _firm(words, last=key is None) & _firm(others, last=key is None)
        firm &= _said(words, plain, key, moving[0])
        if any(word.is_system for word in (*words, *others)):
            firm -= moving[1]
        firm -= Counter(_frame_left_empty(words, others))
        result[key] = firm
    return result


def _frame_left_empty(words: Sequence[Word], plain: Sequence[Word]) -> Iterable[str]:
    """The marks round the definitions that stand without anything between them where no tools are given.

    They go where the definitions go.
    """
    at = [index for index, word in enumerate(words) if word.is_tool]
    if not at or at[0] == 0 or at[-1] + 1 == len(words):
        return ()
    frame = (words[at[0] - 1].text, words[at[-1] + 1].text)
    return frame if frame in [(left.text, right.text) for left, right in pairwise(plain)] else ()


def _said(words: Sequence[Word], plain: Runs | None, key: Key | None, tools: Counter[str]) -> Counter[str]:
    """The words of a place that are said without tools as well."""
    said = _texts(words)
    if plain is not None and key in plain:
        return said & _texts(plain[key])
    return said - tools if any(word.is_tool for word in words) else said


def _is_settled(key: Key | None, step: Step) -> bool:
    """Whether a place stands before the last user's turn: what moves with the end of the prompt has left it."""
    if key is None or key[1] is None:
        return False
    roles = [message.get("role") for message in step.request.messages]
    return "user" in roles[key[1].index + 1 :]


def _keyed(words: Sequence[Word]) -> dict[Key | None, list[Word]]:
    runs: dict[Key | None, list[Word]] = {}
    times: Counter[tuple[str, Origin | None]] = Counter()
    current: list[Word] = []
    for word in words:
        if word.is_message:
            datum = (word.text, word.origin)
            runs[(word.text, word.origin, times[datum])] = current
            times[datum] += 1
            current = []
        else:
            current.append(word)
    runs[None] = current
    return runs


def _texts(words: Iterable[Word]) -> Counter[str]:
    return Counter(word.text for word in words if word.origin is None and word.text)


def _firm(words: Sequence[Word], *, last: bool) -> Counter[str]:
    """The marks of a place and the words joined to one; at the end of a prompt without any, its last line."""
    firm: Counter[str] = Counter()
    texts = [word for word in words if word.origin is None and word.text]
    for before, word in pairwise([None, *texts]):
        assert word is not None
        glued = before is not None and _PART.fullmatch(before.text) is not None and not word.gap
        if glued or _PART.fullmatch(word.text):
            firm[word.text] += 1
    if last and texts and not firm[texts[-1].text]:
        for word in reversed(texts):
            firm[word.text] += 1
            if word.gap and "\n" in word.gap:
                break
    return firm


def lost_at(wanted: Demands, said: Sequence[Word]) -> str | None:
    """What a variant's prompt fails to say at its place, or None."""
    runs = _keyed(said)
    for key, words in wanted.items():
        lost = words - _texts(runs[key]) if key in runs else Counter()
        if lost:
            where = "at the end of the prompt" if key is None else f"before {key[0][:30]!r}"
            what = ", ".join([repr(word[:30]) for word in list(lost)[:5]])
            return f"{what} is said with tools and without, and lost {where}"
    return None
