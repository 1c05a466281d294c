"""Room on the stack for code that recurses over deep trees."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

SHALLOW = 60  # levels that the ordinary stack and recursion limit hold with ease
_FRAMES_PER_LEVEL = 10  # Python calls that a consumer makes for one level of nesting, at most
_BYTES_PER_FRAME = 1024  # of C stack for each of them; only what is used is ever touched
_MIN_STACK = 16 << 20

_lock = threading.Lock()  # guards what belongs to the whole process: the recursion limit and the stack size
_running: list[int] = []  # frames asked for by the deep calls that run now
_usual_limit = 0  # the recursion limit before the first of them


def run_deep(depth: int, fn: Callable[[], T]) -> T:
    """Call `fn`, which recurses about `depth` levels of a tree; what it returns or raises comes through.

    A deep call runs in a thread of its own with a stack to match, and the recursion limit is raised meanwhile.
    """
    if depth <= SHALLOW:
        return fn()
    frames = depth * _FRAMES_PER_LEVEL
    results: list[T] = []
    errors: list[BaseException] = []

    def call() -> None:
        try:
            results.append(fn())
        except BaseException as error:  # whatever it is, it is raised again in the caller's thread
            errors.append(error)

    _raise_limit(frames)
    try:
        _start(call, frames).join()
    finally:
        _lower_limit(frames)
    if errors:
        raise errors.pop()
    return results.pop()


def _start(call: Callable[[], None], frames: int) -> threading.Thread:
    with _lock:
        usual = threading.stack_size(max(_MIN_STACK, frames * _BYTES_PER_FRAME))
        try:
            thread = threading.Thread(target=call, name="deep template")
            thread.start()
        finally:
            threading.stack_size(usual)
    return thread


def _raise_limit(frames: int) -> None:
    global _usual_limit
    with _lock:
        if not _running:
            _usual_limit = sys.getrecursionlimit()
        _running.append(frames)
        sys.setrecursionlimit(_usual_limit + max(_running))


def _lower_limit(frames: int) -> None:
    with _lock:
        _running.remove(frames)
        sys.setrecursionlimit(_usual_limit + max(_running, default=0))
