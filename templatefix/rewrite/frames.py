"""What stood round the tool definitions: where they move, their frame goes with them and is not left behind empty.

A frame is the word of the template in front of the definitions and the one behind them, such as `<tools>` and
`</tools>`. A model that reads them with nothing between takes it that there are no tools.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from templatefix.analysis.stability import LoopRun
from templatefix.chat.rendering import Rendering
from templatefix.rewrite.words import Word, words_of

Pair = tuple[str, str]


def frame_lost(
    before: Sequence[LoopRun], plain: Iterable[Sequence[Rendering | None]], after: Sequence[LoopRun]
) -> str | None:
    """What became of the definitions' frame, where it is not as it was; the runs are of the same loops.

    `plain` are the original's prompts without tools: what they show as an empty frame must stand round the definitions.
    """
    old = list(_prompts(before))
    frames = {pair for words in old if (pair := _around_tools(words)) is not None}
    if not frames:
        return None
    known = {pair for words in old for pair in _neighbours(words)}
    bare = {pair for run in plain for each in run if each is not None for pair in _neighbours(words_of(each))}
    certain = (frames & bare) - known
    for words in _prompts(after):
        left = next((pair for pair in _neighbours(words) if pair in frames - known), None)
        if left is not None:
            return f"the frame {' '.join(left)!r} of the definitions is left with nothing in it"
        if certain and any(word.is_tool for word in words) and _around_tools(words) not in certain:
            return f"the definitions have lost their frame {' '.join(sorted(certain)[0])!r}"
    return None


def _prompts(runs: Sequence[LoopRun]) -> Iterator[list[Word]]:
    for run in runs:
        for step in run.steps:
            if step.request.tools:
                yield words_of(step.rendering)


def _around_tools(words: Sequence[Word]) -> Pair | None:
    at = [index for index, word in enumerate(words) if word.is_tool]
    if not at or at[0] == 0 or at[-1] + 1 >= len(words):
        return None
    front, behind = words[at[0] - 1], words[at[-1] + 1]
    if front.origin is not None or behind.origin is not None or not behind.text:
        return None
    return front.text, behind.text


def _neighbours(words: Sequence[Word]) -> Iterator[Pair]:
    for left, right in pairwise(words):
        if left.origin is None and right.origin is None:
            yield left.text, right.text
