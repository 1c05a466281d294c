"""Recorded Jinja texts: the server that showed them decides what reaches them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.families import QWEN3

from templatefix.analysis.loops import thinking_loop
from templatefix.trace.recording import Recording
from templatefix.trace.sources import read_sources
from templatefix.trace.templates import known_templates

ASKED = thinking_loop(core=True).requests[1]


@pytest.mark.parametrize(("server", "reaches"), [("ollama", False), ("llama-server", True)])
def test_past_thoughts_reach_the_text_only_of_a_llama_server(tmp_path: Path, server: str, reaches: bool) -> None:
    file = tmp_path / "trace.jsonl"
    with Recording(file) as recording:
        recording.template("owl", QWEN3, "jinja", server)
    assert json.loads(file.read_text())["server"] == server
    known = known_templates(read_sources([file]).templates, {})("owl")
    assert known is not None
    rendering = known.render(ASKED)
    assert rendering is not None
    thoughts = [message["thinking"] for message in ASKED.messages if message.get("thinking")]
    assert thoughts
    assert all((thought in rendering.text) is reaches for thought in thoughts)
