"""Jinja templates repaired: objects that are no JSON, several calls in a turn that are turned away."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from templatefix.analysis.analyse import analyse
from templatefix.analysis.loops import TOOLS, assistant, call, result, system, user
from templatefix.chat.jinja import JinjaChatTemplate
from templatefix.chat.jinja_values import Caps
from templatefix.chat.rendering import RenderError
from templatefix.chat.request import Request
from templatefix.gotemplate.source import Source, Span
from templatefix.rewrite.jinja_calls import calls_apart, first_calls
from templatefix.rewrite.jinja_objects import same_but_json
from templatefix.rewrite.jinja_patch import patch_jinja
from templatefix.rewrite.jinja_tags import JinjaTags
from templatefix.rewrite.proof import NAMES
from templatefix.rewrite.result import PatchResult

JSON_CALLS = "{% for c in m.tool_calls or [] %}[{{ c.function.name }} {{ c.function.arguments | tojson }}]{% endfor %}"
HEAD = "{% if tools %}<tools>{{ tools | tojson }}</tools>{% endif %}"
GUARD = """\
{%- if tools %}<tools>{{ tools | tojson }}</tools>{% endif %}
{%- for m in messages %}
    {%- if 'tool_calls' in m %}
        {%- if m.tool_calls | length != 1 %}
            {{- raise_exception('One call at a time.') }}
        {%- endif %}
        {%- set f = m.tool_calls[0].function %}
        {{- '<assistant>' + f.name + ' ' }}
        {{- f.arguments | tojson }}
        {{- '</assistant>' }}
    {%- else %}
        {{- '<' + m.role + '>' + m.content + '</' + m.role + '>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<assistant>' }}{%- endif %}
"""
CHOICE = """\
{% if tools %}<tools>{{ tools | tojson }}</tools>{% endif %}
{% for m in messages %}
{% if m['tool_calls'] %}
{% if m['tool_calls'] | length == 1 %}
<assistant>{{ m['tool_calls'][0]['function'] | tojson }}</assistant>
{% else %}
{{ raise_exception('One call at a time.') }}
{% endif %}
{% else %}
<{{ m.role }}>{{ m.content }}</{{ m.role }}>
{% endif %}
{% endfor %}
"""
BOTH = Request(
    (
        system("Be brief."),
        user("Both, please."),
        assistant("", call("lumbrel_lookup", shelfmark="Qz-1"), call("vexillo_paint", guildhue="teal")),
        result("lumbrel_lookup", "card"),
        result("vexillo_paint", "done"),
    ),
    TOOLS,
)


def turns(calls: str = JSON_CALLS) -> str:
    return "{% for m in messages %}<{{ m.role }}>{{ m.content }}" + calls + "{% endfor %}"


def patched(text: str, **options: Any) -> PatchResult:
    return patch_jinja(JinjaChatTemplate(text), **options)


def prompt(text: str, request: Request = BOTH) -> str:
    return JinjaChatTemplate(text).render(request).text


def served(tool: Mapping[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps(tool))  # type: ignore[no-any-return]


# -- objects (TF301)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{% if tools %}{{ tools }}{% endif %}", "{% if tools %}{{ tools | tojson }}{% endif %}"),
        ("{{ tools }}", "{{ (tools | tojson if tools else '') }}"),  # without tools there is nothing to write as JSON
        (
            "{% if tools %}{{ '<tools>' + tools + '</tools>' }}{% endif %}",
            "{% if tools %}{{ '<tools>' + tools | tojson + '</tools>' }}{% endif %}",
        ),
        (
            "{% if tools %}{{ '<tools>' ~ (tools | string) }}{% endif %}",
            "{% if tools %}{{ '<tools>' ~ (tools | tojson) }}{% endif %}",
        ),
        (
            "{% for tool in tools %}{{- tool.function -}}{% endfor %}",
            "{% for tool in tools %}{{- tool.function | tojson -}}{% endfor %}",
        ),
        (
            "{% if tools %}{% set told = 'Tools: ' + tools %}{{ told }}{% endif %}",
            "{% if tools %}{% set told = 'Tools: ' + tools | tojson %}{{ told }}{% endif %}",
        ),
    ],
)
def test_an_object_is_printed_as_json(before: str, after: str) -> None:
    found = patched(before + turns())
    assert found.template == after + turns()
    assert "TF301" in found.applied
    assert found.proof.results() == dict.fromkeys(NAMES, True)
    shown = prompt(found.template)
    assert json.dumps(served(TOOLS[1]["function"]), ensure_ascii=False) in shown


@pytest.mark.parametrize("printed", ["c.function", "'call ' ~ c.function"])
def test_a_call_is_printed_as_json(printed: str) -> None:
    calls = "{% for c in m.tool_calls or [] %}{{ CALL }}{% endfor %}".replace("CALL", printed)
    found = patched(HEAD + turns(calls))
    assert found.template == HEAD + turns(calls.replace("function", "function | tojson"))
    assert '{"name": "lumbrel_lookup", "arguments": {"shelfmark": "Qz-1"}}' in prompt(found.template)


def test_arguments_that_a_template_does_not_take_apart_come_as_json() -> None:
    # The server finds that out by trying, and hands them over as a text.
    text = HEAD + turns(JSON_CALLS.replace("arguments | tojson", "arguments"))
    assert '[lumbrel_lookup {"shelfmark": "Qz-1"}]' in prompt(text)
    assert not patched(text).changed


def test_objects_are_repaired_before_tools_are_moved() -> None:
    moving = "{% for m in messages %}{% if loop.last and tools %}{{ tools }}{% endif %}<{{ m.role }}>{{ m.content }}"
    found = patched(moving + JSON_CALLS + "{% endfor %}")
    assert found.changed
    assert analyse(JinjaChatTemplate(found.template)).verdict == "stable"
    assert {"TF301"} <= set(found.applied)
    assert prompt(found.template).startswith('[{"type"')


def test_objects_stay_where_that_is_asked_for() -> None:
    text = HEAD + "{{ '' ~ tools }}" + turns()
    for options in ({"ignore": ["TF301"]}, {"select": ["TF101"]}):
        found = patched(text, **options)
        assert (found.changed, found.template, found.refused) == (False, text, ())


def test_an_object_within_a_text_that_is_made_elsewhere() -> None:
    text = "{% if tools %}{% set told %}{{ tools | string | replace('lumbrel', 'x') }}{% endset %}{{ told }}{% endif %}"
    found = patched(HEAD + text + turns())
    assert not found.changed
    assert [(each.code, each.reason) for each in found.refused] == [
        ("TF301", "line 1: the object is part of a text that is made elsewhere")
    ]


def test_an_object_that_a_macro_prints() -> None:
    macro = "{% macro told(what) %}{{ 'T: ' + what }}{% endmacro %}{% if tools %}{{ told(tools) }}{% endif %}"
    assert patched(macro + turns()).template == macro.replace("+ what", "+ what | tojson") + turns()


def test_a_list_of_parts_is_told_but_not_changed() -> None:
    text = (
        "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}"
        "{% if m.role == 'system' %}{{ 'S: ' + m.content }}{% else %}"
        "{% for part in m.content %}{{ part.text }}{% endfor %}{% endif %}" + JSON_CALLS + "{% endfor %}"
    )
    found = patched(text)
    assert not found.changed
    assert [(refusal.code, refusal.reason) for refusal in found.refused] == [
        ("TF301", "a message's text is printed as a list of its parts, and JSON of it would be no better")
    ]


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        ("{{ tools }}", "{{ tools | tojson }}", True),
        ("{{ tools[0] }}", "{{ tools[0] | tojson }}", True),
        ("{{ tools[0] }}", "{{ tools[1] | tojson }}", False),
        ("{{ tools }}", "{{ tools[:1] | tojson }}", False),
        ("{{ tools }}", "{{ tools[0] | tojson }}{{ tools[1] | tojson }}", True),
        ("{{ tools }}", "[]", False),
        ("{{ tools[0] ~ '.' }}", "{{ tools[0] | tojson }}!", False),
        ("{{ tools[0] }}{{ tools[1] }}", "{{ tools[0] | tojson }}{{ tools[1] | tojson }}", True),
        ("{{ tools[0] }}{{ tools[1] }}", "{{ tools[0] | tojson }}{{ tools[0] | tojson }}", False),
        ("{{ messages[2].tool_calls[0].function }}", "{{ messages[2].tool_calls[0].function | tojson }}", True),
        ("{{ messages[2].tool_calls[0].function }}", "{{ tools | tojson }}", False),
    ],
)
def test_the_json_is_that_of_the_very_object(before: str, after: str, same: bool) -> None:
    variant = JinjaChatTemplate(after + turns(), caps=Caps())
    old, new = JinjaChatTemplate(before + turns(), caps=Caps()).render(BOTH), variant.render(BOTH)
    assert same_but_json(old, new, variant.data(BOTH)) is same


# -- several calls (TF305)


@pytest.mark.parametrize("text", [GUARD, CHOICE])
def test_several_calls_are_printed_as_turns_of_their_own(text: str) -> None:
    with pytest.raises(RenderError, match="One call at a time"):
        prompt(text)
    found = patched(text)
    assert found.changed
    assert "TF305" in found.applied
    assert found.proof.results() == dict.fromkeys(NAMES, True)
    assert prompt(found.template) == prompt(text, calls_apart(BOTH))
    assert patched(found.template).changed is False


def test_the_loop_stands_on_lines_of_its_own() -> None:
    old, new = GUARD.splitlines(), patched(GUARD).template.splitlines()
    assert [line for line in new if line not in old] == [
        "        {%- for call in m.tool_calls %}",
        "        {%- set f = call.function %}",
        "        {%- endfor %}",
    ]
    assert [line for line in old if line not in new] == [
        "        {%- if m.tool_calls | length != 1 %}",
        "            {{- raise_exception('One call at a time.') }}",
        "        {%- endif %}",
        "        {%- set f = m.tool_calls[0].function %}",
    ]


def test_a_single_call_renders_as_before() -> None:
    single = Request((*BOTH.messages[:2], assistant("", call("vexillo_paint", guildhue="ochre"))), TOOLS)
    for messages in (single.messages, (*single.messages, result("vexillo_paint", "done"), assistant("So."), user("?"))):
        request = Request(messages, TOOLS)
        assert prompt(patched(GUARD).template, request) == prompt(GUARD, request)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        # What stands beside the calls would be printed with each of them.
        ("{{ m.content }}", "several calls are not printed as if each had a turn of its own"),
        # The loop over the messages is asked for: inside another loop that is another question.
        ("{% if loop.last %}!{% endif %}", "the calls of a turn cannot be told from the rest of it"),
    ],
)
def test_several_calls_that_cannot_be_told_apart(body: str, reason: str) -> None:
    text = GUARD.replace("{{- '<assistant>' + f.name", body + "{{- '<assistant>' + f.name")
    found = patched(text)
    assert (found.changed, found.template) == (False, text)
    assert [(refusal.code, refusal.reason) for refusal in found.refused] == [("TF305", reason)]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            HEAD + "{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('No such role.') }}{% endif %}"
            "{{ m.content }}{% endfor %}",
            "line 1: the template itself stops here (No such role.), and what it should print instead only its maker "
            "can tell",
        ),
        (
            HEAD + "{% for m in messages %}{% if m.role == 'tool' %}{{ m.answer.strip() }}{% endif %}"
            "{{ m.content }}{% endfor %}",
            "line 1: the template calls `strip` of something that llama-server does not give it",
        ),
    ],
)
def test_other_failures_are_refused_with_their_reason(text: str, reason: str) -> None:
    found = patched(text)
    assert (found.changed, [(each.code, each.reason) for each in found.refused]) == (False, [("TF305", reason)])


def test_what_is_told_and_not_changed() -> None:
    text = (
        HEAD + "{% for m in messages %}{% if m.tool_calls %}[CALLS]{% else %}<{{ m.role }}>{{ m.content }}{% endif %}"
    )
    text = text.replace("[CALLS]", JSON_CALLS) + "{% endfor %}"
    assert "TF303" in {finding.code for finding in analyse(JinjaChatTemplate(text)).findings}
    assert patched(text).refused == ()
    found = patched(text, select=["TF303"])
    assert (found.changed, [refusal.code for refusal in found.refused]) == (False, ["TF303"])
    assert "told, not changed" in found.refused[0].reason


def test_a_failure_that_may_not_be_mended_is_said() -> None:
    found = patched(GUARD, ignore=["TF305"])
    assert not found.changed
    assert found.refused[0].code == "TF305"
    assert "left out by the choice of codes" in found.refused[0].reason


def test_a_template_that_never_prints_tools_is_refused() -> None:
    found = patched("{% if tools %}You have tools.{% endif %}" + turns())
    assert not found.changed
    assert {refusal.reason for refusal in found.refused} == {
        "the template prints no tool definitions, and where they belong is not for a rewrite to say"
    }


@pytest.mark.parametrize(
    ("printed", "name"),
    [
        ("{{ m.tool_calls[0] }}", "m.tool_calls"),
        ("{{ m['tool_calls'] | first }}", "m['tool_calls']"),
        ("{{ m.tool_calls[0].id }}{{ m.tool_calls[0].function }}", "m.tool_calls"),
        ("{{ ns.m.tool_calls[0] }}", "ns.m.tool_calls"),
        ("{{ messages[1].tool_calls[0] }}", ""),  # no name
        ("{{ m.tool_calls[0] }}{{ n.tool_calls[0] }}", ""),  # two names
        ("{{ tool_calls[0] }}", ""),
        ("{% set a = 1 %}{{ tool_calls[0] }}", ""),
        ("{% set a = 1 %}{{ tool_calls | first }}", ""),
        ("{{ [m, 'tool_calls'][0] }}", ""),
    ],
)
def test_the_name_of_the_calls_is_a_member_of_a_message(printed: str, name: str) -> None:
    found, places = first_calls(JinjaTags(Source(printed)), Span(0, len(printed)))
    assert found == name
    assert {printed[place.start : place.end].removeprefix(name) for place in places} <= {"[0]", " | first"}
    assert bool(places) is bool(name)


def test_calls_apart_keep_their_numbers() -> None:
    apart = calls_apart(Request(BOTH.messages[1:], TOOLS))
    assert [message["role"] for message in apart.messages] == ["user", "assistant", "assistant", "tool", "tool"]
    assert [message.get("tool_call_id") for message in apart.messages[-2:]] == ["call00001", "call00002"]
    text = "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.id }}={{ c.function.name }};{% endfor %}"
    text += "{{ m.tool_call_id }}|{% endfor %}"
    assert prompt(text, apart) == "|call00001=lumbrel_lookup;|call00002=vexillo_paint;|call00001|call00002|"


def test_calls_apart_and_their_results_go_by_the_numbers_that_a_client_gave() -> None:
    numbered = [{**each, "id": own} for own, each in zip("ab", BOTH.messages[2]["tool_calls"], strict=True)]
    answers = [{**result("vexillo_paint", "done"), "tool_call_id": "b"}, {**BOTH.messages[3], "tool_call_id": "a"}]
    whole = Request(
        (*BOTH.messages[1:2], assistant("", *numbered), *answers), TOOLS, think_level="low", empty_tools=True
    )
    calls = "{% for c in m.tool_calls or [] %}{{ c.id }};{% endfor %}"
    text = "{% for m in messages %}" + calls + "{{ m.tool_call_id }} {% endfor %}"
    apart = calls_apart(whole)
    assert prompt(text, whole).split() == ["call00001;call00002;", "call00002", "call00001"]
    assert prompt(text, apart).split() == ["call00001;", "call00002;", "call00002", "call00001"]
    assert (apart.think_level, apart.empty_tools) == ("low", True)
