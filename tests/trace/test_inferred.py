"""Recordings of an Ollama that does not say what came from its cache: load times and read times tell."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from templatefix.trace.bodies import exchange_of
from templatefix.trace.diagnosis import Diagnosis, diagnose
from templatefix.trace.exchange import seconds_of
from templatefix.trace.explain import explain
from templatefix.trace.patient import ModelSeen, ServerSeen

FLAT = "{{ range .Messages }}<|{{ .Role }}|>{{ .Content }}{{ end }}<|assistant|>"
SPEED = 250  # tokens a second
GARDEN = "You look after a garden and know what grows in it. " * 60
LETTERS = "You sum up letters, one after the other. " * 60
LOADS = 900.0  # milliseconds
STAYS = 15.0


def talk(system: str, turns: int) -> list[dict[str, str]]:
    """Messages up to the user's n-th turn."""
    messages = [{"role": "system", "content": system}]
    for turn in range(turns):
        messages += [{"role": "user", "content": f"What of bed {turn}?"}, {"role": "assistant", "content": f"{turn}."}]
    return messages[:-1]


def row(
    messages: Sequence[dict[str, str]],
    at: float,
    *,
    load: float = STAYS,
    fresh: int | None = None,
    tokens: int | None = None,
    model: str = "owl:1",
    **more: Any,
) -> dict[str, Any]:
    """An exchange as the proxy records it: `fresh` tokens were read, where None all of them; a token is four bytes."""
    size = sum(len(one["content"]) + 10 for one in messages) // 4 if tokens is None else tokens
    read = size if fresh is None else fresh
    answer = {"prompt_eval_count": size, "prompt_eval_duration": read * 10**9 // SPEED, "eval_count": 10}
    answer |= {"load_duration": int(load * 1e6), "eval_duration": int(more.pop("token", 20.0) * 1e7)}
    time = f"2026-11-29T10:{int(at) // 60:02}:{int(at) % 60:02}.000+00:00"
    request = {"model": model, "messages": messages, **more}
    return {"version": 1, "time": time, "method": "POST", "path": "/api/chat", "request": request, "answer": [answer]}


def seen(path: Path, rows: Sequence[dict[str, Any]], server: ServerSeen | None = None) -> Diagnosis:
    models = sorted({one["request"]["model"] for one in rows})
    templates = [{"version": 1, "model": model, "template": FLAT, "kind": "go"} for model in models]
    path.joinpath("trace.jsonl").write_text("".join(json.dumps(one) + "\n" for one in [*templates, *rows]))
    return diagnose(server, [], [path / "trace.jsonl"])


def first(found: Diagnosis) -> tuple[str, bool]:
    return found.costs[0].kind, found.ill


def test_a_healthy_session(tmp_path: Path) -> None:
    rows = [row(talk(GARDEN, 1), 0, load=LOADS)]
    rows += [row(talk(GARDEN, turn), 10 * turn, fresh=20) for turn in (2, 3, 4)]
    assert seen(tmp_path, rows).costs == ()


def test_a_long_result_takes_its_time(tmp_path: Path) -> None:
    long = [*talk(GARDEN, 2)[:-1], {"role": "user", "content": "Read this: " + "roses and thyme, " * 400}]
    rows = [row(talk(GARDEN, 1), 0, load=LOADS), row(long, 10, fresh=1900)]
    assert seen(tmp_path, rows).costs == ()


@pytest.mark.parametrize(("token", "kinds"), [(20.0, ["slots"]), (400.0, [])])
def test_a_machine_that_is_busy_says_nothing(tmp_path: Path, token: float, kinds: list[str]) -> None:
    """Whoever takes long for a token of the answer as well has not read more."""
    rows = [row(talk(GARDEN, 1), 0, load=LOADS), row(talk(LETTERS, 1), 5), row(talk(GARDEN, 2), 20, token=token)]
    rows += [row(talk(LETTERS, 2), 25, token=token), row(talk(GARDEN, 3), 30, token=token)]
    assert [cost.kind for cost in seen(tmp_path, rows).costs] == kinds


def test_a_quick_reading_says_nothing(tmp_path: Path) -> None:
    """Whatever is read in less than two seconds may as well have waited for something else."""
    rows = [row(talk(GARDEN, 1), 0, load=LOADS), row(talk(GARDEN, 2), 10), row(talk(GARDEN, 3), 20)]
    for one in rows:
        one["answer"][0]["prompt_eval_duration"] = 19 * 10**8
    assert seen(tmp_path, rows).costs == ()


def test_a_request_that_unloads_its_model(tmp_path: Path) -> None:
    rows = [row(talk(GARDEN, turn), turn, load=LOADS, keep_alive=0) for turn in (1, 2, 3)]
    found = seen(tmp_path, rows)
    assert first(found) == ("keep-alive", True)
    assert (
        found.costs[0].setting == "in the client: leave out keep_alive 0, which unloads the model behind each request"
    )
    assert "the model was loaded for it, in 0.9 s" in found.costs[0].evidence


def test_an_agent_that_pauses_too_long(tmp_path: Path) -> None:
    rows = [row(talk(GARDEN, turn), 400 * turn, load=LOADS) for turn in (1, 2, 3)]
    found = seen(tmp_path, rows)
    assert first(found) == ("keep-alive", True)
    assert "the request came 400 s after the one before" in found.costs[0].evidence
    assert "OLLAMA_KEEP_ALIVE" in found.costs[0].setting
    both = sum(one["answer"][0]["prompt_eval_count"] for one in rows[:2])
    assert found.costs[0].tokens == pytest.approx(both, rel=0.02)


def test_models_that_push_each_other_out(tmp_path: Path) -> None:
    rows = [
        row(talk(GARDEN, turn), 10 * turn + shift, load=LOADS, model=model)
        for turn in (1, 2, 3)
        for shift, model in enumerate(("owl:1", "finch:1"))
    ]
    found = seen(tmp_path, rows)
    assert first(found) == ("models", True)
    assert "models of these requests: finch:1, owl:1" in found.costs[0].evidence


def test_two_models_that_both_stay(tmp_path: Path) -> None:
    rows = [row(talk(GARDEN, 1), shift, load=LOADS, model=model) for shift, model in enumerate(("owl:1", "finch:1"))]
    rows += [
        row(talk(GARDEN, turn), 10 * turn + shift, fresh=20, model=model)
        for turn in (2, 3)
        for shift, model in enumerate(("owl:1", "finch:1"))
    ]
    assert seen(tmp_path, rows).costs == ()


def test_another_num_ctx_and_a_job_at_once(tmp_path: Path) -> None:
    """Two causes: the context changes once, the job takes the slot at every turn."""
    rows = [row(talk(GARDEN, 1), 0, load=LOADS, options={"num_ctx": 8192})]
    rows += [row(talk(LETTERS, 1), 5, options={"num_ctx": 8192})]
    for turn in (2, 3, 4):
        size = 4096 if turn == 4 else 8192
        load = LOADS if turn == 4 else STAYS
        rows += [row(talk(GARDEN, turn), 10 * turn, load=load, options={"num_ctx": size})]
        rows += [row(talk(LETTERS, turn), 10 * turn + 5, options={"num_ctx": size})]
    found = seen(tmp_path, rows)
    assert ([cost.kind for cost in found.costs], found.ill) == (["slots", "context-size"], True)
    assert "the requests ask for num_ctx 4096, 8192" in found.costs[1].evidence


def test_a_sliding_window_that_forgets(tmp_path: Path) -> None:
    """The server says what memory the model has; the time, that more was read than the client had changed."""
    rows = [row(talk(GARDEN, 1), 0, load=LOADS)]
    for turn, word in enumerate(("roses", "thyme"), 2):
        talked = talk(GARDEN, 1)
        talked[1] = {"role": "user", "content": f"Tell me of {word}. "}
        rows.append(row(talked, 10 * turn))
    model = ModelSeen("owl:1", True, 8192, memory="swa")
    found = seen(tmp_path, rows, ServerSeen("ollama", "http://127.0.0.1:1", "0.33.0", (model,)))
    assert first(found) == ("memory", True)
    assert "its memory is a sliding window" in found.costs[0].evidence
    assert "LLAMA_ARG_SWA_FULL=1" in found.costs[0].setting
    assert first(seen(tmp_path, rows)) == ("unknown", True)  # nobody says what memory it is


def test_a_history_that_is_cut_without_a_word(tmp_path: Path) -> None:
    rows = [row(talk(GARDEN, turn), turn, fresh=20, tokens=512) for turn in (8, 12, 16, 20)]
    found = seen(tmp_path, rows)
    (cost,) = found.costs
    assert (cost.kind, cost.share, found.ill) == ("truncated", None, False)
    assert cost.message.startswith("3 histories cut to fit")
    assert "its prompt did not grow, though the request did" in cost.evidence


def test_a_server_that_counts_fresh_tokens_alone_has_cut_nothing(tmp_path: Path) -> None:
    """As Ollama 0.30.0 did."""
    rows = [row(talk(GARDEN, turn), turn, fresh=20, tokens=900 if turn == 1 else 45) for turn in (1, 4, 8, 12)]
    assert not any(cost.kind == "truncated" for cost in seen(tmp_path, rows).costs)


def test_a_recording_is_read_in_the_order_of_its_times(tmp_path: Path) -> None:
    """It holds requests as their answers ended; a clock that was set back says nothing."""
    rows = [row(talk(GARDEN, turn), turn, load=LOADS if turn == 1 else STAYS, fresh=20) for turn in (1, 2, 3)]
    seen(tmp_path, [rows[1], rows[0], rows[2]])
    session = explain([tmp_path / "trace.jsonl"])
    assert [one.before for one in session.requests] == [None, 0, 1]
    assert [one.exchange.line for one in session.requests] == [3, 2, 4]
    back = {**rows[2], "time": "2026-11-29T03:00:00Z"}
    seen(tmp_path, [rows[0], rows[1], back])
    assert [one.exchange.line for one in explain([tmp_path / "trace.jsonl"]).requests] == [2, 3, 4]


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        (0, 0.0),
        ("0s", 0.0),
        ("5m", 300.0),
        ("1h30m", 5400.0),
        ("90", 90.0),
        (-1, float("inf")),
        ("-1m", float("inf")),
        ("soon", None),
        (True, None),
        (None, None),
    ],
)
def test_how_long_a_model_is_asked_to_stay(given: Any, seconds: float | None) -> None:
    body = {"model": "owl:1", "messages": [{"role": "user", "content": "q"}], "keep_alive": given}
    exchange = exchange_of("/api/chat", body, (), "x")
    assert exchange is not None
    assert exchange.keep_alive == seconds


@pytest.mark.parametrize(
    ("time", "seconds"),
    [
        ("1970-01-01T00:00:01Z", 1.0),
        ("1970-01-01T01:00:01.5+01:00", 1.5),
        ("1970-01-01T00:00:01.123456789Z", 1.123456),
        ("1970-01-01T00:00:01", 1.0),
        ("yesterday", None),
        (None, None),
    ],
)
def test_times_of_every_writer(time: str | None, seconds: float | None) -> None:
    assert seconds_of(time) == seconds
