"""What is known of the server that makes prompts with a template, and which version brought what templates use."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Version = tuple[int, int, int]
_NUMBERS = re.compile(r"v?(\d+)\.(\d+)\.(\d+)")

# Ollama's releases, by its history. Functions are looked for when a template is parsed, fields of a message, a call
# or a tool when they are evaluated; a missing key of the template's own data is no error.
FUNCTIONS_SINCE: dict[str, Version] = {
    "json": (0, 2, 6),
    "currentDate": (0, 11, 0),
    "toTypeScriptType": (0, 11, 3),
    "yesterdayDate": (0, 13, 3),
}
FIELDS_SINCE: dict[str, Version] = {
    "ToolCalls": (0, 2, 6),
    "Index": (0, 4, 7),
    "Items": (0, 6, 6),
    "Defs": (0, 6, 6),
    "Thinking": (0, 9, 0),
    "ToolName": (0, 9, 6),
    "AnyOf": (0, 11, 3),
    "ToTypeScriptType": (0, 11, 3),
    "ToolCallID": (0, 12, 10),
    "ID": (0, 12, 10),
}


@dataclass(frozen=True, slots=True)
class Serving:
    """A server's part in a template; nothing is known of it by default."""

    version: Version | None = None  # None counts as new
    not_in_force: str = ""  # why prompts are made with something else; empty: they are not, as far as is known
    memory: Literal["full", "swa", "recurrent"] | None = None  # the model's: tokens by themselves, a window, one state


def version_of(text: str) -> Version | None:
    """The numbers of a version; None for a build that has none (`0.0.0`), which counts as new."""
    found = _NUMBERS.match(text)
    numbers = (int(found[1]), int(found[2]), int(found[3])) if found else (0, 0, 0)
    return numbers if numbers != (0, 0, 0) else None


def version_text(version: Version) -> str:
    """As people write it."""
    return ".".join(map(str, version))
