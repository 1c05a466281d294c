"""Server logs as files, however long: only lines that can tell something are looked at closely.

A log of a gigabyte goes through in a stream. Rotated files of one server are one log; compressed ones are unpacked on
the way. Order is that of the lines: clocks jump.
"""

from __future__ import annotations

import codecs
import gzip
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from templatefix.servers.log_events import LogEvent, LoggedRequest, LogItem
from templatefix.servers.logs import LogReader
from templatefix.trace.exchange import Unread

_LONGEST = 1 << 20  # bytes of a line; what is longer is cut
_WORD = 8  # bytes that tell lines apart
_SLOT_WORDS = frozenset(
    (
        *(b"new prom", b"cached n", b"n_tokens", b"kv cache", b"stop pro", b"prompt e", b"selected", b"forcing "),
        *(b"restored", b" - check", b""),
    )
)
_MESSAGES = frozenset((b"loading ", b"truncati", b"starting", b"template", b"logged t"))
_BLOCK = 1 << 20  # bytes
_BROKEN = (EOFError, gzip.BadGzipFile, zlib.error)
_ROTATED = re.compile(r"^(?P<stem>.+?)(?:-(?P<dash>\d+))?\.(?P<kind>log|txt)(?:\.(?P<dot>\d+))?(?:\.gz)?$")
_HUGE = re.compile(r"\d{40}")  # larger than any figure; few digests of a file have as many digits in a row
_LOG_LINE = re.compile(
    rb"^(?:\[\d+\] )?(?:[\d.]+ [DIWE] )?(?:slot|srv|llama|print_info|load)\S*\s|^time=\S+ level=|^\[GIN\] |"
    rb"\[update_slots\]|\"slot_id\"|prompt eval time"
)


@dataclass
class LogRead:
    """What a log told."""

    sources: list[str]
    items: list[tuple[str, LogItem]] = field(default_factory=list)  # each with its file
    unread: list[Unread] = field(default_factory=list)


def looks_like_log(head: bytes) -> bool:
    """Whether a file's beginning is a server's log."""
    return any(_LOG_LINE.search(line) for line in _plain(head).split(b"\n")[:400])


def read_logs(paths: Sequence[Path]) -> list[LogRead]:
    """Read logs; rotated files of one server are read as one. Raises OSError."""
    return [_read(group) for group in by_server(paths)]


def by_server(paths: Sequence[Path]) -> list[list[Path]]:
    """Logs by server: rotated files of one together, the oldest first."""
    groups: dict[tuple[Path, str], list[tuple[int, Path]]] = {}
    for path in paths:
        found = _ROTATED.match(path.name)
        stem = found["stem"] if found else path.name
        age = int(found["dash"] or found["dot"] or 0) if found else 0
        groups.setdefault((path.parent, stem), []).append((age, path))
    return [[path for _, path in sorted(group, reverse=True)] for group in groups.values()]


def _read(paths: Sequence[Path]) -> LogRead:
    read = LogRead([str(path) for path in paths])
    reader = LogReader()
    for path in paths:
        name = str(path)
        told = _Told(name)
        with opened_log(path, told.whole) as file:
            for number, line in _telling(file, told):
                if _HUGE.search(line):
                    told.add(number, "a line with a number that is too large")
                    continue
                try:
                    read.items += [(name, _named(item, name)) for item in reader.feed(line, number)]
                except ValueError:
                    told.add(number, "a line with a figure that is no number")
        read.unread += told.unread()
    read.items += [(read.sources[-1], item) for item in reader.end()]
    for source, item in read.items:
        if isinstance(item, LoggedRequest) and item.cached_tokens is None and not item.too_long:
            reason = "the log ends, or an engine does, before it says how much of this prompt was in the cache"
            read.unread.append(Unread(source, item.line, reason))
    return read


def _named(item: LogItem, source: str) -> LogItem:
    """An event with its file; a request's stands beside it."""
    return replace(item, source=source) if isinstance(item, LogEvent) else item


class _Told:
    """Counts what could not be read."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._first: dict[str, list[int]] = {}
        self._clock = ""

    def add(self, line: int, reason: str) -> None:
        """One more of a kind."""
        found = self._first.setdefault(reason, [line, 0])
        found[1] += 1

    def whole(self, reason: str) -> None:
        """Something that belongs to no line."""
        self.add(0, reason)

    def clock(self, line: int, stamp: str) -> None:
        """See whether the clock went back; only stamps of one shape can be compared."""
        if self._clock and len(stamp) == len(self._clock) and stamp[19:] == self._clock[19:] and stamp < self._clock:
            self.add(line, "the clock goes back here: lines are taken in their order, not by their time")
        self._clock = stamp

    def unread(self) -> list[Unread]:
        """What was counted."""
        return [Unread(self._source, line, reason, count) for reason, (line, count) in self._first.items()]


def _telling(blocks: Iterable[bytes], told: _Told) -> Iterator[tuple[int, str]]:
    """The lines that can tell something, with their numbers, as text; blocks end with whole lines."""
    number = 0
    opened = False
    for block in blocks:
        old, router = b"slot_id" in block, b"spawning server instance" in block
        if b"\0" in block:
            told.add(number + 1, "bytes that are no text")
        for line in block.split(b"\n"):
            number += 1
            at = line.find(b"| task ")
            if at >= 0:
                bar = line.find(b"|", at + 7)
                word = line[bar + 2 : bar + 2 + _WORD]
                if bar < 0 or word not in _SLOT_WORDS:
                    continue
                if not opened:
                    if word in (b"cached n", b"n_tokens", b"kv cache"):
                        told.add(number, "the log begins in the middle of a request")
                    opened = word not in (b"selected", b" - check")
            elif line[:5] == b"time=":
                at = line.find(b' msg="')
                if at < 0 or line[at + 6 : at + 6 + _WORD] not in _MESSAGES:
                    continue
                if line.count(b'"') % 2:
                    told.add(number, "a line of the log is cut off")
                told.clock(number, line[5:24].decode("ascii", "replace"))
            elif router and b"spawning server instance with name=" in line:
                pass
            elif b"prompt eval time" not in line and not (old and b"slot_id" in line):
                continue
            try:
                yield number, line.decode()
            except UnicodeDecodeError:
                told.add(number, "text that is not UTF-8, read with what is wrong replaced")
                yield number, line.decode("utf-8", "replace")
        number -= 1  # each block ends behind a line's end


def unpacked(path: Path, size: int) -> bytes:
    """The first bytes of a file, unpacked where it is compressed; as many as there are. Raises OSError."""
    pieces: list[bytes] = []
    with path.open("rb") as raw:
        read = _reader(raw, lambda _: None)
        while size > 0 and (piece := read(size)):
            pieces.append(piece)
            size -= len(piece)
    return b"".join(pieces)


@contextmanager
def opened_log(path: Path, told: Callable[[str], None] = lambda _: None) -> Iterator[Iterable[bytes]]:
    """The blocks of a log, each of whole lines: plain, compressed, or in UTF-16 as some shells write it.

    A compressed one that is cut off or broken ends there, and `told` hears of it. Raises OSError.
    """
    mark = unpacked(path, 2)
    with path.open("rb") as raw:
        read = _reader(raw, told)
        yield _blocks(_decoded(read) if mark in (b"\xff\xfe", b"\xfe\xff") else lambda: read(_BLOCK))


def _decoded(read: Callable[[int], bytes]) -> Callable[[], bytes]:
    text = codecs.getincrementaldecoder("utf-16")("replace")

    def more() -> bytes:
        while piece := read(_BLOCK):
            if whole := text.decode(piece):
                return whole.encode("utf-8", "replace")
        return b""

    return more


def _reader(raw: BinaryIO, told: Callable[[str], None]) -> Callable[[int], bytes]:
    """What reads on in a file, at most so many bytes; nothing at its end."""
    packed = raw.read(2) == b"\x1f\x8b"
    raw.seek(0)
    if not packed:
        return raw.read
    file = gzip.GzipFile(fileobj=raw)

    def read(size: int) -> bytes:
        try:
            return file.read1(size)
        except _BROKEN as error:
            told(f"the compressed file is broken off: {error}")
            return b""

    return read


def _blocks(read: Callable[[], bytes]) -> Iterator[bytes]:
    """Blocks of whole lines; a line that never ends is cut, so that it takes no more room than a few blocks."""
    rest = b""
    while block := read():
        head, end, tail = block.rpartition(b"\n")
        if not end:
            rest = (rest + tail)[:_LONGEST]
            continue
        yield rest + head + end
        rest = tail
    if rest:
        yield rest + b"\n"


def _plain(head: bytes) -> bytes:
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return head.decode("utf-16", "replace").encode()
    return head
