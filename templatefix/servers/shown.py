"""What `/api/show` and `/api/tags` tell about a model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from templatefix.chat.go import GoChatTemplate
from templatefix.chat.rendering import RenderError
from templatefix.servers.modelfile import Modelfile, ModelfileError

_JINJA = re.compile(r"\{%|\{#")
_NO_TEMPLATE = "{{ .Prompt }}"  # what a tag without a template shows
_BLOB = re.compile(r"^FROM (.+[/\\])blobs[/\\]sha256-([0-9a-f]{64})\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class TagInfo:
    """A row of `/api/tags`: the digest is the manifest's, the size that of config and layers together, in bytes."""

    name: str
    digest: str
    size: int


@dataclass(frozen=True)
class Shown:
    """An answer of `/api/show`; what the server left out is empty."""

    name: str
    template: str
    modelfile: str = ""
    parameters: str = ""
    system: str = ""
    license: str = ""
    messages: tuple[Mapping[str, Any], ...] = ()
    capabilities: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    model_info: Mapping[str, Any] = field(default_factory=dict)
    remote_host: str = ""

    @classmethod
    def from_json(cls, name: str, answer: Mapping[str, Any]) -> Shown:
        """Read an answer; raises TypeError or ValueError where a field is not of its kind."""
        texts = {key: answer.get(key) or "" for key in ("template", "modelfile", "parameters", "system", "remote_host")}
        licence = answer.get("license") or ""
        texts["license"] = "\n".join(licence) if isinstance(licence, list) else licence
        if not all(isinstance(text, str) for text in texts.values()):
            raise TypeError("a text field is no text")
        return cls(
            name=name,
            messages=tuple(dict(message) for message in answer.get("messages") or ()),
            capabilities=tuple(answer.get("capabilities") or ()),
            details=dict(answer.get("details") or {}),
            model_info=dict(answer.get("model_info") or {}),
            **texts,
        )

    @property
    def parent(self) -> str:
        """The model that the tag was made from, where the server says so."""
        return str(self.details.get("parent_model") or "")

    @property
    def family(self) -> str:
        """The model's family, as the config of the model has it."""
        return str(self.details.get("family") or "")

    @property
    def thinks(self) -> bool:
        """Whether the server turns thinking on by default."""
        return "thinking" in self.capabilities

    @cached_property
    def _lines(self) -> str:
        # The Modelfile's instructions without the texts, whose lines could be taken for instructions.
        messages = [(f"MESSAGE {one.get('role')}", str(one.get("content") or "")) for one in self.messages]
        known = (("TEMPLATE", self.template), ("SYSTEM", self.system), ("LICENSE", self.license))
        text = self.modelfile
        for word, part in (*known, *messages):
            for quote in ('"""', '"', ""):
                text = text.replace(f"{word} {quote}{part}", word, 1) if part else text
        return text

    def instruction(self, word: str) -> str:
        """The value of an instruction such as RENDERER in the Modelfile's text, or nothing."""
        found = re.search(rf"^{word} +(\S+)\s*$", self._lines, re.MULTILINE)
        return found[1].strip('"') if found else ""

    @property
    def store(self) -> Path | None:
        """The folder of the server's store, as the path of the weights in the Modelfile's text gives it."""
        found = _BLOB.search(self._lines)
        return Path(found[1]) if found else None

    @property
    def weights(self) -> str:
        """The digest of the weights (`sha256:…`), from their path in the Modelfile's text; empty if it has none."""
        found = _BLOB.search(self._lines)
        return f"sha256:{found[2]}" if found else ""

    @property
    def renders_jinja(self) -> bool:
        """Whether prompts are made with the Jinja text of the GGUF file, which is then the template shown."""
        return self._built_in() is None and is_jinja(self.template)

    @property
    def carried(self) -> str:
        """The Go template that a tag carries although another one is in force: the Modelfile's text has it."""
        try:
            template = Modelfile.from_bytes(self.modelfile.encode("utf-8", "surrogateescape")).template
        except ModelfileError:
            return ""
        return template.value if template is not None and template.value != _NO_TEMPLATE else ""

    def not_in_force(self) -> str | None:
        """Why the Go template of this model is not what its prompts are made with, as far as `show` tells; or None."""
        reason = self._built_in()
        if reason is None and is_jinja(self.template):
            return (
                f"the template in force for {self.name} is the Jinja text of its GGUF file, "
                "which a TEMPLATE may not replace"
            )
        return reason

    def _built_in(self) -> str | None:
        if self.remote_host:
            return f"{self.name} runs on {self.remote_host}, with that server's own template"
        renderer = self.instruction("RENDERER")
        if renderer:
            return (
                f"{self.name} has RENDERER {renderer}: the server builds its prompts itself, "
                "and a TEMPLATE would be ignored"
            )
        if self.family in ("gptoss", "gpt-oss") and "<|start|>" in self.template and "<|end|>" in self.template:
            return f"{self.name} is of the gpt-oss family: the server reads and writes the harmony format itself"
        return None


def is_jinja(text: str) -> bool:
    """Whether a template is Jinja: it has Jinja's blocks or comments, and Go cannot read it or finds no action."""
    if not _JINJA.search(text):
        return False
    try:
        GoChatTemplate(text)
    except RenderError:
        return True
    return "{{" not in text
