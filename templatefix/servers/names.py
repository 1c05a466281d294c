"""Model names as Ollama reads them: host, namespace, model and tag."""

from __future__ import annotations

import re
from dataclasses import dataclass

HOST, NAMESPACE, TAG = "registry.ollama.ai", "library", "latest"
SUFFIX = "-prefix-stable"

_PARTS = {
    "host": re.compile(r"\w[\w.:-]{0,349}", re.ASCII),
    "namespace": re.compile(r"\w[\w-]{0,79}", re.ASCII),
    "model": re.compile(r"\w[\w.-]{0,79}", re.ASCII),
    "tag": re.compile(r"\w[\w.-]{0,79}", re.ASCII),
}


@dataclass(frozen=True, slots=True)
class ModelName:
    """A full name; what the user left out is filled in with Ollama's defaults."""

    host: str
    namespace: str
    model: str
    tag: str

    @classmethod
    def parse(cls, text: str) -> ModelName:
        """Read a name; raises ValueError, with a sentence, if Ollama would not take it."""
        rest, _, tag = text.rpartition(":") if text.rfind(":") > text.rfind("/") else (text, "", TAG)
        front, slash, model = rest.rpartition("/")
        address, second, namespace = front.rpartition("/")
        host = address.rpartition("://")[2] if second else HOST
        name = cls(host, namespace if slash else NAMESPACE, model, tag)
        for part, pattern in _PARTS.items():
            if not pattern.fullmatch(getattr(name, part)):
                raise ValueError(f"{text!r} is not a model name: its {part} {getattr(name, part)!r} cannot be used")
        return name

    @property
    def shortest(self) -> str:
        """The name as Ollama shows it: without default host and namespace, always with its tag."""
        host, namespace = self.host.lower() == HOST, self.namespace.lower() == NAMESPACE
        prefix = f"{self.host}/{self.namespace}/" if not host else "" if namespace else f"{self.namespace}/"
        return f"{prefix}{self.model}:{self.tag}"

    @property
    def key(self) -> str:
        """The full name in lower case: Ollama takes names that differ only in case for one."""
        return f"{self.host}/{self.namespace}/{self.model}:{self.tag}".lower()

    @property
    def variant(self) -> str:
        """The name that a variant gets by default: the tag with a suffix."""
        return ModelName(self.host, self.namespace, self.model, self.tag[: 80 - len(SUFFIX)] + SUFFIX).shortest
