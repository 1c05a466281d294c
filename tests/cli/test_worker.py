"""The second process of a batch, and the halves that it answers."""

from __future__ import annotations

import errno
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.interrupts import heed_interrupts

from templatefix.chat.batch import Batch
from templatefix.chat.go import GoChatTemplate
from templatefix.cli import halves, render
from templatefix.cli.halves import BULK, Halves
from templatefix.cli.worker import Worker, can_fork

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a second process is started on Linux alone")

COMMAND = [sys.executable, "-c", "from templatefix.cli.main import main; main()"]
CHAT = "{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}"
SLOW = "{{ range .Messages }}{{ range $.Messages }}{{ range $.Messages }}{{ .Role }}{{ end }}{{ end }}{{ end }}"


def backwards(message: bytes) -> bytes:
    if message == b"die":
        os.kill(os.getpid(), signal.SIGKILL)
    return bytes(100 // len(message)) + message[::-1]


@pytest.fixture
def worker() -> Iterator[Worker[bytes]]:
    started = Worker(backwards)
    yield started
    started.end()


def test_messages_larger_than_a_pipe_are_answered_in_turn(worker: Worker[bytes]) -> None:
    large = bytes(range(256)) * 10_000
    for message in (b"abc", large, b"x" * 100):
        worker.give(message)
        answer = worker.take()
        assert answer is not None
        assert answer.lstrip(b"\0") == message[::-1].lstrip(b"\0")


@pytest.mark.parametrize("last", [b"die", b""])  # killed from outside; an error of the work (division by zero)
def test_a_worker_that_has_gone_says_so(worker: Worker[bytes], last: bytes) -> None:
    worker.give(last)
    assert worker.take() is None
    worker.give(b"abc" * 100_000)
    assert worker.take() is None


def test_nothing_is_left_of_a_worker() -> None:
    worker = Worker(lambda _message: time.sleep(600))
    worker.give(b"rest")
    worker.end()
    with pytest.raises(ChildProcessError):  # neither at work nor waiting to be asked for
        os.waitpid(worker.pid, os.WNOHANG)


@pytest.mark.parametrize("failing", [1, 2, 3])  # the first pipe, the second, the process
def test_what_the_system_refuses_leaves_no_pipe_open(monkeypatch: pytest.MonkeyPatch, failing: int) -> None:
    made: list[tuple[int, int]] = []
    pipe = os.pipe

    def refused() -> NoReturn:
        raise OSError(errno.EMFILE, "Too many open files")

    def some() -> tuple[int, int]:
        if len(made) == failing - 1:
            refused()
        made.append(pipe())
        return made[-1]

    monkeypatch.setattr(os, "pipe", some)
    monkeypatch.setattr(os, "fork", refused)
    with pytest.raises(OSError, match="Too many open files"):
        Worker(backwards)
    assert len(made) == failing - 1
    for end in (end for pair in made for end in pair):
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(end)


@pytest.mark.parametrize(("last", "status"), [(b"abc", 0), (b"", 1)])  # (b"" is an error of the work)
def test_the_exit_status_tells_of_an_error(last: bytes, status: int) -> None:
    worker = Worker(backwards)
    worker.give(last)
    worker.take()
    worker._close()
    assert os.waitstatus_to_exitcode(os.waitpid(worker.pid, 0)[1]) == status


LINES = st.sampled_from(
    [
        {"id": 1, "template": CHAT, "messages": [{"role": "user", "content": "ü" * 40}]},
        {"id": "b", "template": "{{ if }}"},
        {"id": None, "template": "{{ range .Messages }}{{ .Nope }}{{ end }}", "messages": [{"role": "user"}]},
        {"id": 4, "template": 5},
        {},
    ]
)


@pytest.fixture(scope="module")
def eager() -> Iterator[Halves]:
    """Halves that start a second process for anything."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(halves, "can_fork", lambda: True)
        with Halves(Batch(GoChatTemplate).answers, bulk=1) as made:
            yield made


@given(rows=st.lists(LINES, max_size=12), broken=st.sampled_from([b"", b"\n", b"oops\n", b"oops"]))
@settings(deadline=None)
def test_halves_answer_as_one_does(eager: Halves, rows: list[dict[str, Any]], broken: bytes) -> None:
    lines = b"".join(json.dumps(row).encode() + b"\n" for row in rows) + broken
    answers, bad, count = Batch(GoChatTemplate).answers(lines)
    parts = list(eager.answers(lines))
    assert b"".join(part[0] for part in parts) == answers
    assert sum(part[2] for part in parts) == count
    numbered, before = [], 0
    for part in parts:
        numbered += [(before + number, sentence) for number, sentence in part[1]]
        before += part[2]
    assert numbered == bad


def test_halves_go_on_alone_when_the_worker_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(halves, "can_fork", lambda: True)
    parent = os.getpid()

    def answer(lines: bytes) -> tuple[bytes, list[tuple[int, str]], int]:
        if os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
        return lines, [], lines.count(b"\n")

    with Halves(answer, bulk=1) as made:
        assert list(made.answers(b"a\nb\nc\n")) == [(b"a\nb\n", [], 2), (b"c\n", [], 1)]
        assert list(made.answers(b"d\ne\n")) == [(b"d\ne\n", [], 2)]


class _Pipe(io.BytesIO):
    """Standard input that has its bytes in portions."""

    def __init__(self, portions: list[bytes]) -> None:
        super().__init__()
        self.portions = [portion for portion in portions if portion]

    def read1(self, _size: int | None = -1) -> bytes:
        return self.portions.pop(0) if self.portions else b""


@given(portions=st.lists(st.text("ab\n").map(str.encode), max_size=6), ready=st.lists(st.booleans(), max_size=6))
def test_parts_are_whole_lines_and_all_of_them(portions: list[bytes], ready: list[bool]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", type("Stdin", (), {"buffer": _Pipe(portions)}))
        patch.setattr(render, "_has_more", lambda _stdin, _last: ready.pop() if ready else False)
        parts = list(render._parts())
    assert b"".join(parts) == b"".join(portions)
    assert all(part.endswith(b"\n") for part in parts[:-1] if part)


def test_a_bulk_through_a_pipe_is_answered_in_order() -> None:
    """Broken lines keep their numbers, wherever the cuts fall."""
    content = "words " * 300
    rows: list[bytes] = []
    for number in range(1, 3001):
        row = {"id": number, "template": CHAT, "messages": [{"role": "user", "content": content}]}
        rows.append(b"oops" if number % 1000 == 7 else json.dumps(row).encode())
    done = subprocess.run([*COMMAND, "render", "--batch"], input=b"\n".join(rows), capture_output=True, timeout=120)
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [
        number for number in range(1, 3001) if number % 1000 != 7
    ]
    assert done.returncode == 2
    assert [line.split(": ")[1] for line in done.stderr.decode().splitlines()] == ["line 7", "line 1007", "line 2007"]


def test_an_interrupt_ends_both_processes(alone: Path) -> None:
    """As a terminal sends it: to the whole group, here in the middle of slow renders."""
    row = {"template": SLOW, "messages": [{"role": role, "content": "x" * 40} for role in ("user", "assistant") * 100]}
    data = json.dumps(row).encode() + b"\n"
    if not can_fork():
        pytest.skip("there is no core for a second process")
    (alone / "slow.jsonl").write_bytes(data * (BULK // len(data) + 1))
    with open("slow.jsonl", "rb") as source:
        process = subprocess.Popen(
            [*COMMAND, "render", "--batch"],
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=heed_interrupts,
        )
    for _ in range(600):
        if len(_group(process.pid)) == 2 or process.poll() is not None:
            break
        time.sleep(0.05)
    assert len(_group(process.pid)) == 2
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, b"", b"")
    assert _group(process.pid) == []


def _group(leader: int) -> list[int]:
    """The processes of a group that are at work."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                state, _parent, group = file.read().rpartition(")")[2].split()[:3]
        except OSError:  # it has just gone
            continue
        if int(group) == leader and state != "Z":
            found.append(int(name))
    return found
