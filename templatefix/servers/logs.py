"""A server's log, read as a stream: the lines of every age of Ollama and of llama.cpp, mixed as they come."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from templatefix.servers.log_events import LogEvent, LogItem
from templatefix.servers.log_llamacpp import LlamaCppLines, router_start
from templatefix.servers.log_ollama import read_line

_TIME = re.compile(r"(?:^\[\d+\] )?(\d+(?:\.\d+)+) [DIWE] |^time=(\S+) ")


class LogReader:
    """The requests and events of a log in the order in which they were over; lines that say nothing are passed by.

    It is fed a line at a time and holds what is open, so a log may be as long as it likes or still be growing.
    """

    def __init__(self) -> None:
        self._engine = LlamaCppLines()
        self._number = 0

    def feed(self, line: str, number: int | None = None) -> Iterator[LogItem]:
        """Take the next line (of that number, where lines that say nothing were left out); what is over now."""
        self._number = self._number + 1 if number is None else number
        line = line.rstrip("\r\n")
        for item in read_line(line, self._number):
            if isinstance(item, LogEvent) and item.kind == "restart":
                yield from self._engine.rest()
            yield item
        found = _TIME.match(line)
        time = (found[1] or found[2]) if found else None
        if (start := router_start(line, self._number, time)) is not None:
            yield start
        yield from self._engine.feed(line, self._number, time)

    def end(self) -> Iterator[LogItem]:
        """What was still open when the log ended."""
        yield from self._engine.rest()


class LogTail:
    """A log file that a server is writing: what was added since the last look."""

    def __init__(self, path: Path) -> None:
        """Begin at the end of the file; raises OSError where it cannot be read."""
        self._path = path
        self._reader = LogReader()
        self._rest = b""
        with path.open("rb") as file:
            self._at = file.seek(0, os.SEEK_END)

    def new(self) -> list[LogItem]:
        """The items that new lines complete; raises OSError. A file that was begun anew is read from its start."""
        with self._path.open("rb") as file:
            if file.seek(0, os.SEEK_END) < self._at:
                self._at, self._rest = 0, b""
            file.seek(self._at)
            data = file.read()
            self._at = file.tell()
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [item for line in lines for item in self._reader.feed(line.decode("utf-8", "replace"))]
