"""Plain HTTP with JSON, and its failures as errors of ours: one sentence each."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from templatefix.servers.errors import (
    BadAnswer,
    NobodyAnswers,
    ServerError,
    ServerRefused,
    ServerTimeout,
    ServerUnreachable,
    StreamCut,
)
from templatefix.servers.host import is_local


@contextmanager
def http_errors(url: str, server: str, doing: str) -> Iterator[None]:
    """Turn what `requests` raises into errors of ours; `server` says what should answer, `doing` what it should do."""
    import requests

    try:
        yield
    except requests.Timeout as error:
        raise ServerTimeout(f"{url} took too long to {doing}") from error
    except (requests.exceptions.InvalidURL, requests.exceptions.InvalidSchema) as error:
        raise ServerUnreachable(f"{url} is not an address that can be reached") from error
    except requests.exceptions.ChunkedEncodingError as error:
        raise StreamCut(f"the connection to {url} broke off before it could {doing}") from error
    except requests.RequestException as error:
        raise unreached(url, server, error, doing) from error


def unreached(url: str, server: str, error: Exception, doing: str) -> ServerError:
    """The error for a connection that failed: cut off, not secure, or nobody there."""
    text = repr(error)
    if "RemoteDisconnected" in text or "Connection aborted" in text or "Connection broken" in text:
        return StreamCut(f"the connection to {url} broke off before it could {doing}")
    if "SSL" in text or "certificate" in text.lower():
        return ServerUnreachable(f"no secure connection to {url} could be made")
    return NobodyAnswers(f"no {server} answers at {url}")


class JsonServer:
    """A server that speaks JSON at a base URL; every method raises ServerError."""

    def __init__(
        self, url: str, server: str, *, key: str | None = None, connect: float = 10.0, silence: float = 600.0
    ) -> None:
        """`server` is what people call it; times are seconds: to connect, and of silence while it works."""
        self.url = url.rstrip("/")
        self.server = server
        self._key = key
        self._times = (connect, silence)

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The answer's JSON; raises ServerRefused, with the server's own sentence, for any status but 200."""
        import requests

        headers = {"Authorization": f"Bearer {self._key}"} if self._key else None
        with http_errors(self.url, self.server, f"answer {method} {path}"), requests.Session() as session:
            session.trust_env = not is_local(self.url)
            answer = session.request(
                method, self.url + path, json=body, headers=headers, timeout=self._times, allow_redirects=False
            )
        try:
            value = json.loads(answer.content)
        except ValueError as error:
            raise self.stranger(f"it answered {answer.status_code} with no JSON") from error
        if answer.status_code != 200:
            message = sentence_of(value) or f"status {answer.status_code}"
            raise ServerRefused(f"{self.url} says: {message}", message, answer.status_code)
        return value

    def stranger(self, what: str) -> BadAnswer:
        """The error for an answer that such a server does not give."""
        return BadAnswer(f"{self.url} does not answer as a {self.server} does: {what}")


def sentence_of(value: Any) -> str:
    """The sentence in an error's JSON, whether it stands there as text or in an object."""
    error = value.get("error", value.get("message")) if isinstance(value, dict) else None
    if isinstance(error, dict):
        error = error.get("message")
    return " ".join(error.split()) if isinstance(error, str) else ""
