"""Whether a variant's prompt is the original's with the tool text moved: the word-for-word part of the proof.

A prompt is cut at the data of its messages. Between two of them the variant must say what the original said with tools,
or what it said without them, but for words that belong to tools or to the system text; and all of these words must
stand somewhere in the prompt. Words given up or added have to be named beforehand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from templatefix.chat.rendering import Origin, Rendering
from templatefix.rewrite.words import Word, count, count_texts, runs_between, same, words_of

_JUNCTIONS = 10  # places where words that were apart may meet when a few spans of text move


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Words of one conversation's first request that may move."""

    tools: Counter[str]  # said only when tools are given
    unsaid: Counter[str]  # said only without tools
    system: Counter[str]  # said only with a system message
    dropped: Counter[str]  # given up by the variant
    added: Counter[str]  # new in the variant

    def movable(self) -> frozenset[str]:
        """All words that may stand at another place than before."""
        return frozenset({*self.tools, *self.unsaid, *self.system, *self.dropped, *self.added})


def vocabulary(
    first: Rendering,
    without_tools: Rendering,
    without_system: Rendering,
    without_both: Rendering,
    dropped: Sequence[str],
    added: Sequence[str],
) -> Vocabulary:
    """The words that may move, from an original's first request rendered in four ways."""
    said, plain, bare, neither = (
        count(words_of(each)) for each in (first, without_tools, without_system, without_both)
    )
    system = (said - bare) | (plain - neither)
    return Vocabulary(said - plain, plain - said, system, count_texts(dropped), count_texts(added))


def compare_first(original: Rendering, model: Rendering, new: Sequence[Word], words: Vocabulary) -> str | None:
    """What is wrong with the words of the variant's first prompt, or None: all are the original's, named ones apart.

    `model` is the original's prompt that shows the tools; another than `original` where that one lacks them.
    """
    old, shown = words_of(original), words_of(model)
    before, after = count(old), count(new)
    lost = before - after - words.dropped
    if lost:
        return f"words are lost: {_list(lost)}"
    gained = after - (before if original is model else before | count(shown)) - words.added
    if gained:
        return f"words are new: {_list(gained)}"
    if (problem := _tools_differ(shown, new)) is not None:
        return problem
    if (problem := _apart(shown, new, words)) is not None:
        return problem
    new_pairs = _pairs(new) - _pairs(old) - _pairs(shown)
    junctions = sum(new_pairs.values())
    allowed = _JUNCTIONS + sum(words.added.values()) + sum(words.dropped.values())
    if junctions > allowed:
        return f"the moved text does not read as before ({junctions} new neighbours)"
    return None


def _pairs(words: Sequence[Word]) -> Counter[tuple[str, str | None, str]]:
    return Counter((a.text, b.gap, b.text) for a, b in pairwise(words))


def _apart(old: Sequence[Word], new: Sequence[Word], words: Vocabulary) -> str | None:
    """Whether words about the tools that stood beside the definitions stand elsewhere now."""
    for side in (-1, 1):
        before, after = _beside_tools(old, side), _beside_tools(new, side)
        if before and before in words.tools and before not in words.dropped and after != before:
            return f"the definitions have lost their neighbour {before!r}"
    return None


def _beside_tools(words: Sequence[Word], side: int) -> str | None:
    """The word in front of the definitions (-1) or behind them (1); None for data, or where there is none."""
    at = [index for index, word in enumerate(words) if word.is_tool]
    if not at:
        return None
    index = at[0] - 1 if side < 0 else at[-1] + 1
    return words[index].text if 0 <= index < len(words) and words[index].origin is None else None


def _tools_differ(old: Sequence[Word], new: Sequence[Word]) -> str | None:
    before = [word.text for word in old if word.is_tool]
    after = [word.text for word in new if word.is_tool]
    if not before or before == after:
        return None
    passes, rest = divmod(len(before), len(after)) if after else (0, 1)
    if rest == 0 and after * passes == before:
        return None
    return "the tool definitions are not those of the original"


def compare_step(original: Rendering, plain: Rendering | None, new: Sequence[Word], words: Vocabulary) -> str | None:
    """What is wrong with the words of a prompt of the variant, or None.

    `plain` is the original without tools (None where it cannot be rendered like that).
    """
    missing = words.tools - words.dropped - count(new)
    if missing:
        return f"words about the tools are missing: {_list(missing)}"
    runs = runs_between(new)
    references = [runs_between(words_of(each)) for each in (original, plain) if each is not None]
    references = [parts for parts in references if _ends(parts) == _ends(runs)]
    if not references:
        return "the texts, names or arguments of messages differ"
    lost: Counter[str] = Counter()
    for index, run in enumerate(runs):
        changes = [_change(parts[index], run, words) for parts in references]
        possible: list[Counter[str]] = [change for change in changes if not isinstance(change, str)]
        if not possible:
            where = f"before {run[-1].text[:30]!r}" if index + 1 < len(runs) else "at the end of the prompt"
            return f"{changes[0]} {where}"
        least: Counter[str] = min(possible, key=_size)
        lost += least
    over = lost - _twice(words.tools + words.system + words.dropped)
    if over:
        return f"words are lost: {_list(over)}"
    return None


def _size(words: Counter[str]) -> int:
    return sum(words.values())


def _twice(words: Counter[str]) -> Counter[str]:
    return words + words


def _ends(runs: Sequence[Sequence[Word]]) -> list[tuple[str, Origin | None]]:
    return [(run[-1].text, run[-1].origin) for run in runs[:-1]]


def _change(old: Sequence[Word], new: Sequence[Word], words: Vocabulary) -> Counter[str] | str:
    """The words that one run says and the other does not, or what cannot be explained as text that moved."""
    start = 0
    while start < min(len(old), len(new)) and same(old[start], new[start]):
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and same(old[len(old) - 1 - end], new[len(new) - 1 - end]):
        end += 1
    before, after = old[start : len(old) - end], new[start : len(new) - end]
    taken = [word.text for word in before if not word.is_tool]
    put = [word.text for word in after if not word.is_tool]
    if taken == put and len(before) == len(after):
        return Counter() if not taken else f"white space has changed near {taken[0][:40]!r}"
    stay = _common(taken, put)
    gone, come = Counter(taken) - stay, Counter(put) - stay
    strange = [text for text in gone if text not in words.movable()]
    if strange:
        return f"{_list(strange)} is gone"
    strange = [text for text in come if text not in words.movable()]
    if strange:
        return f"{_list(strange)} has come"
    return gone


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


def _list(words: Sequence[str] | Counter[str]) -> str:
    shown = list(words)[:5]
    return ", ".join(repr(word[:30]) for word in shown) + (", …" if len(list(words)) > 5 else "")
