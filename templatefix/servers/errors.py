"""What can go wrong with a server; each error is one sentence that names the server."""

from __future__ import annotations


class ServerError(Exception):
    """Something that a server did, or failed to do; the string is one sentence for people."""


class ServerUnreachable(ServerError):
    """The server cannot be reached."""


class NobodyAnswers(ServerUnreachable):
    """Nothing answers at the address."""


class ServerTimeout(ServerError):
    """The server was silent for longer than allowed."""


class ModelNotFound(ServerError):
    """The server has no such model."""


class ServerRefused(ServerError):
    """The server answered with an error; `message` is its own sentence, `status` the HTTP status (200 in a stream)."""

    def __init__(self, sentence: str, message: str, status: int) -> None:
        super().__init__(sentence, message, status)
        self.message = message
        self.status = status

    def __str__(self) -> str:
        return str(self.args[0])


class BadAnswer(ServerError):
    """The answer is not what such a server says: another kind of server, or garbage."""


class StreamCut(ServerError):
    """The connection broke off, or a stream ended, before the work was reported as done."""


class NotMeasurable(ServerError):
    """The engine works, but what it measured or would measure is worth nothing: a prompt that does not fit, a cut
    history, a restart in mid-run, another client on the slot. The string is one sentence that says why.
    """
