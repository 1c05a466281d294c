"""The families' templates: stable, read alike by real Go, and found by the marks of a Jinja text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.families import MISTRAL, MIXTRAL, QWEN3, QWEN35
from support.oracle import Oracle

from templatefix.analysis.analyse import analyse
from templatefix.analysis.loops import core_loops, other_loops, thinking_loop
from templatefix.chat.go import GoChatTemplate
from templatefix.chat.jinja import JinjaChatTemplate
from templatefix.chat.rendering import RenderError
from templatefix.chat.request import Request
from templatefix.rewrite.patch import patch
from templatefix.servers.families import FAMILIES, BuiltIn, Family, NoFamily, capabilities_of, family_of

MODELFILES = Path(__file__).resolve().parents[2] / "modelfiles"
SAMPLES = {"llama31-like", "mistral-like", "stable"}  # to try the commands with
TOOL = {
    "type": "function",
    "function": {
        "name": "look_up",
        "description": "Finds a word.",
        "parameters": {"type": "object", "properties": {"word": {"type": "string"}, "depth": {"type": "integer"}}},
    },
}
CALLS = [
    {"function": {"name": "look_up", "arguments": {"word": 'a "b" c', "depth": 2}}},
    {"function": {"name": "look_up", "arguments": {"word": "owl"}}},
]
JSON = (
    '{"name": "look_up", "KEY": {"depth": 2, "word": "a \\"b\\" c"}}',
    '{"name": "look_up", "KEY": {"word": "owl"}}',
)
ONE, TWO = (call.replace("KEY", "arguments") for call in JSON)
CHATML = f"Looking.<tool_call>\n{ONE}\n</tool_call>\n<tool_call>\n{TWO}\n</tool_call>"
# What a model has to write for the reply below. Ollama's own readers of calls (its source as of 2026-08-21) made of all
# the same thought, content and calls again; of Llama 3.1's form they read one call that stands alone.
WRITTEN = {
    "qwen3": f"<think>\nLet me see.</think>\n\n{CHATML}",
    "qwen3-thinking": f"Let me see.</think>\n\n{CHATML}",
    "qwen3.5": (
        "Let me see.\n</think>\n\nLooking.\n\n<tool_call>\n<function=look_up>\n<parameter=depth>\n2\n</parameter>\n"
        '<parameter=word>\na "b" c\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=look_up>\n'
        "<parameter=word>\nowl\n</parameter>\n</function>\n</tool_call>"
    ),
    "glm4.5": (
        "Let me see.</think>\nLooking.\n<tool_call>look_up\n<arg_key>depth</arg_key>\n<arg_value>2</arg_value>\n"
        '<arg_key>word</arg_key>\n<arg_value>a "b" c</arg_value>\n</tool_call>\n<tool_call>look_up\n'
        "<arg_key>word</arg_key>\n<arg_value>owl</arg_value>\n</tool_call>"
    ),
    "mixtral": f" Looking.[TOOL_CALLS] [{ONE}, {TWO}]",
    "mistral-nemo": f"Looking.[TOOL_CALLS][{ONE}, {TWO}]",
    "llama3.1": "Looking." + "\n{}\n{}".format(*(call.replace("KEY", "parameters") for call in JSON)),
}
each = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)


def test_every_sample_is_a_family_or_one_to_try() -> None:
    files = {path.name.removesuffix(".Modelfile") for path in MODELFILES.glob("*.Modelfile")}
    assert files - SAMPLES == {family.name for family in FAMILIES} == WRITTEN.keys()


@each
def test_a_familys_template_is_stable_and_needs_no_patch(family: Family) -> None:
    template = GoChatTemplate(family.template)
    analysis = analyse(template)
    assert (analysis.verdict, analysis.findings) == ("stable", ())
    result = patch(template)
    assert (result.changed, result.refused) == (False, ())
    assert template.derived.round_trip


@each
def test_prompts_grow_by_what_the_model_writes(family: Family) -> None:
    template = GoChatTemplate(family.template)
    asked = ({"role": "system", "content": "Be brief."}, {"role": "user", "content": "Find it."})
    reply = {"role": "assistant", "content": "Looking.", "thinking": "Let me see.", "tool_calls": CALLS}
    before, after = (
        template.render_text(template.as_served(Request(messages, (TOOL,)))) for messages in (asked, (*asked, reply))
    )
    assert after == before + WRITTEN[family.name]


@each
def test_real_go_renders_a_family_as_we_do(go_oracle: Oracle, family: Family) -> None:
    template = GoChatTemplate(family.template)
    loops = [*core_loops(), *other_loops(), thinking_loop(core=True)]
    for request in [request for loop in loops for request in loop.requests]:
        for served in (template.as_served(request), template.as_served(request).thinking_as_served(False)):
            question: dict[str, Any] = {"op": "chat", "template": family.template, "messages": list(served.messages)}
            question |= {"tools": list(served.tools)} if served.tools else {}
            question |= {"think": served.think} if served.think is not None else {}
            question |= {"think_level": served.think_level} if served.think_level else {}
            assert go_oracle.ask(question) == {"ok": True, "output": template.render_text(served)}


@each
def test_no_messages_are_no_failure(family: Family) -> None:
    assert GoChatTemplate(family.template).render_text(Request(())) in ("", "[gMASK]<sop>")


def test_thinking_that_is_off_is_written_as_the_models_know_it() -> None:
    asked = Request(({"role": "user", "content": "?"},), think=False)
    tails = {family.name: GoChatTemplate(family.template).render_text(asked).rpartition("?")[2] for family in FAMILIES}
    assert tails["qwen3"] == tails["qwen3.5"] == "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
    assert tails["glm4.5"] == "/nothink<|assistant|>\n<think></think>"


@pytest.mark.parametrize(
    ("text", "name", "capabilities"),
    [
        (QWEN3, "qwen3", {"tools", "thinking"}),
        (QWEN35, "qwen3.5", {"tools", "thinking"}),
        (QWEN3.replace("assistant\\n' }}{%- endif", "assistant\\n<think>\\n' }}{%- endif"), "qwen3-thinking", None),
        (MISTRAL, "mistral-nemo", {"tools"}),
        (MIXTRAL, "mixtral", {"tools"}),
    ],
)
def test_a_family_is_known_by_what_it_writes(text: str, name: str, capabilities: set[str] | None) -> None:
    assert family_of(JinjaChatTemplate(text)).name == name
    assert capabilities is None or capabilities_of(text) == capabilities


def test_what_is_of_no_family_is_told() -> None:
    with pytest.raises(
        NoFamily, match=r"^the template is of none of the families known here \(qwen3\.5, qwen3-thinking"
    ):
        family_of(JinjaChatTemplate("{{ tools }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"))
    with pytest.raises(BuiltIn, match="Gemma 4"):
        family_of(JinjaChatTemplate("{% for m in messages %}<|turn>{{ m.role }}\n{{ m.content }}<turn|>{% endfor %}"))
    chats = (
        "{% for m in messages %}{{ '[INST] ' + m.content + '[/INST]' if m.role == 'user' else m.content }}{% endfor %}"
    )
    with pytest.raises(NoFamily, match=r"^the text takes no tools, while every Go template here would offer the model"):
        family_of(JinjaChatTemplate(chats))


@pytest.mark.parametrize(
    ("text", "mark", "other"),
    [
        (MISTRAL, "'[INST]' +", "'Be just.[INST]' +"),  # words of its own
        (MISTRAL, "'[TOOL_CALLS]['", "'[TOOL_CALLS]<'"),  # calls in another form
        (MISTRAL, '[TOOL_RESULTS]{"content"', '[TOOL_RESULTS]{"result"'),  # results in another form
        (MISTRAL, "{{ tools | tojson }}", "{{ tools | map(attribute='function.name') | join }}"),  # names alone
        (MISTRAL, "{{- message.content + '</s>' }}", "{{- message.content + '</s> ' }}"),  # replies in another form
        (MISTRAL, "{%- set told", "{#- <think></think> #}{%- set told"),  # a capability that the family lacks
        (QWEN3, "<think>", "<thought>"),  # one that it would add
        (QWEN3, "'<|im_start|>assistant\\n' }}", "'<|im_start|>assistant\\nWell, ' }}"),  # prompts that end otherwise
    ],
)
def test_what_differs_in_one_thing_is_of_no_family(text: str, mark: str, other: str) -> None:
    assert mark in text
    with pytest.raises(NoFamily):
        family_of(JinjaChatTemplate(text.replace(mark, other)))


# All of the corpus that has one; by eye, each is of the models whose layout it is.
OF_THE_CORPUS = {
    "hf-llama3.1-8b": "llama3.1",
    "hf-nemotron-70b": "llama3.1",
    "hf-qwen3-0.6b": "qwen3",
    "hf-qwen3-next-80b": "qwen3-thinking",
    "hf-qwq-32b-2": "qwen3-thinking",
    "hf-qwq-32b-3": "qwen3-thinking",
    "llamacpp-mistralai-mistral-nemo-instruct-2407": "mistral-nemo",
    "trl-glm4moe": "glm4.5",
    "trl-glm4moe-training": "glm4.5",
    "trl-qwen3-5-think": "qwen3.5",
    "trl-qwen3-5-think-training": "qwen3.5",
    "trl-qwen3-6": "qwen3.5",
    "trl-qwen3-6-training": "qwen3.5",
    "trl-qwen3-training": "qwen3",
    "trl-template": "qwen3",
}


def test_families_of_known_texts(jinja_corpus: dict[str, dict[str, Any]]) -> None:
    found = {}
    for name, row in jinja_corpus.items():
        try:
            found[name] = family_of(JinjaChatTemplate(row["template"])).name
        except (NoFamily, RenderError):
            continue
    assert found == OF_THE_CORPUS
