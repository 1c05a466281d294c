"""Jinja templates judged on the same loops, by the same rules."""

from __future__ import annotations

import datetime
import os
from collections import defaultdict
from typing import Any

import pytest
from support.shared import GOLDEN_DATE

from templatefix.analysis.analyse import Analysis, analyse
from templatefix.analysis.evidence import Evidence
from templatefix.analysis.findings import Finding
from templatefix.chat.jinja import JinjaChatTemplate
from templatefix.chat.rendering import RenderError
from templatefix.chat.serving import Serving

HEAD = "{% if tools %}<tools>{{ tools | tojson }}</tools>{% endif %}"
CALLS = "{% for c in m.tool_calls or [] %}{{ c.function | tojson }}{% endfor %}"
TURN = "<{{ m.role }}>{{ m.content }}" + CALLS + "</{{ m.role }}>"
END = "{% if add_generation_prompt %}<assistant>{% endif %}"
SEEK = (
    "{% set ns = namespace(at=-1) %}{% for m in messages %}{% if m.role == 'user' %}"
    "{% set ns.at = loop.index0 %}{% endif %}{% endfor %}"
)


def turns(body: str) -> str:
    return "{% for m in messages %}" + body + "{% endfor %}" + END


def found(text: str, serving: Serving | None = None) -> Analysis:
    return analyse(JinjaChatTemplate(text), serving=serving or Serving())


def one(analysis: Analysis, code: str) -> Finding:
    return next(finding for finding in analysis.findings if finding.code == code)


def test_a_stable_template() -> None:
    analysis = found(HEAD + turns(TURN))
    assert (analysis.verdict, analysis.reason, analysis.findings, analysis.disagreement) == ("stable", None, (), ())


@pytest.mark.parametrize(
    "last", ["loop.last", "loop.index == messages | length", "m == messages[-1]", "loop.revindex0 == 0"]
)
def test_tools_at_the_last_message(last: str) -> None:
    text = turns("{% if " + last + " %}" + HEAD + "{% endif %}" + TURN)
    analysis = found(text)
    assert analysis.verdict == "unstable"
    place = one(analysis, "TF101").span
    assert text.encode()[place.start : place.end].decode() in text
    assert text.index("{% if") <= place.start < text.index("</tools>")


def test_tools_at_the_last_user_message() -> None:
    analysis = found(SEEK + turns("{% if loop.index0 == ns.at %}" + HEAD + "{% endif %}" + TURN))
    assert analysis.verdict == "unstable"
    assert one(analysis, "TF101").severity == "error"


def test_calls_and_results_that_are_dropped() -> None:
    body = "{% if m.role != 'tool' %}<{{ m.role }}>{{ m.content }}{% endif %}"
    codes = {finding.code for finding in found(HEAD + turns(body)).findings}
    assert {"TF302", "TF303"} <= codes


def test_a_template_that_raises() -> None:
    body = "{% if m.role == 'tool' %}{{ raise_exception('no tools, please') }}{% endif %}" + TURN
    analysis = found(HEAD + turns(body))
    assert analysis.verdict == "broken"
    assert one(analysis, "TF305").message == "Rendering fails: Jinja Exception: no tools, please"


def test_a_date_of_the_server_s_clock() -> None:
    text = "It is {{ strftime_now('%d %B') }}." + HEAD + turns(TURN)
    place = one(found(text), "TF204").span
    assert text[place.start : place.end] == "{{ strftime_now('%d %B') }}"


def test_a_dependence_that_no_loop_shows_is_said() -> None:
    note = "{% if loop.last and 'zanzibar' in m.content %}Note. {% endif %}"
    analysis = found(HEAD + turns(note + TURN))
    assert analysis.verdict == "stable"
    assert analysis.disagreement == ("line 1 depends on later messages as it reads, but no loop shows it",)


@pytest.mark.parametrize(
    "head",
    [
        "{% for m in messages %}{% if 'zanzibar' in m.content %}[flag]{% endif %}{% endfor %}",
        "{% for m in messages %}{% if m.role == 'tool' and 'zanzibar' in m.content %}[flag]{% endif %}{% endfor %}",
        "{% for m in messages %}{% if m.content == 'zanzibar' %}[flag]{% break %}{% endif %}{% endfor %}",
        "{% for m in messages if m.content == 'zanzibar' %}[flag]{% endfor %}",
        "{% for m in messages | selectattr('content', 'equalto', 'zanzibar') %}[flag]{% endfor %}",
        "{% for m in messages[300:] %}[flag]{% endfor %}",
        "{% for m in messages %}{% if loop.index < 300 %}{% continue %}{% endif %}[flag]{% endfor %}",
        "{% for m in messages %}{% if loop.index > 300 %}[flag]{% break %}{% endif %}{% endfor %}",
        "{% for t in tools %}{% for m in messages if m.content == 'zanzibar' %}{{ t.name }}{% endfor %}{% endfor %}",
    ],
)
def test_a_loop_that_prints_now_and_then_is_not_the_conversation(head: str) -> None:
    analysis = found("\n" + HEAD + "\n" + head + "\n" + turns(TURN))
    assert analysis.verdict == "stable"
    assert analysis.disagreement == ("line 3 depends on later messages as it reads, but no loop shows it",)


@pytest.mark.parametrize("what", ["tools | tojson", "messages[0].content", "messages[-1].content"])
def test_what_rarely_comes_behind_the_conversation_is_said(what: str) -> None:
    after = "{% if messages[-1].content == 'zanzibar' %}{{ " + what + " }}{% endif %}"
    analysis = found(HEAD + turns(TURN) + "\n" + after)
    assert analysis.verdict == "stable"
    assert analysis.disagreement == ("line 2 depends on later messages as it reads, but no loop shows it",)


def test_a_loop_is_looked_for_that_brings_tools_behind_the_conversation() -> None:
    analysis = found(HEAD + turns(TURN) + "{% if messages | length > 300 %}{{ tools | tojson }}{% endif %}")
    assert (analysis.verdict, analysis.disagreement) == ("unstable", ())


@pytest.mark.parametrize(
    "text",
    [
        turns(TURN) + "{% if messages[-1].content == 'zanzibar' %}Note.{% endif %}",
        turns(TURN) + "{% for m in messages %}{% if loop.last and m.role == 'tool' %}Note.{% endif %}{% endfor %}",
        "{% for m in messages %}{% if loop.first %}{{ m.content }}{% endif %}{% endfor %}" + turns(TURN),
        "{% for m in messages %}{% if m.role == 'system' %}{{ m.content }}{% endif %}{% endfor %}" + turns(TURN),
    ],
)
def test_text_behind_the_conversation_and_a_loop_that_does_not_grow_are_free(text: str) -> None:
    analysis = found(HEAD + text)
    assert (analysis.verdict, analysis.disagreement) == ("stable", ())


@pytest.mark.parametrize(
    ("note", "loop"),
    [
        ("{% if messages | length > 217 %}Note. {% endif %}", "around-217-messages"),
        ("{% if m.reasoning_content and loop.index0 + 9 < messages | length %}Note. {% endif %}", "random-"),
    ],
)
def test_loops_are_looked_for_that_show_what_the_tree_tells(note: str, loop: str) -> None:
    evidence = Evidence(JinjaChatTemplate(HEAD + turns("<{{ m.role }}>" + note + "{{ m.content }}" + CALLS)))
    assert evidence.disagreement == ()
    assert next(run.loop.name for run in evidence.core if run.lost).startswith(loop)


def test_chats_are_looked_for_where_there_are_no_tools() -> None:
    note = "{% if messages | length > 61 %}Note. {% endif %}"
    analysis = found(turns("<{{ m.role }}>" + note + "{{ m.content }}"))
    assert (analysis.verdict, analysis.disagreement) == ("unstable", ())


def test_what_cannot_be_read_is_judged_by_rendering_alone() -> None:
    frame = "{% macro frame() %}[{{ caller() }}]{% endmacro %}"
    text = frame + HEAD + turns("{% call frame(*[]) %}{{ m.role }}{% endcall %}" + TURN)
    analysis = found(text)
    assert analysis.verdict == "stable"
    assert analysis.disagreement == ("the template is too complex to be read: it is judged by rendering alone",)


def test_the_branch_that_flips_is_the_place() -> None:
    text = HEAD + turns("{% if m.role == 'user' %}{% if loop.last %}Question: {% endif %}{% endif %}" + TURN)
    analysis = found(text)
    place = one(analysis, "TF202").span
    assert text[place.start : place.end] in ("{% if loop.last %}", "Question: ", "Question:")


THOUGHT = SEEK + turns(
    "<{{ m.role }}>{% if m.reasoning_content and (CONDITION) %}<think>{{ m.reasoning_content }}</think>{% endif %}"
    "{{ m.content }}" + CALLS + "</{{ m.role }}>"
)


def test_thinking_that_is_dropped_decides_the_verdict() -> None:
    analysis = found(HEAD + THOUGHT.replace("CONDITION", "loop.index0 > ns.at"))
    assert analysis.verdict == "unstable"
    finding = one(analysis, "TF203")
    assert (finding.severity, finding.loop) == ("error", "thinking-history")
    assert finding.message == "Thinking is shown for a while and then dropped from the history."
    assert found(HEAD + THOUGHT.replace("CONDITION", "true")).verdict == "stable"


def test_a_switch_that_keeps_it_is_named() -> None:
    analysis = found(HEAD + THOUGHT.replace("CONDITION", "loop.index0 > ns.at or keep_past_thinking"))
    message = "dropped from the history. `--chat-template-kwargs '{\"keep_past_thinking\": true}'` keeps it."
    assert one(analysis, "TF203").message.endswith(message)


def test_the_server_s_own_switch_is_on() -> None:
    assert found(HEAD + THOUGHT.replace("CONDITION", "loop.index0 > ns.at or preserve_thinking")).verdict == "stable"


def test_a_template_that_the_server_does_not_start_with() -> None:
    call = '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments }}}'
    analysis = found(HEAD + turns(TURN.replace("{{ c.function | tojson }}", call)))
    assert analysis.verdict == "not-evaluated"
    assert analysis.reason is not None
    assert analysis.reason.startswith("llama-server does not start with the template: Unable to generate parser")


@pytest.mark.parametrize(("memory", "kept"), [(None, True), ("full", True), ("swa", False), ("recurrent", False)])
def test_what_it_costs_hangs_on_the_memory(memory: Any, kept: bool) -> None:
    analysis = found(HEAD + THOUGHT.replace("CONDITION", "loop.index0 > ns.at"), Serving(memory=memory))
    finding = one(analysis, "TF203")
    assert finding.cost is not None
    assert (finding.cost.kept_bytes > 0) is kept
    assert ("the whole prompt is read again" in finding.message) is not kept


def unstable_in_golden(rows: list[dict[str, Any]]) -> set[str]:
    """The templates of which a prompt loses more than its end in the next one of an append-only conversation."""
    prompts: dict[tuple[str, str], dict[int, str]] = defaultdict(dict)
    for row in rows:
        # System messages that come later are another matter (TF205), and so are answers that are continued.
        if row.get("ok") and row["scenario"] not in ("many-systems", "assistant-last", "images"):
            prompts[row["id"], row["scenario"]][row["step"]] = row["output"]
    found = set()
    for (key, scenario), steps in prompts.items():
        for step, prompt in steps.items():
            following = steps.get(step + 1, prompt)
            lost = len(prompt) - len(os.path.commonprefix([prompt, following]))  # noqa: RUF071
            if lost > 60 and (key, scenario) not in ENDS:
                found.add(key)
    return found


# A long text of the template's own behind the last message: nothing that a conversation could keep.
ENDS = {("llamacpp-cohereforai-c4ai-command-r-plus-tool-use", name) for name in ("chat", "chat-nosystem", "think-high")}


def test_nothing_that_golden_loops_show_unstable_is_called_stable(
    jinja_corpus: dict[str, dict[str, Any]], jinja_golden: list[dict[str, Any]]
) -> None:
    shown = unstable_in_golden(jinja_golden)
    assert len(shown) == 14
    day = datetime.date.fromisoformat(GOLDEN_DATE)
    verdicts: dict[str, set[str]] = defaultdict(set)
    for key, row in jinja_corpus.items():
        try:
            template = JinjaChatTemplate(row["template"], bos="<|im_start|>", eos="<|im_end|>", date=day)
        except RenderError:
            continue
        analysis = analyse(template)
        assert analysis.disagreement == (), key
        if key in shown:
            reading = Evidence(template).reading
            assert reading is not None, key
            assert reading.places, key
        verdicts[analysis.verdict].add(key)
        if analysis.verdict == "unstable":
            assert any(finding.severity == "error" for finding in analysis.findings), key
    assert shown <= verdicts["unstable"]
    assert {verdict: len(keys) for verdict, keys in verdicts.items()} == {
        "stable": 120,
        "unstable": 21,  # seven of Gemma 4 lose the mark behind a text that stands beside a call: 8 bytes
        "broken": 11,
        "not-evaluated": 2,  # which the server does not start with, as the golden renders say
    }


@pytest.mark.parametrize(
    ("condition", "name"),
    [
        ("preserve_thinking or loop.index0 > ns.at", "preserve_thinking"),
        ("not truncate_history_thinking or loop.index0 > ns.at", "truncate_history_thinking"),
    ],
)
def test_what_is_stable_by_the_server_s_own_switch_says_so(condition: str, name: str) -> None:
    analysis = found(HEAD + THOUGHT.replace("CONDITION", condition))
    assert (analysis.verdict, analysis.reason) == (
        "stable",
        f"llama-server sets {name}, another server may drop past thinking",
    )
    unused = found(HEAD + THOUGHT.replace("CONDITION", f"{name} is defined or true"))
    assert (unused.verdict, unused.reason) == ("stable", None)
