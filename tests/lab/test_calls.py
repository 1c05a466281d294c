"""Generated texts as messages, arguments against their schema, and grammars."""

from __future__ import annotations

from typing import Any

import pytest

from templatefix.analysis.loops import call
from templatefix.lab.calls import Tags, fits, json_objects, read_reply

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "parameters": {
                "type": "object",
                "required": ["path"],
                "properties": {
                    "path": {"type": "string"},
                    "lines": {"type": "integer"},
                    "mode": {"type": "string", "enum": ["r", "w"]},
                },
            },
        },
    }
    for name in ("read", "read_all")
]
READ = [call("read", path="a")]


@pytest.mark.parametrize(
    ("tag", "text", "content", "calls"),
    [
        ("{", '{"name": "read", "parameters": {"path": "a"}}', "", READ),
        ("{", ' {"name": "read", "arguments": {"path": "a"}} and more', "", READ),
        ("{", 'I call {"name": "read", "parameters": {"path": "a"}}', None, []),
        ("{", '{"name": "write", "parameters": {"path": "a"}}', None, []),
        ("{", '{"name": "read", "parameters": {"path": "a"', None, []),
        ("[", '[{"name": "read", "arguments": {"path": "a"}}]', "", READ),
        ("<call>", 'Let me.\n<call>\n{"name": "read", "arguments": {"path": "a"}}\n</call>', "Let me.", READ),
        ("<call>", '{"name": "read", "arguments": {"path": "a"}}', None, []),
        ("[CALLS] [", '[CALLS] [{"name": "read", "arguments": {"path": "a"}}]', "", READ),
        ("[CALLS] [", '[CALLS][{"name": "read", "arguments": {"path": "a"}}]', None, []),
        ("[CALLS]", '[CALLS]read_all{"path": "a"}', "", [call("read_all", path="a")]),
        (
            "[CALLS]",
            '[CALLS] [{"name": "read", "arguments": {"path": "a"}}, {"name": "read_all", "arguments": {"path": "b"}}]',
            "",
            [*READ, call("read_all", path="b")],
        ),
        ("<call>", "<call>nothing</call>", "", []),
    ],
)
def test_calls_are_read_from_the_tag_on(tag: str, text: str, content: str | None, calls: list[Any]) -> None:
    message = read_reply(text, Tags(tag), TOOLS)
    assert message.get("tool_calls", []) == calls
    assert message["content"] == (text.strip() if content is None else content)


def test_without_tools_there_are_no_calls() -> None:
    text = '{"name": "read", "parameters": {"path": "a"}}'
    assert read_reply(text, Tags("{"), []) == {"role": "assistant", "content": text}


@pytest.mark.parametrize(
    ("prompt", "text", "thinking", "content"),
    [
        ("…<bot>", "<think>\nHm.\n</think>\n\nYes.", "Hm.", "Yes."),
        ("…<bot><think>\n", "Hm.</think>Yes.", "Hm.", "Yes."),
        ("…<bot>", "Yes. <think>", "", "Yes. <think>"),
        ("…<bot>", "<think>Hm", "Hm", ""),
    ],
)
def test_thinking_is_told_apart(prompt: str, text: str, thinking: str, content: str) -> None:
    message = read_reply(text, Tags("{", "<think>", "</think>"), TOOLS, prompt)
    assert (message.get("thinking", ""), message["content"]) == (thinking, content)


@pytest.mark.parametrize(
    ("arguments", "valid"),
    [
        ({"path": "a"}, True),
        ({"path": "a", "lines": 3, "mode": "r"}, True),
        ({}, False),
        ({"path": 3}, False),
        ({"path": "a", "lines": True}, False),
        ({"path": "a", "lines": 1.5}, False),
        ({"path": "a", "mode": "x"}, False),
        ({"path": "a", "other": 1}, False),
    ],
)
def test_arguments_against_the_tool(arguments: dict[str, Any], valid: bool) -> None:
    assert fits(call("read", **arguments), TOOLS) is valid


def test_objects_of_a_text() -> None:
    text = 'x {"a": {"b": "}"}} {no} {"c": 1}'
    assert [(text[start:end], value) for start, value, end in json_objects(text)] == [
        ('{"a": {"b": "}"}}', {"a": {"b": "}"}}),
        ('{"c": 1}', {"c": 1}),
    ]
