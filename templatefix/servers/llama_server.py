"""llama.cpp's server as an engine: prompts go in as text, exact timings come out."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal
from urllib.parse import quote, urlsplit

from templatefix.servers.errors import NotMeasurable, ServerRefused, ServerUnreachable
from templatefix.servers.http import JsonServer
from templatefix.servers.standin import Standin
from templatefix.servers.timings import Generated, Sampling, Timings
from templatefix.servers.token_ends import piece_size, sendable, token_ends

NAME = "llama.cpp server"
_SPECIMEN = "<|user|>"


def server_url(text: str) -> str:
    """A base URL from what a user gives: the scheme may be missing, `/v1` and slashes at the end go away.

    Raises ServerUnreachable for what is no address.
    """
    url = (text if "://" in text else f"http://{text}").rstrip("/").removesuffix("/v1").rstrip("/")
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable:
        raise ServerUnreachable(f"{text} is not the address of a server; one looks like http://127.0.0.1:8080")
    return url


class LlamaServer(JsonServer):
    """The API of a running llama-server."""

    def __init__(self, url: str, *, key: str | None = None, connect: float = 10.0, silence: float = 600.0) -> None:
        super().__init__(server_url(url), NAME, key=key, connect=connect, silence=silence)

    def complete(self, prompt: str, *, n_predict: int, cache: bool, slot: int) -> Timings:
        """Read a prompt on a slot."""
        body = {
            "prompt": prompt,
            "n_predict": n_predict,
            "cache_prompt": cache,
            "id_slot": slot,
            "temperature": 0.0,
            "seed": 1,
        }
        return self._generated(body).timings

    def generate(self, prompt: str, sampling: Sampling, *, cache: bool, slot: int) -> Generated:
        """Go on from a prompt on a slot."""
        body: dict[str, Any] = {
            "prompt": prompt,
            "n_predict": sampling.max_tokens,
            "cache_prompt": cache,
            "id_slot": slot,
            "temperature": sampling.temperature,
            "seed": sampling.seed,
            "stop": list(sampling.stop),
            **({"grammar": sampling.grammar} if sampling.grammar else {}),
        }
        return self._generated(body)

    def _generated(self, body: Mapping[str, Any]) -> Generated:
        answer = self.ask("POST", "/completion", body)
        try:
            told = answer["timings"]
            timings = Timings(int(told["cache_n"]), int(told["prompt_n"]), float(told["prompt_ms"]))
            return Generated(str(answer.get("content", "")), answer.get("stop_type") in ("eos", "word"), timings)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self.stranger("its answer has no timings") from error

    def tokenize(self, text: str, *, special: bool) -> list[Any]:
        """The tokens of a text with their pieces; `special` adds those that the vocabulary puts in front."""
        body = {"content": text, "add_special": special, "parse_special": True, "with_pieces": True}
        answer = self.ask("POST", "/tokenize", body)
        tokens = answer.get("tokens") if isinstance(answer, dict) else None
        if not isinstance(tokens, list) or not all(isinstance(one, dict) and "piece" in one for one in tokens):
            raise self.stranger("its tokens have no pieces")
        return tokens

    def slots(self) -> list[dict[str, Any]]:
        """The slots with their context and last task; empty where the server does not tell."""
        try:
            answer = self.ask("GET", "/slots")
        except ServerRefused:
            return []
        return [one for one in answer if isinstance(one, dict)] if isinstance(answer, list) else []

    def props(self, model: str = "") -> dict[str, Any]:
        """What the server runs with: model, template, context; of a router, where no model is named, next to nothing.

        A router loads a model that is named, unless it is in memory.
        """
        answer = self.ask("GET", f"/props?model={quote(model, safe='')}" if model else "/props")
        if not isinstance(answer, dict):
            raise self.stranger("its properties are no object")
        return answer

    def models(self) -> list[str]:
        """The names of the models that a server, or the servers behind a router, can answer with."""
        answer = self.ask("GET", "/v1/models")
        rows = answer.get("data") if isinstance(answer, dict) else None
        return [str(row["id"]) for row in rows or () if isinstance(row, dict) and row.get("id")]

    def apply_template(
        self, messages: Sequence[Any], tools: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> str:
        """The prompt that the server makes of messages with the template it was started with.

        `kwargs` are variables of the template, as a client sets them.
        """
        body: dict[str, Any] = {"messages": list(messages)}
        if tools:
            body["tools"] = list(tools)
        if kwargs:
            body["chat_template_kwargs"] = dict(kwargs)
        answer = self.ask("POST", "/apply-template", body)
        prompt = answer.get("prompt") if isinstance(answer, dict) else None
        if not isinstance(prompt, str):
            raise self.stranger("it shows no prompt")
        return prompt


class LlamaSession:
    """One slot of a running server; others may disturb it, which is seen by the numbers of its tasks.

    A server remembers prompts that have left the slot, and would load one in place of what a loop left there. So a
    prompt that begins cold, and all behind it, open with a mark of their own, which is not counted. A model that
    answers freely gets none: it would read it.
    """

    def __init__(self, server: LlamaServer, slot: int = 0) -> None:
        """Raises ServerError where the server does not answer."""
        self._server = server
        self._slot = slot
        self._mark = ""
        self._marked = 0  # tokens
        self.told = Timings(0, 0, 0.0)  # what the server said of the last prompt, mark and all
        self._lead: int | None = None
        self._last = self._task()

    def evaluate(self, prompt: str, *, n_predict: int = 1, cold: bool = False) -> Timings:
        """Read a prompt into the slot's cache, `cold` without use of what is there.

        Raises NotMeasurable where the prompt does not fit or another client has used the slot since the last one.
        """
        with self._alone():
            if cold:
                self._begin(marked=True)
            text = self._mark + sendable(prompt)
            return self._counted(self._server.complete(text, n_predict=n_predict, cache=not cold, slot=self._slot))

    def generate(self, prompt: str, sampling: Sampling, *, cold: bool = False) -> Generated:
        """Go on from a prompt; raises as `evaluate` does."""
        with self._alone():
            if cold:
                self._begin(marked=bool(sampling.grammar))
            text = self._mark + sendable(prompt)
            made = self._server.generate(text, sampling, cache=not cold, slot=self._slot)
            return replace(made, timings=self._counted(made.timings))

    def _begin(self, *, marked: bool) -> None:
        self._mark = f"{secrets.token_hex(8)}\n" if marked else ""
        self._marked = self._size(f"{self._mark}{_SPECIMEN}") - self._size(_SPECIMEN)

    def _size(self, text: str) -> int:
        return len(self._server.tokenize(text, special=True))

    def _counted(self, timings: Timings) -> Timings:
        """The figures without the mark."""
        self.told = timings
        total = max(timings.prompt_tokens - self._marked, 0)
        cached = min(max(timings.cached_tokens - self._marked, 0), total)
        return Timings(cached, total - cached, timings.prompt_ms)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if self._task() != self._last:
            raise NotMeasurable(f"another client of {self._server.url} used the slot in between")
        try:
            yield
        except ServerRefused as error:
            if "context" in error.message:
                raise NotMeasurable(f"a prompt does not fit: {error.message}") from error
            raise
        self._last = self._task()

    def token_ends(self, prompt: str) -> list[int]:
        """Where each token of a prompt ends, in bytes of its UTF-8."""
        if self._lead is None:
            plain, led = (len(self._server.tokenize("a", special=special)) for special in (False, True))
            self._lead = led - plain
        text = sendable(prompt)
        tokens = self._server.tokenize(text, special=True)
        return token_ends([piece_size(one["piece"]) for one in tokens], self._lead, len(text.encode()))

    def _task(self) -> int | None:
        for slot in self._server.slots():
            if slot.get("id") == self._slot:
                task = slot.get("id_task")
                return task if isinstance(task, int) else None
        return None


class LlamaServerEngine:
    """A llama-server that somebody started; its own weights, its own settings."""

    name: Literal["llama-server"] = "llama-server"
    source: Literal["engine"] = "engine"

    def __init__(self, server: LlamaServer, weights: Standin | None = None, checkpoints: int | None = None) -> None:
        """The server does not tell of its memory: what is known of its weights and its checkpoints, the caller says.

        Raises ServerError where no such server answers.
        """
        self._server = server
        path = str(server.props().get("model_path") or "its model")
        self.tokenizer = weights.tokenizer if weights is not None else path.replace("\\", "/").rsplit("/", 1)[-1]
        self.attention = weights.attention if weights is not None else None
        self.checkpoints = checkpoints

    @contextmanager
    def session(self, prompt_bytes: int) -> Iterator[LlamaSession]:
        """A slot, begun cold."""
        del prompt_bytes  # the server's context was settled when it started; what does not fit, it refuses
        yield LlamaSession(self._server)
