"""Tools that are moved stand in every prompt, whatever a message says: else there is no variant."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from templatefix.analysis.loops import assistant, call, requests_of, result, system, user
from templatefix.chat.go import GoChatTemplate
from templatefix.chat.jinja import JinjaChatTemplate
from templatefix.chat.rendering import ChatTemplate
from templatefix.chat.request import Request
from templatefix.rewrite.conversations import odd_loops
from templatefix.rewrite.patch import patch
from templatefix.rewrite.proof import Baseline, prove
from templatefix.rewrite.result import PatchResult

TOOL = {
    "type": "function",
    "function": {
        "name": "look_up",
        "description": "Looks something up.",
        "parameters": {"type": "object", "properties": {"what": {"type": "string"}}},
    },
}
JINJA = (
    "@before@{% for message in messages %}@set@{% if @outer@message.role == 'user' %}@tools@"
    "[INST]{{ message.content }}[/INST]{% elif message.role == 'tool' %}[RES]{{ message.content }}[/RES]"
    "{% elif message.tool_calls %}{% for c in message.tool_calls %}"
    "[CALL]{{ c.function.name }} {{ c.function.arguments | tojson }}[/CALL]{% endfor %}{{ message.content or '' }}</s>"
    "{% elif message.role == 'assistant' %}{{ message.content }}</s>{% else %}[SYS]{{ message.content }}[/SYS]"
    "{% endif %}{% endfor %}"
)
GO = (
    "@before@{{ range $i, $_ := .Messages }}@set@{{ if @outer@ }}@tools@[INST]{{ .Content }}[/INST]"
    '{{ else if eq .Role "tool" }}[RES]{{ .Content }}[/RES]{{ else if eq .Role "system" }}[SYS]{{ .Content }}[/SYS]'
    "{{ else if .ToolCalls }}{{ range .ToolCalls }}[CALL]{{ .Function.Name }} {{ .Function.Arguments }}[/CALL]{{ end }}"
    "{{ .Content }}</s>{{ else }}{{ .Content }}</s>{{ end }}{{ end }}"
)
JINJA_LAST, GO_LAST = "loop.last", "(eq (len (slice $.Messages $i)) 1)"
JINJA_TEXTS = (
    "message.content",
    "message.content != 'zzz'",
    "'zzz' not in message.content",
    "message.content | trim | length > 1",
    "message['content'] is not none and message['content'] != 'zzz'",
    "said",
    "ns.said",
)
GO_TEXTS = (
    ".Content",
    '(ne .Content "zzz")',
    "(gt (len .Content) 1)",
    "(not .Images)",
    '(or .Images (ne .Content "zzz"))',
    "$said",
    "$kept",
)


def jinja(text: str, shape: str) -> str:
    """A template whose tools stand with the last message, if its text is as wanted."""
    tools = "[TOOLS]{{ tools | tojson }}[/TOOLS]"
    either = f"{{% if {text} %}}{tools}{{% else %}} {tools}{{% endif %}}"
    gates = {
        "and": f"{{% if tools and {JINJA_LAST} and {text} %}}{tools}{{% endif %}}",
        "first": f"{{% if {text} and tools and {JINJA_LAST} %}}{tools}{{% endif %}}",
        "brackets": f"{{% if tools and ({JINJA_LAST} and {text}) %}}{tools}{{% endif %}}",
        "or": f"{{% if tools and ({JINJA_LAST} or not ({text})) %}}{tools}{{% endif %}}",
        "within": f"{{% if tools and {JINJA_LAST} %}}{{% if {text} %}}{tools}{{% endif %}}{{% endif %}}",
        "around": f"{{% if {text} %}}{{% if tools and {JINJA_LAST} %}}{tools}{{% endif %}}{{% endif %}}",
        "else": f"{{% if not ({text}) %}}{{% elif tools and {JINJA_LAST} %}}{tools}{{% endif %}}",
        "outer": f"{{% if tools and {JINJA_LAST} %}}{tools}{{% endif %}}",
        "arms": f"{{% if tools and {JINJA_LAST} %}}{either}{{% endif %}}",
    }
    put = "{% set said = message.content != 'zzz' %}{% set ns.said = false %}"
    put += "{% if message.content %}{% set ns.said = true %}{% endif %}"
    made = JINJA.replace("@before@", "{% set ns = namespace(said=true) %}").replace("@set@", put)
    return made.replace("@outer@", f"{text} and " if shape == "outer" else "").replace("@tools@", gates[shape])


def go(text: str, shape: str) -> str:
    """The same in Go."""
    tools = "[TOOLS]{{ $.Tools }}[/TOOLS]"
    either = f"{{{{ if {text} }}}}{tools}{{{{ else }}}} {tools}{{{{ end }}}}"
    gates = {
        "and": f"{{{{ if and $.Tools {GO_LAST} {text} }}}}{tools}{{{{ end }}}}",
        "first": f"{{{{ if and {text} $.Tools {GO_LAST} }}}}{tools}{{{{ end }}}}",
        "brackets": f"{{{{ if and $.Tools (and {GO_LAST} {text}) }}}}{tools}{{{{ end }}}}",
        "or": f"{{{{ if and $.Tools (or {GO_LAST} (not {text})) }}}}{tools}{{{{ end }}}}",
        "within": f"{{{{ if and $.Tools {GO_LAST} }}}}{{{{ if {text} }}}}{tools}{{{{ end }}}}{{{{ end }}}}",
        "around": f"{{{{ if {text} }}}}{{{{ if and $.Tools {GO_LAST} }}}}{tools}{{{{ end }}}}{{{{ end }}}}",
        "else": f"{{{{ if not {text} }}}}{{{{ else if and $.Tools {GO_LAST} }}}}{tools}{{{{ end }}}}",
        "outer": f"{{{{ if and $.Tools {GO_LAST} }}}}{tools}{{{{ end }}}}",
        "arms": f"{{{{ if and $.Tools {GO_LAST} }}}}{either}{{{{ end }}}}",
    }
    put = '{{ $said := ne .Content "zzz" }}{{ $kept = false }}{{ if .Content }}{{ $kept = true }}{{ end }}'
    made = GO.replace("@before@", "{{ $kept := true }}").replace("@set@", put)
    outer = f'and (eq .Role "user") {text}' if shape == "outer" else 'eq .Role "user"'
    return made.replace("@outer@", outer).replace("@tools@", gates[shape])


SHAPES = ("and", "first", "brackets", "or", "within", "around", "else", "outer", "arms")
PLACEMENTS = ("system", "first-user")


def of(kind: str, text: str) -> ChatTemplate:
    return GoChatTemplate(text) if kind == "go" else JinjaChatTemplate(text)


@cache
def patched(kind: str, text: str, placement: Any) -> PatchResult:
    return patch(of(kind, text), placement=placement)


@st.composite
def gates(draw: st.DrawFn) -> tuple[str, str]:
    kind = draw(st.sampled_from(("go", "jinja")))
    texts, make = (GO_TEXTS, go) if kind == "go" else (JINJA_TEXTS, jinja)
    return kind, make(draw(st.sampled_from(texts)), draw(st.sampled_from(SHAPES)))


@st.composite
def conversations(draw: st.DrawFn) -> tuple[Request, ...]:
    texts = st.one_of(st.sampled_from(("", " \n", "zzz", "a zzz", "no")), st.text("abz ", max_size=4))
    messages = [system(draw(texts))] if draw(st.booleans()) else []
    for _ in range(draw(st.integers(1, 3))):
        messages.append(user(draw(texts)))
        if draw(st.booleans()):
            messages += [assistant("", call("look_up", what=draw(texts))), result("look_up", draw(texts))]
        messages.append(assistant(draw(texts)))
    return requests_of([*messages, user(draw(texts))], (TOOL,))


@settings(max_examples=25, deadline=None)
@given(gate=gates(), placement=st.sampled_from(PLACEMENTS), talks=st.lists(conversations(), min_size=8, max_size=8))
def test_the_tools_stand_once_in_every_prompt_or_there_is_no_variant(
    gate: tuple[str, str], placement: str, talks: list[tuple[Request, ...]]
) -> None:
    kind, text = gate
    made = patched(kind, text, placement)
    if not made.changed:
        assert made.refused
        return
    variant = of(kind, made.template)
    for request in (request for requests in talks for request in requests):
        assert variant.render(request).text.count("[TOOLS]") == 1


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize(
    ("kind", "text"),
    [
        *[pytest.param("jinja", jinja(text, "and"), id=f"jinja {text}") for text in JINJA_TEXTS[:3]],
        *[pytest.param("go", go(text, "and"), id=f"go {text}") for text in (*GO_TEXTS[:2], "$said")],
    ],
)
def test_what_asks_for_a_text_is_dropped_from_the_condition_of_moved_tools(
    kind: str, text: str, placement: str
) -> None:
    made = patched(kind, text, placement)
    assert made.changed, made.refused
    assert made.placement == placement
    assert made.proof.holds
    variant = of(kind, made.template)
    for first in ("", "zzz", " "):
        for request in requests_of([user(first), assistant("ok"), user("next"), assistant("ok"), user("")], (TOOL,)):
            assert variant.render(request).text.count("[TOOLS]") == 1


def test_the_proof_refuses_tools_that_a_text_takes_away() -> None:
    finds = (
        "{% set first = namespace(at=-1) %}{% for m in messages %}{% if first.at < 0 and m.role == 'user' %}"
        "{% set first.at = loop.index0 %}{% endif %}{% endfor %}",
        '{{ $at := -1 }}{{ range $n, $m := .Messages }}{{ if and (lt $at 0) (eq $m.Role "user") }}'
        "{{ $at = $n }}{{ end }}{{ end }}",
    )
    firsts, lasts = ("loop.index0 == first.at", "(eq $i $at)"), (JINJA_LAST, GO_LAST)
    texts = (jinja("message.content != 'zzz'", "and"), go('(ne .Content "zzz")', "and"))
    for kind, text, find, last, first in zip(("jinja", "go"), texts, finds, lasts, firsts, strict=True):
        proof = prove(Baseline(of(kind, text), generated=3), of(kind, find + text.replace(last, first)))
        said = "whether the tools stand depends on what a message says, line 1 of the variant"
        assert proof.failure == f"tools_once: {said}"


def test_odd_loops_begin_with_nothing_white_space_and_an_image_alone() -> None:
    opening = [loop.requests[0].messages[-1] for loop in odd_loops(True) if loop.name.endswith("at the start")]
    assert [each["content"].strip() for each in opening] == ["", "", ""]
    assert [bool(each.get("images")) for each in opening] == [False, False, True]
    assert not any("images" in message for loop in odd_loops(False) for message in loop.requests[-1].messages)
