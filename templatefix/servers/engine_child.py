"""The engine that an Ollama on this machine runs: a child process with a port on loopback."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class EngineChild:
    """A running engine; the model is the path of its weights."""

    pid: int
    port: int
    model: str

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"


def engine_children(digest: str, store: Path | None = None) -> list[EngineChild]:
    """The engines of an Ollama on this machine that run the weights with a digest (`sha256:…`).

    With a store, of the Ollama with that store alone: several may run here, with the same weights.
    """
    blob = f"{store.as_posix() if store is not None else ''}/blobs/{digest.replace(':', '-')}"
    processes = {pid: (parent, args) for pid, parent, args in _processes()}
    found = []
    for pid, (parent, args) in processes.items():
        child = _engine(pid, args)
        serves = "serve" in processes.get(parent, (0, []))[1]
        if child is not None and serves and child.model.replace("\\", "/").endswith(blob):
            found.append(child)
    return found


def _engine(pid: int, args: list[str]) -> EngineChild | None:
    values = dict(pairwise(args))
    port = values.get("--port", "")
    return EngineChild(pid, int(port), values["--model"]) if "--model" in values and port.isdigit() else None


def _processes() -> Iterator[tuple[int, int, list[str]]]:
    """Process, parent and arguments of everything that runs here and may be seen."""
    if (_PROC / "self").exists():
        for folder in _PROC.glob("[0-9]*"):
            with contextlib.suppress(OSError, ValueError, IndexError):
                args = (folder / "cmdline").read_bytes().decode("utf-8", "surrogateescape").split("\0")
                # The name in parentheses may hold blanks; the parent is the second field behind it.
                yield int(folder.name), int((folder / "stat").read_text().rpartition(")")[2].split()[1]), args
        return
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        ps = ["ps", "axww", "-o", "pid=,ppid=,args="]
        done = subprocess.run(ps, capture_output=True, text=True, timeout=10, check=True)
        for line in done.stdout.splitlines():
            pid, parent, *args = line.split()
            yield int(pid), int(parent), args
