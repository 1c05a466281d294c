"""A llama-server started for a measurement, on a free port of this machine, and ended with it."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from templatefix.servers.errors import ServerError, ServerTimeout, ServerUnreachable
from templatefix.servers.llama_server import LlamaServer

_PATIENCE: Final = 600.0  # seconds until a large model is loaded
_PAUSE: Final = 0.1  # seconds


@contextmanager
def started(
    program: Path, model: Path, folder: Path, options: Sequence[str] = (), patience: float = _PATIENCE
) -> Iterator[LlamaServer]:
    """Start the program on a GGUF with one slot; its output goes to a file in `folder`.

    Raises ServerUnreachable where it cannot be started or ends before it answers, and ServerTimeout where it does not
    answer within `patience` seconds; every later answer may take as long.
    """
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    command = [str(program), "--host", "127.0.0.1", "--port", str(port), "-m", str(model), "-np", "1", *options]
    log = folder / f"llama-server-{port}.log"
    with log.open("wb") as out:
        try:
            process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        except OSError as error:
            raise ServerUnreachable(f"{program} cannot be started: {error.strerror or error}") from error
    try:
        server = LlamaServer(f"http://127.0.0.1:{port}", silence=patience)
        _wait(server, process, program, log, patience)
        yield server
    finally:
        process.kill()
        process.wait()


def _wait(server: LlamaServer, process: subprocess.Popen[bytes], program: Path, log: Path, patience: float) -> None:
    deadline = time.monotonic() + patience
    while process.poll() is None and time.monotonic() < deadline:
        try:
            server.props()
        except ServerError:
            time.sleep(_PAUSE)
        else:
            return
    if process.poll() is None:
        raise ServerTimeout(f"{program} did not answer within {patience:g} seconds")
    raise ServerUnreachable(f"{program} did not start: {_last_line(log)}")


def _last_line(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1].strip()[:300] if lines else "it said nothing"
