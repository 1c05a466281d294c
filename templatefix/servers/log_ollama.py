"""Ollama's own lines: its former engine's cache slots, prompts that were cut, engines that start, templates chosen."""

from __future__ import annotations

import re
from collections.abc import Iterator

from templatefix.servers.log_events import LogEvent, LoggedRequest

_PAIR = re.compile(r'([\w.]+)=("(?:[^"\\]|\\.)*"|\S*)')
_GIN = re.compile(r'\[GIN\] (\d{4}/\d\d/\d\d - [\d:]+) \| +(\d+) \| +\S+ \| +\S+ \| (\w+) +"([^"]*)"')
_STARTS = ("starting llama-server", "starting runner", "starting llama server", "starting ollama engine")
_DUMP = re.compile(r"logged to (\S+?_body\.json)\b")
_CONTEXT = re.compile(r" (?:-c|--ctx-size) (\d+)")
_CUTS = ("truncating input prompt", "truncating input messages which exceed context length")


def values_of(line: str) -> dict[str, str]:
    """The `key=value` pairs of a line of Ollama's logger, quotes taken off; empty where it is none."""
    if "msg=" not in line or "level=" not in line:
        return {}
    return {key: _unquoted(value) for key, value in _PAIR.findall(line)}


def read_line(line: str, number: int) -> Iterator[LoggedRequest | LogEvent]:
    """What a line of Ollama's own says, if anything."""
    if line.startswith("[GIN]"):
        found = _GIN.match(line)
        if found is not None:
            yield LogEvent("http", number, found[1], f"{found[3]} {found[4]} {found[2]}")
        return
    values = values_of(line)
    message, time = values.get("msg", ""), values.get("time")
    if message == "loading cache slot":
        numbers = {key: int(values[key]) for key in ("id", "prompt", "used") if values.get(key, "").isdigit()}
        if len(numbers) == 3:
            yield LoggedRequest(number, time, "", numbers["id"], None, numbers["prompt"], numbers["used"])
    elif message.startswith(_STARTS):
        context = _CONTEXT.search(values.get("cmd", ""))
        yield LogEvent("restart", number, time, f"{message} -c {context[1]}" if context else message)
    elif message in _CUTS:
        facts = [f"{key}={values[key]}" for key in ("limit", "prompt", "new", "truncated") if key in values]
        yield LogEvent("truncated", number, time, " ".join([message, *facts]))
    elif message == "template selection":
        yield LogEvent("selection", number, time, values.get("selected", ""), values.get("model", ""))
    elif message.startswith("logged to "):
        dump = _DUMP.match(message)
        if dump is not None:
            yield LogEvent("dump", number, time, dump[1])


def _unquoted(value: str) -> str:
    if value.startswith('"'):
        return re.sub(r"\\(.)", r"\1", value[1:-1])
    return value
