"""A batch on two cores: every bulk of lines is cut in two, and a second process answers one half."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Final

from templatefix.chat.batch import Answers
from templatefix.cli.worker import Worker, can_fork

BULK: Final = 512 * 1024  # bytes of lines; less is answered sooner than a second process starts


class Halves:
    """Answers lines with `answer`, in their order; a second process is started once it is worth it and can be had.

    To be used in a `with` block, which ends that process.
    """

    def __init__(self, answer: Callable[[bytes], Answers], bulk: int = BULK) -> None:
        """`bulk` is how many bytes of lines are cut in two."""
        self._answer = answer
        self._bulk = bulk
        self._worker: Worker[Answers] | None = None
        self._alone = not can_fork()

    def answers(self, lines: bytes) -> Iterator[Answers]:
        """The answers to whole lines, in one part or two."""
        worker = self._ready() if len(lines) >= self._bulk else None
        if worker is None:
            yield self._answer(lines)
            return
        middle = lines.find(b"\n", len(lines) // 2) + 1 or len(lines)
        worker.give(lines[middle:])
        yield self._answer(lines[:middle])
        theirs = worker.take()
        if theirs is None:
            self._end()
            theirs = self._answer(lines[middle:])
        yield theirs

    def _ready(self) -> Worker[Answers] | None:
        if self._worker is None and not self._alone:
            try:
                self._worker = Worker(self._answer)
            except OSError:
                self._alone = True
        return self._worker

    def _end(self) -> None:
        """Go on without a second process."""
        self._alone = True
        if self._worker is not None:
            self._worker.end()
            self._worker = None

    def __enter__(self) -> Halves:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end()
