"""A log that is whole, read at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from templatefix.servers.log_events import LogItem
from templatefix.servers.logs import LogReader


def read_log(lines: Iterable[str]) -> Iterator[LogItem]:
    """All requests and events of a log."""
    reader = LogReader()
    for line in lines:
        yield from reader.feed(line)
    yield from reader.end()
