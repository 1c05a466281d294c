"""Jinja templates as llama-server uses them: expected texts were seen on llama-server 11434."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from templatefix.chat import jinja_run
from templatefix.chat.jinja import JinjaChatTemplate
from templatefix.chat.jinja_language import JinjaLanguage
from templatefix.chat.jinja_layout import Layout
from templatefix.chat.jinja_values import Caps
from templatefix.chat.rendering import Origin, RenderError
from templatefix.chat.request import Request
from templatefix.gotemplate.source import Source, Span

HI = Request(({"role": "user", "content": "hi"},))
TOOL = {"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": {"type": "object"}}}
CALL = {"id": "own", "function": {"name": "look", "arguments": {"a": 12345678901234567890, "f": 1e21}}}
LOOP = "{% for m in messages %}{{ m.content }}{% endfor %}"


def rendered(text: str, request: Request = HI, **options: Any) -> str:
    return JinjaChatTemplate(text, **options).render_text(request)


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("{{ none }}{{ x }}{{ {'a': 1} }}", ""),
        ("{{ [1, 'a', none, true, 1.5] }}", "1aTrue1.5"),
        ("{{ none ~ 'a' ~ true ~ 1.0 }}|{{ 'a' + 1 }}|{{ 'a' + none }}|{{ x + 'a' }}", "aTrue1.0|a1|a|a"),
        ("{{ {'a': [1, none]} ~ 'x' }}|{{ (1, 2) | string }}", "{'a': [1, None]}x|(1, 2)"),
        ("{{ [1, \"it's\"] | upper }}|{{ none | trim }}|{{ none | string }}", "[1, \"IT'S\"]|None|None"),
        ("{{ x | length }}|{{ x | join(',') }}|{{ none | items }}|{{ x.y.z is defined }}", "0|||False"),
        ("{{ {'items': 5}['items'] }}|{{ {'a': 1}.get('b', 'z') }}|{{ {'items': 1}.items() }}", "5|z|items1"),
        ("{{ {'items': 5}.items is callable }}|{{ {'a': 1}.keys() | string }}|{{ {'a': 1}.values() }}", "True|['a']|1"),
        ("{% set l = [1] %}{% set _ = l.append(2) %}{{ l }}", "12"),
        ("{{ 'a {} b'.format(1) }}|{{ 'abc'[::-1] }}|{{ 'a,b'.split(',') | join('-') }}", "a 1 b|cba|a-b"),
        ("{{ {'a': {'b': []}} | tojson(indent=2) }}|{{ [1, 2] | tojson(separators=(',', ':')) }}",
         '{\n  "a": {\n    "b": []\n  }\n}|[1,2]'),
        ("{% for i in range(5) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", "01"),
        ("{% generation %}a{% endgeneration %}{% set a, b = 1, 2 %}{{ a }}{{ b }}", "a12"),
        ("{% macro f(a, b='z') %}{{ a }}{{ b }}{% endmacro %}{{ f('1') }}", "1z"),
        ("{% set s = namespace(a=1) %}{% set s.b = 2 %}{{ s.a }}{{ s.b }}{{ s.c is defined }}", "12False"),
        ("{{ 'a' | indent(2) }}|{{ 'a\nb' | indent(2) }}|{{ 'a\nb' | indent(2, true) }}", "a|a\n  b|  a\n  b"),
        ("{{ date_string }}|{{ strftime_now('%d %B %Y') }}|{{ datetime }}", "29 Nov 2026|29 November 2026|Nov 29 2026"),
        ("{{ preserve_thinking }}|{{ truncate_history_thinking }}|{{ tools is defined }}", "True|False|False"),
    ],
)  # fmt: skip
def test_the_language(text: str, output: str) -> None:
    day = datetime.date(2026, 11, 29)
    assert rendered(text + LOOP, date=day) == output + "hi"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{{ x.split('a') }}", "Callee is not a function: got Undefined (hint: 'split')"),
        ("{{ raise_exception('boom') }}", "Jinja Exception: boom"),
        ("{% for a in 'ab' %}{% endfor %}", "Expected iterable or object type in for loop: got String"),
        ("{% for a in none %}{% endfor %}", "Expected iterable or object type in for loop: got None"),
        ("{{ x | tojson }}", "Unknown (built-in) filter 'tojson' for type Undefined"),
        ("{{ none | length }}", "Unknown (built-in) filter 'length' for type None"),
        ("{{ '%s' % 'x' }}", 'Unknown operator "%" between String and another value'),
        ("{% include 'x' %}", "Unknown statement: include"),
        ("{% if %}", "Expected an expression, got 'end of statement block'"),
        ("{{ 'a' | wordcount }}", "No filter named 'wordcount'."),
    ],
)
def test_what_the_server_does_not_start_with(text: str, sentence: str) -> None:
    with pytest.raises(RenderError) as caught:
        rendered(text + LOOP)
    assert caught.value.stage == "parse"
    assert sentence in caught.value.message
    assert caught.value.span is not None
    assert caught.value.span.start == 0


def test_messages_become_openai_s() -> None:
    messages = (
        {"role": "developer", "content": [{"type": "text", "text": "be"}, {"type": "text", "text": "brief"}]},
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": "", "thinking": "hm", "tool_calls": [CALL, CALL]},
        {"role": "tool", "content": "4", "tool_name": "look", "tool_call_id": "own"},
        {"role": "tool", "content": "5", "tool_name": "look"},
    )
    text = "{% for m in messages %}{{ m | tojson }}\n{% endfor %}{% if tools %}{{ tools | tojson }}{% endif %}"
    caps = Caps()
    assert rendered(text, Request(messages, (TOOL,)), caps=caps).splitlines() == [
        '{"role": "system", "content": "be\\nbrief"}',
        '{"role": "user", "content": "x"}',
        '{"role": "assistant", "content": "", "reasoning_content": "hm", "tool_calls": [{"type": "function", '
        '"function": {"name": "look", "arguments": {"a": -6101065172474983726, "f": 1e+21}}, "id": "call00001"}, '
        '{"type": "function", "function": {"name": "look", "arguments": {"a": -6101065172474983726, "f": 1e+21}}, '
        '"id": "call00002"}]}',
        '{"role": "tool", "content": "4", "name": "look", "tool_call_id": "call00001"}',
        '{"role": "tool", "content": "5", "name": "look", "tool_call_id": "call00002"}',
        '[{"type": "function", "function": {"name": "look", "description": "Looks.", '
        '"parameters": {"type": "object"}}}]',
    ]


def test_a_template_without_a_system_role_has_it_in_the_first_message() -> None:
    request = Request(({"role": "system", "content": "be brief"}, {"role": "user", "content": "x"}))
    found = JinjaChatTemplate(
        "{% for m in messages %}{% if m.role != 'system' %}[{{ m.content }}]{% endif %}{% endfor %}"
    )
    assert not found.caps.supports_system_role
    assert found.render(request).text == "[be brief\nx]"


def test_a_last_answer_is_continued() -> None:
    text = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</s>{% endfor %}"
    text += "{% if add_generation_prompt %}<assistant>{% endif %}"
    request = Request((*HI.messages, {"role": "assistant", "content": "Once upon"}))
    assert rendered(text, request) == "<user>hi</s><assistant>Once upon"


def test_arguments_are_text_where_the_template_takes_them_for_text() -> None:
    call_text = "{% for c in m.tool_calls or [] %}{{ '' + c.function.arguments }}{% endfor %}"
    text = "{% for m in messages %}{{ m.content }}" + call_text + "{% endfor %}"
    call = {"function": {"name": "look", "arguments": {"a": 1}}}
    request = Request((*HI.messages, {"role": "assistant", "content": "", "tool_calls": [call]}, *HI.messages))
    assert rendered(text, request) == 'hi{"a": 1}hi'


def test_pieces_know_their_place_their_datum_and_their_message() -> None:
    text = (
        "{%- macro turn(m) %}[{{ m.role }}] {{ m.content | trim }}{% endmacro -%}\n"
        "{{ '<s>' ~ bos_token }}{% for m in messages %}{{ turn(m) + '!\\n' }}{% endfor %}é{{ (tools or []) | tojson }}"
    )
    request = Request(({"role": "system", "content": " be "}, {"role": "user", "content": "hi"}), (TOOL,))
    found = JinjaChatTemplate(text, bos="B").render(request)
    shown = [(p.text, text[p.span.start : p.span.end], p.origin, p.message) for p in found.pieces]
    assert shown[:8] == [
        ("<s>", "'<s>'", None, None),
        ("B", "{{ '<s>' ~ bos_token }}", None, None),
        ("[", "[", None, 0),
        ("system", "{{ m.role }}", Origin("message", 0, "role"), 0),
        ("] ", "] ", None, 0),
        ("be", "{{ m.content | trim }}", Origin("system", 0, "content"), 0),
        ("!\n", "'!\\n'", None, 0),
        ("[", "[", None, 1),
    ]
    assert [(p.origin, p.message) for p in found.pieces[-2:]] == [(None, None), (Origin("tools", -1, ""), None)]
    assert found.pieces[-1].span == Span(len(text.encode()) - len("{{ (tools or []) | tojson }}"), len(text.encode()))


def test_a_loop_over_numbers_is_one_over_messages() -> None:
    text = "{% for i in range(messages | length) %}{% set m = messages[i] %}<{{ m.content }}>{% endfor %}{{ 'end' }}"
    request = Request((*HI.messages, {"role": "assistant", "content": "ho"}, *HI.messages))
    found = JinjaChatTemplate(text).render(request)
    assert [(p.text, p.message) for p in found.pieces if p.origin is None] == [
        *[(part, number) for number in range(3) for part in "<>"],
        ("end", None),
    ]


@pytest.mark.parametrize(
    "text",
    ["a\r\nb{{ x }}\r\n{%- if x %} \r\n é{% endif -%} \r {# c #}", "{% raw %}{{ a }}{% endraw %}\n", "", "x\n\n"],
)
def test_the_source_joins_back(text: str) -> None:
    layout = Layout(Source(text), JinjaLanguage())
    at = 0
    for token in layout.tokens:
        assert not layout.text[at : token.start].strip()
        assert layout.text[token.start : token.end] == token.text
        at = token.end
    assert not layout.text[at:].strip()
    spans = [layout.span(token.start, token.end) for token in layout.tokens]
    assert all(Source(text).slice(span).replace("\r\n", "\n").replace("\r", "\n") == token.text
               for span, token in zip(spans, layout.tokens, strict=True))  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "{% for i in range(90000) %}{% for j in range(90000) %}{{ i }}{% endfor %}{% endfor %}",
        "{% set n = namespace(s='ab') %}{% for i in range(100) %}{% set n.s = n.s + n.s %}{% endfor %}{{ n.s }}",
        "{% set n = namespace(s=[1]) %}{% for i in range(100) %}{% set n.s = n.s + n.s %}{% endfor %}",
        "{% set n = namespace(s=[1]) %}{% for i in range(40) %}{% set n.s = [n.s, n.s] %}{% endfor %}{{ n.s|tojson }}",
        "{{ 'a' * 10**12 }}",
        "{{ ('a\n' * 100000) | indent(100000) }}",
        "{{ ('a' * 10000000) | list }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% for i in [[1]] recursive %}{{ loop([[1]]) }}{% endfor %}",
        "{{ messages }}" * 60_000,
    ],
)
def test_hostile_templates_end(text: str) -> None:
    with pytest.raises(RenderError, match=r"^template: (more than|output longer than) "):
        rendered(text)


_TWICE = "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}"


@pytest.mark.parametrize(
    "text",
    [
        _TWICE + "{{ f(60) }}",
        "{% for i in range(9000) %}{% for j in range(90000) if j < 0 %}{% endfor %}{% endfor %}",
        "{% for i in range(9000) %}{{ range(90000) | select('lt', 0) | list }}{% endfor %}",
    ],
    ids=["macros", "conditions of loops", "filters"],
)
def test_work_that_prints_nothing_is_counted_in_nodes(text: str) -> None:
    with pytest.raises(RenderError, match=r"^template: more than [0-9]+ (nodes executed|steps to try it)$"):
        rendered(text)


_TREE = "{% set n = namespace(x=[], y=[]) %}{% for i in range(60) %}" + (
    "{% set n.x = [n.x, n.x] %}{% set n.y = [n.y, n.y] %}{% endfor %}"
)
_LONG = "{% set n = namespace(x=0) %}{% set a = 'ab' * 4000000 %}{% set b = 'ab' * 4000000 %}"
_LIST = "{% set n = namespace(x=0) %}{% set l = range(9999) | list %}"


def _often(start: str, expression: str) -> str:
    return f"{start}{{% for i in range(99999) %}}{{% set n.x = {expression} %}}{{% endfor %}}"


@pytest.mark.parametrize(
    "text",
    [
        *(_TREE + said for said in ("{{ n.x }}", "{{ n.x | string }}", "{{ n.x == n.y }}", "{{ n.x in [n.y] }}")),
        *(_TREE + said for said in ("{{ [n.x, n.y] | sort }}", "{{ '{}'.format(n.x) }}", "{{ n.x is eq n.y }}")),
        *(_TREE + said for said in ("{{ raise_exception(n.x) }}", "{{ n.x ~ '' }}", "{{ [n.x].index(n.y) }}")),
        "{% set n = namespace(x=()) %}{% for i in range(60) %}{% set n.x = (n.x, n.x) %}{% endfor %}{{ {}.get(n.x) }}",
        *(
            _often(_LONG, said)
            for said in ("a == b", "'q' in a", "a < b", "a[1:]", "a.find('q')", "a | replace('q', b)")
        ),
        *(_often(_LONG, said) for said in ("a | upper", "a | e", "a | trim", "a.split('q')", "a is lower", "a | last")),
        *(_often(_LIST, said) for said in ("'q' in l", "l == l + [1]", "l[1:]", "l + l", "l | tojson", "l | sort")),
        *(_often(_LIST, said) for said in ("l | map('string')", "l | map(attribute='a.b')", "l | groupby('real')")),
        *(_often(_LIST, said) for said in ("loop.cycle(*l)", "loop.changed(l)", "dict(a=l)", "{}.get((i, i))")),
        _often("{% set n = namespace(x=0) %}", "(2 ** 1000) ** 1000"),
        "{{ 1.5 | round(10 ** 9, 'ceil') }}",
        "{{ ('f' * 4000000) | int(base=16) }}",
        "{{ ('<' | e) * 10 ** 9 }}",
        "{{ ('a' * 4000000).rsplit('b' ~ 'a' * 2000000) }}",
        "{{ ('ab' * 8000000).replace('a', 'x' * 100000) }}",
        "{{ ('ab' * 4000000).split('b') | length }}",
        "{{ [[1]] | tojson(indent=10 ** 9) }}",
        "{{ strftime_now('%c' * 1000000) }}",
    ],
)
def test_what_a_step_goes_through_is_counted(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No clock ends a render, so nothing may take long that counts as little."""
    monkeypatch.setattr(jinja_run, "_NODES", 400_000)  # a tenth, which takes a tenth of the time
    template = JinjaChatTemplate(text, caps=Caps())
    with pytest.raises(RenderError, match=r"^template: (more than|output longer than) "):
        template.render(HI)
    assert template.steps < 1_200_000


@pytest.mark.parametrize(
    "text", ["{{ ('a' | attr('center'))(10 ** 9) }}", "{{ 1.5.hex() * 10 ** 9 }}", "{{ (5).to_bytes(10 ** 9, 'big') }}"]
)
def test_no_method_of_python_alone_is_within_reach(text: str) -> None:
    with pytest.raises(RenderError, match=r"(?i)unknown method|not a function"):
        rendered(text)


def test_steps_double_with_what_is_executed() -> None:
    def steps(depth: int) -> int:
        template = JinjaChatTemplate(f"{_TWICE}{{{{ f({depth}) }}}}", caps=Caps())
        template.render(HI)
        return template.steps

    first, second, third = (steps(depth) for depth in (6, 7, 8))
    assert third - second == pytest.approx(2 * (second - first), rel=0.05)


@pytest.mark.parametrize(
    "text", ["{% if x %}" * 3000 + "{% endif %}" * 3000, "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}"]
)
def test_deep_templates_are_refused(text: str) -> None:
    with pytest.raises(RenderError, match="nested too deeply") as caught:
        JinjaChatTemplate(text)
    assert caught.value.stage == "parse"


@pytest.mark.parametrize(
    "text", ["{{ ''.__class__ }}", "{{ messages.__class__.__mro__ }}", "{{ namespace.__init__.__globals__ }}"]
)
def test_nothing_of_python_is_within_reach(text: str) -> None:
    assert rendered(text + LOOP) == "hi"


def test_variables_of_a_client() -> None:
    template = JinjaChatTemplate("{{ mood }}" + LOOP)
    assert template.with_kwargs({"mood": "calm "}).render_text(HI) == "calm hi"
    assert template.render_text(HI) == "hi"


SHOWN = "{{ bos_token }}|{{ eos_token }}|{{ date_string }}|{{ mood }}"


def test_another_text_has_all_that_was_said_of_the_first() -> None:
    options: Any = {"bos": "<s>", "eos": "</s>", "date": datetime.date(2026, 11, 29), "kwargs": {"mood": "calm"}}
    told = Caps(supports_system_role=False)
    template = JinjaChatTemplate(Source(LOOP, "name.jinja"), caps=told, **options)
    other = template.with_text(SHOWN + "{% for m in messages %}{{ m.role }}{% endfor %}")
    assert other.source.name == "name.jinja"
    assert other.render_text(Request(({"role": "system", "content": "s"}, *HI.messages))) == (
        "<s>|</s>|29 Nov 2026|calm" + "user"
    )
    assert template.with_text(SHOWN, bos="", eos="<e>").render_text(HI) == "|<e>|29 Nov 2026|calm"


def test_what_a_server_told_of_a_template_changes_with_what_it_can_do() -> None:
    silent = "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.function }}{% endfor %}{% endfor %}"
    told = Caps(supports_object_arguments=False, supports_reasoning_effort=True)
    template = JinjaChatTemplate(silent, caps=told)
    changed = template.with_text(silent.replace("c.function", "c.function | tojson"))
    assert (changed.caps.supports_object_arguments, changed.caps.supports_reasoning_effort) == (True, True)
    assert template.with_text(silent + "!").caps == told
    with pytest.raises(RenderError):
        template.with_text("{% for %}")


def test_a_template_of_which_nothing_is_told() -> None:
    template = JinjaChatTemplate(LOOP, caps=Caps(supports_tools=True), kwargs={"mood": "calm"})
    assert template.caps.supports_tools
    assert not template.untold().caps.supports_tools
    assert template.untold().kwargs == {"mood": "calm"}
