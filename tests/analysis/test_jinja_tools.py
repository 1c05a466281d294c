"""What counts as the tools in a Jinja prompt, and what stands there instead of JSON."""

from __future__ import annotations

from typing import Any

import pytest

from templatefix.analysis.analyse import Analysis, analyse
from templatefix.analysis.findings import Finding
from templatefix.analysis.loops import TOOLS, system, user
from templatefix.analysis.tools import tool_passes
from templatefix.chat.jinja import JinjaChatTemplate
from templatefix.chat.jinja_values import Caps
from templatefix.chat.request import Request

BARE = {"type": "function", "function": {"name": "stop", "description": "Ends it.", "parameters": {"type": "object"}}}
# As in a def of Python: the name twice, the parameters in other words.
REWORDED = (
    "{% for tool in tools %}{% set f = tool.function %}name {{ f.name }} as def {{ f.name }}("
    "{% for key, value in f.parameters.properties | items %}{{ key }}: {{ value.type }}{% endfor %}) "
    "{{ f.description }}{% endfor %}"
)
NAMES = "{% for tool in tools %}{{ tool.function.name }}, {% endfor %}"
TURNS = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls or [] %}CALL{% endfor %}{% endfor %}"
)


def passes(text: str, tools: Any = TOOLS, caps: Caps | None = None) -> int:
    request = Request((system(), user("Hm?")), tuple(tools))
    return len(tool_passes(JinjaChatTemplate(text, caps=caps).render(request), request))


def found(text: str, code: str) -> list[Finding]:
    return [finding for finding in judged(text).findings if finding.code == code]


def judged(text: str) -> Analysis:
    return analyse(JinjaChatTemplate(text))


ASKING = "{% if tools %}You have tools.{% endif %}"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (ASKING + "{% for m in messages %}{{ m.tools | tojson if m.tools }}{% endfor %}", "m.tools"),
        (ASKING + "{{ messages[0]['tools'] or '' }}", "messages[0]['tools']"),
        (ASKING + "{% set first = messages | first %}{{ first.tools or '' }}", "first.tools"),
        (ASKING + "{% set rest = messages[1:] %}{% for m in rest %}{{ m.tools or '' }}{% endfor %}", "m.tools"),
        (ASKING + "{% for i in range(1) %}{{ messages[i].tools or '' }}{% endfor %}", "messages[…].tools"),
        ("{% set ns = namespace(tools=tools) %}{% if ns.tools %}You have tools.{% endif %}", None),
        (ASKING + "{# never m.tools #}{% raw %}messages[0].tools{% endraw %}", None),
        (ASKING + '{% for m in messages %}{{ "m.tools" if m.x }}{% endfor %}', None),
        (ASKING + "{% for name in tools %}{{ name.tools or '' }}{% endfor %}", None),
    ],
)
def test_only_what_asks_a_message_is_named(text: str, place: str | None) -> None:
    (finding,) = found(text + TURNS, "TF102")
    told = f" It looks for them in `{place}`; the server hands them over as `tools`, beside the messages."
    assert finding.message.partition("never learns of them.")[2] == (told if place else "")


STOP = "{% for m in messages %}GUARD{{ m.content }}{% for c in m.tool_calls or [] %}CALL{% endfor %}{% endfor %}"


@pytest.mark.parametrize(
    ("guard", "mended"),
    [
        ("{% if m.tool_calls and m.tool_calls | length > 1 %}STOP{% endif %}", True),
        ("{% if m['tool_calls'] | length == 1 or not m.tool_calls %}{% else %}STOP{% endif %}", True),
        ("{% if m.role == 'user' %}{% elif 1 < m.tool_calls | list | count %}STOP{% endif %}", True),
        ("{% if m.tool_calls and m.tool_calls | length < 2 %}{% elif m.role == 'assistant' %}STOP{% endif %}", True),
        ("{% if m.tool_calls | length > 1 %}{% if m.role != 'x' %}STOP{% endif %}{% endif %}", False),
        ("{% if m.tool_calls and messages | length > 5 %}STOP{% endif %}", False),
        ("{# {% if m.tool_calls | length > 1 %} #}{% if m.role == 'tool' %}STOP{% endif %}", False),
        ("{% raw %}{% if m.tool_calls | length > 1 %}{% endraw %}{% if m.role == 'tool' %}STOP{% endif %}", False),
    ],
)
def test_what_stops_at_several_calls(guard: str, mended: bool) -> None:
    text = "{{ tools | tojson }}" + STOP.replace("GUARD", guard.replace("STOP", "{{ raise_exception('no') }}"))
    assert {each.fixable for each in found(text, "TF305")} == {mended}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("{{ tools | tojson }}", 1),
        (REWORDED, 1),
        (REWORDED + REWORDED, 2),
        (NAMES, 0),
        (NAMES + REWORDED, 1),
        (REWORDED + NAMES, 1),
        ("{% for tool in tools %}{{ tool | tojson }} {{ tool.function.name }}!{% endfor %}", 1),
        ("{{ tools }}", 0),  # the server prints nothing for objects
        ("{{ '' ~ tools }}", 1),
        ("{{ tools | tojson(indent=4) | indent(8) }}", 1),  # one datum in many lines
        ("{{ tools | tojson(indent=4) | indent(8) }} Again: {{ tools | tojson(indent=4) | indent(8) }}", 2),
        ("{% for line in (tools | tojson(indent=1)).split('\\n') %}{{ line }}\n{% endfor %}", 1),
        ("{% for tool in tools %}{{ tool | tojson(indent=2) | indent(2) }}{% endfor %}", 1),
    ],
)
def test_passes_over_the_definitions(text: str, count: int) -> None:
    assert passes(text) == count


@pytest.mark.parametrize("tools", [TOOLS[:1], (*TOOLS, BARE), (BARE, *TOOLS), (BARE,)])
def test_a_tool_without_parameters_is_defined_by_its_description(tools: Any) -> None:
    assert passes(REWORDED, tools) == 1
    assert passes(NAMES, tools) == 0


def test_definitions_in_other_words_are_no_fault() -> None:
    assert judged(REWORDED + TURNS.replace("CALL", "{{ c | tojson }}")).verdict == "stable"


def test_json_over_several_lines_is_no_python_notation() -> None:
    text = "{{ tools | tojson }}" + TURNS.replace("CALL", "{{ c.function.arguments | tojson(indent=4) | indent(8) }}")
    assert found(text, "TF301") == []


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        ("{{ '<tools>' + tools }}", "An object in Python's notation stands in the prompt"),
        ("{{ tools | string }}", "An object in Python's notation stands in the prompt"),
        ("{{ tools }}", "llama-server prints no text for one"),
        ("{% for tool in tools %}{{ tool }}{% endfor %}", "llama-server prints no text for one"),
    ],
)
def test_objects_that_are_no_json(printed: str, said: str) -> None:
    (finding,) = found(printed + TURNS.replace("CALL", "{{ c | tojson }}"), "TF301")
    assert said in finding.message
    assert (finding.severity, finding.fixable) == ("error", True)
    assert printed.index("{{") == finding.span.start


def test_text_that_is_printed_as_a_list_of_parts() -> None:
    # A template that goes through the parts of each message is given parts, of the system message as well.
    text = (
        "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}"
        "{% if m.role == 'system' %}{{ 'S: ' + m.content }}"
        "{% else %}{% for part in m.content %}{{ part.text }}{% endfor %}{% endif %}"
        "{% for c in m.tool_calls or [] %}{{ c | tojson }}{% endfor %}{% endfor %}"
    )
    (finding,) = found(text, "TF301")
    assert finding.message.startswith("A message's text stands in the prompt as a list in Python's notation: `[{'type'")
    assert not finding.fixable


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{% if m.tools is defined %}{{ m.tools | tojson }}{% endif %}", "in `m.tools`; the server hands them over"),
        ("{% if 'tools' in m %}{{ m['tools'] | tojson }}{% endif %}", "in `m['tools']`; the server hands them over"),
        ("{{ functions }}{% if tools %}You have tools.{% endif %}", "prints the variable `functions`; the server"),
        ("{% if tools %}You have tools.{% endif %}", "the model never learns of them."),
    ],
)
def test_where_a_template_looks_for_its_tools(text: str, said: str) -> None:
    (finding,) = found("{% for m in messages %}" + text + "{{ m.content }}{% endfor %}", "TF102")
    assert said in finding.message
    assert finding.message.endswith(said) is ("never learns" in said)
