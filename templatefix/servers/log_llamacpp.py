"""llama.cpp's lines: how much of a prompt was in the cache, by slot and task.

The function's name in front of `id`, prefixes and time stamps change from build to build, so lines are told by slot,
task and phrase. Only the first figure behind a new prompt is the hit; later ones grow as the prompt is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace

from templatefix.servers.log_events import LogEvent, LoggedRequest

_SLOT = re.compile(r"(?:^\[(\d+)\] )?.*?\bslot +[^|]*?: id +(-?\d+) \| task (-?\d+) \|\s*(.*)")
_NEW = re.compile(r"new prompt, .*?(?:task\.n_tokens|n_prompt_tokens) = (\d+)")
_HIT = re.compile(r"(?:cached )?n_tokens = (\d+), memory_seq_rm|kv cache rm \[(\d+), end\)")
_TIMING = re.compile(r"prompt eval time = +([\d.]+) ms / +(\d+) tokens")
_STOP = re.compile(r"stop processing: n_(?:tokens|past) = \d+, truncated = (\d)")
_FORCED = "forcing full prompt re-processing"
_TAKEN = "selected slot by LRU"
_COMMON = re.compile(r"- checking sim = [\d.]+ \((\d+)/\d+\)")
_SHARE = re.compile(r"selected slot by LCP similarity, (?:f_)?sim_best = ([\d.]+)")
_CHECKPOINT = re.compile(r"restored context checkpoint \(.*?n_tokens = (\d+)")
_CONTEXT = re.compile(r"n_ctx_slot = (\d+)")
_SPAWNED = re.compile(r"load: (spawning server instance with name=\S+)")
_OLD = re.compile(r"\[(?:update_slots|print_timings)\] (.*?) \| (.*)")
_PAIR = re.compile(r'(\w+)=(?:"([^"]*)"|(\S+))')


def router_start(line: str, number: int, time: str | None) -> LogEvent | None:
    """The start of one of a router's servers."""
    found = _SPAWNED.search(line)
    return LogEvent("restart", number, time, found[1]) if found is not None else None


class LlamaCppLines:
    """Reads a log line by line; a request comes out when it is over, or when its slot takes the next one."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, int], LoggedRequest] = {}
        self._taken: dict[tuple[str, int], str] = {}  # slots whose former conversation was left, by what was said
        self._common: dict[tuple[str, int], int] = {}  # tokens that the slot's content shares with the prompt to come
        self._timing: tuple[str, int] | None = None  # the slot whose timings stand on the next line
        self._counts: dict[str, int] = {}  # one object for each figure, as the same ones come again

    def feed(self, line: str, number: int, time: str | None) -> Iterator[LoggedRequest]:
        """Take a line; yield the requests that are complete now."""
        found = _SLOT.match(line)
        if found is not None:
            yield from self._slot_line((found[1] or "", int(found[2])), int(found[3]), found[4], number, time)
        elif self._timing is not None and (timing := _TIMING.search(line)):
            self._timed(self._timing, float(timing[1]))
            self._timing = None
        else:
            yield from self._old_line(line, number, time)

    def rest(self) -> Iterator[LoggedRequest]:
        """Yield what is still open, as at the end of a log or of an engine."""
        found = sorted(self._open.values(), key=lambda request: request.line)
        self._open.clear()
        self._taken.clear()
        self._common.clear()
        yield from found

    def _slot_line(
        self, slot: tuple[str, int], task: int, said: str, number: int, time: str | None
    ) -> Iterator[LoggedRequest]:
        new = _NEW.match(said)
        if new is not None:
            context = _CONTEXT.search(said)
            size = self._count(context[1]) if context else None
            yield from self._begin(slot, task, self._count(new[1]), number, time, size)
            return
        if said.startswith("selected slot by"):
            self._taken[slot] = said
        elif (common := _COMMON.match(said)) is not None:
            self._common[slot] = self._count(common[1])
        request = self._open.get(slot)
        if request is None or request.task != task:
            return
        hit, timing, stop = _HIT.match(said), _TIMING.search(said), _STOP.match(said)
        checkpoint = _CHECKPOINT.match(said)
        if hit is not None and request.cached_tokens is None:
            self._open[slot] = replace(request, cached_tokens=self._count(hit[1] or hit[2] or "0"))
        elif timing is not None:
            self._timed(slot, float(timing[1]))
        elif not said:
            self._timing = slot
        elif said.startswith(_FORCED):
            self._open[slot] = replace(request, forced=True)
        elif checkpoint is not None:
            self._open[slot] = replace(request, checkpoint=int(checkpoint[1]))
        elif stop is not None:
            yield replace(self._open.pop(slot), truncated=stop[1] != "0")

    def _begin(
        self,
        slot: tuple[str, int],
        task: int,
        tokens: int | None,
        number: int,
        time: str | None,
        context: int | None = None,
    ) -> Iterator[LoggedRequest]:
        before = self._open.pop(slot, None)
        if before is not None:
            yield before
        # A slot that nobody has used yet is chosen by LRU as well, with no time of last use.
        said = self._taken.pop(slot, "")
        taken = said.startswith(_TAKEN) and not said.endswith("= -1")
        common, share = self._common.pop(slot, None), _SHARE.match(said)
        if common is None and share is not None and tokens is not None:
            common = round(float(share[1]) * tokens)  # builds that tell the share alone
        self._open[slot] = LoggedRequest(
            line=number,
            time=time,
            process=slot[0],
            slot=slot[1],
            task=task,
            prompt_tokens=tokens,
            cached_tokens=None,
            taken_over=taken,
            common_tokens=common,
            context=context,
        )

    def _count(self, digits: str) -> int:
        return self._counts.setdefault(digits, int(digits))

    def _timed(self, slot: tuple[str, int], milliseconds: float) -> None:
        if slot in self._open:
            self._open[slot] = replace(self._open[slot], prompt_ms=milliseconds)

    def _old_line(self, line: str, number: int, time: str | None) -> Iterator[LoggedRequest]:
        """Lines of 2024: `[update_slots] kv cache rm [p0, end) | p0=… slot_id=… task_id=…`, or the same as JSON."""
        said, values = _old_values(line)
        if not values.get("slot_id", "").isdigit() or not values.get("task_id", "").isdigit():
            return
        slot, task = ("", int(values["slot_id"])), int(values["task_id"])
        request = self._open.get(slot)
        if said.startswith("kv cache rm") and values.get("p0", "").isdigit():
            if request is None or request.task != task:
                yield from self._begin(slot, task, None, number, time)
                self._open[slot] = replace(self._open[slot], cached_tokens=int(values["p0"]))
        elif said.startswith("prompt eval time") and request is not None and request.task == task:
            timing = re.search(r"([\d.]+) ms / +(\d+) tokens", said)
            if timing is not None:
                total = (request.cached_tokens or 0) + int(timing[2])
                self._open[slot] = replace(request, prompt_tokens=total, prompt_ms=float(timing[1]))
        elif said.startswith("slot released") and request is not None:
            yield replace(self._open.pop(slot), truncated=values.get("truncated") == "true")


def _old_values(line: str) -> tuple[str, dict[str, str]]:
    if line.startswith("{") and '"slot_id"' in line:
        try:
            value = json.loads(line)
        except ValueError:
            return "", {}
        texts = {key: str(item).lower() if isinstance(item, bool) else str(item) for key, item in value.items()}
        return texts.get("msg", texts.get("message", "")), texts
    found = _OLD.search(line)
    if found is None:
        return "", {}
    return found[1], {key: quoted or bare for key, quoted, bare in _PAIR.findall(found[2])}
