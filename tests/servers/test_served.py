"""What the server makes of a request before its template sees it; the cases are a live server's."""

from __future__ import annotations

from typing import Any

import pytest

from templatefix.chat.request import Request
from templatefix.servers.served import as_served
from templatefix.servers.shown import Shown, is_jinja

USER = {"role": "user", "content": "q"}
OWN = {"role": "system", "content": "own"}
TAGS = {"role": "system", "content": "of the tag"}
HI = {"role": "user", "content": "hi"}


@pytest.mark.parametrize(
    ("fields", "messages", "expected"),
    [
        ({}, [USER], [USER]),
        ({"system": "of the tag"}, [USER], [TAGS, USER]),
        ({"system": "of the tag"}, [OWN, USER], [OWN, USER]),
        ({"system": "of the tag"}, [USER, OWN], [TAGS, USER, OWN]),
        ({"messages": (HI,)}, [USER], [HI, USER]),
        ({"system": "of the tag", "messages": (HI,)}, [USER], [TAGS, HI, USER]),
        ({"system": "of the tag", "messages": (HI,)}, [OWN, USER], [HI, OWN, USER]),
    ],
)
def test_the_tags_own_messages(fields: dict[str, Any], messages: list[Any], expected: list[Any]) -> None:
    served = as_served(Request(tuple(messages)), Shown("m", "x", **fields))
    assert list(served.messages) == expected


@pytest.mark.parametrize(
    ("thinks", "think", "level", "expected"),
    [
        (True, None, "", (True, "medium")),
        (True, True, "", (True, "medium")),
        (True, False, "", (False, "")),
        (True, None, "low", (True, "low")),
        (False, None, "", (None, "")),
        (False, False, "", (False, "")),
    ],
)
def test_thinking(thinks: bool, think: bool | None, level: str, expected: tuple[bool | None, str]) -> None:
    shown = Shown("m", "x", capabilities=("completion", "thinking") if thinks else ("completion",))
    served = as_served(Request((USER,), think=think, think_level=level), shown)
    assert (served.think, served.think_level) == expected


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("<think>a</think>b", "b"),
        ("\n <think>a</think>\n\nb\n", "b\n"),
        ("<think>a</think>b</think>c", "b</think>c"),
        ("<think>never closed", ""),
        ("<thi", ""),
        ("  ", ""),
        (" b <think>a</think>", " b <think>a</think>"),
    ],
)
@pytest.mark.parametrize(
    ("name", "family", "forgets"),
    [("deepseek-r1:8b", "qwen2", True), ("x", "qwen3", True), ("x", "qwen2", False), ("deepseek-r1-x", "llama", False)],
)
def test_earlier_thinking(content: str, expected: str, name: str, family: str, forgets: bool) -> None:
    said = {"role": "assistant", "content": content}
    shown = Shown(name, "x", details={"family": family})
    served = as_served(Request((USER, said, USER, said)), shown)
    texts = [message["content"] for message in served.messages]
    assert texts == ["q", expected if forgets else content, "q", content]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{% for m in messages %}{{ m['content'] }}{% endfor %}", True),
        ("{# a note #}{{ messages[0].content }}", True),
        ("{%- if x %}a{% endif %}", True),
        ("{{ .Prompt }}", False),
        ("{% not Jinja: {{ .Prompt }}", False),
        ("{{ nosuch }}", False),
    ],
)
def test_jinja_is_known(text: str, expected: bool) -> None:
    assert is_jinja(text) is expected


def test_instructions_are_found_beside_texts_that_look_like_them() -> None:
    modelfile = 'FROM /s/blobs/sha256-0\nTEMPLATE R\nSYSTEM "a\nPARSER sly\n"\nRENDERER cogito\nPARSER none\n'
    shown = Shown("m", "R", modelfile, system="a\nPARSER sly\n")
    assert (shown.instruction("RENDERER"), shown.instruction("PARSER")) == ("cogito", "none")
