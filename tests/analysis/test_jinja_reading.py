"""Reading a Jinja tree: what depends on later messages, and what only looks like it."""

from __future__ import annotations

import pytest

from templatefix.analysis.jinjatree import JinjaReading, assumed, read_jinja
from templatefix.analysis.jinjatree_blocks import Blocks
from templatefix.analysis.jinjatree_flow import Flow
from templatefix.analysis.jinjatree_loops import Record
from templatefix.analysis.reading import DATE, SYSTEM, TOOLS, TooComplex
from templatefix.chat.jinja import JinjaChatTemplate
from templatefix.chat.jinja_values import Caps
from templatefix.gotemplate.source import Span

HEAD = "{% for m in messages %}<{{ m.role }}>"
BODY = "{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function | tojson }}{% endfor %}"
TURNS = HEAD + BODY + "</m>{% endfor %}"
END = "{% if add_generation_prompt %}<assistant>{% endif %}"
SEEK = (
    "{% set ns = namespace(at=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.at = loop.index0 %}"
    "{% endif %}{% endfor %}"
)


def reading_of(text: str, thoughts: bool = False) -> JinjaReading:
    return read_jinja(JinjaChatTemplate(text, caps=Caps()), thoughts)


def opened(text: str, thoughts: bool = False) -> list[str]:
    """The first tag of each place, as written, each once."""
    template = JinjaChatTemplate(text, caps=Caps())
    places = read_jinja(template, thoughts).places
    starts = [template.layout.tag(template.source.char_index(place.span.start)) for place in places]
    return list(dict.fromkeys(template.source.slice(span) for span in starts))


@pytest.mark.parametrize(
    "condition",
    [
        "loop.last",
        "not loop.last",
        "loop.revindex0 == 0",
        "loop.revindex < 3",
        "loop.index == loop.length",
        "loop.index == messages | length",
        "loop.index0 == messages | length - 1",
        "messages | length - loop.index0 == 1",
        "loop.nextitem is not defined",
        "not loop.nextitem",
        "m == messages[-1]",
        "m == messages | last",
        "messages[-1] == m",
        "messages[loop.index0 + 1] is not defined",
        "messages[loop.index:] | length == 0",
        "m.content == (messages | map(attribute='content') | list)[-1]",
        "messages | selectattr('role', 'equalto', 'user') | list | length == 1",
        "m == (messages | selectattr('role', 'equalto', 'user') | list)[-1]",
        "messages[-1].role == 'user'",
        "(messages | last).role != 'tool'",
        "messages | length < 40",
        "messages[3] is defined",
        "loop.index0 in [messages | length - 1]",
        "loop.last and m.role == 'user'",
        "m.role == 'user' and messages[-1].role == 'user'",
        # what leaves messages out, or makes something else of them, may be empty
        "messages | reject('mapping') | list or messages | length > 40",
        "messages | select('string') | list or messages | length > 40",
        "messages | int or messages | length > 40",
        "(messages | attr('x')) is defined or messages | length > 40",
        "m.role.count('z') or loop.last",
    ],
)
def test_a_gate_on_what_comes_later_is_found(condition: str) -> None:
    gate = "{% if " + condition + " %}"
    assert opened(HEAD + gate + "Note. {% endif %}" + BODY + "{% endfor %}") == [gate]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        # through a variable, a namespace, an inline condition, a block, a macro, a filter block
        (HEAD + "{% set last = loop.last %}{% if last %}Note. {% endif %}" + BODY + "{% endfor %}", "{% if last %}"),
        (HEAD + "{{ 'Note. ' if loop.last }}" + BODY + "{% endfor %}", "{{ 'Note. ' if loop.last }}"),
        (HEAD + "{% set t = 'New. ' if loop.last else 'Old. ' %}{{ t }}" + BODY + "{% endfor %}",
         "{% set t = 'New. ' if loop.last else 'Old. ' %}"),
        (HEAD + "{% set t %}{% if loop.last %}Note. {% endif %}{% endset %}{{ t }}" + BODY + "{% endfor %}",
         "{% if loop.last %}"),
        ("{% macro note(x) %}{% if x %}Note. {% endif %}{% endmacro %}" + HEAD + "{{ note(loop.last) }}" + BODY
         + "{% endfor %}", "{% if x %}"),
        ("{% macro frame() %}[{{ caller() }}]{% endmacro %}" + HEAD
         + "{% call frame() %}{% if loop.last %}Note. {% endif %}{% endcall %}" + BODY + "{% endfor %}",
         "{% if loop.last %}"),
        (HEAD + "{% filter upper %}{% if loop.last %}note. {% endif %}{% endfilter %}" + BODY + "{% endfor %}",
         "{% filter upper %}"),
        (HEAD + "{% filter upper | trim %}{{ loop.revindex }}{% endfilter %}" + BODY + "{% endfor %}",
         "{% filter upper | trim %}"),
        (HEAD + "{% set t | upper | trim %}{{ loop.revindex }}{% endset %}{{ t }}" + BODY + "{% endfor %}", "{{ t }}"),
        (HEAD + "{% set n = namespace(l=loop.last) %}{% if n.l %}Note. {% endif %}" + BODY + "{% endfor %}",
         "{% if n.l %}"),
        # an index that a loop before has found, forwards and backwards
        (SEEK + HEAD + "{% if loop.index0 == ns.at %}Note. {% endif %}" + BODY + "{% endfor %}",
         "{% if loop.index0 == ns.at %}"),
        ("{% set ns = namespace(at=-1, open=true) %}{% for m in messages[::-1] %}"
         "{% if ns.open and m.role == 'user' %}{% set ns.at = messages | length - 1 - loop.index0 %}"
         "{% set ns.open = false %}{% endif %}{% endfor %}"
         + HEAD + "{% if loop.index0 > ns.at %}Note. {% endif %}" + BODY + "{% endfor %}",
         "{% if loop.index0 > ns.at %}"),
        ("{% set ns = namespace(at=-1) %}{% for i in range(messages | length) %}{% if messages[i].role == 'user' %}"
         "{% set ns.at = i %}{% endif %}{% endfor %}"
         + HEAD + "{% if loop.index0 >= ns.at %}Note. {% endif %}" + BODY + "{% endfor %}",
         "{% if loop.index0 >= ns.at %}"),
        # something that comes true in mid-conversation
        ("{% set ns = namespace(worked=false) %}{% for m in messages %}{% if m.role == 'tool' %}"
         "{% set ns.worked = true %}{% endif %}{% endfor %}{% if ns.worked %}You have results.{% endif %}" + TURNS,
         "{% if ns.worked %}"),
        # a value instead of a branch
        ("{{ messages | length }} messages." + TURNS, "{{ messages | length }}"),
        ("{{ messages[-1].content }}" + TURNS, "{{ messages[-1].content }}"),
        (HEAD + "{{ loop.revindex }} to go. " + BODY + "{% endfor %}", "{{ loop.revindex }}"),
        # loops ahead
        (HEAD + "{% for k in messages[loop.index0:] %}{{ k.role }}, {% endfor %}" + BODY + "{% endfor %}",
         "{% for k in messages[loop.index0:] %}"),
        (HEAD + "{% for k in range(loop.index, messages | length) %}{{ messages[k].role }}{% endfor %}" + BODY
         + "{% endfor %}", "{% for k in range(loop.index, messages | length) %}"),
        # the rest left out
        (HEAD + "{% if loop.revindex < 3 %}{% continue %}{% endif %}" + BODY + "{% endfor %}",
         "{% if loop.revindex < 3 %}"),
        # behind the text, but not at the end of the message
        (HEAD + BODY + "{% if loop.last %} /hush{% endif %}</{{ m.role }}>{% endfor %}", "{% if loop.last %}"),
        # behind the conversation
        (TURNS + "{{ tools | tojson }}", "{{ tools | tojson }}"),
        (HEAD + "{% endfor %}" + TURNS, "{% for m in messages %}"),
        (TURNS + "{% filter upper %}{% for m in messages %}{% if loop.first %}x{% endif %}{% endfor %}{% endfilter %}",
         "{% filter upper %}"),
        # where a loop has no turn
        *((loop + "few{% endfor %}" + TURNS, loop.partition("%}")[0] + "%}") for loop in (
            "{% for m in messages[300:] %}{% else %}",
            "{% for m in messages[:-300] %}{% else %}",
            "{% for m in messages if m.content == 'zzz' %}{% else %}",
            "{% for m in messages[::-1] if m.role == 'user' and m.content == 'zzz' %}{% else %}",
            "{% for m in messages | selectattr('content', 'equalto', 'zzz') %}{% else %}",
            "{% for i in range(300, messages | length) %}{% else %}",
            "{% for i in [1, 2] if messages | length > 300 %}{% else %}",
            "{% for t in tools if messages | length > 300 %}{% else %}",
            "{% for x in (messages[-1].content or '').split('zzz') if x == 'y' %}{% else %}",
        )),
        (HEAD + "{% for k in messages[loop.index + 300:] %}{% else %}few{% endfor %}" + BODY + "{% endfor %}",
         "{% for k in messages[loop.index + 300:] %}"),
        (HEAD + "{% for k in messages[loop.index:] %}{% else %}few{% endfor %}" + BODY + "{% endfor %}", "few"),
        ("{% set ns = namespace(few=false) %}{% for m in messages[300:] %}{% else %}{% set ns.few = true %}{% endfor %}"
         "{% if ns.few %}few{% endif %}" + TURNS, "{% if ns.few %}"),
        # what ends the template for some messages alone
        ("{% for m in messages | selectattr('content', 'equalto', 'zzz') %}{{ raise_exception('') }}{% endfor %}"
         "{% for t in tools[5:] %}{{ raise_exception('') }}{% endfor %}"
         "{% for t in tools %}{% if t.x %}{% continue %}{% endif %}{{ raise_exception('') }}{% endfor %}"
         "{% for m in messages %}{% if m.content == 'z' %}{% break %}{% endif %}{{ raise_exception('') }}{% endfor %}"
         "{{ messages | length }}" + TURNS, "{{ messages | length }}"),
        # a loop over something else that is left by what comes later
        (HEAD + "{% set at = loop.last %}{% for t in tools %}-{% if at %}{% break %}{% endif %}{% endfor %}" + BODY
         + "{% endfor %}", "{% for t in tools %}"),
        # backwards
        ("{% for m in messages | reverse %}{{ m.content }}{% endfor %}", "{% for m in messages | reverse %}"),
        # a list that grows
        ("{% set seen = [] %}{% for m in messages %}{% set _ = seen.append(m.role) %}{% endfor %}"
         "{{ seen | join }}" + TURNS, "{{ seen | join }}"),
    ],
)  # fmt: skip
def test_dependence_is_followed(text: str, place: str) -> None:
    assert opened(text + END) == [place]


SPACES = "{% set a = namespace(y=0) %}{% set b = namespace(y=0) %}"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("{% set c = a if messages | length > 300 else b %}{% set c.y = 1 %}{{ a.y }}", "{{ a.y }}"),
        ("{% set c = a if messages | length > 300 else b %}{% set c.z = 1 %}{{ a.z }}", "{{ a.z }}"),
        ("{% set c = a if tools[3] else b %}{% set c.y = messages | length %}{{ b.y }}", "{{ b.y }}"),
        ("{% set c = a if tools[3] else b %}{% set a.y = messages | length %}{{ c.y }}", "{{ c.y }}"),
        ("{% set c = [a, b][tools | length % 2] %}{% set a.y = messages | length %}{{ c['y'] }}", "{{ c['y'] }}"),
        ("{% set a.y = messages | length %}{{ a[tools[0].x] }}", "{{ a[tools[0].x] }}"),
        ("{% set c = a %}{% set a.y = messages | length %}{{ c.y }}", "{{ c.y }}"),
    ],
)
def test_a_namespace_that_may_be_one_of_two(text: str, place: str) -> None:
    assert opened(SPACES + text + TURNS) == [place]


def test_namespaces_that_are_made_in_turn() -> None:
    kept = "{% set a = namespace(x=none) %}{% for i in [1, 2] %}{% set n = namespace(y=i) %}WHAT{% endfor %}"
    assert opened(kept.replace("WHAT", "{% set n.y = 3 %}{{ n.y }}") + TURNS) == []
    assert opened(kept.replace("WHAT", "{% with %}{% set m = namespace(y=i) %}{{ m.y }}{% endwith %}") + TURNS) == []
    with pytest.raises(TooComplex):
        reading_of(kept.replace("WHAT", "{% if i == 1 %}{% set a.x = n %}{% endif %}") + "{{ a.x.y }}" + TURNS)


@pytest.mark.parametrize("left", ["{% continue %}", "{% if m.content == 'zzz' %}{% break %}{% endif %}"])
def test_an_else_that_continue_leads_to_is_too_complex(left: str) -> None:
    # The `else` of jinja2 comes where no turn of the loop has come to its end.
    text = "{% for m in messages %}WHAT{% else %}none{% endfor %}".replace("WHAT", left)
    with pytest.raises(TooComplex):
        reading_of(text + TURNS)


@pytest.mark.parametrize(
    "text",
    [
        "{% for x in [[messages[-1].content]] recursive %}{{ x if x is string else loop(x) }}{% endfor %}",
        "{% macro a() %}{{ messages | length }}{% endmacro %}{% macro b() %}{% endmacro %}"
        "{% set f = a if tools[3] else b %}{{ f() }}",
    ],
)
def test_a_loop_within_itself_and_a_macro_that_may_be_another_are_too_complex(text: str) -> None:
    with pytest.raises(TooComplex):
        reading_of(text + TURNS)


GROWN = "{% if WHAT | length > 40 %}Long.{% endif %}"


@pytest.mark.parametrize(
    ("made", "appended", "grown"),
    [
        ("{% set box = {'l': []} %}", "box.l", "box.l"),
        ("{% set box = [[]] %}", "box[0]", "box[0]"),
        ("{% set box = [{'x': [[]]}] %}", "box[0].x[0]", "box[0].x[0]"),
        ("{% set ns = namespace(box={'l': []}) %}", "ns.box.l", "ns.box.l"),
        ("{% set box = {messages[0].role: []} %}", "box[messages[0].role]", "box[messages[0].role]"),
        ("{% set box = [[], []] %}", "box[tools | length % 2]", "box | last"),
        ("{% set box = {'k': []} %}", "(box.values() | list)[0]", "box.k"),
        ("{% set box = {'k': []} %}", "box.get('k')", "box.k"),
        ("{% set a = ['x'] %}{% set box = {'k': a} %}", "a", "box.k"),
        ("{% set a = ['x'] %}{% set box = {'k': a} %}", "box.k", "a"),
        ("{% set a = [] %}{% set box = dict(k=a) %}", "box.k", "a"),
        ("{% set a = [] %}{% set box = [{'k': a}] | map(attribute='k') | list %}", "box[0]", "a"),
        ("{% set a = [] %}{% set b = tools[3] or a %}", "b", "a"),
        ("{% set a = [] %}{% set b = a if not tools[3] else [] %}", "a", "b"),
        ("{% set a = [] %}{% if tools[3] %}{% set b = [] %}{% else %}{% set b = a %}{% endif %}", "b", "a"),
    ],
)
def test_a_list_grows_wherever_it_is_kept(made: str, appended: str, grown: str) -> None:
    gate = GROWN.replace("WHAT", grown)
    told = "{% for m in messages %}{% set _ = (" + appended + ").append(m.role) %}{% endfor %}"
    assert opened(made + told + gate + TURNS) == [gate.partition("Long.")[0]]


def test_a_list_like_the_one_that_grows_may_be_empty() -> None:
    for end in ("a or loop.last", "not a and loop.last"):
        gate = "{% if " + end.replace("a ", "b ") + " %}"
        text = "{% set a = [] %}{% set b = [] %}{% set _ = a.append(1) %}" + HEAD + gate + "Note. {% endif %}"
        assert opened(text + BODY + "{% endfor %}") == [gate]


def test_a_macro_that_appends_to_its_list() -> None:
    macro = "{% macro add(l, n) %}{% set _ = l.append(n) %}{% if n %}{{ add(l, n - 1) }}{% endif %}{% endmacro %}"
    gate = GROWN.replace("WHAT", "box")
    text = macro + "{% set box = [] %}{% set _ = add(box, messages | length) %}" + gate + TURNS
    assert opened(text) == [gate.partition("Long.")[0]]


def test_a_list_of_tool_names_does_not_move() -> None:
    text = "{% set box = {'l': []} %}{% for t in tools %}{% set _ = box.l.append(t.function.name) %}{% endfor %}"
    assert opened(text + "{% if box.l %}{{ box.l | join(', ') }}{% endif %}" + TURNS) == []


@pytest.mark.parametrize(
    "text",
    [
        "{% set f = box.append %}{% for m in messages %}{% set _ = f(1) %}{% endfor %}",
        "{% for m in messages %}{% set _ = (box | attr('append'))(1) %}{% endfor %}",
        "{% for m in messages %}{% set _ = (messages | list).append(1) if loop.index < 40 %}{% endfor %}",
        "{% for l in [box, box] %}{% for m in messages %}{% set _ = box.append(1) %}{% endfor %}{{ l }}{% endfor %}",
    ],
)
def test_a_list_that_grows_unseen_is_too_complex(text: str) -> None:
    with pytest.raises(TooComplex):
        reading_of("{% set box = [] %}" + text + GROWN.replace("WHAT", "box") + TURNS)


def test_a_macro_within_itself_reads_what_it_names() -> None:
    macro = "{% macro deep(x) %}{% if x %}{{ deep(x) }}{% endif %}{{ WHAT }}{% endmacro %}"
    text = macro + HEAD + "{{ deep(m.content) }}" + BODY + "{% endfor %}"
    assert opened(text.replace("WHAT", "messages | length")) == ["{% macro deep(x) %}"]
    assert opened(text.replace("WHAT", "x | upper")) == []


@pytest.mark.parametrize(
    "text",
    [
        TURNS,
        # a message that shows only when others follow: nothing is lost
        HEAD.replace("<{{ m.role }}>", "") + "{% if not loop.last %}<m>" + BODY + "{% endif %}{% endfor %}",
        # the header of the answer inside the loop
        HEAD + BODY + "{% if loop.last %}<assistant>{% endif %}{% endfor %}",
        HEAD + BODY + "{{ '</s><assistant>' if loop.last else '</s>' }}{% endfor %}",
        HEAD + BODY + "{% if m.content %}{% if loop.last %}<assistant>{% endif %}{% endif %}{% endfor %}",
        # an answer is never last
        HEAD + "{% if m.role == 'assistant' and loop.last %}Unfinished: {% endif %}" + BODY + "{% endfor %}",
        # position, not what comes later
        HEAD + "{% if loop.first %}{{ tools | tojson }}{% endif %}" + BODY + "{% endfor %}",
        HEAD + "{% if loop.index0 == 0 %}{{ tools | tojson }}{% endif %}" + BODY + "{% endfor %}",
        HEAD + "{% if loop.previtem and loop.previtem.role == 'tool' %}Then: {% endif %}" + BODY + "{% endfor %}",
        HEAD + "{% if loop.index0 and messages[loop.index0 - 1].role != m.role %}New. {% endif %}{% endfor %}",
        HEAD + "{% for k in range(loop.index0 - 1, -1, -1) %}{{ messages[k].role }}{% endfor %}{% endfor %}",
        "{{ messages[0].content }}" + TURNS,
        "{% if messages[0].role == 'system' %}{{ messages[0].content }}{% set rest = messages[1:] %}"
        "{% else %}{% set rest = messages %}{% endif %}"
        "{% for m in rest %}{% if loop.first %}{{ tools | tojson }}{% endif %}<m>{{ m.content }}{% endfor %}",
        # found once, by a loop before
        "{% set ns = namespace(at=-1, found=false) %}{% for m in messages %}{% if not ns.found and m.role == 'user' %}"
        "{% set ns.at = loop.index0 %}{% set ns.found = true %}{% endif %}{% endfor %}"
        + HEAD + "{% if loop.index0 == ns.at %}{{ tools | tojson }}{% endif %}" + BODY + "{% endfor %}",
        "{% set users = messages | selectattr('role', 'equalto', 'user') | list %}"
        + HEAD + "{% if m == users[0] %}{{ tools | tojson }}{% endif %}" + BODY + "{% endfor %}",
        "{% set ns = namespace(sys='') %}{% for m in messages %}{% if m.role == 'system' %}"
        "{% set ns.sys = ns.sys + m.content %}{% endif %}{% endfor %}{{ ns.sys }}" + TURNS,
        "{% for m in messages if m.role == 'system' %}{{ m.content }}{% endfor %}"
        "{% for m in messages if m.role != 'system' %}<{{ m.role }}>{{ m.content }}{% endfor %}",
        # looking back within the same loop
        "{% set ns = namespace(before='') %}" + HEAD + "{% if ns.before != m.role %}New. {% endif %}"
        "{% set ns.before = m.role %}" + BODY + "{% endfor %}",
        # one message ahead, which is there as soon as this is not the last; results of one turn come together
        HEAD + BODY + "{% if loop.last or messages[loop.index0 + 1].role != 'tool' %}</results>{% endif %}{% endfor %}",
        HEAD + BODY + "{% if not loop.last and loop.nextitem.role == 'tool' %}, {% endif %}{% endfor %}",
        # the results behind a turn of calls, up to the next message of another kind
        HEAD + BODY + "{% if m.tool_calls %}{% set scan = namespace(stop=false) %}"
        "{% for k in range(loop.index, messages | length) %}{% if scan.stop %}{% elif messages[k].role != 'tool' %}"
        "{% set scan.stop = true %}{% else %}[{{ messages[k].content }}]{% endif %}{% endfor %}{% endif %}{% endfor %}",
        # the last of the tools, or of the calls, is not the last message
        "{% for t in tools %}{{ t | tojson }}{% if not loop.last %}, {% endif %}{% endfor %}" + TURNS,
        HEAD + "{% for c in m.tool_calls or [] %}{{ c.id }}{% if not loop.last %}, {% endif %}{% endfor %}{% endfor %}",
        # two arms that say the same
        HEAD + "{% if loop.last %}{{ m.content }}</m>{% else %}{{ m.content + '</m>' }}{% endif %}{% endfor %}",
        # a branch that ends the template
        HEAD + "{% if loop.last and m.role == 'tool' %}{{ raise_exception('no') }}{% endif %}" + BODY + "{% endfor %}",
        # a loop that always has a turn, or never one, or one by what the conversation opens with
        "{% for m in messages if m.role == 'user' %}{% else %}none{% endfor %}" + TURNS,
        "{% for m in messages | selectattr('role', 'equalto', 'system') %}{% else %}none{% endfor %}" + TURNS,
        "{% for m in messages if m.role == 'system' and m.content == 'zzz' %}{% else %}none{% endfor %}" + TURNS,
        "{% for m in messages if m.role == 'nobody' %}{% else %}none{% endfor %}" + TURNS,
        "{% for m in messages[::-1] if m.role == 'user' %}{% else %}none{% endfor %}" + TURNS,
        "{% for t in tools[3:] %}{% else %}none{% endfor %}{% for x in [1, 2] if x > 2 %}{% else %}none{% endfor %}"
        + TURNS,
        # the variables of an `else` are its own
        "{% set n = 1 %}{% for m in messages[300:] %}{% else %}{% set n = 2 %}{% endfor %}{{ n }}" + TURNS,
        # what the server sets
        "{% if enable_thinking is defined %}think{% endif %}{% if documents %}{{ documents }}{% endif %}" + TURNS,
        # a count behind all messages belongs to the tail
        TURNS + "{{ messages | length }} messages",
    ],
)  # fmt: skip
def test_what_looks_back_is_not_accused(text: str) -> None:
    assert opened(text + END) == []


DROPPED = SEEK + HEAD + "{% if CONDITION %}{{ m.reasoning_content }}{% endif %}" + BODY + "{% endfor %}"


def test_thinking_of_earlier_turns() -> None:
    text = DROPPED.replace("CONDITION", "m.reasoning_content and loop.index0 > ns.at")
    assert opened(text) == []
    assert opened(text, thoughts=True) == ["{% if m.reasoning_content and loop.index0 > ns.at %}"]
    kept = DROPPED.replace("CONDITION", "preserve_thinking or loop.index0 > ns.at")
    assert opened(kept, thoughts=True) == []
    # A turn of calls comes behind the last user's message while it is worked on; an answer never does.
    calls = DROPPED.replace("CONDITION", "m.reasoning_content and (m.tool_calls or loop.index0 > ns.at)")
    assert opened(calls, thoughts=True) == []


def test_what_a_tree_tells_of_its_places() -> None:
    text = (
        "{% if tools %}{{ tools | tojson }}{% endif %}{{ strftime_now('%d') }}"
        "{% if messages[0].content %}S{% endif %}"
        "{% for m in messages %}{% if loop.last %}{% if m.content %}hush{% endif %}{% endif %}"
        "{{ m.content }}{% endfor %}"
    )
    template = JinjaChatTemplate(text)
    reading = read_jinja(template)

    def said(span: Span | None) -> str:
        return "" if span is None else template.source.slice(span)

    at = text.index("hush")
    word = Span(at, at + 4)
    assert [said(b.open) for b in reading.via(word)] == [
        "{% for m in messages %}", "{% if loop.last %}", "{% if m.content %}",
    ]  # fmt: skip
    assert [said(b.open) for b in reading.conditions(word)] == ["{% if loop.last %}", "{% if m.content %}"]
    assert [said(b.open) for b in reading.loops(word)] == ["{% for m in messages %}"]
    gate = reading.gate(word)
    assert gate is not None
    assert said(gate.open) == "{% if loop.last %}"
    assert said(gate.span) == "{% if loop.last %}{% if m.content %}hush{% endif %}{% endif %}"
    first = reading.first_on(TOOLS)
    assert first is not None
    assert (said(first.open), said(first.span)) == ("{% if tools %}", "{% if tools %}{{ tools | tojson }}{% endif %}")
    dated = reading.first_on(DATE)
    assert dated is not None
    assert said(dated.span) == "{{ strftime_now('%d') }}"
    tools = reading.condition_on(Span(text.index("{{ tools"), text.index("{{ tools") + 1), TOOLS)
    assert tools is not None
    assert said(tools.open) == "{% if tools %}"
    system = reading.condition_on(Span(text.index("S{%"), text.index("S{%") + 1), SYSTEM)
    assert system is not None
    assert reading.conditions(system.span, without=SYSTEM) == ()
    assert said(reading.conversation) == "{% for m in messages %}"


def test_numbers_of_messages() -> None:
    text = (
        HEAD + "{% if messages | length > 40 or loop.index0 == 90 or m.content | length > 70 %}x{% endif %}{% endfor %}"
    )
    assert reading_of(text).counts == (40,)


def test_arms_of_a_chain_are_placed() -> None:
    arms = "{% if m.role == 'tool' %}T{% elif loop.last %}L{% else %}E{% endif %}"
    text = "{% for m in messages %}" + arms + ":{{ m.content }}{% endfor %}"
    reading = reading_of(text)
    at = text.index("L{% else")
    assert [text[b.open.start : b.open.end] for b in reading.via(Span(at, at + 1))][1:] == [
        "{% if m.role == 'tool' %}",
        "{% elif loop.last %}",
    ]
    (place,) = reading.places
    assert text[place.span.start : place.span.end] == "{% elif loop.last %}L{% else %}E{% endif %}"


OFF = "messages[-1].content == 'zzz'"  # what no loop that is rendered shows


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        # one side of `and` and `or` is the value, whatever is known of the truth
        ("{{ (OFF) or 1 }}", "{{ (OFF) or 1 }}"),
        ("{{ (OFF) and none }}", "{{ (OFF) and none }}"),
        ("{{ ((OFF) or 1) or 2 }}", "{{ ((OFF) or 1) or 2 }}"),
        ("{% if (messages[0].content or none) is none and OFF %}x{% endif %}", ""),
        ("{% if (messages[2].reasoning_content or '') is defined and OFF %}x{% endif %}", ""),
        ("{% if OFF %}{{ tools[3] or [] }}{% else %}{{ tools[3] }}{% endif %}", "{% if OFF %}"),
        ("{% if OFF %}{{ tools[3] and 1 }}{% else %}{{ tools[3] }}{% endif %}", "{% if OFF %}"),
        # without `else` it is undefined
        ("{% if ('a' if OFF) is defined %}x{% endif %}", ""),
        ("{% if ('a' if OFF) is string %}x{% endif %}", ""),
        ("{% if OFF %}{% set a = 'a' %}{% endif %}{% if a is defined %}x{% endif %}", "{% if a is defined %}"),
        ("{% if OFF %}{{ ('a' if tools[3]) | default('b') }}{% else %}{{ ('a' if tools[3]) }}{% endif %}",
         "{% if OFF %}"),
        # a namespace of an object
        ("{% set ns = namespace({'z': OFF}) %}{{ ns.z }}", "{{ ns.z }}"),
        ("{% set d = {'z': OFF} %}{% set ns = namespace(**d) %}{{ ns.z }}", "{{ ns.z }}"),
        ("{% set ns = namespace({'z': 1}, z=OFF) %}{{ ns.z }}", "{{ ns.z }}"),
        ("{% set d = {'z': 1, 'z': OFF} %}{{ d.z }}", "{{ d.z }}"),
        ("{{ {'z': OFF} }}", "{{ {'z': OFF} }}"),
        ("{% set ns = namespace(z=OFF) %}{{ ns }}", "{{ ns }}"),
        # what a macro is given beside its parameters
        ("{% macro m() %}{{ varargs[0] }}{% endmacro %}{{ m(OFF) }}", "{{ varargs[0] }}"),
        ("{% macro m(a) %}{% for v in varargs %}{{ v }}{% endfor %}{% endmacro %}{{ m(1, OFF) }}", "{{ v }}"),
        ("{% macro m() %}{{ kwargs.a }}{% endmacro %}{{ m(a=OFF) }}", "{{ kwargs.a }}"),
        ("{% macro m() %}{{ caller }}{% endmacro %}{{ m(caller=OFF) }}", "{{ caller }}"),
        ("{% macro m() %}{{ caller(OFF) }}{% endmacro %}{% call m() %}{{ varargs[0] }}{% endcall %}",
         "{{ varargs[0] }}"),
        ("{% macro m() %}{{ kwargs }}{% if kwargs and OFF %}x{% endif %}{% endmacro %}{% call m() %}{% endcall %}",
         "{% if kwargs and OFF %}"),
        ("{% macro m() %}{{ varargs[0] }}{% endmacro %}{{ m(*[OFF]) }}", "{% macro m() %}"),
        ("{% set a = 1 %}{% macro m(a=a) %}{% if not a and OFF %}x{% endif %}{% endmacro %}{{ m() }}",
         "{% if not a and OFF %}"),
        # an argument has its name
        ("{% if OFF %}{{ tools[0].x | indent(width=3) }}{% else %}{{ tools[0].x | indent(first=3) }}{% endif %}",
         "{% if OFF %}"),
        ("{% if OFF %}{{ dict(a=tools) }}{% else %}{{ dict(b=tools) }}{% endif %}", "{% if OFF %}"),
        ("{% if OFF %}{{ tools[0].x | trim(*['a']) }}{% else %}{{ tools[0].x | trim(['a']) }}{% endif %}",
         "{% if OFF %}"),
        ("{% set x = false | default(boolean=true, default_value=OFF) %}{{ x }}", "{{ x }}"),
        ("{{ 0 | default(1, OFF) }}", "{{ 0 | default(1, OFF) }}"),
        ("{% for t in tools %}{% if OFF %}{{ loop.cycle('a', 'b') }}{% else %}{{ loop.cycle('c', 'd') }}{% endif %}"
         "{% endfor %}", "{% if OFF %}"),
        ("{% for t in tools %}{{ loop.changed(OFF) }}{% endfor %}", "{{ loop.changed(OFF) }}"),
        # `in` a string; an attribute of an attribute; a test that is not known
        ("{% for m in messages | selectattr('role', 'in', 'user tool') %}{{ m.role }}{% endfor %}",
         "{% for m in messages %}"),
        ("{% for m in messages | selectattr('tool_calls.0') %}{{ m.role }}{% endfor %}",
         "{% for m in messages | selectattr('tool_calls.0') %}"),
        ("{% set u = messages | selectattr('role', tools[3], 'user') | list %}{% if not u[0] and OFF %}x{% endif %}",
         "{% if not u[0] and OFF %}"),
        # what is set within a block, or a `with`, is its own
        ("{% set y = 0 %}{% set x %}{% set y = 1 %}{% endset %}{% if not y and OFF %}x{% endif %}",
         "{% if not y and OFF %}"),
        ("{% set y = 0 %}{% filter upper %}{% set y = 1 %}{% endfilter %}{% if not y and OFF %}x{% endif %}",
         "{% if not y and OFF %}"),
        ("{% for i in [1, 2] %}{% with %}{% if not y and i == 2 and OFF %}x{% endif %}{% set y = 1 %}{% endwith %}"
         "{% endfor %}", "{% if not y and i == 2 and OFF %}"),
        # a method that is not called
        ("{% if messages[0].get and messages[0]['get'] and OFF %}x{% endif %}", ""),
        ("{% if {'a': 1}.items and 'a'.upper and 'a'['upper'] and OFF %}x{% endif %}", ""),
    ],
)  # fmt: skip
def test_expressions_are_no_more_than_they_are(text: str, tag: str) -> None:
    found = opened((text + TURNS + END).replace("OFF", OFF))
    assert found == [(tag or text.partition("%}")[0] + "%}").replace("OFF", OFF)]


# -- limits


def test_macros_that_double_are_too_complex() -> None:
    macros = "".join(
        f"{{% macro m{n}(x) %}}{{{{ m{n + 1}(x) }}}}{{{{ m{n + 1}(x) }}}}{{% endmacro %}}" for n in range(30)
    )
    text = macros + "{% macro m30(x) %}{{ x }}{% endmacro %}{{ m0('a') }}" + TURNS
    with pytest.raises(TooComplex):
        reading_of(text)


@pytest.mark.parametrize(
    ("text", "most"),
    [
        ("{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}", 100),
        ("{% set ns = namespace(t='a') %}" + "{% set ns.t = ns.t + ns.t %}" * 60, 500),
        ("{% set x = 'a' %}" + "{% if tools[3] %}{% set x = x + 'b' %}{% endif %}" * 200, 5000),
        ("{{ 'a' * 100000000 }}{{ range(100000000) | length }}", 100),
        ("{% for a in tools %}" * 12 + "x" + "{% endfor %}" * 12, 300),
        ("{% if tools %}" * 90 + "x" + "{% endif %}" * 90, 300),
    ],
)
def test_what_grows_is_read_with_little_work(text: str, most: int) -> None:
    template = JinjaChatTemplate(text, caps=Caps())
    record = Record()
    flow = Flow(Blocks(template.layout, template.tree), assumed(template, False, True)[0], record)
    before = flow.budget
    flow.run()
    assert record.places == set()
    assert 0 < before - flow.budget < most


@pytest.mark.parametrize(
    "expression",
    [
        *("'a'.removeprefix()", "'a'.startswith()", "'a' | upper('a')", "'a'.strip('a', 'b')", "'a'.count(1)"),
        *("'abc'['a':]", "[1, 2]['a':]", "'abc'[nothing:]", "'abc'[::0]", "[1][::0]", "messages['a':]"),
        *("range(100000000000000000000)", "range()", "range('a')", "range(1, 2, 0)", "range(1, 2, 3, 4)"),
        *("'a' < 3", "1 in 2", "1 % 0", "1 // 0", "2 ** 99999", "-'a'", "{[]: 1}", "{'a': 1}[[]]", "[1][1e999]"),
        *("[] | first", "'a' | default(1, 2, 3)", "messages | selectattr('role', 1)", "1 is divisibleby(0)"),
    ],
)
def test_constants_that_fail_are_read(expression: str) -> None:
    text = (
        "{% if tools[3] %}{% set x = WHAT %}{{ x }}{{ 'abc'[WHAT] }}{% for i in WHAT %}{{ i }}{% endfor %}{% endif %}"
    )
    gate = "{% if messages | length > 40 %}"
    assert opened(text.replace("WHAT", expression) + gate + "x{% endif %}" + TURNS)[-1:] == [gate]


def test_a_turn_that_is_left_within_a_block_is_too_complex() -> None:
    for block in ("{% set x %}a{% continue %}{% endset %}", "{% filter upper %}a{% continue %}{% endfilter %}"):
        with pytest.raises(TooComplex):
            reading_of(HEAD + block + "{% endfor %}")


def test_a_method_with_wrong_arguments_is_read() -> None:
    assert opened("{{ 'a'.upper(1) }}{{ 'a'.startswith() }}{{ 'a' | length(2) }}" + TURNS) == []
    assert opened("{% if 'banana'.count('a') == 3 or messages | length > 40 %}x{% endif %}" + TURNS) == []
