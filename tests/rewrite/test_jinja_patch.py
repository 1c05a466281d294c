"""Jinja templates made stable: what moves, what stays as it was, what is refused."""

from __future__ import annotations

import pytest

from templatefix.analysis.analyse import analyse
from templatefix.analysis.evidence import Evidence
from templatefix.analysis.loops import assistant, chat_loops, core_loops, system, thinking_loop, user
from templatefix.analysis.stability import run_loop
from templatefix.chat.jinja import JinjaChatTemplate
from templatefix.chat.request import Request
from templatefix.rewrite import patch as patching
from templatefix.rewrite.jinja_patch import patch_jinja
from templatefix.rewrite.proof import NAMES, Baseline, prove
from templatefix.rewrite.result import PatchResult
from templatefix.rewrite.traits import derived_traits, names_used

CALLS = """\
    {%- if message.tool_calls %}
        {%- for call in message.tool_calls %}
            {{- '<call>' + call.function.name + ' ' }}{{ call.function.arguments | tojson }}{{ '</call>' }}
        {%- endfor %}
    {%- endif %}
"""
MOVING = f"""\
{{%- set asked = messages | selectattr('role', 'equalto', 'user') | list %}}
{{%- for message in messages %}}
    {{%- if message.role == 'user' %}}
        {{%- if tools and message == asked[-1] %}}
            {{{{- '<tools>' }}}}
            {{%- for tool in tools %}}{{{{ tool | tojson }}}}{{%- endfor %}}
            {{{{- '</tools>' }}}}
        {{%- endif %}}
        {{{{- '<user>' + message.content + '</user>' }}}}
    {{%- elif message.role == 'assistant' %}}
        {{{{- '<assistant>' + message.content }}}}
{CALLS}
        {{{{- '</assistant>' }}}}
    {{%- else %}}
        {{{{- '<' + message.role + '>' + message.content + '</' + message.role + '>' }}}}
    {{%- endif %}}
{{%- endfor %}}
{{%- if add_generation_prompt %}}{{{{ '<assistant>' }}}}{{%- endif %}}
"""
LAST_SYSTEM = """\
{%- if messages[0]['role'] == 'system' %}
    {%- set told, rest = messages[0]['content'], messages[1:] %}
{%- else %}
    {%- set rest = messages %}
{%- endif %}
{%- for message in rest %}
    {%- if (message['role'] == 'user') == (loop.index0 % 2 == 1) %}{{ raise_exception('Take turns.') }}{%- endif %}
    {%- if loop.last and message['role'] == 'user' and told is defined %}
        {{- '<' + message['role'] + '>' + told + '\\n\\n' + message['content'] + '</>' }}
    {%- else %}
        {{- '<' + message['role'] + '>' + message['content'] + '</>' }}
    {%- endif %}
{%- endfor %}
"""
# Drops the thinking of earlier turns, and has empty marks where the last turn has none.
MARKING = f"""\
{{%- if tools %}}
    {{{{- '<tools>' }}}}{{%- for tool in tools %}}{{{{ tool | tojson }}}}{{%- endfor %}}{{{{ '</tools>' }}}}
{{%- endif %}}
{{%- set seen = namespace(last=-1) %}}
{{%- for message in messages %}}
    {{%- if message.role == 'user' %}}{{%- set seen.last = loop.index0 %}}{{%- endif %}}
{{%- endfor %}}
{{%- for message in messages %}}
    {{{{- '<' + message.role + '>' }}}}
    {{%- set reasoning = message.reasoning_content or '' %}}
    {{%- if loop.index0 > seen.last and message.role == 'assistant' %}}
        {{{{- '<think>' + reasoning + '</think>' }}}}
    {{%- endif %}}
    {{{{- message.content }}}}
{CALLS}
    {{{{- '</' + message.role + '>' }}}}
{{%- endfor %}}
{{%- if add_generation_prompt %}}{{{{ '<assistant>' }}}}{{%- endif %}}
"""
KEEPING = MARKING.replace("loop.index0 > seen.last", "(loop.index0 > seen.last or reasoning or tools)")
SWITCHED = MARKING.replace("loop.index0 > seen.last", "(hold_thinking or loop.index0 > seen.last)")


def patched(text: str, **options: object) -> PatchResult:
    return patch_jinja(JinjaChatTemplate(text), **options)  # type: ignore[arg-type]


def lost(text: str, loops: object = None) -> list[str]:
    template = JinjaChatTemplate(text)
    runs = [run_loop(template, loop, template.as_served) for loop in loops or core_loops()]  # type: ignore[attr-defined]
    return [run.loop.name for run in runs if run.lost or run.error]


@pytest.fixture(scope="module")
def moved() -> PatchResult:
    return patched(MOVING)


@pytest.fixture(scope="module")
def remembering() -> PatchResult:
    return patched(MARKING, keep_thinking=True)


def test_tools_at_the_last_user_message_stand_in_front_of_the_first_turn(moved: PatchResult) -> None:
    assert lost(MOVING)
    assert moved.changed
    assert "TF101" in moved.applied
    assert lost(moved.template) == []
    request = Request((user("Hm."), assistant("Ah."), user("Oh.")), core_loops()[0].requests[0].tools)
    assert JinjaChatTemplate(moved.template).render(request).text.startswith('<tools>{"type"')


def test_the_whole_proof_stands_behind_it(moved: PatchResult) -> None:
    assert moved.proof.results() == dict.fromkeys(NAMES, True)
    assert all(number > 0 for number in moved.proof.renders().values())


def test_bytes_outside_the_edits_stay(moved: PatchResult) -> None:
    tail = MOVING[MOVING.index("        {{- '<user>'") :]
    assert moved.template.endswith(tail)
    assert moved.template.startswith(MOVING.splitlines(keepends=True)[0])


def test_a_variant_is_left_alone(moved: PatchResult) -> None:
    again = patched(moved.template)
    assert not again.changed
    assert again.refused == ()


def test_what_only_the_reading_knows_of_the_variant_is_told() -> None:
    shy = "{%- if loop.last and message.content == 'zzz' %}!{%- endif %}"
    result = patched(MOVING.replace("        {{- '<user>'", shy + "{{- '<user>'"))
    assert result.changed
    line = result.template[: result.template.index("'zzz'")].count("\n") + 1
    said = [f"line {line} depends on later messages as it reads, but no loop shows it"]
    assert result.to_json("t")["notes"] == said
    assert list(patched(result.template).notes) == said
    assert patched(MOVING).to_json("t")["notes"] == []


def test_tools_at_the_first_user_message_if_asked_for() -> None:
    result = patched(MOVING, placement="first-user")
    assert result.placement == "first-user"
    assert lost(result.template) == []
    request = Request((system("S."), user("Hm."), assistant("Ah."), user("Oh.")), core_loops()[0].requests[0].tools)
    assert JinjaChatTemplate(result.template).render(request).text.startswith("<system>S.</system><tools>")


def test_a_template_without_tools_is_changed_only_when_asked_for_by_code() -> None:
    refused = patched(LAST_SYSTEM)
    assert not refused.changed
    assert "--select TF201" in refused.refused[0].reason
    result = patched(LAST_SYSTEM, select=("TF201",))
    assert lost(LAST_SYSTEM, chat_loops()) == ["chat"]
    assert lost(result.template, chat_loops()) == []
    request = Request((system("S."), user("Hm."), assistant("Ah."), user("Oh.")))
    assert JinjaChatTemplate(result.template).render(request).text == "<user>S.\n\nHm.</><assistant>Ah.</><user>Oh.</>"
    assert (refused.tools, result.tools, patched(result.template).tools) == (False, False, False)


def test_a_refusal_holds_what_was_found() -> None:
    result = patched(MOVING, ignore=("TF101",))
    assert [refusal.code for refusal in result.refused] == ["TF101"]
    assert "TF101" in {finding["code"] for finding in result.to_json("t")["remaining"]}
    assert result.remaining == analyse(JinjaChatTemplate(MOVING)).findings


def test_thinking_is_dropped_unless_keeping_is_asked_for() -> None:
    result = patched(MARKING)
    assert not result.changed
    assert result.template == MARKING
    assert "--keep-thinking" in result.refused[0].reason


def test_thinking_is_not_named_where_only_tools_move() -> None:
    counted = MOVING.replace("{{- '<tools>' }}", "{{- '<tools ' ~ messages | length ~ '>' }}")
    for placement in ("system", "first-user"):
        result = patched(counted, placement=placement)
        assert {refusal.code for refusal in result.refused} == {"TF101", "TF202"}
        assert not any("thought" in refusal.reason for refusal in result.refused)


def test_a_switch_of_the_template_is_named() -> None:
    assert Evidence(JinjaChatTemplate(SWITCHED)).thinking_switch == '{"hold_thinking": true}'
    assert """--chat-template-kwargs '{"hold_thinking": true}'""" in patched(SWITCHED).refused[0].reason
    assert "--chat-template-kwargs" not in patched(MARKING).refused[0].reason


def test_a_switch_that_shows_no_thinking_keeps_none() -> None:
    never = MARKING.replace("loop.index0 > seen.last", "not skip_thinking and loop.index0 > seen.last")
    assert Evidence(JinjaChatTemplate(never)).thinking_switch == ""
    assert "--chat-template-kwargs" not in patched(never).refused[0].reason


def test_check_and_patch_name_the_same_switch_where_more_than_thinking_moves() -> None:
    last = "{%- if loop.last and messages[0].role != 'system' %}!{%- endif %}"
    text = SWITCHED.replace("hold_thinking", "hold_thoughts").replace("    {{- '</'", last + "{{- '</'")
    said = """--chat-template-kwargs '{"hold_thoughts": true}'"""
    assert analyse(JinjaChatTemplate(text).with_kwargs({"hold_thoughts": True})).verdict == "unstable"
    assert [finding.code for finding in analyse(JinjaChatTemplate(text)).findings if said in finding.message] == [
        "TF203"
    ]
    assert said in patched(text).refused[0].reason


def test_thinking_is_kept_where_it_was_generated(remembering: PatchResult) -> None:
    assert remembering.proof.holds
    assert remembering.applied == ("TF203",)
    assert lost(remembering.template, (*core_loops(), thinking_loop(core=True))) == []
    request = Request((user("Hm."), {**assistant("Ah."), "thinking": "Why hm?"}, user("Oh.")))
    assert "<think>Why hm?</think>Ah." in JinjaChatTemplate(remembering.template).render(request).text


def test_a_chat_without_thinking_and_tools_is_not_touched_by_keeping(remembering: PatchResult) -> None:
    request = Request((system("S."), user("Hm."), assistant("Ah."), user("Oh.")))
    before, after = (JinjaChatTemplate(text).render(request).data for text in (MARKING, remembering.template))
    assert before == after


def test_the_words_that_come_with_kept_thinking_are_listed(remembering: PatchResult) -> None:
    assert remembering.added_text == ("</think>", "<think>")


@pytest.mark.parametrize(
    ("text", "point"),
    [
        (MARKING.replace("loop.index0 > seen.last and ", ""), "no_tools_identical"),  # empty marks in every chat
        (MARKING.replace("loop.index0 > seen.last", "loop.index0 >= seen.last"), "prefix_stable"),  # as before
        (KEEPING.replace("+ reasoning", ""), "no_tools_identical"),
        (KEEPING.replace("+ reasoning", "+ (reasoning if not tools else '')"), "messages_kept"),
        (KEEPING.replace("'<think>'", "('<think>' if not tools else '<thoughts>')"), "conserved"),
    ],
)
def test_a_wrong_way_to_keep_thinking_is_caught(text: str, point: str) -> None:
    base = Baseline(JinjaChatTemplate(MARKING), generated=3, thoughts=True, keeps=True)
    proof = prove(base, JinjaChatTemplate(text), added=("<think>", "</think>"))
    assert proof.failure is not None
    assert proof.failure.startswith(point), proof.failure


def test_a_broken_template_is_refused() -> None:
    result = patched("{% if tools %}{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}")
    assert not result.changed
    assert "prints no tool definitions" in result.refused[0].reason


def test_patch_takes_jinja_templates() -> None:
    result = patching.patch(JinjaChatTemplate(MARKING), keep_thinking=True)
    assert result.changed
    assert result.diff("a.jinja").startswith("--- a/a.jinja")


def test_looking_for_names_leaves_the_tree_as_it_was() -> None:
    template = JinjaChatTemplate("{% if messages[0].role in ['system', 'developer'] %}{{ strangers }}{% endif %}")
    before = repr(template.tree)
    assert names_used(template) == {"messages", "strangers"}
    assert repr(template.tree) == before


def test_what_a_server_is_told_on_its_command_line_is_true_of_its_first_tries_as_well() -> None:
    picky = "{% if not mood %}{{ raise_exception('In which mood?') }}{% endif %}" + MOVING
    template = JinjaChatTemplate(picky)
    assert derived_traits(template)["refusal at the start"] == "Jinja Exception: In which mood?"
    assert derived_traits(template.with_kwargs({"mood": "calm"}))["refusal at the start"] == ""
