"""Prompts through Ollama's own API, and what its answers and its log say of the cache."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Literal

from templatefix.servers.errors import BadAnswer, NotMeasurable, ServerRefused
from templatefix.servers.in_force import chosen_in_log
from templatefix.servers.log_events import LogEvent, LoggedRequest, LogItem
from templatefix.servers.logs import LogTail
from templatefix.servers.ollama import OllamaClient
from templatefix.servers.timings import Generated, Sampling, Timings
from templatefix.servers.token_ends import sendable
from templatefix.servers.tokens import TokenCounter

_FRESH_ONLY = "0.30.0"  # the version that counted only what it read
_PROBE = "?"
_CLOSE = 2  # tokens by which two sources may differ
_PATIENCE = 2.0  # seconds for a log to show a request
_PAUSE = 0.02


class Watch:
    """Looks into the server's log, where there is one: its figures, and what makes a run worth nothing."""

    def __init__(self, log: LogTail | None) -> None:
        self._log = log
        self._late = 0  # requests of our own that the log does not show yet
        self._patience = _PATIENCE
        self.notes: list[str] = []

    @property
    def reads(self) -> bool:
        """Whether there is a log."""
        return self._log is not None

    def start(self, model: str) -> None:
        """Pass by what was logged until now; raises NotMeasurable where the server chose another template."""
        if self._log is None:
            return
        self._late, self._patience = 0, _PATIENCE
        chosen = chosen_in_log(self._log.new(), model)
        if chosen is not None:
            raise NotMeasurable(f"TF401: {chosen}")

    def logged(self) -> LoggedRequest | None:
        """What the log says of the request that was just answered, None where it says nothing.

        Raises NotMeasurable for a cut prompt, a restart, another client.
        """
        if self._log is None:
            return None
        self._late += 1
        items = self._read(self._log)
        for event in items:
            if isinstance(event, LogEvent) and event.kind == "truncated":
                raise NotMeasurable(f"the server cut a prompt: {event.text}")
            if isinstance(event, LogEvent) and event.kind == "restart":
                raise NotMeasurable(f"the server started another engine in mid-run: {event.text}")
        requests = _requests(items)
        self._late -= len(requests)
        if self._late < 0:
            raise NotMeasurable("another client used the engine in between, as the log shows")
        if any(request.truncated for request in requests):
            raise NotMeasurable("the engine cut a prompt, as the log shows")
        return requests[-1] if requests and not self._late else None

    def _read(self, log: LogTail) -> list[LogItem]:
        """What is new; a busy server writes its log some time after the answer."""
        items = log.new()
        deadline = time.monotonic() + self._patience
        while len(_requests(items)) < self._late and time.monotonic() < deadline:
            time.sleep(_PAUSE)
            items += log.new()
        # A log that has nothing to say is not waited for again.
        self._patience = _PATIENCE if _requests(items) else 0.0
        return items

    def compare(self, timings: Timings) -> None:
        """Hold figures against the log; a difference is noted."""
        logged = self.logged()
        if logged is None or logged.cached_tokens is None:
            return
        if abs(logged.cached_tokens - timings.cached_tokens) > _CLOSE:
            self.notes.append(
                f"the log says {logged.cached_tokens} cached tokens where the answer says {timings.cached_tokens}"
            )


def _requests(items: Sequence[LogItem]) -> list[LoggedRequest]:
    return [item for item in items if isinstance(item, LoggedRequest)]


@dataclass(frozen=True, slots=True)
class Counts:
    """What an answer of Ollama's API tells of a prompt, in tokens; what it does not tell is None."""

    prompt: int | None
    cached: int | None
    prompt_ms: float


def counts_of(answer: Mapping[str, Any], version: str) -> Counts:
    """Read an answer by the version of its server.

    The prompt's count is all of it, but in 0.30.0 only what was read; of early 2024 it is missing or 0 on a hit.
    Raises ValueError for a count that is no number.
    """
    cached = answer.get("prompt_eval_cached_count")
    count = answer.get("prompt_eval_count")
    for value in (cached, count):
        if value is not None and not isinstance(value, int):
            raise ValueError("a count of tokens is no number")
    milliseconds = float(answer.get("prompt_eval_duration") or 0) / 1e6
    if version.removeprefix("v").partition("-")[0] == _FRESH_ONLY:
        return Counts(count + cached if count and cached is not None else None, cached, milliseconds)
    return Counts(count or None, cached, milliseconds)


class ApiSession:
    """Prompts sent as they are; a prompt begins cold after the model was loaded anew."""

    def __init__(
        self,
        client: OllamaClient,
        model: str,
        context: int | None,
        reload: Callable[[], None],
        counter: TokenCounter,
        watch: Watch,
    ) -> None:
        self._client = client
        self._model = model
        self._context = context
        self._reload = reload
        self._counter = counter
        self._watch = watch
        self._before = ""  # what the cache holds
        self._clean = True  # nothing but a single token was read since the model was loaded
        self._rate = 0.0  # milliseconds a token, of what was surely read
        self.source: Literal["field", "log", "estimate"] = "estimate"

    def counts(self) -> bool:
        """Whether the server tells cached tokens itself; it reads a single token for that."""
        _, counts = self._asked(_PROBE, Sampling(temperature=0.0, max_tokens=1))
        logged = self._watch.logged()
        self.source = "field" if counts.cached is not None else "log" if logged is not None else "estimate"
        return self.source == "field"

    def evaluate(self, prompt: str, *, n_predict: int = 1, cold: bool = False) -> Timings:
        """Read a prompt into the cache, `cold` without use of what is there; one token is generated at least."""
        del n_predict  # with 0 the server would generate without end
        return self._read(prompt, Sampling(temperature=0.0, max_tokens=1), cold).timings

    def generate(self, prompt: str, sampling: Sampling, *, cold: bool = False) -> Generated:
        """Go on from a prompt; raises NotMeasurable as `evaluate` does, and where the output is to be bound."""
        if sampling.grammar:
            raise NotMeasurable("Ollama's API cannot bind the output of a prompt to a grammar")
        return self._read(prompt, sampling, cold)

    def _read(self, prompt: str, sampling: Sampling, cold: bool) -> Generated:
        if cold and not self._clean:
            self._reload()
            self._before = ""
        self._clean = False
        answer, counts = self._asked(prompt, sampling)
        timings = self._timings(prompt, counts)
        if cold and timings.fresh_tokens:
            self._rate = timings.prompt_ms / timings.fresh_tokens
        text = str(answer.get("response") or "")
        self._before = prompt + (text if sampling.max_tokens > 1 else "")
        return Generated(text, answer.get("done_reason") == "stop", timings)

    def token_ends(self, prompt: str) -> list[int]:
        """Where each token of a prompt ends, in bytes of its UTF-8."""
        return self._counter.token_ends(prompt)

    def _asked(self, prompt: str, sampling: Sampling) -> tuple[dict[str, Any], Counts]:
        try:
            answer = self._client.read_prompt(self._model, sendable(prompt), sampling, self._context)
            return answer, counts_of(answer, self._client.version())
        except ServerRefused as error:
            if "context size" in error.message or "exceed" in error.message:
                raise NotMeasurable(
                    f"a prompt does not fit the context of {self._model}; a wider one is asked for with --context"
                ) from error
            raise
        except ValueError as error:
            raise BadAnswer(f"{self._client.url} counts tokens in a way that cannot be read: {error}") from error

    def _timings(self, prompt: str, counts: Counts) -> Timings:
        if counts.cached is not None:
            total = counts.prompt or len(self.token_ends(prompt))
            timings = Timings(min(counts.cached, total), max(total - counts.cached, 0), counts.prompt_ms)
            self._watch.compare(timings)
            return timings
        logged = self._watch.logged()
        if logged is not None and logged.cached_tokens is not None and logged.fresh_tokens is not None:
            return Timings(logged.cached_tokens, logged.fresh_tokens, counts.prompt_ms)
        if self._watch.reads:
            raise NotMeasurable("the log shows no cache figures; the server writes them with OLLAMA_DEBUG=1")
        return self._estimated(prompt, counts)

    def _estimated(self, prompt: str, counts: Counts) -> Timings:
        """What opens both prompts is taken for cached, unless the time says that most was read."""
        ends = self.token_ends(prompt)
        total = counts.prompt or len(ends)
        data, before = prompt.encode("utf-8", "surrogateescape"), self._before.encode("utf-8", "surrogateescape")
        alike = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(data, before, strict=False)))
        cached = min(sum(1 for end in ends if end <= alike), total - 1) if alike else 0
        fresh = total - cached
        by_time = counts.prompt_ms / self._rate if self._rate else 0.0
        if by_time > total / 2 > 2 * fresh:  # a smaller difference is lost in what every request takes
            fresh = min(total, round(by_time))
        return Timings(total - fresh, fresh, counts.prompt_ms)
