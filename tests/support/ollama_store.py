"""The models of the test server: manifests and blobs on disk, laid out and encoded as Ollama does it."""

from __future__ import annotations

import datetime
import hashlib
import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from templatefix.chat.go import GoChatTemplate
from templatefix.chat.rendering import RenderError

KIND = "application/vnd.ollama.image."
CONFIG_KEYS = ("model_format", "model_family", "model_families", "model_type", "file_type", "renderer", "parser")
FULL_NAME = re.compile(r"(?:(?:([\w.:-]+)/)?([\w-]+)/)?(\w[\w.-]{0,79})(?::(\w[\w.-]{0,79}))?", re.ASCII)


def go_json(value: Any) -> bytes:
    """JSON as Go's encoder writes it, with the line end that its stream form adds."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text.encode() + b"\n"


def full_name(text: str) -> tuple[str, str, str, str]:
    """Host, namespace, model, tag; ValueError where the server would not take it."""
    found = FULL_NAME.fullmatch(text)
    if found is None:
        raise ValueError("invalid model name")
    return found[1] or "registry.ollama.ai", found[2] or "library", found[3], found[4] or "latest"


def shortest(name: tuple[str, str, str, str]) -> str:
    host, namespace, model, tag = name
    prefix = "" if namespace == "library" else f"{namespace}/"
    return (f"{host}/{namespace}/" if host != "registry.ollama.ai" else prefix) + f"{model}:{tag}"


def jinja_capabilities(text: str) -> list[str]:
    """What the server sees in a Jinja text."""
    thinks = "<think>" in text and "</think>" in text
    return [*(["tools"] if "tools" in text else []), *(["thinking"] if thinks else [])]


def jinja_round_trip(text: str) -> bool:
    """Whether the server takes a Jinja text for one that prints calls and their results."""
    results = ("tool_response", "tool_results", "ipython", *[f"message.role == {q}tool{q}" for q in "'\""])
    items = [f"role{before}] == {after}tool{after}" for before in "'\"" for after in "'\""]
    calls = "tool_calls" in text or "assistant_tool_call" in text
    return calls and any(mark in text for mark in (*results, *items))


@dataclass
class Model:
    """A tag, read from disk."""

    name: tuple[str, str, str, str]
    manifest: dict[str, Any]
    digest: str
    modified: str
    config: dict[str, Any]
    texts: dict[str, str]  # layer kind -> text, of the small layers
    weights: dict[str, Any]  # what stands for the weights: `model_info`, `chat_template`

    @property
    def template(self) -> str:
        return self.texts.get("template", "{{ .Prompt }}")

    @property
    def go(self) -> GoChatTemplate:
        return GoChatTemplate(self.template)

    @property
    def jinja(self) -> str:
        """The Jinja text of the weights where it is the one in force."""
        text = str(self.weights.get("chat_template", ""))
        if not text or self.config.get("renderer") or self.config.get("parser"):
            return ""
        if "template" not in self.texts:
            return text
        theirs, derived = set(jinja_capabilities(text)), self.go.derived
        ours = set(derived.capabilities) - {"completion"}
        if len(theirs) > len(ours):
            better = not derived.round_trip or jinja_round_trip(text)
        else:
            better = theirs == ours and "tools" in ours and jinja_round_trip(text) and not derived.round_trip
        return text if better else ""

    @property
    def capabilities(self) -> list[str]:
        if self.jinja:
            return [*jinja_capabilities(self.jinja), "completion"]
        return ["completion", *[name for name in self.go.derived.capabilities if name != "completion"]]

    @property
    def size(self) -> int:
        return sum(layer["size"] for layer in (self.manifest["config"], *self.manifest["layers"]))

    @property
    def digests(self) -> set[str]:
        return {layer["digest"] for layer in (self.manifest["config"], *self.manifest["layers"])}

    @property
    def parent(self) -> str:
        return str(next((x.get("from", "") for x in self.manifest["layers"] if x["mediaType"] == KIND + "model"), ""))

    @property
    def details(self) -> dict[str, Any]:
        return {
            "parent_model": self.parent,
            "format": self.config["model_format"],
            "family": self.config["model_family"],
            "families": self.config["model_families"],
            "parameter_size": self.config["model_type"],
            "quantization_level": self.config["file_type"],
        }

    @property
    def parameters(self) -> list[tuple[str, Any]]:
        found: list[tuple[str, Any]] = []
        for key, value in json.loads(self.texts.get("params", "{}")).items():
            found += [(key, one) for one in value] if isinstance(value, list) else [(key, value)]
        return found

    @property
    def messages(self) -> list[dict[str, str]]:
        return list(json.loads(self.texts.get("messages", "[]")))


class ModelStore:
    """A store in a folder: `manifests/HOST/NAMESPACE/MODEL/TAG` and `blobs/sha256-…`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "blobs").mkdir(parents=True)
        (root / "manifests").mkdir()
        self.created = 0

    def add(self, name: str, template: str | None, **kinds: Any) -> str:
        """Make a model as an upload of weights would; `kinds`: system, messages, params, config, weights, layer.

        The name as the server shows it. `layer` is a (digest, size) to claim for weights that nobody has.
        """
        weights = json.dumps(kinds.get("weights") or {"model_info": {"general.architecture": "llama"}}).encode()
        layer = self.blob("model", weights.ljust(4096))
        if "layer" in kinds:
            (self.root / "blobs" / kinds["layer"][0].replace(":", "-")).write_bytes(weights)
            layer = {"mediaType": KIND + "model", "digest": kinds["layer"][0], "size": kinds["layer"][1]}
        layers = [layer]
        if template is not None:
            layers.append(self.blob("template", template.encode()))
        if kinds.get("system"):
            layers.append(self.blob("system", kinds["system"].encode()))
        if kinds.get("params"):
            layers.append(self.blob("params", go_json(dict(sorted(kinds["params"].items())))))
        if kinds.get("messages"):
            layers.append(self.blob("messages", go_json(kinds["messages"])))
        base = {"model_format": "gguf", "model_family": "llama", "model_families": ["llama"], "model_type": "8.24M"}
        self.write(full_name(name), {**base, "file_type": "F16", **kinds.get("config", {})}, layers)
        return shortest(full_name(name))

    def blob(self, kind: str, data: bytes) -> dict[str, Any]:
        """Store a layer; it carries `status`, which is not written to manifests."""
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        path = self.root / "blobs" / digest.replace(":", "-")
        status = "using existing" if path.exists() else "creating new"
        path.write_bytes(data)
        return {"mediaType": KIND + kind, "digest": digest, "size": len(data), "status": f"{status} layer {digest}"}

    def path(self, name: tuple[str, str, str, str]) -> Path:
        return self.root.joinpath("manifests", *name)

    def write(self, name: tuple[str, str, str, str], config: dict[str, Any], layers: list[dict[str, Any]]) -> None:
        ordered = {key: config[key] for key in CONFIG_KEYS if config.get(key)}
        head = self.blob("config", go_json({**ordered, "architecture": "amd64", "os": "linux"}))
        head["mediaType"] = "application/vnd.docker.container.image.v1+json"
        keys = ("mediaType", "digest", "size", "from")
        head, *rest = [{key: layer[key] for key in keys if key in layer} for layer in (head, *layers)]
        kind = "application/vnd.docker.distribution.manifest.v2+json"
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(go_json({"schemaVersion": 2, "mediaType": kind, "config": head, "layers": rest}))
        self.created += 1

    def read(self, text: str) -> Model | None:
        """A tag by the name that a client sends."""
        name = full_name(text)
        path = self.path(name)
        if not path.is_file():
            return None
        data = path.read_bytes()
        manifest = json.loads(data)
        texts, weights = {}, {}
        for layer in manifest["layers"]:
            content = (self.root / "blobs" / layer["digest"].replace(":", "-")).read_bytes()
            kind = layer["mediaType"].removeprefix(KIND)
            if kind == "model":
                weights = json.loads(content)
            else:
                texts[kind] = content.decode()
        blob = self.root / "blobs" / manifest["config"]["digest"].replace(":", "-")
        stamp = datetime.datetime.fromtimestamp(path.stat().st_mtime, datetime.timezone.utc)
        return Model(
            name,
            manifest,
            hashlib.sha256(data).hexdigest(),
            stamp.isoformat().replace("+00:00", "Z"),
            json.loads(blob.read_bytes()),
            texts,
            weights,
        )

    def all(self) -> list[Model]:
        paths = sorted(
            (self.root / "manifests").glob("*/*/*/*"), key=lambda path: path.stat().st_mtime_ns, reverse=True
        )
        names = ["{}/{}/{}:{}".format(*path.relative_to(self.root / "manifests").parts) for path in paths]
        return [model for name in names if (model := self.read(name)) is not None]

    def derive(self, name: str, base: Model, request: dict[str, Any]) -> list[str]:
        """What `create` with `from` does; the status lines. Raises ValueError where the template does not parse."""
        layers = [{**layer, "from": shortest(base.name)} for layer in base.manifest["layers"]]
        for layer in layers:
            layer["status"] = f"using existing layer {layer['digest']}"
        texts = {"template": request.get("template"), "system": request.get("system")}
        if texts["template"]:
            try:
                GoChatTemplate(texts["template"])
            except RenderError as error:
                raise ValueError(f"template error: {error}") from error
        for kind, text in texts.items():
            if text:
                layers = [*_without(layers, kind), self.blob(kind, text.encode())]
        params = {**json.loads(base.texts.get("params", "{}")), **(request.get("parameters") or {})}
        if params:
            layers = [*_without(layers, "params"), self.blob("params", go_json(dict(sorted(params.items()))))]
        if request.get("messages"):
            layers = [*_without(layers, "messages"), self.blob("messages", go_json(request["messages"]))]
        built_in = {key: request[key] for key in ("renderer", "parser") if request.get(key)}
        self.write(full_name(name), {**base.config, **built_in}, layers)
        return [layer["status"] for layer in layers]

    def copy(self, source: str, destination: str) -> bool:
        path = self.path(full_name(source))
        if not path.is_file():
            return False
        target = self.path(full_name(destination))
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        return True

    def delete(self, name: str) -> bool:
        """Take a tag away, and those of its blobs that no other one uses."""
        gone = self.read(name)
        if gone is None:
            return False
        self.path(gone.name).unlink()
        kept = set().union(*[model.digests for model in self.all()])
        for digest in gone.digests - kept:
            (self.root / "blobs" / digest.replace(":", "-")).unlink()
        return True


def _without(layers: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [layer for layer in layers if layer["mediaType"] != KIND + kind]
