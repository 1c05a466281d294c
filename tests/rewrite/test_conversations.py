"""Variants on conversations that no proof has seen: made by hypothesis, and by other seeds of the generator."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from templatefix.analysis.loops import requests_of
from templatefix.chat.go import GoChatTemplate
from templatefix.chat.request import Request
from templatefix.rewrite.conversations import generated_chats, generated_loop
from templatefix.rewrite.patch import patch
from templatefix.rewrite.proof import Baseline, prove

LAYOUTS = Path(__file__).parent / "layouts"
NAMES = sorted(path.stem for path in LAYOUTS.glob("*.tmpl"))

texts = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=12)
words = st.text(alphabet="abcdefgh_", min_size=1, max_size=8)


@st.composite
def tool(draw: st.DrawFn) -> dict[str, Any]:
    names = draw(st.lists(words, min_size=1, max_size=2))
    properties = {name: {"type": "string", "description": draw(texts)} for name in names}
    parameters = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": draw(words), "description": draw(texts), "parameters": parameters}}


@st.composite
def conversations(draw: st.DrawFn) -> tuple[Request, ...]:
    tools = draw(st.lists(tool(), min_size=1, max_size=2))
    messages: list[dict[str, Any]] = []
    if draw(st.booleans()):
        messages.append({"role": "system", "content": draw(texts)})
    for _ in range(draw(st.integers(1, 3))):
        messages.append({"role": "user", "content": draw(texts)})
        for _ in range(draw(st.integers(0, 2))):
            calls = [
                {"function": {"name": draw(words), "arguments": draw(st.dictionaries(words, texts, max_size=2))}}
                for _ in range(draw(st.integers(1, 2)))
            ]
            messages.append({"role": "assistant", "content": draw(st.sampled_from(["", "so"])), "tool_calls": calls})
            messages += [{"role": "tool", "tool_name": "f", "content": draw(texts)} for _ in calls]
        messages.append({"role": "assistant", "content": draw(texts)})
    messages.append({"role": "user", "content": draw(texts)})
    return requests_of(messages, tools)


@cache
def pair(name: str, placement: Any) -> tuple[GoChatTemplate, GoChatTemplate]:
    original = GoChatTemplate((LAYOUTS / f"{name}.tmpl").read_text(encoding="utf-8"))
    return original, GoChatTemplate(patch(original, placement=placement).template)


def head(template: GoChatTemplate, request: Request) -> str:
    """A prompt up to the end of what its last message prints; the tail is text of the template alone."""
    pieces = template.render(request).pieces
    last = max(index for index, piece in enumerate(pieces) if piece.origin is not None and piece.text)
    return "".join([piece.text for piece in pieces[: last + 1]])


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=15, deadline=None)
@given(requests=conversations())
def test_prompts_only_grow(name: str, requests: tuple[Request, ...]) -> None:
    _, variant = pair(name, "system")
    for before, after in pairwise(requests):
        assert variant.render(after).text.startswith(head(variant, before))


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=15, deadline=None)
@given(requests=conversations())
def test_without_tools_every_byte_is_as_it_was(name: str, requests: tuple[Request, ...]) -> None:
    original, variant = pair(name, "system")
    for request in requests:
        plain = Request(request.messages)
        assert variant.render(plain).data == original.render(plain).data


@pytest.mark.parametrize("name", NAMES)
def test_other_seeds_prove_it_as_well(name: str) -> None:
    original, variant = pair(name, "system")
    result = patch(original)
    proof = prove(
        Baseline(original, generated=12, seed=500),
        variant,
        dropped=result.dropped_text,
        added=result.added_text,
        patch_again=lambda _: False,
    )
    assert proof.holds, proof.failure


def test_the_same_seed_makes_the_same_conversation() -> None:
    assert generated_loop(7) == generated_loop(7)
    assert generated_loop(7) != generated_loop(8)
    assert generated_chats(3) == generated_chats(3)
    assert all(not request.tools for request in generated_chats(20))


def test_generated_loops_grow_and_keep_their_tools() -> None:
    for seed in range(20):
        requests = generated_loop(seed).requests
        assert requests[0].tools
        for before, after in pairwise(requests):
            assert after.messages[: len(before.messages)] == before.messages
            assert after.tools == before.tools
