"""An Ollama store on disk: manifests and small layers, never weights."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from templatefix.servers.host import is_local
from templatefix.servers.names import ModelName
from templatefix.servers.shown import Shown

PREFIX = "application/vnd.ollama.image."
CONFIG = "application/vnd.docker.container.image.v1+json"
SMALL = frozenset({"template", "params", "system", "messages"})  # layers that are read; weights never are


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer of a manifest; the size is in bytes."""

    media_type: str
    digest: str  # "sha256:…"
    size: int

    @property
    def kind(self) -> str:
        """The last part of the media type: `model`, `template`, `params`, …"""
        return self.media_type.removeprefix(PREFIX)


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a tag consists of; the digest (bare hex) is that of the manifest's bytes, as `/api/tags` has it."""

    digest: str
    config: Layer
    layers: tuple[Layer, ...]

    @classmethod
    def from_bytes(cls, data: bytes) -> Manifest:
        """Read a manifest; raises ValueError where it is none."""
        try:
            value = json.loads(data)
            config, *layers = [
                Layer(row.get("mediaType", ""), row["digest"], int(row["size"]))
                for row in (value["config"], *value["layers"])
            ]
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError("this is no manifest") from error
        return cls(hashlib.sha256(data).hexdigest(), config, tuple(layers))


class Store:
    """A folder with `manifests/` and `blobs/`."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def of(cls, url: str, shown: Shown) -> Store | None:
        """The store of a server on this machine, found by the path of the weights or by OLLAMA_MODELS; else None."""
        if not is_local(url):
            return None
        folders = [shown.store, os.environ.get("OLLAMA_MODELS"), Path.home() / ".ollama" / "models"]
        for folder in folders:
            if folder and (Path(folder) / "manifests").is_dir():
                return cls(Path(folder))
        return None

    def manifest(self, name: str, digest: str = "") -> Manifest | None:
        """The manifest of a name, if it can be read and has the digest that the server tells, where one is given."""
        full = ModelName.parse(name)
        path = self.root / "manifests" / full.host / full.namespace / full.model / full.tag
        try:
            found = Manifest.from_bytes(path.read_bytes())
        except (OSError, ValueError):
            return None
        return found if found.digest == (digest.removeprefix("sha256:") or found.digest) else None

    def small_layer(self, layer: Layer) -> bytes | None:
        """The bytes of a config, template, params, system or messages layer, if they can be read and fit the digest."""
        if layer.kind not in SMALL and layer.media_type != CONFIG:
            raise ValueError(f"a {layer.kind} layer is not read")
        try:
            data = (self.root / "blobs" / layer.digest.replace(":", "-")).read_bytes()
        except OSError:
            return None
        return data if f"sha256:{hashlib.sha256(data).hexdigest()}" == layer.digest else None
