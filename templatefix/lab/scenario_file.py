"""Scenarios as files, in YAML or JSON; some are shipped, users write their own.

    about: Two sums, each worked out by a tool.      # what `scenario list` shows
    system: You are an agent.                        # left out: no system message
    think: true                                      # left out: the request says nothing of thinking
    tools:                                           # as clients send them
      - type: function
        function:
          name: run_command
          description: Runs a command in a shell and returns what it prints.
          parameters:
            type: object
            required: [command]
            properties:
              command: {type: string}
    filler: {tools: 18, tool_words: 170, system_words: 3600}   # text that only takes room; `--size` sets it
    turns:
      - user: What is 2+2?
      - assistant:
          text: Let me see.                          # what stands beside the calls
          thinking: The shell can do sums.
          calls:
            - {name: run_command, arguments: {command: echo $((2+2))}}
      - tool: "4"                                    # results, in the order of the calls
      - assistant: {text: The answer is 4., expect: "4"}   # or just: `- assistant: The answer is 4.`
      - repeat: 30                                   # the turns below, with {n} as the number of the round
        turns:
          - user: Read note {n}.
          - assistant: There is no note {n}.

`expect` is for live runs: what an answer must say, as a word or number of its own. The last assistant turn of a
conversation is never sent; it tells what a right answer is. A name that ends in `.json` is read as JSON.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from templatefix.analysis.loops import Message, assistant, call, result, user
from templatefix.lab.document import DocumentError, Place, read_document
from templatefix.lab.scenario import Filler, Scenario, Turn

SEED_LOOP = "seed-loop"
ROUNDS = 1000  # that a repeat may have
_FOLDER = "scenarios"
_SUFFIX = ".yaml"


def shipped_names() -> list[str]:
    """The names of the scenarios that come with the program; the seed loop first."""
    files = resources.files("templatefix.lab") / _FOLDER
    names = [item.name.removesuffix(_SUFFIX) for item in files.iterdir() if item.name.endswith(_SUFFIX)]
    return sorted(names, key=lambda name: (name != SEED_LOOP, name))


def load(name_or_file: str) -> Scenario:
    """A shipped scenario by its name, or one from a file; raises DocumentError, OSError."""
    if name_or_file in shipped_names():
        with resources.as_file(resources.files("templatefix.lab") / _FOLDER / (name_or_file + _SUFFIX)) as path:
            return read_scenario(path, name_or_file)
    path = Path(name_or_file).expanduser()
    if not path.is_file():
        raise DocumentError(
            f"{name_or_file} is neither a file nor a scenario that comes with this program; "
            f"those are {', '.join(shipped_names())}"
        )
    return read_scenario(path, path.stem)


def text_of(name: str) -> str:
    """The file of a scenario that is shipped; raises DocumentError where there is none of that name."""
    if name not in shipped_names():
        raise DocumentError(f"there is no scenario {name}; there are {', '.join(shipped_names())}")
    return (resources.files("templatefix.lab") / _FOLDER / (name + _SUFFIX)).read_text(encoding="utf-8")


def seed_loop(tools: int = 18, tool_words: int = 170, system_words: int = 3600) -> Scenario:
    """Two user turns with one call each: four requests, about 8,500 tokens long with the sizes as they are.

    The second main request (step 2) is the one that users watch: all of the first turn should be in the cache.
    """
    return dataclasses.replace(load(SEED_LOOP), filler=Filler(tools, tool_words, system_words))


def read_scenario(path: Path, name: str) -> Scenario:
    """Read a scenario; raises DocumentError, and OSError where the file cannot be read."""
    place = read_document(path)
    keys = place.mapping(("about", "system", "think", "tools", "filler", "turns"))
    if "turns" not in keys:
        raise place.fault("turns are missing")
    tools = tuple([_tool(item) for item in keys["tools"].items()]) if "tools" in keys else ()
    named = {str(tool["function"]["name"]) for tool in tools}
    turns = tuple(_Script(named).turns(keys["turns"], None))
    if not turns or turns[0].message["role"] != "user":
        raise keys["turns"].fault("the first turn is the user's")
    filler = _filler(keys["filler"]) if "filler" in keys else Filler()
    if filler.system_words and "system" not in keys:
        raise keys["filler"].fault("system_words need a system text to stand behind")
    return Scenario(
        name=name,
        about=keys["about"].text() if "about" in keys else "",
        turns=turns,
        tools=tools,
        system=keys["system"].text() if "system" in keys else None,
        think=keys["think"].truth() if "think" in keys else None,
        filler=filler,
    )


def _tool(place: Place) -> Mapping[str, Any]:
    keys = place.mapping(("type", "function"))
    if "function" not in keys:
        raise place.fault("a tool has a function")
    function = keys["function"].mapping(("name", "description", "parameters"))
    if "name" not in function or not function["name"].text():
        raise keys["function"].fault("a tool needs a name")
    parameters = function["parameters"].value if "parameters" in function else {}
    if not isinstance(parameters, dict) or not isinstance(parameters.get("properties", {}), dict):
        raise function["parameters"].fault("the parameters are a JSON schema of an object")
    return {
        "type": "function",
        "function": {
            "name": function["name"].value,
            "description": function["description"].text() if "description" in function else "",
            "parameters": {"type": "object", "properties": {}, **parameters},
        },
    }


def _filler(place: Place) -> Filler:
    keys = place.mapping(("tools", "tool_words", "system_words"))
    limits = {"tools": 500, "tool_words": 5000, "system_words": 100_000}
    return Filler(**{key: item.number(0, limits[key]) for key, item in keys.items()})


class _Script:
    """Reads turns, and knows which calls wait for their results."""

    def __init__(self, tools: set[str]) -> None:
        self._tools = tools
        self._waiting: list[str] = []

    def turns(self, place: Place, number: int | None) -> Iterator[Turn]:
        last = place
        for last in place.items():
            if isinstance(last.value, dict) and "repeat" in last.value:
                yield from self._repeated(last)
            else:
                yield self._turn(last, number)
        if self._waiting:
            raise last.fault(f"the call of {self._waiting[0]} has no result behind it")

    def _repeated(self, place: Place) -> Iterator[Turn]:
        keys = place.mapping(("repeat", "turns"))
        if "turns" not in keys:
            raise place.fault("turns are missing")
        for number in range(1, keys["repeat"].number(1, ROUNDS) + 1):
            yield from self.turns(keys["turns"], number)

    def _turn(self, place: Place, number: int | None) -> Turn:
        keys = place.mapping(("user", "assistant", "tool", "repeat"))
        if len(keys) != 1:
            raise place.fault("a turn is one of user, assistant, tool and repeat")
        role, item = next(iter(keys.items()))
        if role != "tool" and self._waiting:
            raise item.fault(f"the call of {self._waiting[0]} has no result yet")
        if role == "user":
            return Turn(user(_filled(item.text(), number)))
        if role == "assistant":
            return self._assistant(item, number)
        if not self._waiting:
            raise item.fault("there is no call that this could be the result of")
        return Turn(result(self._waiting.pop(0), _filled(item.text(), number)))

    def _assistant(self, place: Place, number: int | None) -> Turn:
        if isinstance(place.value, str):
            return Turn(assistant(_filled(place.value, number)))
        keys = place.mapping(("text", "thinking", "calls", "expect"))
        texts = {key: _filled(item.text(), number) for key, item in keys.items() if key != "calls"}
        calls = [self._call(item, number) for item in keys["calls"].items()] if "calls" in keys else []
        if calls and "expect" in keys:
            raise keys["expect"].fault("what is expected belongs to the answer, not to a turn with calls")
        message = assistant(texts.get("text", ""), *calls, thinking=texts.get("thinking", ""))
        return Turn(message, texts.get("expect", ""))

    def _call(self, place: Place, number: int | None) -> Message:
        keys = place.mapping(("name", "arguments"))
        if "name" not in keys:
            raise place.fault("a call has the name of a tool")
        name = keys["name"].text()
        if name not in self._tools:
            raise keys["name"].fault(f"no tool of this scenario is called {name}")
        arguments = keys["arguments"].value if "arguments" in keys else {}
        if not isinstance(arguments, dict):
            raise keys["arguments"].fault("a mapping belongs here")
        self._waiting.append(name)
        return call(name, **_filled(arguments, number))


def _filled(value: Any, number: int | None) -> Any:
    """The value with {n} as the number of the round, inside a repeat."""
    if number is None:
        return value
    if isinstance(value, str):
        return value.replace("{n}", str(number))
    if isinstance(value, list):
        return [_filled(item, number) for item in value]
    if isinstance(value, dict):
        return {key: _filled(item, number) for key, item in value.items()}
    return value
