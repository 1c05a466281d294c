"""Words without meaning: system texts and tool definitions of a wanted length, the same every time."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

_WORD_LIST = (
    "agent always answer archive ask before board branch build carefully change channel check clear column command "
    "commit compare copy current daily describe detail directory draft each earlier entry every exact example explain "
    "fetch field file find first folder format given group header history host identifier if index into job keep label "
    "last later limit line list local log look mark memory message meter move name never new next no note number of "
    "offset only open or order output page parse part path plan point print project queue quote range read reason "
    "record remote rename reply report request result return review row run same save schedule search section send "
    "session short sort source state step stop store summary table task test text the then thread time title to tool "
    "topic total trace tree turn unless update user value verify version wait when which while window with word "
    "workspace write yesterday zone"
)
_WORDS = _WORD_LIST.split(" ")
_SEED = 11


class Prose:
    """A source of text; two of them give the same in the same order."""

    def __init__(self) -> None:
        self._source = random.Random(_SEED)

    def text(self, words: int) -> str:
        """So many words in sentences of a dozen."""
        chosen = [self._source.choice(_WORDS) for _ in range(words)]
        sentences = [" ".join(chosen[at : at + 12]).capitalize() + "." for at in range(0, words, 12)]
        return " ".join(sentences)

    def tool(self, index: int, words: int) -> Mapping[str, Any]:
        """A tool with so many words in its description and its two parameters'; its name holds the index."""
        first, second = words // 5, words // 10
        name = f"{self._source.choice(_WORDS)}_{self._source.choice(_WORDS)}_{index}"
        return {
            "type": "function",
            "function": {
                "name": name,
                "description": self.text(words - first - second),
                "parameters": {
                    "type": "object",
                    "required": ["subject"],
                    "properties": {
                        "subject": {"type": "string", "description": self.text(first)},
                        "limit": {"type": "integer", "description": self.text(second)},
                    },
                },
            },
        }
