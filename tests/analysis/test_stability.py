"""Rendering loops: what is kept, where the tail begins, how often the tools stand in a prompt."""

from __future__ import annotations

from typing import Any

import pytest

from templatefix.analysis.loops import TOOLS, Loop, assistant, core_loops, other_loops, requests_of, system, user
from templatefix.analysis.stability import LoopRun, common_prefix, run_loop
from templatefix.analysis.tools import tool_passes
from templatefix.chat.go import GoChatTemplate
from templatefix.chat.request import Request

CHAT = Loop(
    "chat", requests_of([user("one"), assistant("two"), user("three"), assistant("four"), user("five")], ()), True
)


def run(text: str, loop: Loop = CHAT) -> LoopRun:
    template = GoChatTemplate(text)
    return run_loop(template, loop, template.as_served)


def tail_of(text: str, index: int = 0) -> str:
    found = run(text)
    return "".join(piece.text for piece in found.steps[index].rendering.pieces[found.tails[index] :])


@pytest.mark.parametrize(
    ("a", "b", "size"), [(b"", b"x", 0), (b"abc", b"abd", 2), (b"ab", b"abc", 2), (b"abc", b"abc", 3)]
)
def test_common_prefix(a: bytes, b: bytes, size: int) -> None:
    assert common_prefix(a, b) == common_prefix(b, a) == size


def test_common_prefix_of_characters() -> None:
    assert common_prefix("naïve", "naïf") == 3


def test_kept_bytes_are_bytes() -> None:
    loop = Loop("x", requests_of([user("Größe"), assistant("ja"), user("18°")], ()), True)
    found = run("{{ range .Messages }}<{{ .Content }}>{{ end }}", loop)
    assert [step.prompt_bytes for step in found.steps] == [9, 19]
    assert [step.kept_bytes for step in found.steps] == [0, 9]


def test_a_header_behind_the_loop_is_tail() -> None:
    assert tail_of("{{ range .Messages }}<{{ .Content }}>{{ end }}<assistant>") == "<assistant>"


def test_a_header_of_the_last_message_is_tail() -> None:
    text = (
        '{{ range $i, $m := .Messages }}{{ if eq .Role "user" }}<{{ .Content }}>'
        "{{ if eq (len (slice $.Messages $i)) 1 }}[answer] {{ end }}{{ else }}[answer] {{ .Content }}{{ end }}{{ end }}"
    )
    assert tail_of(text) == "[answer] "
    assert run(text).lost == ()


def test_words_before_the_end_of_the_message_are_no_tail() -> None:
    gate = "{{ if eq (len (slice $.Messages $i)) 1 }} /hush{{ end }}"
    text = "{{ range $i, $m := .Messages }}{{ .Content }}" + gate + "</m>{{ end }}"
    assert tail_of(text) == ""
    assert run(text).lost == (1, 2)


def test_tools_behind_all_messages_are_lost() -> None:
    loop = core_loops()[0]
    found = run("{{ range .Messages }}<{{ .Content }}>{{ end }}{{ .Tools }}", loop)
    assert found.lost == tuple(range(len(loop.requests)))
    assert all(step.tools == 1 for step in found.steps)


def test_an_error_ends_a_loop() -> None:
    found = run('{{ range .Messages }}{{ if eq .Role "assistant" }}{{ .Nope }}{{ end }}{{ .Content }}{{ end }}')
    assert len(found.steps) == 1
    assert found.error is not None
    assert "can't evaluate field Nope" in found.error.message


@pytest.mark.parametrize(
    ("printed", "count"),
    [
        ("{{ .Tools }}", 1),
        ("{{ json .Tools }}{{ range .Tools }}{{ . }}{{ end }}", 2),
        ("{{ range .Tools }}{{ json .Function }}{{ end }}", 1),
        ("{{ range .Tools }}{{ .Function }}{{ end }}", 1),
        ("{{ range .Tools }}{{ .Function.Name }}: {{ json .Function.Parameters }}{{ end }}", 1),
        (
            "{{ range .Tools }}{{ .Function.Name }}("
            "{{ range $k, $v := .Function.Parameters.Properties }}{{ $k }},{{ end }}){{ end }}",
            1,
        ),
        # a list of names, or of names and descriptions, tells nothing of how to call
        ("{{ range .Tools }}{{ .Function.Name }} {{ end }}", 0),
        ("{{ range .Tools }}{{ .Function.Name }}: {{ .Function.Description }}{{ end }}", 0),
        ("{{ json .Tools }}{{ range .Tools }}{{ .Function.Name }} {{ end }}", 1),
        # the first tool only
        ("{{ range $i, $t := .Tools }}{{ if eq $i 0 }}{{ . }}{{ end }}{{ end }}", 0),
        # put together in a variable first
        ('{{ $s := "" }}{{ range .Tools }}{{ $s = print $s (json .) }}{{ end }}{{ $s }}', 1),
        ('{{ printf "%s" (json .Tools) }}', 1),
    ],
)
def test_passes_over_the_tools(printed: str, count: int) -> None:
    request = Request((user("hi"),), TOOLS)
    rendering = GoChatTemplate(printed + "{{ range .Messages }}{{ .Content }}{{ end }}").render(request)
    assert len(tool_passes(rendering, request)) == count


def test_a_call_is_no_definition() -> None:
    request = core_loops()[2].requests[1]
    text = (
        "{{ range .Messages }}{{ range .ToolCalls }}"
        "{{ $c := print .Function.Name (json .Function.Arguments) }}{{ $c }}{{ end }}"
        "{{ end }}"
    )
    assert tool_passes(GoChatTemplate(text).render(request), request) == ()


def test_loops_only_grow() -> None:
    for loop in (*core_loops(), *other_loops()):
        if loop.name == "cut-history":
            continue
        for before, after in zip(loop.requests, loop.requests[1:], strict=False):
            assert after.messages[: len(before.messages)] == before.messages
            assert len(after.messages) > len(before.messages)
            assert after.tools == before.tools


def test_core_loops_are_what_the_contract_calls_so() -> None:
    for loop in core_loops():
        roles = [str(message["role"]) for message in loop.requests[-1].messages]
        assert loop.core
        assert "system" not in roles[1:]
        assert set(roles) <= {"system", "user", "assistant", "tool"}
        assert all(request.messages[-1]["role"] in ("user", "tool") for request in loop.requests)
        assert not any("thinking" in message for message in loop.requests[-1].messages)


def test_the_set_holds_what_it_has_to() -> None:
    names = {loop.name for loop in core_loops()}
    turns: dict[str, int] = {
        loop.name: sum(m["role"] == "user" for m in loop.requests[-1].messages) for loop in core_loops()
    }
    assert turns["long"] >= 30
    assert {"no-system", "parallel-calls", "tool-error", "text-with-call", "same-text"} <= names
    cut = next(loop for loop in other_loops() if loop.name == "cut-history")
    last: tuple[Any, ...] = cut.requests[-1].messages
    assert [m["role"] for m in last] == ["system", "assistant", "tool"]
    assert system()["role"] == "system"
