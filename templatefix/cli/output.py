"""What commands write: standard output for results, one plain sentence on standard error for what went wrong."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TextIO

_CLOSED = "standard output is closed"


class CliError(Exception):
    """Something that keeps a command from its work; the string is one sentence, perhaps with a picture below it."""


def fault(error: Exception) -> str:
    """What to say of an error that nobody foresaw. With TEMPLATEFIX_TRACEBACK set it is raised again."""
    if isinstance(error, RecursionError):
        return "the input is nested too deeply for this program"
    if os.environ.get("TEMPLATEFIX_TRACEBACK"):
        raise error
    return (
        f"a fault in templatefix itself, please report it: {type(error).__name__}: {error} "
        "(TEMPLATEFIX_TRACEBACK=1 shows where)"
    )


def say(text: str) -> None:
    """Write a result, with a line end."""
    write(text if text.endswith("\n") else text + "\n")


def say_json(value: object) -> None:
    """Write a result as JSON; characters that UTF-8 cannot carry are escaped."""
    import json

    text = json.dumps(value, ensure_ascii=False, indent=2)
    try:
        text.encode()
    except UnicodeEncodeError:
        text = json.dumps(value, indent=2)
    say(text)


def write(text: str, stream: TextIO | None = None) -> None:
    """Write text as it is, to standard output by default; what the stream's encoding lacks is escaped.

    Bytes that were not UTF-8 come out as they were where the output is UTF-8.
    """
    target = sys.stdout if stream is None else stream
    if target is None:
        raise CliError(_CLOSED)
    encoding = (target.encoding or "utf-8").lower()
    utf8 = encoding.replace("-", "") == "utf8"
    data = text.encode(encoding, "surrogateescape" if utf8 else "backslashreplace")
    _put(target, data)


def write_bytes(data: bytes | Iterable[bytes]) -> None:
    """Write bytes to standard output, or pieces of them as they come."""
    if sys.stdout is None:
        raise CliError(_CLOSED)
    _put(sys.stdout, data)


def _pieces(data: bytes | Iterable[bytes]) -> Iterable[bytes]:
    return (data,) if isinstance(data, bytes) else data


def _put(stream: TextIO, data: bytes | Iterable[bytes]) -> None:
    try:
        stream.flush()
        stream.buffer.writelines(_pieces(data))
        stream.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        quiet_pipes()
        raise CliError(f"the output cannot be written: {error.strerror or error}") from error


def save(file: str, data: bytes | Iterable[bytes]) -> None:
    """Write a file, whole or not at all, from bytes or pieces of them; `-` is standard output.

    What a link points to is written, not the link; a device or a pipe is written to, never replaced.
    """
    if file == "-":
        write_bytes(data)
        return
    if not file:
        raise CliError("the name of the file to write is empty")
    try:
        path = Path(os.path.realpath(Path(file).expanduser()))
        if path.exists() and not path.is_file() and not path.is_dir():
            with open(path, "wb") as out:
                out.writelines(_pieces(data))
        else:
            _replace(path, data)
    except OSError as error:
        raise CliError(f"{file} cannot be written: {error.strerror or error}") from error
    except (RuntimeError, ValueError) as error:  # no such home folder, a name with NUL
        raise CliError(f"{file} cannot be written: {error}") from error


def _replace(path: Path, data: bytes | Iterable[bytes]) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".templatefix-")
    try:
        with os.fdopen(handle, "wb") as out:
            out.writelines(_pieces(data))
        os.chmod(name, path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def confirm(question: str, yes: bool) -> None:
    """Ask before something that cannot be taken back; raises CliError where nobody can answer or the answer is no."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise CliError(f"{question} Without a terminal to ask on, that needs --yes")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CliError("nothing was changed")


def progress_line() -> Callable[[str], None]:
    """What shows how far the work has come: one line on standard error, only on a terminal."""
    if not sys.stderr.isatty():
        return lambda _text: None
    width = shutil.get_terminal_size().columns - 1

    def show(text: str) -> None:
        print(f"\r{text[:width]:<{width}}\r", end="", file=sys.stderr, flush=True)

    return show


def complain(sentence: str) -> None:
    """Say on standard error what went wrong, without anything that a terminal would act on."""
    text = sentence.encode("utf-8", "backslashreplace").decode()
    text = "".join(char if char.isprintable() or char in "\n\t" else "\N{REPLACEMENT CHARACTER}" for char in text)
    try:
        print(f"templatefix: {text}", file=sys.stderr, flush=True)
    except UnicodeEncodeError:
        print(f"templatefix: {ascii(text)[1:-1]}", file=sys.stderr, flush=True)
    except OSError:
        quiet_pipes()


def colours(stream: object = None) -> bool:
    """Whether to colour: on a terminal only, and never where NO_COLOR is set or the terminal is dumb."""
    target = sys.stdout if stream is None else stream
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    isatty = getattr(target, "isatty", None)
    return bool(isatty and isatty())


def replace_closed() -> None:
    """Put an empty stream where the process was started without standard input or standard error.

    Python has None there, and what is printed to None goes to standard output.
    """
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def quiet_pipes() -> None:
    """Let nothing complain at exit about a reader that has gone."""
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(null, stream.fileno())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
