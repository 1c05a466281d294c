"""All golden renders of Ollama's template package, and what it derives from each template."""

from __future__ import annotations

import datetime
import functools
from typing import Any

import pytest
from support import shared as material
from support.oracle import Oracle

from templatefix.chat.go import GoChatTemplate
from templatefix.chat.reading import read_request
from templatefix.chat.rendering import RenderError

SCENARIOS = [
    "assistant-last",
    "chat",
    "chat-nosystem",
    "content-and-call",
    "images",
    "long",
    "loop",
    "loop-nosystem",
    "many-systems",
    "nested-args",
    "only-system",
    "parallel",
    "same-text",
    "think",
    "think-high",
    "think-off",
    "tool-error",
    "two-users",
]


@functools.cache
def template_of(id: str) -> GoChatTemplate | RenderError:
    date = datetime.date.fromisoformat(material.GOLDEN_DATE)
    try:
        return GoChatTemplate(material.corpus()[id]["template"], date=date)
    except RenderError as error:
        return error


def render(id: str, request: dict[str, Any]) -> dict[str, Any]:
    template = template_of(id)
    try:
        if isinstance(template, RenderError):
            raise template
        rendering = template.render(read_request(request))
    except RenderError as error:
        return {"ok": False, "stage": error.stage, "error": error.message}
    assert "".join(piece.text for piece in rendering.pieces) == rendering.text
    return {"ok": True, "output": rendering.text}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_renders(
    scenario: str, golden: list[dict[str, Any]], golden_requests: dict[tuple[str, int], dict[str, Any]]
) -> None:
    rows = [row for row in golden if row["scenario"] == scenario]
    assert rows
    for row in rows:
        ours = render(row["id"], golden_requests[scenario, row["step"]])
        theirs = {key: row[key] for key in ("ok", "output", "stage", "error") if key in row}
        assert ours == theirs, f"{row['id']} step {row['step']}"


def test_every_scenario_is_named_here(golden: list[dict[str, Any]]) -> None:
    assert sorted({row["scenario"] for row in golden}) == SCENARIOS
    assert len(golden) == 15_566


def test_derived_properties(corpus: dict[str, dict[str, Any]]) -> None:
    assert len(corpus) == 554
    for id, row in corpus.items():
        template = template_of(id)
        if isinstance(template, RenderError):
            assert row["derived"]["vars"] is None, id
            continue
        derived = template.derived
        assert {
            "vars": list(derived.vars),
            "tool_tag": derived.tool_tag,
            "think_open": derived.think_open,
            "think_close": derived.think_close,
        } == row["derived"], id


def test_derived_properties_beyond_the_corpus(corpus: dict[str, dict[str, Any]], go_oracle: Oracle) -> None:
    answers = go_oracle.ask_all({"op": "derive", "template": row["template"]} for row in corpus.values())
    for id, answer in zip(corpus, answers, strict=True):
        template = template_of(id)
        if isinstance(template, RenderError):
            assert (answer["stage"], answer["error"]) == (template.stage, template.message), id
            continue
        derived = template.derived
        assert set(derived.capabilities) - {"completion"} == set(answer["capabilities"]), id
        assert derived.round_trip is answer["round_trip"], id
        assert template.legacy is answer["legacy"], id


def test_refused_texts(rejected: list[dict[str, Any]]) -> None:
    assert len(rejected) == 33
    for row in rejected:
        with pytest.raises(RenderError) as caught:
            GoChatTemplate(row["template"])
        assert (caught.value.stage, caught.value.message) == ("parse", row["error"]), row["id"]
