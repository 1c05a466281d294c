"""A client of Ollama's API: the `ollama` package where it serves, plain requests where it lacks a field."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from templatefix.chat.request import Request
from templatefix.chat.serving import version_of
from templatefix.servers.errors import (
    BadAnswer,
    ModelNotFound,
    ServerError,
    ServerRefused,
    ServerTimeout,
    ServerUnreachable,
    StreamCut,
)
from templatefix.servers.host import base_url, is_local
from templatefix.servers.http import http_errors, unreached
from templatefix.servers.shown import Shown, TagInfo
from templatefix.servers.timings import Sampling

if TYPE_CHECKING:
    import ollama
    import requests

SERVER = "Ollama server"
RENDERS_SINCE = (0, 11, 5)  # the first version that shows its render instead of generating


class OllamaClient:
    """One server; every method raises ServerError, with one sentence, for whatever goes wrong."""

    def __init__(
        self, host: str | None = None, *, connect: float = 10.0, quick: float = 60.0, slow: float = 600.0
    ) -> None:
        """Use `host`, else OLLAMA_HOST; times are seconds of silence: to connect, for facts, for work on a model."""
        try:
            self.url = base_url(os.environ.get("OLLAMA_HOST", "") if host is None else host)
        except ValueError as error:
            raise ServerUnreachable(str(error)) from error
        self._connect = connect
        self._quick = quick
        self._slow = slow
        self._version: str | None = None

    def version(self) -> str:
        """The server's version as it says it (`0.0.0` for a build without one)."""
        if self._version is None:
            answer = self._ask("GET", "/api/version")
            if not isinstance(answer.get("version"), str):
                raise self._stranger("it names no version")
            self._version = answer["version"]
        return self._version

    def at_least(self, version: tuple[int, int, int]) -> bool:
        """Whether the server is of a version or newer; a build without a version counts as new."""
        found = version_of(self.version())
        return found is None or found >= version

    def show(self, model: str, *, verbose: bool = False) -> Shown:
        """A model's template and facts; `verbose` adds the tokenizer's arrays to `model_info`. Reads no weights."""
        answer = self._ask("POST", "/api/show", {"model": model, **({"verbose": True} if verbose else {})}, model)
        try:
            return Shown.from_json(model, answer)
        except (TypeError, ValueError, AttributeError) as error:
            raise self._stranger(f"its answer about {model} cannot be read") from error

    def tags(self) -> dict[str, TagInfo]:
        """Every model of the server, by name."""
        with self._errors("list its models"):
            with self._package(self._quick) as package:
                rows = package.list().models
            return {info.name: info for row in rows if (info := _tag(row)) is not None}

    def create(
        self,
        model: str,
        base: str,
        template: str,
        progress: Callable[[str], None] | None = None,
        *,
        parser: str = "",
    ) -> tuple[str, ...]:
        """Make a tag of a model that is there with another template; the status lines of the server.

        `parser` is the server's own reader of the model's output (PARSER); empty: as the base has it. Ask `show` for
        the base first: the server would pull one that is not there. An existing tag is overwritten.
        """
        lines: list[str] = []
        with self._errors(f"create {model}", model):
            for status in self._statuses({"model": model, "from": base, "template": template, "parser": parser}):
                lines.append(status)
                if progress is not None:
                    progress(status)
        if not lines or lines[-1] != "success":
            raise StreamCut(f"{self.url} stopped before it had created {model}")
        return tuple(lines)

    def _statuses(self, body: Mapping[str, str]) -> Iterator[str]:
        """The status lines of a creation, as they come."""
        if not body["parser"]:
            with self._package(self._slow) as package:
                parts = package.create(body["model"], from_=body["from"], template=body["template"], stream=True)
                yield from (part.status or "" for part in parts)
            return
        with self._session() as session:  # the package knows no PARSER
            times = (self._connect, self._slow)
            answer = session.post(
                f"{self.url}/api/create", json=dict(body), timeout=times, allow_redirects=False, stream=True
            )
            if answer.status_code != 200:
                self._read(answer, body["model"])
            for line in answer.iter_lines():
                part = json.loads(line)
                if "error" in part:
                    raise self._refusal(str(part["error"]), answer.status_code, body["model"])
                yield str(part.get("status") or "")

    def copy(self, source: str, destination: str) -> None:
        """Give a model a second name, over an existing one too."""
        with self._errors(f"copy {source}", source), self._package(self._quick) as package:
            package.copy(source, destination)

    def delete(self, model: str) -> None:
        """Take a tag away; layers that no other tag uses go with it."""
        with self._errors(f"delete {model}", model), self._package(self._quick) as package:
            package.delete(model)

    def can_render(self) -> bool:
        """Whether the server shows its own render; an older one would generate instead."""
        return self.at_least(RENDERS_SINCE)

    def render(self, model: str, request: Request) -> str:
        """The prompt that the server makes of a request, uncut; loads the model, generates nothing.

        Ask `can_render` first. Raises ServerRefused with the server's sentence where it cannot render.
        """
        think = request.think_level or request.think
        body: dict[str, Any] = {
            "model": model,
            "stream": False,
            "_debug_render_only": True,
            "truncate": False,
            "messages": list(request.messages),
            **({"tools": list(request.tools)} if request.tools else {}),
            **({"think": think} if think is not None else {}),
        }
        answer = self._ask("POST", "/api/chat", body, model, self._slow)
        info = answer.get("_debug_info")
        text = info.get("rendered_template", "") if isinstance(info, dict) else None
        if not isinstance(text, str):
            raise BadAnswer(f"{self.url} did not show its render of {model}; that needs Ollama 0.11.5 or newer")
        return text

    def loaded(self) -> dict[str, int]:
        """The models in memory, by name, each with the tokens that its context holds (0: the server does not say)."""
        rows = self._ask("GET", "/api/ps").get("models") or []
        try:
            return {str(row["name"]): int(row.get("context_length") or 0) for row in rows}
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            raise self._stranger("its list of loaded models cannot be read") from error

    def load(self, model: str, context: int | None = None) -> None:
        """Take a model into memory, with its own context or one of so many tokens."""
        body: dict[str, Any] = {"model": model, "messages": [], "stream": False}
        self._ask("POST", "/api/chat", {**body, **_options(context)}, model, self._slow)

    def read_prompt(self, model: str, prompt: str, sampling: Sampling, context: int | None = None) -> dict[str, Any]:
        """Let the model go on from a prompt as it is, uncut and without its template; the answer with its counts."""
        body: dict[str, Any] = {"model": model, "prompt": prompt, "raw": True, "stream": False, "truncate": False}
        options = _options(
            context,
            num_predict=sampling.max_tokens,
            temperature=sampling.temperature,
            seed=sampling.seed,
            **({"stop": list(sampling.stop)} if sampling.stop else {}),
        )
        return self._ask("POST", "/api/generate", {**body, **options}, model, self._slow)

    def call_bound(self, model: str, request: Request, call: Mapping[str, Any]) -> list[Any]:
        """Bind the model's answer to a call, as JSON; the calls that the server reads out of what comes."""
        function = call["function"]
        bound = {"name": {"const": function["name"]}, "parameters": {"const": function["arguments"]}}
        body: dict[str, Any] = {
            "model": model,
            "stream": False,
            "truncate": False,
            "messages": list(request.messages),
            "tools": list(request.tools),
            "format": {"type": "object", "properties": bound, "required": list(bound)},
            **_options(None, num_predict=512, temperature=0, seed=1),
        }
        answer = self._ask("POST", "/api/chat", body, model, self._slow)
        message = answer.get("message")
        calls = message.get("tool_calls") if isinstance(message, dict) else None
        return calls if isinstance(calls, list) else []

    def push(self, model: str, *, insecure: bool = False, progress: Callable[[str, int, int], None]) -> None:
        """Push a tag to the registry that its name says; `progress` takes a status, bytes done and bytes in all."""
        last = ""
        with self._errors(f"push {model}", model), self._package(self._slow) as package:
            for part in package.push(model, insecure=insecure, stream=True):
                last = part.status or last
                progress(last, part.completed or 0, part.total or 0)
        if last != "success":
            raise StreamCut(f"{self.url} stopped before it had pushed {model}")

    def unload(self, model: str) -> None:
        """Take a model out of memory; the next request starts a fresh engine."""
        self._ask("POST", "/api/chat", {"model": model, "messages": [], "keep_alive": 0}, model)

    def _package(self, silence: float) -> ollama.Client:
        import httpx
        import ollama

        return ollama.Client(
            host=self.url,
            timeout=httpx.Timeout(silence, connect=self._connect),
            trust_env=not is_local(self.url),
            follow_redirects=False,
            verify=self.url.startswith("https:"),  # the certificates take long to load
        )

    def _ask(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, model: str = "", silence: float = 0.0
    ) -> dict[str, Any]:
        with self._errors(f"answer {method} {path}", model), self._session() as session:
            times = (self._connect, silence or self._quick)
            answer = session.request(method, self.url + path, json=body, timeout=times, allow_redirects=False)
        return self._read(answer, model)

    def _session(self) -> requests.Session:
        import requests

        session = requests.Session()
        session.trust_env = not is_local(self.url)
        key = os.environ.get("OLLAMA_API_KEY")  # the package sends it too
        if key:
            session.headers["Authorization"] = f"Bearer {key}"
        return session

    def _read(self, answer: requests.Response, model: str) -> dict[str, Any]:
        try:
            value = json.loads(answer.content)
        except ValueError as error:
            raise self._stranger(f"it answered {answer.status_code} with no JSON") from error
        if not isinstance(value, dict):
            raise self._stranger(f"it answered {answer.status_code} with no JSON object")
        if answer.status_code != 200 or "error" in value:
            raise self._refusal(str(value.get("error") or f"status {answer.status_code}"), answer.status_code, model)
        return value

    def _stranger(self, what: str) -> BadAnswer:
        return BadAnswer(f"{self.url} does not answer as an Ollama server does: {what}")

    def _refusal(self, message: str, status: int, model: str) -> ServerError:
        message, status = " ".join(message.split()), 200 if status < 0 else status
        if status == 404 and model and "not found" in message:
            return ModelNotFound(f"there is no model {model} on {self.url}")
        return ServerRefused(f"{self.url} says: {message}", message, status)

    @contextmanager
    def _errors(self, doing: str, model: str = "") -> Iterator[None]:
        """Turn what the two HTTP libraries raise into errors of ours."""
        import httpx
        import ollama

        try:
            with http_errors(self.url, SERVER, doing):
                yield
        except ollama.ResponseError as error:
            raise self._refusal(_message(error.error), error.status_code, model) from error
        except httpx.TimeoutException as error:
            raise ServerTimeout(f"{self.url} took too long to {doing}") from error
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise ServerUnreachable(f"{self.url} is not an address that can be reached") from error
        except (httpx.RemoteProtocolError, httpx.ReadError) as error:
            raise StreamCut(f"the connection to {self.url} broke off before it could {doing}") from error
        except (httpx.TransportError, ConnectionError) as error:
            raise unreached(self.url, SERVER, error, doing) from error
        except (ValueError, TypeError, AttributeError) as error:
            raise BadAnswer(f"{self.url} sent what cannot be read instead of saying how it went to {doing}") from error


def _options(context: int | None, **options: Any) -> dict[str, dict[str, Any]]:
    if context is not None:
        options["num_ctx"] = context
    return {"options": options} if options else {}


def _tag(row: ollama.ListResponse.Model) -> TagInfo | None:
    if row.model is None or row.digest is None or row.size is None:
        return None
    return TagInfo(row.model, row.digest, int(row.size))


def _message(text: str) -> str:
    # The package hands the body of an error answer on as it came, whole or already unpacked.
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return str(value.get("error") or text) if isinstance(value, dict) else text
