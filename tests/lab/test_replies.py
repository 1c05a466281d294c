"""What lies between two requests: the reply in the cache and what is new."""

from __future__ import annotations

import pytest

from templatefix.chat.rendering import Origin, Piece, Rendering
from templatefix.chat.request import Request
from templatefix.gotemplate.source import Span
from templatefix.lab.replies import new_ranges, reply_index, reply_text

NOWHERE = Span(0, 0)


def rendering(*pieces: tuple[str, int | None] | tuple[str, int | None, str]) -> Rendering:
    """Pieces as (text, message) for the template's own text, (text, message, kind) for data."""
    made = []
    for text, message, *kind in pieces:
        origin = Origin(kind[0], 0, "content") if kind else None  # type: ignore[arg-type]
        made.append(Piece(text, NOWHERE, origin, message))
    return Rendering(tuple(made))


def request(*roles: str) -> Request:
    return Request(tuple({"role": role, "content": "x"} for role in roles))


@pytest.mark.parametrize(
    ("before", "after", "index"),
    [
        (("user",), ("user", "assistant", "tool"), 1),
        (("system", "user"), ("system", "user", "assistant", "user"), 2),
        (("user",), ("user", "user"), None),
        (("user",), ("user",), None),
    ],
)
def test_which_message_is_the_reply(before: tuple[str, ...], after: tuple[str, ...], index: int | None) -> None:
    assert reply_index(request(*before), request(*after)) == index


def test_a_prompt_that_goes_on() -> None:
    before = rendering(("<u>", 0), ("hi", 0, "message"), ("<a>", None))
    after = rendering(
        ("<u>", 0),
        ("hi", 0, "message"),
        ("<a>", 1),
        ("yes", 1, "message"),
        ("<e>", 1),
        ("<u>", 2),
        ("go", 2, "message"),
    )
    assert reply_text(before, after, 1) == "yes<e>"


def test_a_prompt_whose_head_has_moved() -> None:
    before = rendering(("<u>", 0), ("tools", 0, "tools"), ("hi", 0, "message"), ("<a>", 0))
    after = rendering(("<u>", 0), ("hi", 0, "message"), ("<a>", 1), ("yes", 1, "message"), ("<e>", 1), ("<u>", 2))
    assert reply_text(before, after, 1) == "yes<e>"


def test_a_tail_that_is_no_part_of_the_turn() -> None:
    before = rendering(("[INST]", 0), ("hi", 0, "message"), ("[/INST]", 0))
    after = rendering(("[INST]", 0), ("hello", 0, "message"), ("[/INST]", 0), (" yes", 1, "message"), ("</s>", 1))
    assert reply_text(before, after, 1) == " yes</s>"


def test_a_tail_longer_than_the_header_in_history() -> None:
    before = rendering(("hi", 0, "message"), ("<e>\n<|assistant|>\n\n", 0))
    after = rendering(("hi", 0, "message"), ("<e>\n", 0), ("<|assistant|>\n", 1), ("yes", 1, "message"), ("<e>", 1))
    assert reply_text(before, after, 1) == "yes<e>"


def test_a_tail_that_begins_with_what_ends_it() -> None:
    before = rendering(("hi", 0, "message"), ("<e>", 0), ("\n<|assistant|>\n", None))
    after = rendering(("hi", 0, "message"), ("<e>", 0), ("\n<|assistant|>", 1), ("yes", 1, "message"), ("<e>", 1))
    assert reply_text(before, after, 1) == "yes<e>"


def test_special_tokens_are_not_cut() -> None:
    before = rendering(("hi", 0, "message"), ("<|bot|><|start_answer|>", None))
    after = rendering(("hi", 0, "message"), ("<|bot|><|start_action|>", 1), ("run", 1, "message"), ("<e>", 1))
    assert reply_text(before, after, 1) == "<|start_action|>run<e>"


def test_a_reply_that_is_dropped() -> None:
    before = rendering(("hi", 0, "message"), ("<a>", None))
    after = rendering(("hi", 0, "message"), ("<t>", 2), ("4", 2, "message"), ("<a>", None))
    assert reply_text(before, after, 1) == ""


def test_new_is_what_belongs_to_later_messages_and_the_tail() -> None:
    after = rendering(
        ("<s>", None),
        ("sys", None, "system"),
        ("<u>", 0),
        ("hé", 0, "message"),
        ("<a>", 1),
        ("yes", 1, "message"),
        ("<u>", 2),
        ("tools", 2, "tools"),
        ("gö", 2, "message"),
        ("<a>", None),
    )
    data = after.data
    assert [data[start:end].decode() for start, end in new_ranges(after, 2)] == ["<u>", "gö<a>"]


def test_template_text_between_turns_is_not_new() -> None:
    after = rendering(
        ("<u>", 0), ("hi", 0, "message"), ("--", None), ("yes", 1, "message"), ("go", 2, "message"), ("", None)
    )
    assert new_ranges(after, 2) == [(10, 12)]


def test_a_prompt_without_messages_has_no_tail() -> None:
    assert new_ranges(rendering(("only the tools: ", None), ("tools", None, "tools"), (".", None)), 1) == []
