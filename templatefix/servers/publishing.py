"""Pushes a tag to a registry under another name, and reads back what arrived."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from templatefix.servers.errors import BadAnswer, ModelNotFound, ServerError, ServerRefused
from templatefix.servers.host import is_local
from templatefix.servers.names import ModelName
from templatefix.servers.ollama import OllamaClient
from templatefix.servers.registry import Registry
from templatefix.servers.store import Manifest, Store

Progress = Callable[[str, int, int], None]  # a status, bytes done, bytes in all


class NotPublished(Exception):
    """Nothing was published, or what arrived is not what was sent; the string is one sentence."""


@dataclass(frozen=True, slots=True)
class Published:
    """A tag in a registry; layers in bytes, the digest is that of the registry's own manifest."""

    name: str
    digest: str
    layers: int
    size: int
    compared: bool  # every layer with the local manifest; else only the sum of their sizes


def destination(text: str) -> ModelName:
    """The name to publish under; raises NotPublished where a registry would not take it, before anything is sent."""
    try:
        name = ModelName.parse(text)
    except ValueError as error:
        raise NotPublished(str(error)) from error
    if "/" not in text.partition("://")[2 if "://" in text else 0]:
        raise NotPublished(f"{text} needs a namespace, as in yourname/{text}")
    parts = (name.namespace, name.model, name.tag)
    if any(part != part.lower() for part in parts):
        raise NotPublished(f"{text} needs lower case: {text.lower()}")
    return name


def key_of(client: OllamaClient) -> str:
    """Which key a push is signed with, for people: always the server's, never the client's."""
    if is_local(client.url):
        for path in (Path.home() / ".ollama" / "id_ed25519.pub", Path("/usr/share/ollama/.ollama/id_ed25519.pub")):
            with suppress(OSError):
                return f"the server's key, perhaps {path}: {path.read_text().strip()[:60]}"
    return "the server's own key; it has to be known to the registry"


def publish(
    client: OllamaClient, tag: str, dest: ModelName, *, insecure: bool = False, progress: Progress
) -> Published:
    """Copy the tag to its new name, push that, read the manifest back and compare.

    A failed push leaves the local tags as they were. Raises NotPublished, ServerError.
    """
    shown = client.show(tag)
    tags = {_key(name): info for name, info in client.tags().items()}
    source, there = tags.get(ModelName.parse(tag).key), tags.get(dest.key)
    if source is None:
        raise NotPublished(f"{client.url} shows {tag} but does not list it")
    if there is not None and there.digest != source.digest:
        raise NotPublished(f"{dest.shortest} is on {client.url} already, and is not {tag}")
    store = Store.of(client.url, shown)
    local = store.manifest(source.name, source.digest) if store is not None else None
    copied = there is None
    if copied:
        client.copy(source.name, dest.shortest)
    try:
        _push(client, dest, insecure, progress)
        return _arrived(dest, insecure, local, source.size)
    except BaseException:
        if copied:
            with suppress(ServerError):
                client.delete(dest.shortest)
        raise


def _push(client: OllamaClient, dest: ModelName, insecure: bool, progress: Progress) -> None:
    try:
        client.push(dest.shortest, insecure=insecure, progress=progress)
    except ServerRefused as error:
        if "HTTP response to HTTPS client" in error.message:
            raise NotPublished(f"{dest.host} has no TLS; --insecure pushes without") from error
        raise


def _arrived(dest: ModelName, insecure: bool, local: Manifest | None, size: int) -> Published:
    try:
        found = Registry(dest, insecure=insecure).manifest()
    except ModelNotFound as error:
        raise NotPublished(f"the push was reported as done, but {error}") from error
    except BadAnswer:
        raise
    except ServerError as error:
        raise NotPublished(f"{dest.shortest} was pushed, but could not be read back: {error}") from error
    if local is not None:
        mine, theirs = _parts(local), _parts(found)
        if mine != theirs:
            odd = ", ".join(sorted({kind for kind, _, _ in mine ^ theirs}))
            raise NotPublished(f"what arrived as {dest.shortest} differs in its {odd} layer")
    total = sum(layer.size for layer in (found.config, *found.layers))
    if total != size:
        raise NotPublished(f"what arrived as {dest.shortest} has {total} bytes, not {size}")
    return Published(dest.shortest, found.digest, len(found.layers), total, local is not None)


def _parts(manifest: Manifest) -> set[tuple[str, str, int]]:
    return {(layer.kind, layer.digest, layer.size) for layer in (manifest.config, *manifest.layers)}


def _key(name: str) -> str:
    try:
        return ModelName.parse(name).key
    except ValueError:
        return name
