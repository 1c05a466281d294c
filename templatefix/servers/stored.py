"""A tag in a store on disk, without a server."""

from __future__ import annotations

import os
from pathlib import Path

from templatefix.gotemplate.source import Source
from templatefix.servers.errors import BadAnswer
from templatefix.servers.packed import packed
from templatefix.servers.store import Store
from templatefix.servers.targets import Target, TargetError


def default_store() -> Path:
    """The store that a server on this machine would use: OLLAMA_MODELS, else the one in the home folder."""
    return Path(os.environ.get("OLLAMA_MODELS") or Path.home() / ".ollama" / "models")


def stored_target(folder: Path, name: str) -> Target:
    """Read a tag's template and config from a store, no weights. Raises TargetError."""
    if not (folder / "manifests").is_dir():
        raise TargetError(f"{folder} is no store of Ollama: it has no manifests")
    store = Store(folder)
    try:
        manifest = store.manifest(name)
        if manifest is None:
            raise TargetError(f"the store {folder} has no {name}")
        found = packed(name, manifest, store)
    except (BadAnswer, ValueError) as error:
        raise TargetError(f"{name}: {error}") from error
    if not found.template:
        raise TargetError(f"{name} carries no template in the store {folder}")
    return Target(name, "registry", Source(found.template, name), packed=found)
