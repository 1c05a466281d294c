"""A client that rewrites the time and a template that moves the tools, in one session on the real engine."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.arms import FIXED, MOVING, arm
from support.sessions import Answered, clocked, played, written

from templatefix.lab.scenario_file import seed_loop
from templatefix.servers.tokenizer import byte_level
from templatefix.trace.explain import explain
from templatefix.trace.session import Session, Traced

GOOD = seed_loop(4, 60, 120).loop()
BAD = clocked(GOOD, 0, ["12:01", "12:01", "12:02", "12:02"])  # a new time with each turn of the user
DONOR = byte_level(FIXED + MOVING + str(GOOD.requests[-1].messages) + str(GOOD.requests[-1].tools))


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[bool, bool], list[Answered]]:
    """What the engine says of each client with each template; the keys: is the client mended, is the template?"""
    folder = tmp_path_factory.mktemp("standins")
    return {
        (client, template): played(arm("x", FIXED if template else MOVING), GOOD if client else BAD, DONOR, folder)
        for client in (False, True)
        for template in (False, True)
    }


@pytest.fixture(scope="module")
def story(truth: dict[tuple[bool, bool], list[Answered]], tmp_path_factory: pytest.TempPathFactory) -> Session:
    return explain([written(tmp_path_factory.mktemp("story") / "both.jsonl", truth[False, False], MOVING)])


def lost(request: Traced, layer: str) -> int:
    return sum(loss.tokens for loss in request.losses if loss.layer == layer)


def alone(request: Traced, layer: str) -> int:
    return sum(int(loss.evidence["alone_tokens"]) for loss in request.losses if loss.layer == layer)


def test_both_are_told_apart(story: Session, truth: dict[tuple[bool, bool], list[Answered]]) -> None:
    second = story.requests[2]  # the main request of the second turn
    assert {loss.layer for loss in second.losses} == {"client", "template"}
    client = next(loss for loss in second.losses if loss.layer == "client")
    assert client.evidence["time_stamp"] is True
    assert client.evidence["message"] == 0
    assert ("12:01" in client.evidence["before"], "12:02" in client.evidence["after"]) == (True, True)
    template = next(loss for loss in second.losses if loss.layer == "template")
    assert template.evidence["code"] == "TF101"
    assert template.evidence["line"] == 4
    assert template.evidence["node"] == "{{ if and $.Tools $last }}"
    # Within a turn the client changes nothing: what is lost there is the template's.
    assert [{loss.layer for loss in story.requests[step].losses} for step in (1, 3)] == [{"template"}, {"template"}]


def test_each_has_the_tokens_that_the_engine_says(
    story: Session, truth: dict[tuple[bool, bool], list[Answered]]
) -> None:
    second = story.requests[2]
    both, only_template, only_client, none = (
        truth[key][2].fresh for key in ((False, False), (True, False), (False, True), (True, True))
    )
    assert second.fresh_tokens == both
    assert sum(loss.tokens for loss in second.losses) == pytest.approx(both - none, rel=0.01)
    assert alone(second, "template") == pytest.approx(only_template - none, rel=0.02)
    assert alone(second, "client") == pytest.approx(only_client - none, abs=0.04 * only_client)
    assert 0 < lost(second, "template") < lost(second, "client")


def test_a_mended_client_leaves_the_template_and_a_mended_template_the_client(
    truth: dict[tuple[bool, bool], list[Answered]], tmp_path: Path
) -> None:
    only_template = explain([written(tmp_path / "template.jsonl", truth[True, False], MOVING)])
    only_client = explain([written(tmp_path / "client.jsonl", truth[False, True], FIXED)])
    mended = explain([written(tmp_path / "mended.jsonl", truth[True, True], FIXED)])
    assert only_template.totals["client"] == only_template.totals["unknown"] == 0
    assert only_template.totals["template"] > 0
    assert only_client.totals["template"] == only_client.totals["unknown"] == 0
    assert only_client.totals["client"] == pytest.approx(
        truth[False, True][2].fresh - truth[True, True][2].fresh, rel=0.01
    )
    assert mended.totals == {"client": 0, "template": 0, "server": 0, "engine": 0, "unknown": 0}


def test_every_token_read_is_new_or_lost(story: Session) -> None:
    for request in story.requests[1:]:
        assert request.new_tokens is not None
        counted = request.new_tokens + sum(loss.tokens for loss in request.losses)
        assert counted == pytest.approx(request.fresh_tokens, abs=8)


def test_a_sliding_window_behind_a_template_is_the_templates_loss(tmp_path: Path) -> None:
    loop = seed_loop(6, 120, 300).loop()
    answered = played(arm("x", MOVING), loop, DONOR, tmp_path, "recurrent")
    path = written(tmp_path / "session.jsonl", answered, MOVING)
    log = tmp_path / "engine.log"
    log.write_text("".join(_logged(index, one) for index, one in enumerate(answered)))
    session = explain([path, log])
    after_tool = session.requests[1]
    assert answered[1].cached == 0
    layers = [loss.layer for loss in after_tool.losses]
    assert layers == ["template", "engine"]
    template, engine = after_tool.losses
    # By itself the template costs what it took back; the memory forgot the rest because of that.
    assert engine.tokens == engine.evidence["alone_tokens"] == 0
    assert template.tokens > 3 * template.evidence["alone_tokens"] > 0
    assert template.tokens - template.evidence["alone_tokens"] == pytest.approx(
        engine.evidence["together_tokens"], abs=4
    )


def _logged(index: int, one: Answered) -> str:
    # The embedded engine writes no log; its lines, with its own figures.
    slot = f"slot x: id  0 | task {index} | "
    forced = "forcing full prompt re-processing due to lack of cache data\n"
    return (
        f"{slot}new prompt, n_ctx_slot = 8192, n_keep = 0, task.n_tokens = {one.cached + one.fresh}\n"
        + (slot + forced if index and not one.cached else "")
        + f"{slot}cached n_tokens = {one.cached}, memory_seq_rm [{one.cached}, end)\n"
        + f"{slot}stop processing: n_tokens = {one.cached + one.fresh}, truncated = 0\n"
    )
