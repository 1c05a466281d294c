"""llama.cpp's server in this process, on a stand-in model: one slot, exact cache figures, nothing to install beside.

A prompt goes in as text. The engine reads its special tokens as such and puts the vocabulary's own first token
(begin of text) in front where the vocabulary wants one; that is the same for every prompt, so for both arms of an A/B.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

from templatefix.servers.errors import NotMeasurable
from templatefix.servers.standin import CONTEXT, Standin
from templatefix.servers.timings import Generated, Sampling, Timings
from templatefix.servers.token_ends import piece_size, sendable, token_ends

MISSING = 'The embedded engine is not installed: pip install "templatefix[engine]".'
_SPARE = 256  # tokens of context beside the prompt
_TIMEOUT = 120.0  # seconds for a call over loopback


class EngineError(RuntimeError):
    """An engine that is missing, does not start or refuses a prompt; the message is one sentence."""


class EmbeddedEngine:
    """Cold sessions on one stand-in model."""

    name: Literal["embedded"] = "embedded"
    source: Literal["engine"] = "engine"

    def __init__(self, standin: Standin, threads: int = 1, checkpoints: int | None = None) -> None:
        """Nothing is loaded before a session begins.

        A model as small as a stand-in reads in tenths of a second; there, more threads would wait for each other.
        `checkpoints` is how many states of a window or recurrent memory are kept; None: as many as the engine likes.
        """
        self._standin = standin
        self._threads = threads
        self.checkpoints = checkpoints
        self.tokenizer = standin.tokenizer
        self.attention = standin.attention

    @contextmanager
    def session(self, prompt_bytes: int) -> Iterator[EmbeddedSession]:
        """Start an engine that has seen nothing, with room for prompts of this size; it ends with the context.

        Raises EngineError where the engine is not installed or does not start.
        """
        # A token is a byte at least, so this is always enough; at this width a wide context costs next to nothing.
        context = min(prompt_bytes + _SPARE, CONTEXT)
        session = EmbeddedSession(self._standin, context, self._threads, self.checkpoints)
        try:
            yield session
        finally:
            session.close()


class EmbeddedSession:
    """One engine with one slot; a prompt is compared with the one before it alone."""

    def __init__(self, standin: Standin, context: int, threads: int = 1, checkpoints: int | None = None) -> None:
        """Start it with room for `context` tokens; raises EngineError."""
        self._key = secrets.token_hex(16)
        self._server = _start(standin, context, threads, checkpoints, self._key)
        self._address: str = self._server.listening_address.removeprefix("http://")
        self._lead = len(self._tokenize("a", True)) - len(self._tokenize("a", False))

    def evaluate(self, prompt: str, *, n_predict: int = 1, cold: bool = False) -> Timings:
        """Read a prompt into the cache, `cold` without use of what is there.

        Raises NotMeasurable if the prompt does not fit, EngineError if it is refused for another reason.
        """
        wish = {"n_predict": n_predict, "cache_prompt": not cold, "temperature": 0.0, "seed": 1}
        return self._complete(prompt, wish)[1]

    def generate(self, prompt: str, sampling: Sampling, *, cold: bool = False) -> Generated:
        """Go on from a prompt; what was generated is in the cache behind it, but for its last token.

        Raises as `evaluate` does.
        """
        wish: dict[str, Any] = {
            "n_predict": sampling.max_tokens,
            "cache_prompt": not cold,
            "temperature": sampling.temperature,
            "seed": sampling.seed,
            "stop": list(sampling.stop),
        }
        if sampling.grammar:
            wish["grammar"] = sampling.grammar
        choice, timings = self._complete(prompt, wish)
        return Generated(str(choice.get("text", "")), choice.get("finish_reason") == "stop", timings)

    def _complete(self, prompt: str, wish: Mapping[str, Any]) -> tuple[Mapping[str, Any], Timings]:
        answer = self._server.handle_completions({"prompt": sendable(prompt), **wish})
        timings = answer.get("timings")
        if not isinstance(timings, Mapping):
            raise _refused(answer)
        choices = answer.get("choices") or [{}]
        return choices[0], Timings(timings["cache_n"], timings["prompt_n"], timings["prompt_ms"])

    def token_ends(self, prompt: str) -> list[int]:
        """Where each token of a prompt ends, in bytes of its UTF-8; tokens that the engine puts in front end at 0."""
        text = sendable(prompt)
        return token_ends(
            [piece_size(one["piece"]) for one in self._tokenize(text, True)], self._lead, len(text.encode())
        )

    def close(self) -> None:
        """End the engine and free its memory."""
        self._server = None

    def _tokenize(self, text: str, add_special: bool) -> list[dict[str, Any]]:
        wish = {"content": text, "add_special": add_special, "parse_special": True, "with_pieces": True}
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._key}"}
        connection = http.client.HTTPConnection(self._address, timeout=_TIMEOUT)
        try:
            connection.request("POST", "/tokenize", json.dumps(wish), headers)
            answer = json.loads(connection.getresponse().read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise EngineError(f"The embedded engine did not answer: {error}.") from error
        finally:
            connection.close()
        if "tokens" not in answer:
            raise EngineError(f"The embedded engine could not tokenise: {_reason(answer)}.")
        tokens: list[dict[str, Any]] = answer["tokens"]
        return tokens


def _refused(answer: Mapping[str, Any]) -> Exception:
    sentence = f"The embedded engine refused a prompt: {_reason(answer)}."
    error = answer.get("error")
    too_long = isinstance(error, Mapping) and error.get("type") == "exceed_context_size_error"
    return NotMeasurable(sentence) if too_long else EngineError(sentence)


def _reason(answer: Mapping[str, Any]) -> str:
    error = answer.get("error", answer)
    return str(error.get("message", error) if isinstance(error, Mapping) else error).rstrip(".")


def _start(standin: Standin, context: int, threads: int, checkpoints: int | None, key: str) -> Any:
    try:
        import xllamacpp
    except ImportError:
        raise EngineError(MISSING) from None
    params = xllamacpp.CommonParams()
    params.model.path = str(standin.path)
    params.n_ctx = context
    params.n_parallel = 1
    params.cache_ram_mib = 0  # no memory of former prompts beside the slot
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_ENABLED
    params.fit_params = False  # would load the vocabulary twice
    params.warmup = False
    params.use_jinja = False
    params.ui = False
    params.special = True  # what is generated comes with its special tokens: tool-call tags are such
    params.verbosity = 0  # nothing on standard error
    params.api_keys = [key]  # it listens on loopback
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    if checkpoints is not None:
        params.n_ctx_checkpoints = checkpoints
    try:
        return xllamacpp.Server(params)
    except RuntimeError as error:
        reason = _first_error(lambda: xllamacpp.Server(params), params)
        raise EngineError(f"The embedded engine did not start: {reason or error}.") from error


def _first_error(start: Callable[[], Any], params: Any) -> str:
    """Fail once more and read what the engine writes about it: it tells its reasons to standard error alone."""
    params.verbosity = 1
    saved = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            with contextlib.suppress(RuntimeError):
                start()
            time.sleep(0.05)  # the engine writes from a thread of its own
        finally:
            os.dup2(saved, 2)
            os.close(saved)
        file.seek(0)
        said = file.read().decode("utf-8", "replace")
    reasons = [line.partition(" E ")[2].strip().rstrip(".") for line in said.splitlines() if " E " in line]
    return reasons[0] if reasons else ""
