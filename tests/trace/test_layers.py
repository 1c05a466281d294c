"""Each layer's less common reasons, on sessions whose right answer follows from the template that is given."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from templatefix.trace.explain import explain
from templatefix.trace.session import Session

SYSTEM = {"role": "system", "content": "You look after a garden and its plants. " * 40}
FLAT = "{{ range .Messages }}<|{{ .Role }}|>{{ .Content }}{{ .Thinking }}{{ end }}<|assistant|>"
ASK = {"role": "user", "content": "What grows here?"}
ANSWER = {"role": "assistant", "content": "Roses grow here, and tulips, and in a corner some thyme."}
NEXT = {"role": "user", "content": "And over there?"}


def chat(messages: Sequence[Mapping[str, Any]], cached: int, fresh: int, **more: Any) -> dict[str, Any]:
    answer = {"timings": {"cache_n": cached, "prompt_n": fresh}, "message": more.pop("reply", None) or {}}
    return {"path": "/api/chat", "request": {"model": "m", "messages": messages, **more}, "answer": [answer]}


def told(path: Path, rows: list[dict[str, Any]], template: str = FLAT, log: str = "") -> Session:
    first = {"version": 1, "model": "m", "template": template, "kind": "go"}
    path.mkdir(exist_ok=True)
    (path / "trace.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [first, *rows]))
    paths = [path / "trace.jsonl"]
    if log:
        (path / "server.log").write_text(log)
        paths.append(path / "server.log")
    return explain(paths)


def logged(task: int, size: int, hit: int, said: str = "", common: int | None = None) -> str:
    slot = f"slot update_slots: id  0 | task {task} | "
    compared = f"slot get_availabl: id  0 | task -1 |  - checking sim = 0.9 ({common}/{size}) > 0.1\n"
    return (
        (compared if common is not None else "")
        + f"{slot}new prompt, n_ctx_slot = 8192, n_keep = 0, task.n_tokens = {size}\n"
        + (f"{slot}{said}\n" if said else "")
        + f"{slot}cached n_tokens = {hit}, memory_seq_rm [{hit}, end)\n"
    )


GROWN = [SYSTEM, ASK, ANSWER, NEXT]


def test_nothing_is_lost_where_all_was_kept(tmp_path: Path) -> None:
    session = told(tmp_path, [chat([SYSTEM, ASK], 0, 400, reply=ANSWER), chat(GROWN, 413, 9)])
    assert [request.losses for request in session.requests] == [(), ()]
    assert session.requests[1].new_tokens == pytest.approx(9, abs=4)
    assert session.missing == ()


def test_two_messages_of_one_role_become_one(tmp_path: Path) -> None:
    template = "{{ range .Messages }}<|{{ .Role }}|>{{ .Content }}<|end|>{{ end }}"
    long = {"role": "user", "content": "A long note about the weather of the whole week. " * 10}
    rows = [chat([SYSTEM, ASK], 0, 400), chat([SYSTEM, ASK, long], 380, 140)]
    (loss,) = told(tmp_path, rows, template).requests[1].losses
    assert loss.layer == "server"
    assert "one message of two" in loss.message


def test_a_template_that_is_not_in_force(tmp_path: Path) -> None:
    selected = (
        'time=2026-06-01T15:00:00.292Z level=INFO source=images.go:1 msg="template selection" '
        "model=registry.ollama.ai/library/m selected=gguf_chat_template\n"
    )
    log = selected + logged(1, 400, 0) + logged(2, 430, 90, common=90)
    session = told(tmp_path, [chat([SYSTEM, ASK], 0, 400), chat(GROWN, 90, 340)], log=log)
    loss = max(session.requests[1].losses, key=lambda loss: loss.tokens)
    assert loss.layer == "server"
    assert "another template than the tag's: gguf_chat_template" in loss.message


def test_an_engine_whose_context_was_full(tmp_path: Path) -> None:
    full = "slot update_slots: id  0 | task 1 | stop processing: n_tokens = 8192, truncated = 1\n"
    log = logged(1, 400, 0) + full + logged(2, 430, 20)
    (loss,) = told(tmp_path, [chat([SYSTEM, ASK], 0, 400), chat(GROWN, 20, 410)], log=log).requests[1].losses
    assert (loss.layer, loss.message) == (
        "server",
        "the context was full in the request before: the engine dropped tokens in its middle",
    )


def test_a_checkpoint_in_front_of_what_was_kept(tmp_path: Path) -> None:
    restored = "restored context checkpoint (pos_min = 0, pos_max = 255, n_tokens = 256, n_past = 256, size = 7 MiB)"
    log = logged(1, 400, 0) + logged(2, 430, 256, restored, common=400)
    (loss,) = told(tmp_path, [chat([SYSTEM, ASK], 0, 400), chat(GROWN, 256, 174)], log=log).requests[1].losses
    assert (loss.layer, loss.evidence["reason"], loss.evidence["checkpoint"]) == ("engine", "checkpoint", 256)


def test_an_engine_that_was_started_anew(tmp_path: Path) -> None:
    start = (
        'time=2026-06-01T15:00:00Z level=INFO source=x.go:1 msg="starting llama-server" cmd="llama-server -c 4096"\n'
    )
    log = logged(1, 400, 0) + start + logged(0, 430, 0)
    (loss,) = told(tmp_path, [chat([SYSTEM, ASK], 0, 400), chat(GROWN, 0, 430)], log=log).requests[1].losses
    assert (loss.layer, loss.evidence["reason"]) == ("engine", "restart")
    assert loss.evidence["events"] == ["line 3: starting llama-server -c 4096"]


def test_a_cache_that_is_off(tmp_path: Path) -> None:
    rows = [chat([SYSTEM, ASK], 0, 400), chat(GROWN, 0, 430), chat([*GROWN, ANSWER, NEXT], 0, 450)]
    session = told(tmp_path, rows)
    assert [[loss.evidence["reason"] for loss in one.losses] for one in session.requests] == [[], ["off"], ["off"]]


def test_a_reply_that_comes_back_otherwise(tmp_path: Path) -> None:
    other = {**ANSWER, "content": ANSWER["content"].replace("tulips", "lilies")}
    session = told(tmp_path, [chat([SYSTEM, ASK], 0, 400, reply=ANSWER), chat([SYSTEM, ASK, other, NEXT], 400, 22)])
    (loss,) = session.requests[1].losses
    assert (loss.layer, loss.evidence["kind"]) == ("client", "reply")
    assert loss.message == "message 2 is not what the server had answered"


def test_a_reply_that_the_template_words_otherwise(tmp_path: Path) -> None:
    session = told(tmp_path, [chat([SYSTEM, ASK], 0, 400, reply=ANSWER), chat(GROWN, 400, 22)])
    (loss,) = session.requests[1].losses
    assert loss.layer == "template"
    assert loss.message == "the template words the reply otherwise than the model had generated it"
    unknown = told(tmp_path, [chat([SYSTEM, ASK], 0, 400), chat(GROWN, 400, 22)]).requests[1].losses
    assert [(one.layer, "the reply as it was generated" in one.message) for one in unknown] == [("unknown", True)]


def test_thinking_that_the_template_takes_back(tmp_path: Path) -> None:
    template = (
        "{{ range $i, $m := .Messages }}<|{{ .Role }}|>"
        "{{ if and .Thinking (eq (len (slice $.Messages $i)) 2) }}<think>{{ .Thinking }}</think>{{ end }}"
        "{{ .Content }}{{ end }}<|assistant|>"
    )
    thought = {**ANSWER, "thinking": "They ask for what grows. " * 20}
    first = [SYSTEM, ASK, thought, NEXT]
    rows = [chat(first, 0, 560), chat([*first, ANSWER, NEXT], 405, 60)]
    (loss,) = told(tmp_path, rows, template).requests[1].losses
    assert (loss.layer, loss.evidence["line"]) == ("template", 1)
    assert loss.evidence["node"].startswith("{{ if and .Thinking")


def test_a_prompt_sent_as_text_with_a_clock_in_it(tmp_path: Path) -> None:
    text = "It is 12:0{}. " + str(SYSTEM["content"]) + "What grows here? "
    rows = [
        {
            "path": "/completion",
            "request": {"prompt": text.format(n) + "And there? " * n, "n_predict": 1},
            "answer": {"timings": {"cache_n": 4 * bool(n), "prompt_n": 420 + 4 * n}},
        }
        for n in range(2)
    ]
    path = tmp_path / "x.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (loss,) = explain([path]).requests[1].losses
    assert (loss.layer, loss.evidence["time_stamp"]) == ("client", True)
    assert loss.tokens == pytest.approx(416, abs=6)


def test_another_wish_to_think(tmp_path: Path) -> None:
    template = "{{ if .Think }}/think{{ end }}{{ range .Messages }}<|{{ .Role }}|>{{ .Content }}{{ end }}"
    rows = [chat([SYSTEM, ASK], 0, 400, think=True), chat(GROWN, 1, 425, think=False)]
    (loss,) = told(tmp_path, rows, template).requests[1].losses
    assert (loss.layer, loss.message) == ("client", "the wish to think changed from true to false")
