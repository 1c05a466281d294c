"""A tag that exists as long as it is needed, and what else is in memory on the same weights."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from templatefix.chat.request import Request
from templatefix.servers.errors import ModelNotFound, ServerError
from templatefix.servers.names import ModelName
from templatefix.servers.ollama import OllamaClient
from templatefix.servers.shown import Shown
from templatefix.servers.tags import Progress, create_variant

MARK = "-templatefix-"  # in the name of a temporary tag


@contextmanager
def temporary_tag(
    client: OllamaClient,
    base: str,
    template: str,
    requests: Sequence[Request] = (),
    progress: Progress | None = None,
    *,
    parser: str = "",
) -> Iterator[Shown]:
    """A tag of `base` with another template, verified, and removed at the end whatever happens.

    The base may be served with the Jinja text of its weights; `parser` is as for `create_variant`. Raises what that
    raises.
    """
    name = ModelName.parse(base)
    tag = f"{name.tag[:50]}{MARK}{secrets.token_hex(4)}"
    made = create_variant(
        client,
        base,
        ModelName(name.host, name.namespace, name.model, tag).shortest,
        template,
        requests=requests,
        progress=progress,
        over_jinja=True,
        parser=parser,
    )
    try:
        yield client.show(made.name)
    except BaseException as error:
        try:
            _remove(client, made.name)
        except ServerError:
            if isinstance(error, ServerError):
                sentence = f"{error}; the temporary tag {made.name} may be left there (unpatch takes it away)"
                raise type(error)(sentence, *error.args[1:]) from error
        raise
    else:
        _remove(client, made.name)


def _remove(client: OllamaClient, name: str) -> None:
    with suppress(ModelNotFound):
        client.delete(name)


def in_memory(client: OllamaClient, *models: Shown) -> list[str]:
    """The loaded models that share an engine with these, by name; unloading one unloads all. Raises ServerError."""
    weights = {model.weights for model in models} - {""}
    names = {ModelName.parse(model.name).key for model in models}
    found = []
    for name in client.loaded():
        shared = False
        with suppress(ValueError):
            shared = ModelName.parse(name).key in names
        if not shared and weights:
            with suppress(ServerError):
                shared = client.show(name).weights in weights
        if shared:
            found.append(name)
    return found
