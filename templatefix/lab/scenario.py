"""The tool loops that arms are measured on."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from templatefix.analysis.loops import Loop, assistant, call, requests_of, result, system, user

SEED_LOOP = "seed-loop"
TOOLS = 19
TOOL_WORDS = 170  # in one tool's description and its parameters'
SYSTEM_WORDS = 3600

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
_SOURCE_SEED = 11


def seed_loop(tools: int = TOOLS, tool_words: int = TOOL_WORDS, system_words: int = SYSTEM_WORDS) -> Loop:
    """Two user turns with one call each: four requests, about 8,500 tokens long with the sizes as they are.

    The second main request (step 2) is the one that users watch: all of the first turn should be in the cache.
    """
    source = random.Random(_SOURCE_SEED)
    definitions = [_tool(index, tool_words, source) for index in range(tools)]
    name = str(definitions[0]["function"]["name"]) if definitions else "run_command"
    messages = [
        system("You are an agent that works with care. " + _prose(system_words, source)),
        user("What is 2+2? Let the shell work it out."),
        assistant("", call(name, command="echo $((2+2))")),
        result(name, "4"),
        assistant("The answer is 4."),
        user("And what is 4+7?"),
        assistant("", call(name, command="echo $((4+7))")),
        result(name, "11"),
        assistant("The answer is 11."),
    ]
    return Loop(SEED_LOOP, requests_of(messages, definitions), True)


def _tool(index: int, words: int, source: random.Random) -> Mapping[str, Any]:
    first, second = words // 5, words // 10
    return {
        "type": "function",
        "function": {
            "name": "run_command" if index == 0 else f"{source.choice(_WORDS)}_{source.choice(_WORDS)}_{index}",
            "description": _prose(words - first - second, source),
            "parameters": {
                "type": "object",
                "required": ["command"],
                "properties": {
                    "command": {"type": "string", "description": _prose(first, source)},
                    "limit": {"type": "integer", "description": _prose(second, source)},
                },
            },
        },
    }


def _prose(words: int, source: random.Random) -> str:
    """So many words in sentences of a dozen."""
    chosen = [source.choice(_WORDS) for _ in range(words)]
    sentences = [" ".join(chosen[at : at + 12]).capitalize() + "." for at in range(0, words, 12)]
    return " ".join(sentences)
