"""Scenarios: those that are shipped, and what files may say."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from templatefix.lab.document import DocumentError
from templatefix.lab.scenario_file import load, read_scenario, seed_loop, shipped_names

TOOLS = """tools:
  - type: function
    function: {name: look, description: Looks., parameters: {type: object, properties: {at: {type: string}}}}
"""


def test_what_is_shipped() -> None:
    assert shipped_names() == [
        "seed-loop",
        "long-session",
        "long-turn",
        "no-system",
        "parallel-calls",
        "text-with-call",
        "thinking",
        "tool-errors",
    ]


@pytest.mark.parametrize("name", shipped_names())
def test_loops_only_grow(name: str) -> None:
    scenario = load(name)
    requests = scenario.loop().requests
    assert scenario.about.endswith(".")
    assert len(requests) >= 4
    for earlier, later in pairwise(requests):
        assert later.messages[: len(earlier.messages)] == earlier.messages
        assert later.tools == earlier.tools
    assert any(turn.expect for turn in scenario.turns)


def test_two_turns_with_one_call_each() -> None:
    loop = seed_loop().loop()
    roles = [[message["role"] for message in request.messages] for request in loop.requests]
    assert roles == [
        ["system", "user"],
        ["system", "user", "assistant", "tool"],
        ["system", "user", "assistant", "tool", "assistant", "user"],
        ["system", "user", "assistant", "tool", "assistant", "user", "assistant", "tool"],
    ]
    assert [message["content"] for message in loop.requests[-1].messages if message["role"] == "tool"] == ["4", "11"]
    assert [turn.expect for turn in seed_loop().turns if turn.expect] == ["4", "11"]


def test_what_the_others_are_about() -> None:
    thirty = load("long-session").loop().requests
    assert len(thirty) == 60
    assert thirty[-1].messages[-1]["content"] == "The number of this note is 7303."
    calls = [len(message.get("tool_calls", ())) for message in load("parallel-calls").loop().requests[-1].messages]
    assert calls.count(2) == 2
    assert all(request.think for request in load("thinking").loop().requests)
    assert load("no-system").loop().requests[0].messages[0]["role"] == "user"
    said = load("text-with-call").loop().requests[1].messages[2]
    assert said["content"]
    assert said["tool_calls"]


def test_tools_with_names_of_their_own() -> None:
    names = [tool["function"]["name"] for tool in seed_loop().definitions]
    assert len(set(names)) == len(names) == 19
    called = seed_loop().loop().requests[1].messages[2]["tool_calls"][0]["function"]["name"]
    assert called == names[0]


def test_the_same_every_time() -> None:
    assert json.dumps(seed_loop().loop().requests[-1].messages) == json.dumps(seed_loop().loop().requests[-1].messages)
    assert seed_loop().definitions == seed_loop().definitions


def test_sizes_can_be_set() -> None:
    small, large = seed_loop(3, 20, 50).loop(), seed_loop(3, 40, 100).loop()
    assert len(small.requests[0].tools) == len(large.requests[0].tools) == 4
    assert large.requests[0].messages[1:] == small.requests[0].messages[1:]
    assert len(seed_loop(0, 0, 0).definitions) == 1


@pytest.mark.parametrize("name", ["seed-loop", "no-system"])
def test_a_wanted_size(name: str) -> None:
    sizes = [
        len(json.dumps([r.messages, r.tools])) for r in (load(name).sized(n).loop().requests[0] for n in (1000, 32000))
    ]
    assert 24 < sizes[1] / sizes[0] < 40


def test_json_and_yaml_say_the_same(tmp_path: Path) -> None:
    yaml, other = tmp_path / "one.yaml", tmp_path / "two.json"
    yaml.write_text(
        TOOLS
        + 'system: Be brief.\nturns:\n  - user: "no"\n  - assistant: {calls: [{name: look, arguments: {at: 1.5}}]}\n'
        "  - tool: yes\n  - assistant: {text: 2026-11-29, expect: on}\n",
        encoding="utf-8",
    )
    tool = {"name": "look", "description": "Looks.", "parameters": {"properties": {"at": {"type": "string"}}}}
    other.write_text(
        json.dumps(
            {
                "tools": [{"type": "function", "function": tool}],
                "system": "Be brief.",
                "turns": [
                    {"user": "no"},
                    {"assistant": {"calls": [{"name": "look", "arguments": {"at": 1.5}}]}},
                    {"tool": "yes"},
                    {"assistant": {"text": "2026-11-29", "expect": "on"}},
                ],
            },
            indent="\t",
        ),
        encoding="utf-8",
    )
    one, two = read_scenario(yaml, "same"), read_scenario(other, "same")
    assert one == two
    assert one.turns[3].expect == "on"
    assert one.turns[1].message["tool_calls"][0]["function"]["arguments"] == {"at": 1.5}


def test_rounds_are_numbered(tmp_path: Path) -> None:
    path = tmp_path / "rounds.yaml"
    path.write_text("turns:\n- repeat: 2\n  turns:\n  - user: Note {n}?\n  - assistant: '{m} {n}'\n", encoding="utf-8")
    said = [turn.message["content"] for turn in read_scenario(path, "rounds").turns]
    assert said == ["Note 1?", "{m} 1", "Note 2?", "{m} 2"]


CALLS = TOOLS + "turns:\n  - user: x\n  - assistant: {calls: [{name: look%s}]}\n"
FAULTS = [
    (
        "turns:\n  - user: x\n    robot: y\n",
        "line 3, turns[0].robot: there is no such key here; there is user, assistant, tool and repeat",
    ),
    ("about: x\n", "line 1: turns are missing"),
    ("turns: x\n", "line 1, turns: a list belongs here"),
    ("- x\n", "line 1: a mapping belongs here, with about, system, think, tools, filler and turns"),
    ("turns:\n  - assistant: x\n", "line 1, turns: the first turn is the user's"),
    ("turns:\n  - user: 4\n", "line 2, turns[0].user: a text belongs here, in quotes"),
    ("turns:\n  - user: [x]\n", "line 2, turns[0].user: a text belongs here"),
    ("turns:\n  - user: x\n  - tool: x\n", "line 3, turns[1].tool: there is no call that this could be the result of"),
    ("think: yes\nturns: [{user: x}]\n", "line 1, think: true or false belongs here"),
    ("turns:\n  - repeat: 0\n    turns: []\n", "line 2, turns[0].repeat: a number from 1 to 1000 belongs here"),
    ("turns:\n  - repeat: 3\n", "line 2, turns[0]: turns are missing"),
    (
        "filler: {system_words: 9}\nturns: [{user: x}]\n",
        "line 1, filler: system_words need a system text to stand behind",
    ),
    ("filler: {tools: -1}\nturns: [{user: x}]\n", "line 1, filler.tools: a number from 0 to 500 belongs here"),
    ("tools: [{type: function}]\nturns: [{user: x}]\n", "line 1, tools[0]: a tool has a function"),
    (
        "turns:\n  - user: x\n  - assistant:\n      calls:\n        - name: look\n",
        "line 5, turns[1].assistant.calls[0].name: no tool of this scenario is called look",
    ),
    (CALLS % "" + "  - user: y\n", "line 7, turns[2].user: the call of look has no result yet"),
    (CALLS % "", "line 6, turns[1]: the call of look has no result behind it"),
    (CALLS % ", arguments: 3", "line 6, turns[1].assistant.calls[0].arguments: a mapping belongs here"),
    ("turns: [\n", "line 2: expected the node content, but found '<stream end>'"),
    ("a: &x 1\nturns: *x\n", "line 2: the alias *x is not taken"),
    ("turns: !!python/name:os.system x\n", "line 1: the tag tag:yaml.org,2002:python/name:os.system is not taken"),
    ("turns: 1\nturns: 2\n", "line 2: turns stands here twice"),
    ("1: x\n", "line 1: a key is text"),
    ("", "a mapping belongs here, with about, system, think, tools, filler and turns"),
]


@pytest.mark.parametrize(("text", "sentence"), FAULTS)
def test_what_is_wrong_is_shown_with_its_place(text: str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DocumentError) as caught:
        load(str(path))
    assert str(caught.value).removeprefix(str(path)).lstrip(",: ") == sentence


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"turns":\n [{"user": 3}]}', "line 2, turns[0].user: a text belongs here, in quotes"),
        ('{"turns": [\n}', "line 2: Expecting value"),
        ('{"turns": [], "turns": []}', "turns stands twice in one object"),
        ('{"turns": NaN}', "NaN is no JSON"),
    ],
)
def test_faults_in_json(text: str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DocumentError) as caught:
        load(str(path))
    assert str(caught.value).removeprefix(str(path)).lstrip(",: ") == sentence


def test_no_such_scenario(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match=r"^nowhere is neither a file nor a scenario .*; those are seed-loop, "):
        load("nowhere")
    deep, binary = tmp_path / "deep.yaml", tmp_path / "binary.yaml"
    deep.write_text("[" * 5_000, encoding="utf-8")
    with pytest.raises(DocumentError, match="nested too deeply"):
        load(str(deep))
    binary.write_bytes(b"turns: \xff")
    with pytest.raises(DocumentError, match="is not UTF-8: byte 7"):
        load(str(binary))
