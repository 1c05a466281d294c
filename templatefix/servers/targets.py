"""What a TARGET on the command line is, its template, and how a new template is written the same way."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from templatefix.gotemplate.source import Position, Source
from templatefix.servers.errors import ServerError
from templatefix.servers.jinja_source import (
    JinjaSource,
    JinjaSourceError,
    beside,
    from_config,
    from_gguf,
    from_server,
    from_shown,
)
from templatefix.servers.modelfile import Modelfile, ModelfileError, looks_like_modelfile
from templatefix.servers.names import ModelName
from templatefix.servers.ollama import OllamaClient
from templatefix.servers.packed import Packed, from_registry
from templatefix.servers.shown import Shown, is_jinja

Kind = Literal["go", "modelfile", "model", "registry", "jinja", "gguf", "server"]
KINDS = ("model", "go", "jinja", "modelfile", "gguf")  # what `--as` takes
REGISTRY = "registry:"
LIMIT = 4 * 1024 * 1024  # bytes; no chat template comes near it

_CONFIGS = ("tokenizer_config.json", "chat_template.json")  # Hugging Face's
_JINJA = (".jinja", ".jinja2", ".j2")
_FILES = (*_JINJA, ".gguf", ".tmpl", ".gotmpl", ".gohtml", ".txt", ".json", ".modelfile", ".template")


class TargetError(Exception):
    """A target whose template cannot be had; the string is one sentence that names it."""


@dataclass(frozen=True)
class Target:
    """A template with the place it came from."""

    name: str  # as the user gave it
    kind: Kind
    source: Source  # the template alone
    path: Path | None = None
    modelfile: Modelfile | None = None
    shown: Shown | None = None
    packed: Packed | None = None
    jinja: JinjaSource | None = None  # of a Jinja template
    reason: str = ""  # why prompts are not made with this template, where that was seen when it was read

    def written(self, template: str) -> bytes:
        """The bytes of a file with another template: a template, or a Modelfile where one came in.

        Raises TargetError where a Modelfile cannot hold it.
        """
        if self.modelfile is None:
            return template.encode("utf-8", "surrogateescape")
        try:
            return self.modelfile.with_template(template).data
        except ModelfileError as error:
            raise TargetError(str(error)) from error

    def position(self, offset: int) -> Position:
        """The place of a byte of the template in its file (of a model: in the template)."""
        if self.modelfile is None:
            return self.source.position(offset)
        return self.modelfile.position_of(offset)

    def hidden_thoughts(self) -> str | None:
        """What its Ollama server keeps from the Jinja text of a model that thinks, and what helps; or None."""
        if self.jinja is None or self.shown is None or not self.shown.thinks:
            return None
        return (
            "Ollama hands no past thought to a Jinja text, so a reply with a thought is read again at the next "
            "request; a Go TEMPLATE of the family gets the thoughts (patch --keep-thinking)"
        )

    def not_in_force(self) -> str | None:
        """Why prompts are not made with this template, as far as its source tells; or None."""
        if self.reason or self.jinja is not None:
            return self.reason or None
        if self.shown is not None:
            return self.shown.not_in_force()
        if self.packed is not None:
            return self.packed.not_in_force()
        renderer = self.modelfile.find("renderer") if self.modelfile is not None else None
        if renderer is not None and renderer.value:
            return f"{self.name} has RENDERER {renderer.value}: the server would ignore its TEMPLATE"
        return None


def resolve(
    target: str,
    kind: str | None = None,
    *,
    client: Callable[[], OllamaClient] = OllamaClient,
    stdin: BinaryIO | None = None,
) -> Target:
    """Find and read a target; `kind` is the value of `--as`, or None to go by what is there.

    A path wins over a model's name. Raises TargetError, or ServerError from a model's server.
    """
    if kind is not None and kind not in KINDS:
        raise TargetError(f"--as takes one of {', '.join(KINDS)}, not {kind}")
    if target.startswith(("http://", "https://")) and kind is None:
        return _of_server(target)
    if target == "-" and kind != "model":
        return _of_bytes("standard input", _limited(stdin or sys.stdin.buffer, "standard input"), kind or "go", None)
    if target.startswith(REGISTRY) and kind is None and not os.path.lexists(target):
        return _of_registry(target)
    if kind == "model" or (kind is None and not os.path.lexists(target) and not _is_path(target)):
        return _of_model(target, client)
    return _of_file(target, kind)


def _is_path(target: str) -> bool:
    name = target.lower()
    return target.startswith(("/", "./", "../", "~", "\\")) or name.endswith(_FILES) or name == "modelfile"


def _of_model(target: str, client: Callable[[], OllamaClient]) -> Target:
    try:
        ModelName.parse(target)
    except ValueError as error:
        raise TargetError(f"{error}, and there is no such file") from error
    try:
        shown = client().show(target)
    except ServerError as error:
        raise type(error)(f"{target}: {error}, and there is no such file", *error.args[1:]) from error
    if not shown.template:
        raise TargetError(f"{target}: the server shows no template for it")
    reason = shown.not_in_force() or ""
    carried = ""
    if is_jinja(shown.template):
        carried = shown.carried
        if not carried and not shown.remote_host and not shown.instruction("RENDERER"):
            jinja = from_shown(client(), shown)
            return Target(target, "model", Source(shown.template, target), shown=shown, jinja=jinja)
    return Target(target, "model", Source(carried or shown.template, target), shown=shown, reason=reason)


def _of_server(target: str) -> Target:
    try:
        found = from_server(target)
    except JinjaSourceError as error:
        raise TargetError(str(error)) from error
    return Target(target, "server", Source(found.text, target), jinja=found)


def _of_registry(target: str) -> Target:
    name = target.removeprefix(REGISTRY)
    try:
        found = from_registry(name)
    except ValueError as error:
        raise TargetError(f"{target}: {error}") from error
    except ServerError as error:
        raise type(error)(f"{target}: {error}", *error.args[1:]) from error
    if not found.template:
        raise TargetError(f"{target} carries no template; a Jinja text in its weights would be in force")
    return Target(target, "registry", Source(found.template, target), packed=found)


def _of_file(target: str, kind: str | None) -> Target:
    try:
        path = Path(target).expanduser()
        if path.is_dir():
            raise TargetError(f"{target} is a folder, not a template")
        with path.open("rb") as file:
            named = kind is None and target.lower().endswith(".gguf")
            if kind == "gguf" or named or file.peek(4)[:4] == b"GGUF":
                return _of_gguf(target, path)
            data = _limited(file, target)
    except FileNotFoundError:
        raise TargetError(f"there is no file {target}") from None
    except OSError as error:
        raise TargetError(f"{target} cannot be read: {error.strerror or error}") from error
    except RuntimeError as error:  # a home folder that is not known
        raise TargetError(f"{target} cannot be read: {error}") from error
    return _of_bytes(target, data, kind, path)


def _of_gguf(target: str, path: Path) -> Target:
    try:
        found = from_gguf(path, target)
    except JinjaSourceError as error:
        raise TargetError(str(error)) from error
    if len(found.text) > LIMIT:
        raise TargetError(f"the chat template of {target} has more than {LIMIT // 1024 // 1024} MB")
    return Target(target, "gguf", Source(found.text, target), path, jinja=found)


def _limited(file: BinaryIO, name: str) -> bytes:
    data = file.read(LIMIT + 1)
    if len(data) > LIMIT:
        raise TargetError(f"{name} has more than {LIMIT // 1024 // 1024} MB, which is no chat template")
    return data


def _of_bytes(name: str, data: bytes, kind: str | None, path: Path | None) -> Target:
    if kind == "gguf" or data.startswith(b"GGUF"):
        raise TargetError(f"{name}: a GGUF file must be named, it cannot come from standard input")
    if not data.strip():
        raise TargetError(f"{name} is empty")
    wide = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    if b"\0" in data and not wide:
        raise TargetError(f"{name} is not text: it has NUL bytes")
    lower = name.lower()
    if kind in (None, "jinja") and lower.endswith(_CONFIGS):
        return _of_config(name, data, path)
    if kind == "jinja" or (kind is None and lower.endswith(_JINJA)):
        if wide:
            raise TargetError(f"{name} is UTF-16 text; a Jinja template is UTF-8")
        source = Source.from_bytes(data, name)
        found = JinjaSource(source.text) if path is None else beside(path, source.text)
        return Target(name, "jinja", source, path, jinja=found)
    if kind == "modelfile" or (kind is None and _is_modelfile(name, data, wide)):
        return _of_modelfile(name, data, path)
    if wide:
        raise TargetError(f"{name} is UTF-16 text; a Go template is UTF-8")
    return Target(name, "go", Source.from_bytes(data, name), path)


def _of_config(name: str, data: bytes, path: Path | None) -> Target:
    try:
        found = from_config(data, name)
    except JinjaSourceError as error:
        raise TargetError(str(error)) from error
    return Target(name, "jinja", Source(found.text, name), path, jinja=found)


def _is_modelfile(name: str, data: bytes, wide: bool) -> bool:
    return looks_like_modelfile(name, data.decode("utf-16" if wide else "utf-8-sig", "replace"))


def _of_modelfile(name: str, data: bytes, path: Path | None) -> Target:
    try:
        modelfile = Modelfile.from_bytes(data, name)
    except ModelfileError as error:
        raise TargetError(str(error)) from error
    template = modelfile.template
    if template is None:
        base = modelfile.find("from")
        whose = f"that of its FROM {base.value}" if base is not None else "its model's"
        raise TargetError(f"{name} has no TEMPLATE; its template is {whose}")
    return Target(name, "modelfile", Source(template.value, name), path, modelfile)
