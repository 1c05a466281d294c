"""A Jinja template called stable is stable on conversations that nobody chose."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from templatefix.analysis.evidence import Evidence
from templatefix.analysis.jinjatree import read_jinja
from templatefix.analysis.reading import TooComplex
from templatefix.analysis.sampling import chat_of, random_loop, samples
from templatefix.analysis.stability import run_loop
from templatefix.chat.jinja import JinjaChatTemplate
from templatefix.chat.jinja_values import Caps
from templatefix.chat.rendering import RenderError

LOOPS = list(samples(7, 8, thinking=True))

PRELUDE = (
    "{% set ns = namespace(at=-1, first=-1, seen=false, n=0, names='', last=none) %}"
    "{% for m in messages %}"
    "{% if m.role == 'user' %}{% set ns.at = loop.index0 %}"
    "{% if ns.first < 0 %}{% set ns.first = loop.index0 %}{% endif %}{% endif %}"
    "{% if m.role == 'tool' %}{% set ns.seen = true %}{% endif %}"
    "{% set ns.n = ns.n + 1 %}{% set ns.names = ns.names ~ m.role %}{% set ns.last = m %}{% endfor %}"
    "{% set old = namespace(at=messages | length - 1, open=true) %}"
    "{% for m in messages[::-1] %}{% if old.open and m.role == 'user' %}"
    "{% set old.at = messages | length - 1 - loop.index0 %}{% set old.open = false %}{% endif %}{% endfor %}"
    "{% set here = namespace(role='', n=0, busy=false, mark=0, said='') %}"
    "{% macro note(x) %}{% if x %}note{% else %}none{% endif %}{% endmacro %}"
    "{% macro told(x, deep=false) %}{% if deep %}{{ told(x) }}{% else %}{{ x }}{% endif %}{% endmacro %}"
    "{% macro framed() %}[{{ caller() }}]{% endmacro %}"
    "{% macro mark(at) %}{% set here.mark = at %}{% endmacro %}"
    "{% set users = messages | selectattr('role', 'equalto', 'user') | list %}"
    "{% set heap = [] %}{% set box = {'own': [], 'heap': heap} %}{% set rows = [[], []] %}{% set all = {'l': []} %}"
    "{% for m in messages %}{% set _ = all.l.append(m.role) %}{% endfor %}"
    "{% macro some() %}{{ varargs[0] }}{{ kwargs.x }}{% endmacro %}"
    "{% macro put(x, where) %}{% set _ = where.append(x) %}{% endmacro %}"
)
GATES = (
    "loop.last",
    "loop.first",
    "loop.index0 == ns.at",
    "loop.index0 > ns.at",
    "loop.index0 > old.at",
    "loop.index0 == ns.first",
    "ns.seen",
    "ns.n > 4",
    "loop.revindex0 == 0",
    "loop.revindex < 3",
    "loop.length > 5",
    "loop.index == messages | length",
    "messages | length > 9",
    "loop.nextitem is defined",
    "loop.nextitem and loop.nextitem.role == 'user'",
    "loop.previtem and loop.previtem.role == 'user'",
    "m == messages[-1]",
    "m == users[-1]",
    "m == users[0]",
    "users | length > 1",
    "messages[-1].role == 'tool'",
    "messages[loop.index0 - 1].role == 'tool'",
    "loop.last or messages[loop.index0 + 1].role != 'tool'",
    "not loop.last and messages[loop.index0 + 1].role == 'tool'",
    "messages[loop.index0 + 2] is defined",
    "messages[loop.index0 + 1:] | length == 0",
    "messages[0].role == 'system'",
    "messages[1].role == 'user'",
    "tools",
    "add_generation_prompt",
    "m.role == 'user'",
    "m.role == 'tool'",
    "m.role != 'assistant'",
    "m.tool_calls",
    "m.content",
    "m.reasoning_content is defined",
    "m.role in ['user', 'tool']",
    "here.role == 'tool'",
    "here.busy",
    "here.n > 3",
    "'brindle' in m.content",
    "loop.index0 % 2 == 0",
    "here.mark",
    "here.role == m.role",
    "ns.last == m",
    "(messages | last).content == m.content",
    "messages | map(attribute='role') | list | length > 6",
    "loop.index0 + 2 < messages | length",
    "ns.at - loop.index0 > 2",
    "loop.index0 <= old.at and m.role != 'user'",
    "all.l | length > 6",
    "heap",
    "box.own or loop.last",
    "box.heap | length > 2",
    "rows[0] | length > 3",
    "rows[1] or loop.last",
    "messages | reject('mapping') | list or loop.last",
    "messages | select('string') | list or messages | length > 9",
    "(messages | attr('x')) is defined or loop.last",
    "m.role.count('z') or loop.last",
    "(m.content or none) is none or loop.last",
    "(m.reasoning_content or '') is defined and loop.last",
    "('a' if loop.last) is defined",
    "('a' if m.role == 'tool') is string and loop.last",
    "(m.role == 'tool' or 1) == 1 and loop.last",
    "loop.changed(m.role)",
    "loop.changed(loop.last)",
    "(messages | selectattr('role', 'in', 'user tool') | list)[0] == m",
    "messages | selectattr('role', 'in', ['tool']) | list",
    "messages | selectattr('tool_calls.0') | list",
    "messages | rejectattr('content', 'defined') | list or loop.last",
    "'a'.upper and loop.last",
)
PRINTS = (
    "{{ m.content }}",
    "{{ m.content | trim }}",
    "{{ m.tool_calls | tojson if m.tool_calls }}",
    "{{ '<' + m.role + '>' }}",
    "{{ tools | tojson }}",
    "{{ m.reasoning_content or '' }}",
    "note",
    "\n",
    "{{ loop.index0 }}",
    "{{ loop.revindex }}",
    "{{ here.role }}",
    "{{ here.n }}",
    "{{ ns.names }}",
    "{{ messages[0].content }}",
    "{% for c in m.tool_calls or [] %}{{ c.function.name }}{% if not loop.last %}, {% endif %}{% endfor %}",
    "{% set here.role = m.role %}",
    "{% set here.n = here.n + 1 %}",
    "{% set here.busy = loop.last %}",
    "{% set here.busy = m.role == 'tool' %}",
    "{{ note(loop.last) }}",
    "{{ note(here.busy) }}",
    "{% set x = loop.index0 > ns.at %}{{ note(x) }}",
    "{{ 'a' if loop.last else 'a' }}",
    "{{ ('q' if loop.last else 'r') ~ m.role }}",
    "{{ told(m.content) }}",
    "{{ told(loop.revindex0, true) }}",
    "{{ told(m.role, deep=true) }}",
    "{% call framed() %}{{ m.role }}{% if loop.last %}!{% endif %}{% endcall %}",
    "{{ mark(loop.last) }}{{ here.mark }}",
    "{{ mark(m.role) }}{{ here.mark }}",
    "{% filter upper %}{{ m.role }}{% if loop.last %}!{% endif %}{% endfilter %}",
    "{% set here.said = here.said ~ m.role %}{{ here.said }}",
    "{% if m.role == 'tool' %}{% continue %}{% endif %}",
    "{% if loop.last %}{% continue %}{% endif %}",
    "{% if m.role == 'tool' and loop.index0 > 5 %}{% break %}{% endif %}",
    "{% for k in messages[:loop.index0] %}{{ k.role }}{% endfor %}",
    "{% for k in messages if k.role == 'user' %}{{ k.content }}{% endfor %}",
    "{% set seen = namespace(n=0) %}{% for k in messages %}{% if k.role == 'tool' %}{% set seen.n = seen.n + 1 %}"
    "{% endif %}{% endfor %}{{ seen.n }}",
    "{% set ahead = namespace(role='', open=true) %}{% for k in messages[loop.index0 + 1:] %}{% if ahead.open %}"
    "{% set ahead.role = k.role %}{% set ahead.open = false %}{% endif %}{% endfor %}{{ ahead.role }}",
    "{% set scan = namespace(stop=false) %}{% for k in range(loop.index0 + 1, messages | length) %}{% if scan.stop %}"
    "{% elif messages[k].role != 'tool' %}{% set scan.stop = true %}{% else %}{{ messages[k].content }}{% endif %}"
    "{% endfor %}",
    "{% set x = [m.role, loop.last] %}{{ x[0] }}",
    "{% set x = {'r': m.role, 'l': loop.last} %}{{ x.l }}",
    "{% set b %}{{ m.content }}{% if loop.last %}!{% endif %}{% endset %}{{ b }}",
    "{% for k in messages[loop.index:] %}{{ k.content if loop.first and k.role == 'tool' }}{% endfor %}",
    "{% for k in range(loop.index0 + 1, messages | length) %}{{ messages[k].role }}{% endfor %}",
    "{% for k in range(loop.index0 - 1, -1, -1) %}{{ messages[k].role }}{% endfor %}",
    "{% set _ = box.own.append(m.role) %}{{ box.own | join(' ') }}",
    "{% set _ = heap.append(loop.last) %}{{ box.heap | length }}",
    "{% set _ = box.heap.append(m.role) %}{{ heap | join(' ') }}",
    "{% set _ = rows[0].append(loop.revindex) %}{{ rows[0] | join(' ') }}",
    "{% set _ = (rows | first).append(1) %}{{ rows | tojson }}",
    "{{ put(loop.last, box.heap) }}{{ heap | join }}",
    "{% for k in messages if k.content == 'continue' %}{% else %}none{% endfor %}",
    "{% for k in messages[loop.index:] if k.role == 'tool' %}{% else %}none{% endfor %}",
    "{% for k in messages[loop.index + 4:] %}{% else %}few{% endfor %}",
    "{% for k in messages[:loop.index0] if k.role == 'tool' %}{% else %}{% set here.busy = true %}{% endfor %}",
    "{% set pick = here if m.content else ns %}{% set pick.mark = loop.last %}{{ here.mark }}",
    "{% set pick = here if loop.index0 < 3 else old %}{% set here.n = messages | length %}{{ pick.n }}",
    "{% set pick = [here, ns][loop.index0 % 2] %}{% set pick.seen = m.role == 'tool' %}{{ pick['seen'] }}",
    "{% set here.kept = heap if m.content else [] %}{% set _ = here.kept.append(1) %}{{ heap | length }}",
    "{{ loop.last or 1 }}",
    "{{ loop.last and none }}",
    "{{ m.tool_calls and 1 }}",
    "{{ 'a' if loop.last }}",
    "{{ some(loop.last) }}",
    "{{ {'z': loop.last} }}{{ loop }}",
    "{{ here }}{% set here.n = here.n + 1 %}",
    "{{ 0 | default(1, loop.last) }}",
    "{{ some(x=loop.revindex) }}",
    "{{ some(*[loop.last]) }}",
    "{% call framed() %}{{ some(m.role, x=loop.last) }}{% endcall %}",
    "{% set kept = namespace({'z': loop.last}) %}{{ kept.z }}",
    "{{ m.content | indent(width=3) if loop.last else m.content | indent(first=true) }}",
    "{{ loop.cycle('a', 'b') if loop.last else loop.cycle('b', 'a') }}",
    "{% set y = 0 %}{% set b %}{% set y = 1 %}{% endset %}{{ y or loop.last }}",
    "{% set y = 0 %}{% filter upper %}{% set y = 1 %}{% endfilter %}{% if not y and loop.last %}!{% endif %}",
    "{% with %}{{ w or 0 }}{% set w = loop.last %}{% endwith %}",
    "{% if ('a' if loop.last) is defined %}!{% endif %}",
)

FORMS = (
    "{% if GATE %}INNER{% endif %}",
    "{{ m.content }}{% if GATE %}INNER{% endif %}",
    "{% if GATE %}INNER{% endif %}{{ m.content }}",
    "{{ m.content }}{% if GATE %}INNER{% else %}note{% endif %}",
    "{{ m.content }}{% if GATE %}INNER{% endif %}</m>",
    "{% set here.mark = GATE %}INNER{{ note(here.mark) }}",
)

conditions = st.recursive(
    st.sampled_from(GATES),
    lambda inner: st.one_of(
        inner.map("not ({})".format),
        st.tuples(inner, st.sampled_from(("and", "or")), inner).map(lambda t: f"({t[0]}) {t[1]} ({t[2]})"),
    ),
    max_leaves=3,
)
bodies = st.recursive(
    st.sampled_from(PRINTS),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=4).map("".join),
        st.tuples(conditions, inner).map(lambda t: f"{{% if {t[0]} %}}{t[1]}{{% endif %}}"),
        st.tuples(conditions, inner, inner).map(lambda t: f"{{% if {t[0]} %}}{t[1]}{{% else %}}{t[2]}{{% endif %}}"),
    ),
    max_leaves=8,
)
overs = st.sampled_from(
    (
        "messages",
        "messages",
        "messages[1:]",
        "messages if m.role != 'system'",
        "messages | rejectattr('role', 'equalto', 'system')",
        "messages[:-1]",
        "messages[::-1]",
        "messages[2:]",
        "messages[ns.first:]",
        "messages if m.role != 'tool' or loop is defined",
    )
)
heads = st.sampled_from(
    (
        *("", "", "", "{{ tools | tojson }}", "{{ messages[0].content }}", "{{ messages | length }}"),
        *("{{ users | length }}", "{{ all.l | length }}", "{{ box.own | length }}"),
        "{% for m in messages %}{% if m.content == 'continue' %}[flag]{% endif %}{% endfor %}",
        "{% for m in messages if m.role == 'tool' and 'Error' in m.content %}[flag]{% break %}{% endfor %}",
        "{% for m in messages %}{% if loop.index < 7 %}{% continue %}{% endif %}x{% endfor %}",
        "{% for m in messages %}{% if loop.first or m.role == 'system' %}{{ m.content }}{% endif %}{% endfor %}",
        "{% for m in messages[7:] %}{% else %}few{% endfor %}",
        "{% for m in messages if m.content == 'continue' %}{% else %}none{% endfor %}",
        "{% for m in messages | selectattr('content', 'equalto', 'ok') %}{% else %}{% set ns.n = 1 %}{% endfor %}",
        "{% for m in messages if m.role == 'system' %}{% else %}none{% endfor %}",
    )
)

ends = st.sampled_from(
    (
        *("", "", "", "{{ messages | length }}", "{% if ns.seen %}Note.{% endif %}"),
        "{% if messages[-1].content == 'continue' %}{{ tools | tojson }}{% endif %}",
        "{% if messages | length > 9 %}{{ messages[0].content }}{% endif %}",
        "{% for m in messages %}{% if loop.last %}{{ m.role }}{% endif %}{% endfor %}",
    )
)


def reads_as_stable(template: JinjaChatTemplate) -> bool:
    try:
        return not read_jinja(template, thoughts=True).places
    except TooComplex:
        return False


@given(head=heads, over=overs, body=bodies, end=ends, seed=st.integers(0, 2**32))
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_reads_as_stable_never_moves(head: str, over: str, body: str, end: str, seed: int) -> None:
    text = PRELUDE + head + "{% for m in " + over + " %}<{{ m.role }}>" + body + "{% endfor %}" + end + "<assistant>"
    template = JinjaChatTemplate(text, caps=Caps())
    if template.refusal is not None or not reads_as_stable(template):
        return
    for loop in (*LOOPS[:4], random_loop(Random(seed), thinking=True)):
        assert run_loop(template, loop, template.as_served).lost == (), loop.name


@given(gate=st.sampled_from(GATES), inner=st.sampled_from(PRINTS), over=overs, form=st.sampled_from(FORMS))
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_each_condition_by_itself(gate: str, inner: str, over: str, form: str) -> None:
    body = form.replace("GATE", gate).replace("INNER", inner)
    template = JinjaChatTemplate(
        PRELUDE + "{% for m in " + over + " %}<{{ m.role }}>" + body + "{% endfor %}<assistant>", caps=Caps()
    )
    if template.refusal is not None or not reads_as_stable(template):
        return
    for loop in LOOPS:
        assert run_loop(template, loop, template.as_served).lost == (), loop.name


@pytest.mark.parametrize("seed", [1, 2])
def test_stable_templates_of_the_corpus_stay_stable(jinja_corpus: dict[str, dict[str, Any]], seed: int) -> None:
    loops = list(samples(seed, 2, thinking=True))
    read = 0
    for key, row in jinja_corpus.items():
        try:
            template = JinjaChatTemplate(row["template"], bos="<|im_start|>", eos="<|im_end|>")
        except RenderError:
            continue
        evidence = Evidence(template)
        if evidence.reading is None or evidence.reading.places:
            continue
        read += 1
        for loop in loops if evidence.takes_tools else map(chat_of, loops):
            assert run_loop(template, loop, evidence.served).lost == (), (key, loop.name)
    assert read > 120
