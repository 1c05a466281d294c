"""The command line, run in this process, with a home and a working folder of its own."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from templatefix.cli.main import run


@dataclass(frozen=True)
class Outcome:
    """What a command left behind."""

    code: int
    out: str
    err: str
    data: bytes  # `out` as bytes


Command = Callable[..., Outcome]


class _Stdin(io.TextIOWrapper):
    def __init__(self, data: bytes) -> None:
        super().__init__(io.BufferedReader(io.BytesIO(data)))  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, an empty home, and no server."""
    for name in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home" / name.lower()))
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:9")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("NO_COLOR", raising=False)
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return work


@pytest.fixture
def templatefix(capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs `templatefix` with some arguments, and with `stdin` if given."""

    def command(*args: str, stdin: bytes = b"") -> Outcome:
        monkeypatch.setattr("sys.stdin", _Stdin(stdin))
        capsysbinary.readouterr()
        code = run(args)
        out, err = capsysbinary.readouterr()
        return Outcome(code, out.decode("utf-8", "surrogateescape"), err.decode(), out)

    return command
