"""What real servers logged, explained."""

from __future__ import annotations

from pathlib import Path

import pytest

from templatefix.chat.go import GoChatTemplate
from templatefix.trace.explain import explain
from templatefix.trace.replay import loops_from
from templatefix.trace.session import Session
from templatefix.trace.templates import KnownTemplate


def losses(session: Session) -> list[list[tuple[str, int]]]:
    return [[(loss.layer, loss.tokens) for loss in request.losses] for request in session.requests]


@pytest.fixture
def llama(shared: Path) -> Path:
    return shared / "recordings" / "llama-server"


@pytest.fixture
def ollama(shared: Path) -> Path:
    return shared / "recordings" / "ollama"


def test_the_seed_loop_on_ollama(ollama: Path, corpus: dict[str, dict[str, str]]) -> None:
    stock = GoChatTemplate(corpus["hf-llama3.1-8b"]["template"])
    given = {"llama3.1:8b": KnownTemplate("llama3.1:8b", stock, stock.as_served)}
    session = explain([ollama / "request-dumps", ollama / "seed-loop.log"], given)
    assert [request.conversation for request in session.requests] == [0] * 4 + [1] * 4
    second = session.requests[2]
    assert (second.cached_tokens, second.prompt_tokens) == (3551, 8145)
    template = second.losses[0]
    assert (template.layer, template.evidence["code"]) == ("template", "TF101")
    assert template.tokens == pytest.approx(4587 - 14 - 55, abs=15)  # less the question and the reply
    assert template.evidence["node"] == "{{- if and $.Tools $last }}"
    assert sum(session.totals.values()) - session.totals["template"] < 60


def test_the_same_without_the_template_names_the_layer_by_sizes(ollama: Path) -> None:
    session = explain([ollama / "request-dumps", ollama / "seed-loop.log"])
    assert losses(session)[2][0][0] == "template"
    assert losses(session)[4:] == [[], [], [], []]
    assert [(one.what, one.option) for one in session.missing if one.option] == [
        ("the template of llama3.1:8b, llama3.1:8b-prefix-stable", "--template")
    ]


def test_a_job_in_between(llama: Path) -> None:
    taken = explain([llama / "llama-one-slot-job.json", llama / "llama-one-slot-job.log"])
    assert [request.conversation for request in taken.requests] == [0, 0, 1, 0]
    assert taken.requests[3].between == (2,)
    assert taken.totals["engine"] == pytest.approx(2385 - 33, abs=50)
    assert "request 2" in taken.requests[3].losses[-1].message
    for name in ("llama-one-slot-job-ram", "llama-two-slots-job"):
        kept = explain([llama / f"{name}.json", llama / f"{name}.log"])
        assert kept.totals["engine"] == kept.totals["template"] == 0


def test_a_client_that_writes_the_time_into_the_system_text(llama: Path) -> None:
    session = explain([llama / "llama-timestamp-client.json", llama / "llama-timestamp-client.log"])
    (loss,) = session.requests[2].losses
    assert (loss.layer, loss.evidence["time_stamp"], loss.evidence["message"]) == ("client", True, 0)
    assert loss.evidence["before"].startswith("Now: 2026-11-29 12:01.")
    assert loss.tokens == pytest.approx(2385 - 738, abs=80)


@pytest.mark.parametrize("name", ["gemma3-moving-swa-noram", "gemma3-moving-swa", "mamba-moving"])
def test_a_memory_that_cannot_be_wound_back(llama: Path, name: str) -> None:
    session = explain([llama / f"{name}.log"])
    loss = session.requests[1].losses[0]
    assert (loss.layer, loss.evidence["reason"]) == ("engine", "swa")
    assert "the prompt had changed at token 90" in loss.message
    assert loss.tokens == pytest.approx(902, abs=2)


@pytest.mark.parametrize("name", ["gemma3-fixed-swa", "mamba-fixed"])
def test_the_same_memory_behind_prompts_that_only_grow(llama: Path, name: str) -> None:
    assert not any(explain([llama / f"{name}.json", llama / f"{name}.log"]).totals.values())
    assert not any(explain([llama / f"{name}.log"]).totals.values())


def test_a_history_that_the_server_cut(ollama: Path) -> None:
    session = explain([ollama / "truncated.log"])
    assert [(one.prompt_tokens, one.refused) for one in session.requests] == [(979, False), (5671, True)]
    assert session.requests[1].note == "refused: it is longer than its context"
    assert not session.unread


def test_a_session_is_replayed_as_it_was(ollama: Path) -> None:
    loops = loops_from([ollama / "request-dumps"])
    assert [(loop.name, len(loop.requests)) for loop in loops] == [("conversation 0", 4), ("conversation 1", 4)]
    assert [len(request.messages) for request in loops[0].requests] == [2, 4, 6, 8]
    assert all(len(request.tools) == 19 for request in loops[0].requests)
