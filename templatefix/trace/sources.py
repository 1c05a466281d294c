"""Whatever holds a session: recordings of the proxy, JSON lines, Ollama's request dumps, and servers' logs."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, Literal

from templatefix.servers.log_events import LogEvent, LoggedRequest
from templatefix.trace.bodies import exchange_of
from templatefix.trace.exchange import Exchange, TemplateSeen, Unread, seconds_of
from templatefix.trace.logfile import LogRead, looks_like_log, read_logs, unpacked

_HEAD = 1 << 18  # bytes that tell what a file is
_DUMP = re.compile(r"(\d{8}T\d{6}\.\d+Z)-(\d+)_(\w+?)_body\.json$")
_LONGEST = 256 << 20  # bytes of one JSON text
_LONGEST_ANSWER = 3600.0  # seconds
TOO_LONG = "the server refused this request: it does not fit into the context"
_PATHS = {
    "api_chat": "/api/chat",
    "api_generate": "/api/generate",
    "v1_chat_completions": "/v1/chat/completions",
    "v1_responses": "/v1/responses",
    "v1_messages": "/v1/messages",
}


class TraceError(Exception):
    """A source that cannot be read at all; the message is one sentence."""


@dataclass
class Sources:
    """All that was read."""

    names: list[str] = field(default_factory=list)
    exchanges: list[Exchange] = field(default_factory=list)
    logs: list[LogRead] = field(default_factory=list)
    templates: dict[str, TemplateSeen] = field(default_factory=dict)  # by model
    unread: list[Unread] = field(default_factory=list)


def read_sources(paths: Sequence[Path]) -> Sources:
    """Read files and folders of any kind; raises TraceError where one is not there or is of no kind known."""
    sources = Sources()
    logs: list[Path] = []
    for path in _files(paths):
        sources.names.append(str(path))
        try:
            head = unpacked(path, _HEAD)
        except OSError as error:
            raise TraceError(f"{path} cannot be read: {error.strerror or error}") from error
        if _DUMP.search(path.name):
            _read_dump(path, sources)
        elif looks_like_log(head):
            logs.append(path)
        elif head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"["):
            _read_json(path, sources)
        elif not head.strip():
            sources.unread.append(Unread(str(path), 0, "the file is empty"))
        else:
            raise TraceError(f"{path} is neither a recording, nor JSON lines of requests, nor a log that is known")
    try:
        sources.logs = read_logs(logs)
    except OSError as error:
        raise TraceError(f"a log cannot be read: {error}") from error
    for log in sources.logs:
        sources.unread += log.unread
    return sources


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            dumps = sorted(item for item in path.iterdir() if _DUMP.search(item.name))
            if not dumps:
                raise TraceError(f"the folder {path} holds no request dumps")
            yield from dumps
        elif path.name.endswith("_request.sh") and _DUMP.search(body := path.name.replace("_request.sh", "_body.json")):
            yield path.with_name(body)
        elif path.exists():
            yield path
        else:
            raise TraceError(f"there is no file {path}")


def _read_dump(path: Path, sources: Sources) -> None:
    found = _DUMP.search(path.name)
    assert found is not None
    try:
        body = json.loads(path.read_bytes().decode("utf-8", "replace"))
    except ValueError as error:
        reason = str(error) if isinstance(error, json.JSONDecodeError) else "a number in it is too large"
        sources.unread.append(Unread(str(path), 0, f"a request dump that is not JSON: {reason}"))
        return
    api = _PATHS.get(found[3], "")
    exchange = exchange_of(api, body, (), str(path)) if isinstance(body, dict) else None
    if exchange is None:
        sources.unread.append(Unread(str(path), 0, "no request for text: it has no messages"))
        return
    stamp = found[1]
    time = f"{stamp[:4]}-{stamp[4:6]}-{stamp[6:11]}:{stamp[11:13]}:{stamp[13:]}"
    sources.exchanges.append(replace(exchange, time=time, dump=path.name))


def _read_json(path: Path, sources: Sources) -> None:
    """JSON lines, or one JSON text: an array of exchanges or a single body."""
    bad: dict[str, list[int]] = {}
    for line, value, reason in _values(path):
        if reason is None:
            reason = _take(path, line, value, sources)
        if reason:
            found = bad.setdefault(reason, [line, 0])
            found[1] += 1
    sources.unread += [Unread(str(path), line, reason, count) for reason, (line, count) in bad.items()]


def _values(path: Path) -> Iterator[tuple[int, Any, str | None]]:
    """Each JSON value with its line, or the reason why it cannot be read."""
    with path.open("rb") as raw:
        file: BinaryIO = raw
        if raw.read(2) == b"\x1f\x8b":
            file = gzip.GzipFile(fileobj=raw)  # type: ignore[assignment]
        raw.seek(0)
        try:
            yield from _values_of(file)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            yield 0, None, f"the compressed file is broken off: {error}"


def _values_of(file: BinaryIO) -> Iterator[tuple[int, Any, str | None]]:
    first = True
    for number, line in enumerate(iter(lambda: file.readline(_LONGEST), b""), 1):
        text = line.strip().removeprefix(b"\xef\xbb\xbf")
        if not text:
            continue
        try:
            value = _loaded(text)
        except (ValueError, RecursionError):
            if first:
                # Not lines: the whole file is one value.
                file.seek(0)
                yield from _whole(file.read(_LONGEST))
                return
            yield number, None, "a line that is not JSON" if line.endswith(b"\n") else "the last line is cut off"
            continue
        first = False
        if isinstance(value, list):
            yield from ((number, item, None) for item in value)
        else:
            yield number, value, None


def _whole(data: bytes) -> Iterator[tuple[int, Any, str | None]]:
    try:
        value = _loaded(data.removeprefix(b"\xef\xbb\xbf"))
    except (ValueError, RecursionError):
        # Lines after all, of which the first is broken.
        for number, line in enumerate(data.split(b"\n"), 1):
            if not line.strip():
                continue
            try:
                value = _loaded(line)
            except (ValueError, RecursionError):
                yield number, None, "a line that is not JSON"
            else:
                yield number, value, None
        return
    yield from ((1, item, None) for item in (value if isinstance(value, list) else [value]))


def _loaded(text: bytes) -> Any:
    try:
        return json.loads(text)
    except UnicodeDecodeError:
        return json.loads(text.decode("utf-8", "replace"))


def _take(path: Path, line: int, row: Any, sources: Sources) -> str | None:
    """Take in a row; the reason where it says nothing."""
    if not isinstance(row, Mapping):
        return "no JSON object"
    model, text = row.get("model"), row.get("template")
    if isinstance(text, str) and isinstance(model, str) and "messages" not in row and "prompt" not in row:
        kind: Literal["go", "jinja"] = "jinja" if row.get("kind") == "jinja" else "go"
        sources.templates[model] = TemplateSeen(model, text, kind, row.get("server") == "ollama")
        return None
    if "method" in row and row["method"] != "POST":
        return None
    status = row.get("status", 200)
    body = row.get("request", row)
    if not isinstance(body, Mapping):
        return None if body is None else "a request that is no object"
    if isinstance(status, int) and status >= 400:
        return TOO_LONG if _too_long(row) else "the server refused this request"
    answer = row.get("answer", row.get("response") if "request" in row else None)
    answers = answer if isinstance(answer, list) else [answer]
    exchange = exchange_of(str(row.get("path", "")), body, answers, str(path))
    if exchange is None:
        return None if "path" in row else "no request for text: it has no messages"
    if row.get("answer_unread"):
        sources.unread.append(Unread(str(path), line, "parts of this answer are not JSON", int(row["answer_unread"])))
    time = row.get("time")
    sources.exchanges.append(replace(exchange, line=line, time=time if isinstance(time, str) else None))
    return None


def _too_long(row: Mapping[str, Any]) -> bool:
    """Whether a refusal is that of a prompt that is longer than the context."""
    said = json.dumps(row.get("answer", row.get("response")), default=str)
    return "exceed_context_size" in said or "exceeds the available context size" in said


def joined(sources: Sources) -> list[Exchange]:
    """The requests in the order in which they were read by their servers, with what logs say of them."""
    exchanges = _ordered(sources.exchanges)
    for log in sources.logs:
        exchanges = _with_log(exchanges, log)
    return exchanges


def _ordered(exchanges: list[Exchange]) -> list[Exchange]:
    """In the order of their times, where all have one; else they stay as they are.

    A recording holds its requests as their answers ended. Where its clock went back by more than an answer can take,
    its own order stays.
    """
    times = [seconds_of(exchange.time) for exchange in exchanges]
    if any(time is None for time in times):
        return exchanges
    known = [time for time in times if time is not None]
    if len({exchange.source for exchange in exchanges}) < 2:
        back = max((before - after for before, after in pairwise(known)), default=0.0)
        if back > _LONGEST_ANSWER:
            return exchanges
    return [exchanges[index] for index in sorted(range(len(known)), key=lambda index: known[index])]


def _with_log(exchanges: list[Exchange], log: LogRead) -> list[Exchange]:
    """Requests and log are matched by dumps, by sizes, and by their order; what only the log has stands between."""
    rows = _logged(log)
    if not any(exchange.readable and exchange.logged is None for exchange in exchanges):
        log.items.clear()
        return exchanges + rows if exchanges else rows
    found = _matches(exchanges, rows, log)
    merged: list[Exchange] = []
    at = 0
    for index, exchange in enumerate(exchanges):
        row = found.get(index)
        if row is None:
            merged.append(exchange)
            continue
        merged += rows[at:row]
        merged.append(_merged(exchange, rows[row]))
        at = max(at, row + 1)
    return merged + rows[at:]


def _merged(exchange: Exchange, row: Exchange) -> Exchange:
    own = exchange.cached_tokens is not None and exchange.figures == "engine"
    return replace(
        exchange,
        logged=row.logged,
        events=row.events,
        slot=row.slot,
        prompt_tokens=exchange.prompt_tokens if own else row.prompt_tokens,
        cached_tokens=exchange.cached_tokens if own else row.cached_tokens,
        figures=exchange.figures if own else "log",
    )


def _matches(exchanges: Sequence[Exchange], rows: Sequence[Exchange], log: LogRead) -> dict[int, int]:
    """Which line of the log belongs to which request: index by index, both growing."""
    dumps = _dumps(rows, log)
    found: dict[int, int] = {}
    at = 0
    open_requests = [index for index, exchange in enumerate(exchanges) if exchange.logged is None and exchange.readable]
    in_order = len(open_requests) == len(rows)
    for index in open_requests:
        exchange = exchanges[index]
        row = dumps.get(exchange.dump) if exchange.dump else None
        if row is None and exchange.prompt_tokens is not None:
            sizes = (n for n in range(at, len(rows)) if rows[n].prompt_tokens == exchange.prompt_tokens)
            row = next(sizes, None)
        elif row is None and in_order and not exchange.dump:
            row = at if at < len(rows) else None
        if row is not None and row >= at:
            found[index] = row
            at = row + 1
    return found


def _dumps(rows: Sequence[Exchange], log: LogRead) -> dict[str, int]:
    """For each dump that the log names, the prompt that was begun last when it was written and has none yet."""
    found: dict[str, int] = {}
    begun: list[int] = []
    order: list[tuple[str, int, str, int]] = []
    starts = {(row.source, row.line): n for n, row in enumerate(rows) if row.logged}
    places = {source: place for place, source in enumerate(log.sources)}
    for (source, line), number in starts.items():
        order.append((f"{places.get(source, 0):06}", line, "", number))
    for source, item in log.items:
        if isinstance(item, LogEvent) and item.kind == "dump":
            order.append(
                (f"{places.get(source, 0):06}", item.line, item.text.replace("\\", "/").rpartition("/")[2], -1)
            )
    for _, _, name, number in sorted(order):
        if number >= 0:
            begun.append(number)
        elif begun:
            found[name] = begun.pop(0)
    return found


def _logged(log: LogRead) -> list[Exchange]:
    """What a log alone tells, in the order in which prompts were begun."""
    places = {source: place for place, source in enumerate(log.sources)}
    rows: list[Exchange] = []
    events: list[LogEvent] = []
    log.items.sort(key=lambda entry: (places[entry[0]], entry[1].line))
    for source, item in log.items:
        if isinstance(item, LogEvent):
            if item.kind in ("restart", "truncated", "selection"):
                events.append(item)
            continue
        rows.append(_row(source, item, tuple(events)))
        events = []
    return rows


def _row(source: str, item: LoggedRequest, events: Iterable[LogEvent]) -> Exchange:
    events = tuple(events)
    models = [event.model for event in events if event.kind == "selection" and event.model]
    return Exchange(
        source,
        item.line,
        time=item.time,
        model=models[-1].removeprefix("registry.ollama.ai/library/") if models else None,
        prompt_tokens=item.prompt_tokens,
        cached_tokens=item.cached_tokens,
        slot=item.slot,
        figures="log",
        logged=item,
        events=events,
    )
