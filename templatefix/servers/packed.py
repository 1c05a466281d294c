"""What a tag carries, read from its manifest: in a registry or in a store on disk, without the weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from templatefix.servers.errors import BadAnswer
from templatefix.servers.names import ModelName
from templatefix.servers.registry import Registry
from templatefix.servers.store import Layer, Manifest, Store


class Layers(Protocol):
    """Where small layers are read; what it gives fits its digest."""

    def small_layer(self, layer: Layer) -> bytes | None:
        """The bytes of a layer, None where it cannot be read."""


@dataclass(frozen=True, slots=True)
class Packed:
    """A tag's manifest with its template and its config; empty where it has none."""

    name: str
    manifest: Manifest
    template: str
    config: Mapping[str, Any] = field(default_factory=dict)

    def not_in_force(self) -> str | None:
        """Why prompts would not be made with the template, as far as the config tells; or None."""
        renderer = self.config.get("renderer")
        if renderer:
            return f"{self.name} has RENDERER {renderer}: a server builds its prompts itself, and ignores the TEMPLATE"
        families = (self.config.get("model_family"), *(self.config.get("model_families") or ()))
        harmony = "<|start|>" in self.template and "<|end|>" in self.template
        if harmony and ("gptoss" in families or "gpt-oss" in families):
            return f"{self.name} is of the gpt-oss family: a server reads and writes the harmony format itself"
        return None


def from_registry(text: str) -> Packed:
    """Read `NAME:TAG` (with a host in front, that of its own) from its registry; raises ServerError, ValueError."""
    name = ModelName.parse(text)
    registry = Registry(name, insecure=text.startswith("http://"))
    manifest = registry.manifest()
    return packed(name.shortest, manifest, registry)


def from_store(store: Store, name: str, digest: str) -> Packed | None:
    """The same from a store on disk, where the manifest can be read and has the digest; raises BadAnswer."""
    manifest = store.manifest(name, digest)
    return packed(name, manifest, store) if manifest is not None else None


def packed(name: str, manifest: Manifest, layers: Layers) -> Packed:
    """Put together what a manifest says; raises BadAnswer for a layer that is not what it should be."""
    template = b""
    for layer in manifest.layers:
        if layer.kind == "template":
            template = layers.small_layer(layer) or b""
    try:
        config = json.loads(layers.small_layer(manifest.config) or b"{}")
    except ValueError as error:
        raise BadAnswer(f"the config of {name} is no JSON") from error
    return Packed(
        name, manifest, template.decode("utf-8", "surrogateescape"), config if isinstance(config, dict) else {}
    )
