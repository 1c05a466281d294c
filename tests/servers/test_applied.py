"""A Jinja template in the real llama-server: its prompts against ours."""

from __future__ import annotations

import datetime
import sys
from pathlib import Path

import pytest
from support.forgetful import FORGETFUL
from support.llama_program import llama_script

from templatefix.analysis.loops import core_loops, thinking_loop
from templatefix.chat.jinja import JinjaChatTemplate
from templatefix.chat.jinja_values import Caps
from templatefix.servers.applied import Applied, NotAsProved, check_applied
from templatefix.servers.errors import ServerTimeout, ServerUnreachable

LOOPS = (core_loops()[0], core_loops()[2], thinking_loop())  # one call, several at once, thoughts
PROMPTS = sum(len(loop.requests) for loop in LOOPS)
PLAIN = JinjaChatTemplate("{{ bos_token }}" + FORGETFUL, bos="<|im_start|>", eos="<|im_end|>")

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the program is wrapped in a shell script")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return llama_script(tmp_path)


def test_every_prompt_is_the_server_s_own(program: Path) -> None:
    assert check_applied(program, PLAIN, PLAIN, LOOPS) == Applied(PROMPTS)


def test_a_server_has_its_own_day(program: Path) -> None:
    dated = JinjaChatTemplate("{{ date_string }}" + PLAIN.source.text, date=datetime.date(2001, 2, 3))
    assert check_applied(program, dated, dated, LOOPS[:1]) == Applied(len(LOOPS[0].requests))


def test_a_prompt_that_is_another_is_found(program: Path) -> None:
    # Told that arguments are text, we print them as such; the server finds out that they may be objects.
    told = JinjaChatTemplate(PLAIN.source, bos=PLAIN.bos, eos=PLAIN.eos, caps=Caps(supports_object_arguments=False))
    with pytest.raises(
        NotAsProved, match=r"^llama-server's own render of request 2 of the loop single-call is not ours$"
    ):
        check_applied(program, told, PLAIN, LOOPS)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{% if tools %}{{ raise_exception('No tools.') }}{% endif %}" + FORGETFUL, "No tools."),
        ("{{ raise_exception('Not today.') }}", "Not today."),
    ],
    ids=["request", "start"],
)
def test_what_the_server_refuses(program: Path, text: str, reason: str) -> None:
    refused = JinjaChatTemplate(text)
    with pytest.raises(NotAsProved, match=reason if "tools" in text else "did not start"):
        check_applied(program, refused, PLAIN, LOOPS)
    found = check_applied(program, refused, refused, LOOPS)
    assert (found.prompts, found.refused) == (0, PROMPTS)
    assert reason in found.reason


def test_what_both_are_refused_is_passed_over(program: Path) -> None:
    picky = JinjaChatTemplate("{% if messages[-1].role == 'tool' %}{{ raise_exception('No.') }}{% endif %}" + FORGETFUL)
    found = check_applied(program, picky, picky, LOOPS)
    refused = sum(request.messages[-1]["role"] == "tool" for loop in LOOPS for request in loop.requests)
    assert (found.prompts, found.refused) == (PROMPTS - refused, refused)


def test_a_program_that_does_not_start_proves_nothing(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho no library\nexit 1\n")
    broken.chmod(0o755)
    with pytest.raises(ServerUnreachable, match=r"broken did not start: no library$"):
        check_applied(broken, PLAIN, PLAIN, LOOPS)


def test_what_only_the_server_renders_is_a_difference(program: Path) -> None:
    # Without parts of a content the server hands it on as text; we were told to make parts, which have no length here.
    told = Caps(supports_string_content=False)
    picky = "{% if messages[0].content is not string %}{{ raise_exception('text only') }}{% endif %}" + FORGETFUL
    ours = JinjaChatTemplate(picky, caps=told)
    with pytest.raises(
        NotAsProved, match=r"^llama-server's own render of request 1 of the loop single-call is not ours$"
    ):
        check_applied(program, ours, ours, LOOPS)


def test_a_program_that_never_answers_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("templatefix.servers.applied._PATIENCE", 0.3)
    silent = tmp_path / "silent"
    silent.write_text("#!/bin/sh\nexec sleep 60\n")
    silent.chmod(0o755)
    with pytest.raises(ServerTimeout, match=r"silent did not answer within 0.3 seconds$"):
        check_applied(silent, PLAIN, PLAIN, LOOPS)
