"""Faults reported in public that a trace has to put in their place: R21 to R27."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from templatefix.trace.explain import explain
from templatefix.trace.session import Session

TOOL = {
    "type": "function",
    "function": {"name": "exec", "description": "Runs a command. " * 40, "parameters": {"type": "object"}},
}
SYSTEM = {"role": "system", "content": "You look after a garden and its many plants. " * 60}
CALL = {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "exec", "arguments": {"c": "ls"}}}]}
RESULT = {"role": "tool", "content": "roses, tulips"}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def recorded(path: Path, rows: Sequence[tuple[list[dict[str, Any]], list[Any], int, int]]) -> Path:
    """Requests (messages, tools) with the engine's figures (cached, fresh) as JSON lines."""
    lines = [
        {
            "path": "/api/chat",
            "request": {"model": "m", "messages": messages, **({"tools": tools} if tools else {})},
            "answer": [{"done": True, "timings": {"cache_n": cached, "prompt_n": fresh}}],
        }
        for messages, tools, cached, fresh in rows
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def layers(session: Session, index: int) -> list[str]:
    return [loss.layer for loss in session.requests[index].losses if loss.tokens]


def test_r21_a_request_without_its_tools_is_the_clients(tmp_path: Path) -> None:
    first = [SYSTEM, user("What grows here?")]
    rows = [(first, [TOOL], 0, 900), ([*first, CALL, RESULT], [], 620, 40)]
    session = explain([recorded(tmp_path / "r21.jsonl", rows)])
    (loss,) = session.requests[1].losses
    assert loss.layer == "client"
    assert loss.message == "this request came without the 1 tools of the one before"
    assert loss.evidence["kind"] == "tools-absent"
    assert session.totals["template"] == 0


def forced(task: int, size: int) -> str:
    head = f"slot update_slots: id  0 | task {task} | "
    return (
        f"{head}new prompt, n_ctx_slot = 8192, n_keep = 0, task.n_tokens = {size}\n"
        f"{head}forcing full prompt re-processing due to lack of cache data (likely due to SWA)\n"
        f"{head}cached n_tokens = 0, memory_seq_rm [0, end)\n"
        f"{head}cached n_tokens = 512, memory_seq_rm [512, end)\n"
        f"slot release: id  0 | task {task} | stop processing: n_tokens = {size + 9}, truncated = 0\n"
    )


@pytest.mark.parametrize("with_requests", [False, True])
def test_r22_the_same_prompt_read_three_times_is_the_engines(tmp_path: Path, with_requests: bool) -> None:
    log = tmp_path / "server.log"
    log.write_text("".join(forced(task, 900) for task in (3, 8, 14)))
    paths = [log]
    if with_requests:
        same = [SYSTEM, user("What grows here?")]
        body = {"path": "/api/chat", "request": {"model": "m", "messages": same}, "answer": None}
        requests = tmp_path / "requests.jsonl"
        requests.write_text(f"{json.dumps(body)}\n" * 3)
        paths.append(requests)
    session = explain(paths)
    assert [request.cached_tokens for request in session.requests] == [0, 0, 0]
    assert [layers(session, index) for index in range(3)] == [[], ["engine"], ["engine"]]
    assert all(request.losses[0].evidence["reason"] == "swa" for request in session.requests[1:])
    assert session.totals["engine"] == pytest.approx(1800, abs=4)


def test_r23_only_the_first_figure_behind_a_prompt_is_the_hit(tmp_path: Path) -> None:
    head = "slot   operator(): id  0 | task 75 | "
    log = tmp_path / "server.log"
    log.write_text(
        f"{head}new prompt, n_ctx_slot = 16384, n_keep = 0, task.n_tokens = 1500\n"
        + "".join(f"{head}cached n_tokens = {at}, memory_seq_rm [{at}, end)\n" for at in (0, 512, 1024))
    )
    (request,) = explain([log]).requests
    assert (request.prompt_tokens, request.cached_tokens, request.figures) == (1500, 0, "log")


def test_r24_a_prompt_that_the_server_cut_is_the_servers(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(
        'time=2026-03-01T09:00:00Z level=DEBUG source=cache.go:136 msg="loading cache slot" id=0 cache=0 prompt=4000 '
        "used=0 remaining=4000\n"
        'time=2026-03-01T09:00:09Z level=WARN source=runner.go:131 msg="truncating input prompt" limit=4096 '
        "prompt=8942 keep=4 new=4096\n"
        'time=2026-03-01T09:00:09Z level=DEBUG source=cache.go:136 msg="loading cache slot" id=0 cache=4000 '
        "prompt=4096 used=1000 remaining=3096\n"
    )
    session = explain([log])
    assert layers(session, 1) == ["server"]
    assert "truncating input prompt limit=4096 prompt=8942" in session.requests[1].losses[0].message
    assert session.totals["server"] == 3000


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ("[Time: 2026-11-29 12:01] What grows?", "[Time: 2026-11-29 12:04] What grows?", "12:04"),
        ("It is 9:59 AM. What grows?", "It is 10:00 AM. What grows?", "10:00"),
        ("now=1795986280 What grows?", "now=1795986312 What grows?", "1795986312"),
        ("What grows?", "(12:04) What grows?", "12:04"),
    ],
)
def test_r27_the_time_of_day_in_a_user_message_is_the_clients(
    tmp_path: Path, before: str, after: str, shown: str
) -> None:
    grown = [SYSTEM, user(after), CALL, RESULT]
    rows = [([SYSTEM, user(before)], [TOOL], 0, 900), (grown, [TOOL], 860, 90)]
    session = explain([recorded(tmp_path / "r27.jsonl", rows)])
    loss = session.requests[1].losses[0]
    assert loss.layer == "client"
    assert loss.message == "a time in message 1 (user) changed when the history was sent again"
    assert loss.evidence["time_stamp"] is True
    assert shown in loss.evidence["after"]
    assert loss.evidence["changed"] == ["values_changed: messages[1]['content']"]


def test_a_word_that_changes_is_no_time(tmp_path: Path) -> None:
    rows = [
        ([SYSTEM, user("What grows, at 12:04?")], [], 0, 700),
        ([SYSTEM, user("What blooms, at 12:04?"), CALL, RESULT], [], 660, 90),
    ]
    loss = explain([recorded(tmp_path / "x.jsonl", rows)]).requests[1].losses[0]
    assert (loss.layer, loss.evidence["time_stamp"]) == ("client", False)
    assert loss.message == "message 1 (user) was rewritten when the history was sent again"


@pytest.mark.parametrize(
    ("tools", "kind"),
    [
        ([{**TOOL, "function": {**TOOL["function"], "name": "b"}}, TOOL], "tools-order"),
        ([TOOL, {**TOOL, "function": {**TOOL["function"], "name": "c"}}], "tools"),
    ],
)
def test_tools_in_another_order_or_other_tools(tmp_path: Path, tools: list[Any], kind: str) -> None:
    first = [TOOL, {**TOOL, "function": {**TOOL["function"], "name": "b"}}]  # type: ignore[dict-item]
    messages = [SYSTEM, user("What grows?")]
    rows = [(messages, first, 0, 900), ([*messages, CALL, RESULT], tools, 600, 340)]
    (loss,) = explain([recorded(tmp_path / "x.jsonl", rows)]).requests[1].losses
    assert (loss.layer, loss.evidence["kind"]) == ("client", kind)
    assert loss.tokens > 200


def test_messages_that_were_taken_out(tmp_path: Path) -> None:
    long = [SYSTEM, *[user(f"Question {n}? " * 20) for n in range(8)]]
    rows = [(long, [], 0, 900), ([*long[:2], *long[5:], CALL, RESULT], [], 560, 200)]
    (loss,) = explain([recorded(tmp_path / "x.jsonl", rows)]).requests[1].losses
    assert loss.layer == "client"
    assert loss.message == "3 messages, from message 2 on, were taken out of the history"


def test_two_conversations_in_turn_are_held_apart(tmp_path: Path) -> None:
    one, other = [SYSTEM, user("What grows here?")], [SYSTEM, user("Tell me of the sea and its fish.")]
    rows = [
        (one, [], 0, 700),
        (other, [], 0, 705),
        ([*one, CALL, RESULT], [], 20, 720),
        ([*other, CALL, RESULT], [], 20, 725),
    ]
    session = explain([recorded(tmp_path / "x.jsonl", rows)])
    assert [(request.conversation, request.before) for request in session.requests] == [
        (0, None),
        (1, None),
        (0, 0),
        (1, 1),
    ]
    assert session.requests[2].between == (1,)
    assert layers(session, 2) == layers(session, 3) == ["engine"]
    assert session.requests[2].losses[0].evidence["reason"] == "slot"


def test_a_restart_for_another_context(tmp_path: Path) -> None:
    messages = [SYSTEM, user("What grows?")]
    path = recorded(tmp_path / "x.jsonl", [(messages, [], 0, 700), ([*messages, CALL, RESULT], [], 0, 740)])
    lines = path.read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    rows[1]["request"]["options"] = {"num_ctx": 16384}
    rows[0]["request"]["options"] = {"num_ctx": 4096}
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    loss = explain([path]).requests[1].losses[0]
    assert (loss.layer, loss.evidence["reason"]) == ("engine", "restart")
    assert loss.message == "the engine was started anew for another context size: its cache was empty"


def test_another_model_is_another_conversation_and_no_loss(tmp_path: Path) -> None:
    messages = [SYSTEM, user("What grows?")]
    path = recorded(tmp_path / "x.jsonl", [(messages, [], 0, 700), ([*messages, CALL, RESULT], [], 0, 740)])
    lines = path.read_text().splitlines()
    path.write_text(lines[0] + "\n" + lines[1].replace('"model": "m"', '"model": "n"') + "\n")
    session = explain([path])
    assert [request.note for request in session.requests] == ["a new conversation for this model"] * 2
    assert not any(session.totals.values())
