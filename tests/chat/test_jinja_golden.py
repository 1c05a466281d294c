"""Prompts of Jinja templates against those of llama.cpp's own engine."""

from __future__ import annotations

import datetime
import functools
from collections import Counter
from typing import Any

from support.shared import GOLDEN_DATE

from templatefix.chat.jinja import JinjaChatTemplate
from templatefix.chat.jinja_values import Caps
from templatefix.chat.reading import read_request
from templatefix.chat.rendering import RenderError
from templatefix.chat.request import Request

# Where a last message of the assistant is continued, the server closes the thought that the template would have the
# model begin, or writes an empty one; how it writes one is the work of its parser of replies.
THOUGHT = "an empty thought in front of a continued answer"
LABEL = "a word in front of a continued answer, for one template by name"
CAUSES = {"llamacpp-meetkai-functionary-medium-v3.2": LABEL}
# What is found out about a template otherwise than the server does; no prompt depends on it.
OTHER_CAPS = {
    ("ollama-glimmer-chat-template.jinja-2", "supports_reasoning_effort"),
    ("trl-gptoss-training", "supports_preserve_reasoning"),
    ("wonderfuldestruction-devstral-fix", "supports_typed_content"),
}


@functools.cache
def template(text: str) -> JinjaChatTemplate | RenderError:
    day = datetime.date.fromisoformat(GOLDEN_DATE)
    try:
        return JinjaChatTemplate(text, bos="<|im_start|>", eos="<|im_end|>", date=day)
    except RenderError as error:
        return error


def answer(text: str, request: Request) -> dict[str, Any]:
    made = template(text)
    try:
        if isinstance(made, RenderError):
            raise made
        return {"ok": True, "output": made.render_text(request)}
    except RenderError as error:
        return {"ok": False, "stage": {"parse": "start", "exec": "render"}[error.stage]}


def test_all_golden_renders(
    jinja_corpus: dict[str, dict[str, Any]],
    jinja_golden: list[dict[str, Any]],
    golden_requests: dict[tuple[str, int], dict[str, Any]],
) -> None:
    short = Request(({"role": "user", "content": "test"},))
    causes: Counter[str] = Counter()
    total = 0
    for row in jinja_golden:
        if "caps" in row:
            continue
        total += 1
        where = row.get("scenario"), row.get("step")
        request = short if row.get("stage") == "start" else read_request(golden_requests[where])
        found = answer(jinja_corpus[row["id"]]["template"], request)
        if found == {key: row[key] for key in found if key in row}:
            continue
        assert row["id"] in CAUSES or row["scenario"] == "assistant-last", (row["id"], *where)
        causes[CAUSES.get(row["id"], THOUGHT)] += 1
    assert total == 8059
    assert causes == {THOUGHT: 47, LABEL: 1}  # 99.4 % are the same byte for byte


def test_the_server_s_findings_are_found_out(
    jinja_corpus: dict[str, dict[str, Any]], jinja_golden: list[dict[str, Any]]
) -> None:
    for row in jinja_golden:
        if "caps" in row:
            made = template(jinja_corpus[row["id"]]["template"])
            assert isinstance(made, JinjaChatTemplate)
            told = Caps.from_props(row["caps"])
            for name in row["caps"]:
                if (row["id"], name) not in OTHER_CAPS:
                    assert getattr(made.caps, name) == getattr(told, name), (row["id"], name)


def test_pieces_lie_in_their_templates(jinja_corpus: dict[str, dict[str, Any]]) -> None:
    request = Request(({"role": "system", "content": "Qz é"}, {"role": "user", "content": "Hello"}))
    for key, row in jinja_corpus.items():
        made = template(row["template"])
        if isinstance(made, RenderError) or made.refusal is not None:
            continue
        try:
            rendering = made.render(request)
        except RenderError:
            continue
        for piece in rendering.pieces:
            assert 0 <= piece.span.start <= piece.span.end <= len(made.source.data), key
            if piece.origin is None and made.source.slice(piece.span) == piece.text:
                continue  # text between tags
            assert made.source.slice(piece.span)[:1] in ("{", "'", '"', ""), (key, made.source.slice(piece.span))
