"""Jinja texts in force on an Ollama server; what a prompt is was seen on a live one (0.33)."""

from __future__ import annotations

import pytest
from support.families import QWEN3

from templatefix.analysis.loops import thinking_loop
from templatefix.chat.ollama_jinja import OllamaJinjaTemplate
from templatefix.chat.ollama_native import as_native
from templatefix.chat.request import Request, RequestError

TURNS = "{% for m in messages %}{{ bos_token }}{{ m.role }}:{{ m.content }}{{ eos_token }}{% endfor %}"
CHAT = Request(
    ({"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}, {"role": "user", "content": "r"})
)
THOUGHTS = thinking_loop(core=True).requests[-1]


@pytest.mark.parametrize(
    ("ends", "prompt"),
    [
        ((False, False), "$user:q%$assistant:a%$user:r%"),
        ((True, False), "user:q%$assistant:a%$user:r%"),
        ((True, True), "user:q%$assistant:a%$user:r"),
    ],
)
def test_a_token_that_the_vocabulary_puts_there_is_taken_off(ends: tuple[bool, bool], prompt: str) -> None:
    template = OllamaJinjaTemplate(TURNS, bos="$", eos="%", ends=ends)
    for each in (template, OllamaJinjaTemplate("-", bos="$", eos="%", ends=ends).with_text(TURNS)):
        rendering = each.render(each.as_served(CHAT))
        assert rendering.text == prompt
        assert [piece.text for piece in rendering.pieces if piece.origin and piece.origin.field == "content"] == [
            *"qar"
        ]


def test_thoughts_are_no_part_of_any_piece() -> None:
    template = OllamaJinjaTemplate(QWEN3, thinks=True)
    pieces = template.render(template.as_served(THOUGHTS)).pieces
    fields = {piece.origin.field for piece in pieces if piece.origin is not None}
    assert {"content", "tool_calls"} <= fields
    assert "thinking" not in fields


def test_a_request_is_the_same_when_it_is_handed_on_again() -> None:
    once = as_native(THOUGHTS)
    assert as_native(once) == once
    assert as_native(THOUGHTS, kept=len(THOUGHTS.messages)).messages[2]["thinking"] == THOUGHTS.messages[2]["thinking"]


def test_a_level_of_thinking_is_that_of_the_client_alone() -> None:
    template = OllamaJinjaTemplate("{{ enable_thinking }} {{ reasoning_effort }}", thinks=True)

    def prompt(request: Request) -> str:
        return template.render(template.as_served(request)).text

    asked = CHAT.messages[:1]
    assert prompt(Request(asked)) == "True "
    assert prompt(Request(asked, think=False)) == "False "
    assert prompt(Request(asked, think=True, think_level="low")) == "True low"


def test_arguments_may_come_as_text_but_not_as_a_list() -> None:
    def called(arguments: object) -> Request:
        call = {"function": {"name": "f", "arguments": arguments}}
        return Request(({"role": "assistant", "content": "", "tool_calls": [call]},))

    assert as_native(called('{"b": {"d": 1, "c": 2.0}}')) == as_native(called({"b": {"d": 1, "c": 2}}))
    for wrong in ("[1]", "{", [1]):
        with pytest.raises(RequestError, match="a tool call's arguments"):
            as_native(called(wrong))
