"""A second process that takes over a part of the work: forked from this one, so that it knows what this one knows."""

from __future__ import annotations

import marshal
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, BinaryIO, Generic, NoReturn, TypeVar

T = TypeVar("T")  # what marshal can carry

_SIZE = 8  # bytes in front of each message that hold its length


def can_fork() -> bool:
    """Whether a second process can be had and has a core to run on.

    Linux alone: elsewhere fork is missing, or unsafe with the system's own libraries. Nor is it safe beside threads.
    """
    return sys.platform == "linux" and len(os.sched_getaffinity(0)) > 1 and threading.active_count() == 1


class Worker(Generic[T]):
    """A process that answers one message after the other with `work`; to be ended by `end`.

    It writes nothing and ends with its parent. Where it dies, or `work` raises, it is gone, and what it was given is
    for the caller to answer.
    """

    def __init__(self, work: Callable[[bytes], T]) -> None:
        """Start it; raises OSError where the system has no process or pipe to give."""
        theirs, tasks = os.pipe()
        try:
            answers, ours = os.pipe()
        except OSError:
            os.close(theirs)
            os.close(tasks)
            raise
        self._tasks, self._answers = os.fdopen(tasks, "wb"), os.fdopen(answers, "rb")
        try:
            self.pid = os.fork()
            if self.pid == 0:
                _serve(work, theirs, ours, (tasks, answers))
        except OSError:
            self._close()
            raise
        finally:
            os.close(theirs)
            os.close(ours)

    def give(self, message: bytes) -> None:
        """Hand over a message; `take` has to follow before the next."""
        with suppress(OSError):  # gone: `take` will tell
            _send(self._tasks, message)

    def take(self) -> T | None:
        """Wait for the answer to the message; None if the worker is gone."""
        data = _receive(self._answers)
        if data is None:
            return None
        answer: T = marshal.loads(data)
        return answer

    def end(self) -> None:
        """End the process, whatever it does."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self._close()
        os.waitpid(self.pid, 0)

    def _close(self) -> None:
        for pipe in (self._tasks, self._answers):
            with suppress(OSError):  # what was never sent cannot be flushed
                pipe.close()


def _serve(work: Callable[[bytes], T], tasks: int, answers: int, others: tuple[int, ...]) -> NoReturn:
    """The life of the new process. Nothing of its parent's runs at its end: no handler, no flush, no report."""
    try:
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C reaches both processes
        null = os.open(os.devnull, os.O_RDWR)
        for number in range(3):  # whoever reads the parent's output is to see its end when the parent ends
            os.dup2(null, number)
        for number in others:
            os.close(number)
        source, sink = os.fdopen(tasks, "rb"), os.fdopen(answers, "wb")
        while (message := _receive(source)) is not None:
            answer: Any = work(message)
            _send(sink, marshal.dumps(answer))
    except BaseException:  # of which the parent is told by the end of the answers
        os._exit(1)
    os._exit(0)


def _send(pipe: BinaryIO, data: bytes) -> None:
    pipe.write(len(data).to_bytes(_SIZE, "big"))
    pipe.write(data)
    pipe.flush()


def _receive(pipe: BinaryIO) -> bytes | None:
    """The next message, None where its sender has gone."""
    head = pipe.read(_SIZE)
    if len(head) < _SIZE:
        return None
    size = int.from_bytes(head, "big")
    data = pipe.read(size)
    return data if len(data) == size else None
