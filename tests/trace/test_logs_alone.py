"""A log without requests: sizes alone, from which no healthy server must look ill."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from templatefix.trace.diagnosis import Diagnosis, diagnose

KEPT = "srv    load_model: prompt cache is enabled, size limit: 8192 MiB"
OFF = "srv    load_model: prompt cache is disabled - use `--cache-ram N` to enable it"
DROPPED = "srv        update:  - cache size limit reached, removing oldest entry (size = 96.000 MiB)"


def prompt(task: int, size: int, cached: int, *, slot: int = 0, chosen: str = "LRU, t_last = 71") -> list[str]:
    """The lines of one prompt on a slot."""
    reads = f"slot   operator(): id  {slot} | task {task} | "
    return [
        f"slot get_availabl: id  {slot} | task -1 | selected slot by {chosen}",
        f"{reads}new prompt, n_ctx_slot = 8192, n_keep = 0, task.n_tokens = {size}",
        f"{reads}cached n_tokens = {cached}, memory_seq_rm [{cached}, end)",
        f"slot      release: id  {slot} | task {task} | stop processing: n_tokens = {size}, truncated = 0",
    ]


def goes_on(task: int, size: int, cached: int, *, slot: int = 0) -> list[str]:
    return prompt(
        task, size, cached, slot=slot, chosen=f"LCP similarity, sim_best = {cached / size:.3f} (> 0.100 thold)"
    )


def seen(path: Path, *parts: str | Sequence[str], slots: int = 1) -> Diagnosis:
    lines = [f"srv    load_model: initializing, n_slots = {slots}, n_ctx_slot = 8192, kv_unified = 'false'"]
    for part in parts:
        lines += [part] if isinstance(part, str) else part
    (path / "server.log").write_text("\n".join(lines) + "\n")
    return diagnose(None, [path / "server.log"])


def workers(count: int) -> list[str]:
    """New conversations of one size that take turns, and then go on."""
    lines: list[str] = []
    for worker in range(count):
        chosen = "LRU, t_last = -1" if worker < 2 else "LRU, t_last = 71"
        lines += prompt(worker, 1400, 12 if worker >= 2 else 0, slot=worker % 2, chosen=chosen)
    for worker in range(count):
        lines += goes_on(count + worker, 1420, 1400, slot=worker % 2)
    return lines


def test_new_conversations_of_one_size_are_no_loss(tmp_path: Path) -> None:
    found = seen(tmp_path, KEPT, workers(6), slots=2)
    assert (found.costs, found.ill) == ((), False)


@pytest.mark.parametrize("state", [OFF, DROPPED])
def test_a_job_that_takes_the_slot_where_nothing_is_remembered(tmp_path: Path, state: str) -> None:
    """Or where what was remembered has been thrown away."""
    turns = [*prompt(1, 2000, 0, chosen="LRU, t_last = -1"), *prompt(2, 300, 5), *prompt(3, 2100, 5)]
    found = seen(tmp_path, KEPT if state == DROPPED else OFF, turns, state)
    (cost,) = found.costs
    assert (cost.kind, cost.tokens, found.ill) == ("slots", 1995, True)
    assert "the most that it cost" in cost.message
    assert ("1 thrown away for want of room" in str(cost.evidence)) == (state == DROPPED)


def test_openings_that_change_with_every_turn(tmp_path: Path) -> None:
    """A client that writes the time in front of all: no prompt goes on from another, though each is longer."""
    turns = [line for turn in range(4) for line in prompt(turn, 2000 + 50 * turn, 8 if turn else 0)]
    found = seen(tmp_path, KEPT, turns)
    (cost,) = found.costs
    assert (cost.kind, found.ill) == ("unknown", True)
    assert cost.tokens == 2000 + 2050 + 2100 - 3 * 8
    assert "something at their very beginning changes" in cost.message
    assert "trace explain" in cost.setting


def test_a_request_that_does_not_fit_is_no_reading(tmp_path: Path) -> None:
    """It was refused: its tokens were not read, and its log is not broken off."""
    refused = prompt(2, 9000, 0)[:2]
    found = seen(tmp_path, KEPT, prompt(1, 2000, 0, chosen="LRU, t_last = -1"), refused)
    (cost,) = found.costs
    assert (cost.kind, cost.message) == ("context-full", "1 request refused: longer than the context")
    assert "-c with 16384" in cost.setting
    assert (found.figures.requests, found.figures.prompt_tokens) == (1, 2000)
    assert found.session is not None
    assert found.session.unread == ()


def test_a_router_that_starts_one_model_in_place_of_another(tmp_path: Path) -> None:
    lines: list[str] = []
    for turn in range(2):
        for number, name in enumerate(("owl", "finch")):
            port = 40001 + 2 * turn + number
            lines.append(
                f"0.0{turn}.{number}00 I srv          load: spawning server instance with name={name} on port {port}"
            )
            lines += [
                f"[{port}] 0.00.020 I {line}"
                for line in prompt(0, 2000 - 500 * number + 20 * turn, 0, chosen="LRU, t_last = -1")
            ]
            lines.append(
                f"0.0{turn}.{number}50 I srv          tick: evicting idle LRU name={name} for a queued request"
            )
    found = seen(tmp_path, lines)
    (cost,) = found.costs
    assert (found.kind, cost.kind, cost.tokens) == ("llama-server", "models", 3500)
    assert cost.setting.startswith("a larger --models-max")
    assert "log line 14: the engine is started for owl" in cost.evidence


def test_logs_of_two_servers_keep_their_line_numbers_apart(tmp_path: Path) -> None:
    """In both an engine starts on line 6: in one for want of memory, in the other since the model was not used."""
    start = (
        'time=2026-11-29T10:00:0{}.000Z level=INFO msg="starting llama-server" cmd="llama-server --model /{} -c 8192"'
    )
    why = 'time=2026-11-29T10:00:01.500Z level=DEBUG msg="{}" runner.model=/{}'
    words = {"a": "resetting model to expire immediately to make room", "b": "timer expired, expiring to unload"}
    for name, said in words.items():
        lines = [start.format(1, name), *goes_on(1, 2000, 0)[1:], why.format(said, name), start.format(2, name)]
        size = 2100 if name == "a" else 3100
        lines += goes_on(2, size, 0)[1:]
        (tmp_path / f"{name}.log").write_text("\n".join(lines) + "\n")
    found = diagnose(None, [tmp_path / "a.log", tmp_path / "b.log"])
    kinds = {cost.kind: cost for cost in found.costs}
    assert set(kinds) == {"models", "keep-alive"}
    assert kinds["models"].evidence[0].startswith(f"request 1 ({tmp_path / 'a.log'}:7)")
    assert f"{tmp_path / 'b.log'}:6: the engine is started with num_ctx 8192" in kinds["keep-alive"].evidence
    assert kinds["keep-alive"].evidence[0].startswith(f"request 3 ({tmp_path / 'b.log'}:7)")


def test_rotated_logs_are_one_log_whatever_their_order(tmp_path: Path) -> None:
    """The settings are those of the latest, and a model that ran before the turn of the file has run before."""
    start = 'time=2026-11-29T10:00:0{}.000Z level=INFO msg="starting llama-server" cmd="llama-server --model /w -c {}"'
    old = [start.format(1, 8192), *goes_on(1, 2000, 0)[1:]]
    new = [
        start.format(2, 4096),
        "srv    load_model: initializing, n_slots = 1, n_ctx_slot = 4096",
        *goes_on(1, 2100, 0)[1:],
    ]
    (tmp_path / "server-1.log").write_text("\n".join(old) + "\n")
    (tmp_path / "server.log").write_text("\n".join(new) + "\n")
    for paths in (("server.log", "server-1.log"), ("server-1.log", "server.log")):
        found = diagnose(None, [tmp_path / path for path in paths])
        assert (found.setup.context, [cost.kind for cost in found.costs]) == (4096, ["context-size"])


def test_prompts_that_become_short_and_long_again(tmp_path: Path) -> None:
    """It may be a template that takes tools away, it may be new chats: told, but not counted."""
    sizes = [(3000, 0), (1900, 1700), (3100, 1910), (2000, 1910), (3200, 2010)]
    lines = [line for task, (size, cached) in enumerate(sizes) for line in goes_on(task, size, cached)]
    (cost,) = (found := seen(tmp_path, KEPT, lines)).costs
    assert (cost.kind, cost.share, found.ill) == ("unknown", None, False)
    assert cost.tokens == (3000 - 1910) + (3100 - 2010)
    assert "a log alone does not say which" in cost.message


def test_a_chat_that_grows_and_a_new_one_are_not_in_turn(tmp_path: Path) -> None:
    sizes = [(1000, 0), (2000, 1000), (3000, 2000), (1000, 950), (2000, 1000), (3000, 2000)]
    lines = [line for task, (size, cached) in enumerate(sizes) for line in goes_on(task, size, cached)]
    assert seen(tmp_path, KEPT, lines).costs == ()
