"""What a log tells of how an engine was started: slots, memory of former prompts, checkpoints, and every new start."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from templatefix.servers.log_ollama import values_of

Gone = Literal["", "expired", "dismissed", "room", "context", "reloaded"]

_TELLING = re.compile(
    rb"load_model: (?:initializing|prompt cache|context checkpoints)|full-size SWA cache|n_swa +=|saving prompt with"
    rb"|found better prompt|removing oldest entry|exceeds cache size limit|llama_memory_recurrent"
    rb"|starting (?:llama-server|runner|llama server)|to make room"
    rb"|spawning server instance with name|evicting idle LRU|expiring to unload|msg=reloading|msg=\"reloading"
)
_SLOTS = re.compile(r"n_slots = (\d+)(?:, n_ctx_slot = (\d+))?")
_CHECKPOINTS = re.compile(r"context checkpoints (?:enabled, max = (\d+)|disabled)")
_WINDOW = re.compile(r"n_swa += (\d+)")
_WEIGHTS = re.compile(r" (?:-m|--model) (\S+)")
_CONTEXT = re.compile(r" (?:-c|--ctx-size) (\d+)")
_SPAWNED = re.compile(r"spawning server instance with name=(\S+)")
_EVICTED = re.compile(r"evicting idle LRU name=(\S+)")
_GONE: tuple[tuple[str, Gone], ...] = (
    ("reloading", "reloaded"),
    ("timer expired, expiring", "expired"),
    ("runner with zero duration", "dismissed"),
    ("to make room", "room"),
)


@dataclass(frozen=True, slots=True)
class EngineStart:
    """An engine that Ollama or a router of llama.cpp's started."""

    source: str  # the log's file
    line: int  # 1-based
    weights: str  # their file, or the router's name for them
    context: int | None  # tokens
    again: bool  # for weights that an engine had run on before
    gone: Gone  # why that one was ended; empty: the log does not say


@dataclass(frozen=True, slots=True)
class Setup:
    """How the latest engine of a log was started, and what happened in all of the log; None where it does not say."""

    slots: int | None = None
    context: int | None = None  # of a slot, in tokens
    prompt_cache: bool | None = None  # whether former prompts are kept in the host's memory
    checkpoints: int | None = None  # copies of a memory that cannot be wound back; 0: switched off
    window: int | None = None  # tokens that a sliding window sees; 0: none
    full_window: bool = False  # the whole window is kept all the same
    recurrent: bool = False
    saved: int = 0  # prompts put into the host's memory
    restored: int = 0  # and brought back
    dropped: int = 0  # and thrown away for want of room
    starts: tuple[EngineStart, ...] = ()
    router: bool = False  # a llama-server that starts one server a model


@dataclass
class SetupReader:
    """Reads a log line by line."""

    setup: Setup = field(default_factory=Setup)
    _source: str = ""
    _gone: dict[str, Gone] = field(default_factory=dict)  # by weights
    _contexts: dict[str, int | None] = field(default_factory=dict)

    def read(self, blocks: Iterable[bytes], source: str = "") -> Setup:
        """The setup that whole lines in blocks of bytes tell; `source` names their file."""
        self._source, number = source, 1
        for block in blocks:
            at = 0
            for found in _TELLING.finditer(block):
                start = block.rfind(b"\n", 0, found.start()) + 1
                if start < at:
                    continue  # a second word on the same line
                number += block.count(b"\n", at, start)
                end = block.find(b"\n", start)
                line = block[start : len(block) if end < 0 else end].decode("utf-8", "replace")
                self.feed(line, number)
                at = start
                if end >= 0:
                    number, at = number + 1, end + 1
            number += block.count(b"\n", at)
        return self.setup

    def feed(self, line: str, number: int) -> None:
        """Take a line."""
        values = values_of(line)
        if values:
            self._ollama(values, number)
            return
        setup = self.setup
        if (slots := _SLOTS.search(line)) is not None:
            self.setup = replace(setup, slots=int(slots[1]), context=int(slots[2]) if slots[2] else None)
        elif "load_model: prompt cache is" in line:
            self.setup = replace(setup, prompt_cache="prompt cache is enabled" in line)
        elif (checkpoints := _CHECKPOINTS.search(line)) is not None:
            self.setup = replace(setup, checkpoints=int(checkpoints[1] or 0))
        elif (window := _WINDOW.search(line)) is not None and "print_info" in line:
            self.setup = replace(setup, window=int(window[1]), full_window=False, recurrent=False)
        elif "full-size SWA cache" in line:
            self.setup = replace(setup, full_window=True)
        elif "llama_memory_recurrent" in line:
            self.setup = replace(setup, recurrent=True)
        elif "saving prompt with" in line:
            self.setup = replace(setup, saved=setup.saved + 1)
        elif "found better prompt" in line:
            self.setup = replace(setup, restored=setup.restored + 1)
        elif "removing oldest entry" in line or "exceeds cache size limit" in line:
            self.setup = replace(setup, dropped=setup.dropped + 1)
        elif (spawned := _SPAWNED.search(line)) is not None:
            self.setup = replace(setup, router=True)
            self._started(spawned[1], None, number)
        elif (evicted := _EVICTED.search(line)) is not None:
            self._gone.setdefault(evicted[1], "room")

    def _ollama(self, values: dict[str, str], number: int) -> None:
        message, weights = values.get("msg", ""), values.get("runner.model", "")
        if message.startswith("starting "):
            name, size = (found.search(values.get("cmd", "")) for found in (_WEIGHTS, _CONTEXT))
            self._started(name[1] if name else "", int(size[1]) if size else None, number)
            return
        for phrase, why in _GONE:
            if phrase in message and weights:
                self._gone.setdefault(weights, why)

    def _started(self, name: str, size: int | None, number: int) -> None:
        again = name in self._contexts
        gone = self._gone.pop(name, "")
        if again and self._contexts[name] != size:
            gone = "context"
        self._contexts[name] = size
        start = EngineStart(self._source, number, name, size, again, gone)
        self.setup = replace(self.setup, starts=(*self.setup.starts, start))
