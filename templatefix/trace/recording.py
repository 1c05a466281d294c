"""The file that `trace record` writes: JSON lines, one exchange each, without keys.

    {"version": 1, "time": "…", "method": "POST", "path": "/api/chat", "request": {…}, "status": 200, "answer": [{…}]}

Besides these there are lines `{"version": 1, "model": "…", "template": "…", "kind": "go"|"jinja",
"server": "ollama"|"llama-server"}`, one for each template that the server showed. Headers are not kept at all.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

VERSION = 1
REMOVED = "[removed]"
_SECRET_NAMES = re.compile(
    r"(?i)^(authorization|proxy-authorization|cookie|set-cookie|(x[-_])?api[-_]?key|access[-_]?token|refresh[-_]?token|"
    r"auth[-_]?token|bearer|client[-_]?secret|secret([-_]?key)?|password|passwd|private[-_]?key)$"
)
_SECRET_TEXTS = re.compile(
    r"(?i:\bbearer\s+)[A-Za-z0-9._~+/=-]{8,}"
    r"|\bsk-[A-Za-z0-9_-]{16,}|\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_\w{20,}|\bhf_[A-Za-z0-9]{20,}"
    r"|\bxox[abprs]-[A-Za-z0-9-]{10,}|\bAKIA[0-9A-Z]{16}\b|\bAIza[0-9A-Za-z_-]{30,}"
    r"|\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]+"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    re.DOTALL,
)


def without_secrets(value: Any) -> Any:
    """A JSON value with every key and token replaced, always by the same word, so that nothing seems to change."""
    if isinstance(value, str):
        return _SECRET_TEXTS.sub(REMOVED, value)
    if isinstance(value, list):
        return [without_secrets(item) for item in value]
    if isinstance(value, Mapping):
        return {
            key: REMOVED if _SECRET_NAMES.match(str(key)) and isinstance(item, str) else without_secrets(item)
            for key, item in value.items()
        }
    return value


class Recording:
    """A file that exchanges are added to; only its owner can read it."""

    def __init__(self, path: Path) -> None:
        """Begin it, or go on with one that is there; raises OSError."""
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.chmod(path, 0o600)
        self._file = os.fdopen(handle, "ab", buffering=0)
        self._lock = threading.Lock()
        self.count = 0

    def add(
        self, *, time: str, method: str, path: str, request: Any, status: int, answer: list[Any], broken: int = 0
    ) -> None:
        """Write an exchange in one piece; raises OSError."""
        row = {"version": VERSION, "time": time, "method": method, "path": path.partition("?")[0]}
        row |= {"request": request, "status": status, "answer": answer}
        if broken:
            row["answer_unread"] = broken
        self._write(row)
        self.count += 1

    def template(self, model: str, text: str, kind: str, server: str) -> None:
        """Write what a model's template is, as its `server` shows it; raises OSError."""
        self._write({"version": VERSION, "model": model, "template": text, "kind": kind, "server": server})

    def _write(self, row: Mapping[str, Any]) -> None:
        line = json.dumps(without_secrets(row), separators=(",", ":")).encode("ascii") + b"\n"
        with self._lock:
            self._file.write(line)

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()
