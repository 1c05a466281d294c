"""Whether a variant's prompt is the original's with the tool text moved: the word-for-word part of the proof.

A prompt is cut at the data of its messages. Between two of them the variant must say what the original said with tools,
or what it said without them, but for words that belong to tools or to the system text; and all of these words must
stand somewhere in the prompt. Words given up or added have to be named beforehand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from templatefix.chat.rendering import Rendering
from templatefix.rewrite.words import Word, count, count_texts, same, segments, words_of

_JUNCTIONS = 10  # places where words that were apart may meet when a few spans of text move


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Words of one conversation's first request that may move."""

    tools: Counter[str]  # said only when tools are given
    unsaid: Counter[str]  # said only without tools
    system: Counter[str]  # said only with a system message
    dropped: Counter[str]  # given up by the variant
    added: Counter[str]  # new in the variant

    def movable(self) -> set[str]:
        """All words that may stand at another place than before."""
        return {*self.tools, *self.unsaid, *self.system, *self.dropped, *self.added}


def vocabulary(
    first: Rendering, without_tools: Rendering, without_system: Rendering, dropped: Sequence[str], added: Sequence[str]
) -> Vocabulary:
    """The words that may move, from an original's first request rendered in three ways."""
    said, plain, bare = (count(words_of(each)) for each in (first, without_tools, without_system))
    return Vocabulary(said - plain, plain - said, said - bare, count_texts(dropped), count_texts(added))


def compare_first(original: Rendering, variant: Rendering, words: Vocabulary) -> str | None:
    """What is wrong with the variant's first prompt, or None: all words are those of the original, named ones apart."""
    old, new = words_of(original), words_of(variant)
    before, after = count(old), count(new)
    lost = before - after - words.dropped
    if lost:
        return f"words are lost: {_list(lost)}"
    gained = after - before - words.added
    if gained:
        return f"words are new: {_list(gained)}"
    if (problem := _tools_differ(old, new)) is not None:
        return problem
    new_pairs = _pairs(new) - _pairs(old)
    junctions = sum(new_pairs.values())
    allowed = _JUNCTIONS + words.added.total() + words.dropped.total()
    if junctions > allowed:
        return f"the moved text does not read as before ({junctions} new neighbours)"
    return None


def _pairs(words: Sequence[Word]) -> Counter[tuple[str, str | None, str]]:
    return Counter((a.text, b.gap, b.text) for a, b in zip(words, words[1:], strict=False))


def _tools_differ(old: Sequence[Word], new: Sequence[Word]) -> str | None:
    before = [word.text for word in old if word.is_tool]
    after = [word.text for word in new if word.is_tool]
    if not before or before == after:
        return None
    passes, rest = divmod(len(before), len(after)) if after else (0, 1)
    if rest == 0 and after * passes == before:
        return None
    return "the tool definitions are not those of the original"


def compare_step(original: Rendering, plain: Rendering | None, variant: Rendering, words: Vocabulary) -> str | None:
    """What is wrong with a later prompt of the variant, or None.

    `plain` is the original without tools (None where it cannot be rendered like that).
    """
    new = words_of(variant)
    missing = words.tools - words.dropped - count(new)
    if missing:
        return f"words about the tools are missing: {_list(missing)}"
    anchors, runs = segments(new)
    references = []
    for rendering in (original, plain):
        if rendering is not None:
            marks, parts = segments(words_of(rendering))
            if [_key(mark) for mark in marks] == [_key(mark) for mark in anchors]:
                references.append((marks, parts))
    if not references:
        return "the texts, names or arguments of messages differ"
    movable = words.movable()
    lost: Counter[str] = Counter()
    for index, run in enumerate(runs):
        best: Counter[str] | None = None
        reason = ""
        for marks, parts in references:
            closing = index < len(anchors) and same(_gapped(marks[index], words), _gapped(anchors[index], words))
            change = _change(parts[index], run, movable)
            if isinstance(change, str):
                reason = reason or change
            elif not change[0] and not change[1] and (closing or index == len(anchors)):
                best = Counter()
                break
            elif best is None or change[0].total() < best.total():
                best = change[0]
        if best is None:
            return f"{_place(anchors, index)}: {reason}"
        lost += best
    budget = words.tools + words.tools + words.system + words.system + words.dropped + words.dropped
    over = lost - budget
    if over:
        return f"words are lost: {_list(over)}"
    return None


def _gapped(word: Word, words: Vocabulary) -> Word:
    # A message's text whose label was dropped, or that follows moved text, keeps its own white space only.
    return word if not words.dropped and not words.tools else Word(word.text, None, word.origin)


def _key(word: Word) -> tuple[str, int, str]:
    assert word.origin is not None
    return word.text, word.origin.index, word.origin.field


def _change(old: Sequence[Word], new: Sequence[Word], movable: set[str]) -> tuple[Counter[str], Counter[str]] | str:
    """The words to take from and to put into one run to get the other, or what cannot be explained as a move."""
    start = 0
    while start < min(len(old), len(new)) and same(old[start], new[start]):
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and same(old[len(old) - 1 - end], new[len(new) - 1 - end]):
        end += 1
    taken = [word for word in old[start : len(old) - end] if not word.is_tool]
    put = [word for word in new[start : len(new) - end] if not word.is_tool]
    taken_texts, put_texts = [word.text for word in taken], [word.text for word in put]
    if taken_texts == put_texts:
        if len(old) == len(new) and start + end < len(old) and not _loose(old, new, start):
            return f"white space changed before {old[start].text[:40]!r}"
        return Counter(), Counter()
    # Words that both say, in order, stay; the rest must be movable.
    stay = _common(taken_texts, put_texts)
    gone, come = Counter(taken_texts) - stay, Counter(put_texts) - stay
    strange = [text for text in gone if text not in movable]
    if strange:
        return f"{_list(strange)} is gone"
    strange = [text for text in come if text not in movable]
    if strange:
        return f"{_list(strange)} has come"
    return gone, come


def _loose(old: Sequence[Word], new: Sequence[Word], start: int) -> bool:
    # Tool text that stood or stands next to the word may have taken the white space with it.
    before = start > 0 and (old[start - 1].is_tool or new[start - 1].is_tool)
    return before or old[start].is_tool or old[start].text == ""


def _common(left: Sequence[str], right: Sequence[str]) -> Counter[str]:
    """The words of a longest common subsequence."""
    if len(left) * len(right) > 250_000:
        return Counter(left) & Counter(right)
    rows = [[0] * (len(right) + 1)]
    for text in left:
        above, row = rows[-1], [0]
        for column, other in enumerate(right):
            row.append(above[column] + 1 if text == other else max(above[column + 1], row[column]))
        rows.append(row)
    common: Counter[str] = Counter()
    i, j = len(left), len(right)
    while i and j:
        if left[i - 1] == right[j - 1]:
            common[left[i - 1]] += 1
            i, j = i - 1, j - 1
        elif rows[i - 1][j] >= rows[i][j - 1]:
            i -= 1
        else:
            j -= 1
    return common


def _place(anchors: Sequence[Word], index: int) -> str:
    if index < len(anchors):
        return f"before the text {anchors[index].text[:30]!r}"
    return "at the end of the prompt"


def _list(words: Sequence[str] | Counter[str]) -> str:
    shown = list(words)[:5]
    return ", ".join(repr(word[:30]) for word in shown) + (", …" if len(list(words)) > 5 else "")
