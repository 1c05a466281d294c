"""The tags of a server that were made from another one with another template, by what the server tells."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from templatefix.servers.errors import ModelNotFound
from templatefix.servers.names import SUFFIX
from templatefix.servers.ollama import OllamaClient
from templatefix.servers.shown import Shown

State = Literal["current", "changed", "gone"]


@dataclass(frozen=True, slots=True)
class Variant:
    """A tag made here."""

    name: str
    base: str
    state: State  # of the base: as it was, changed since, no longer there
    why: str  # what has changed, for people; empty if nothing has
    not_in_force: str  # why its template is not what prompts are made with; empty if it is


def variants(client: OllamaClient, mend: Callable[[str], str]) -> Iterator[Variant]:
    """Every variant on the server; `mend` makes of a template what its variant would have. Raises ServerError."""
    for name in client.tags():
        with suppress(ModelNotFound):  # gone since it was listed
            found = variant_of(client, client.show(name), mend)
            if found is not None:
                yield found


def variant_of(client: OllamaClient, shown: Shown, mend: Callable[[str], str]) -> Variant | None:
    """What a tag is to the model it was made from; None for a tag that was not made here.

    A tag counts as made here if it names its parent, and has the template that is made of the parent's or the suffix
    of the tags that are made here.
    """
    if not shown.parent:
        return None
    marked = shown.name.endswith(SUFFIX)
    force = shown.not_in_force() or ""
    try:
        base = client.show(shown.parent)
    except ModelNotFound:
        return Variant(shown.name, shown.parent, "gone", f"{shown.parent} is gone", force) if marked else None
    if base.weights != shown.weights:
        why = f"{base.name} has other weights now"
        return Variant(shown.name, base.name, "changed", why, force) if marked else None
    if mend(base.template) == shown.template and base.template != shown.template:
        return Variant(shown.name, base.name, "current", "", force)
    why = f"the template of {base.name} has changed since, or another one was asked for"
    return Variant(shown.name, base.name, "changed", why, force) if marked else None
