"""What commands write: standard output for results, one plain sentence on standard error for what went wrong."""

from __future__ import annotations

import os
import sys


class CliError(Exception):
    """Something that keeps a command from its work; the string is one sentence, perhaps with a picture below it."""


def say(text: str) -> None:
    """Write a result, with a line end; what the terminal's encoding lacks is escaped."""
    write(text if text.endswith("\n") else text + "\n")


def write(text: str) -> None:
    """Write text as it is; bytes that were not UTF-8 come out as they were where the output is UTF-8."""
    encoding = sys.stdout.encoding or "utf-8"
    if encoding.lower().replace("-", "") == "utf8":
        data = text.encode("utf-8", "surrogateescape")
    else:
        data = text.encode(encoding, "backslashreplace")
    write_bytes(data)


def write_bytes(data: bytes) -> None:
    """Write bytes to standard output."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def complain(sentence: str) -> None:
    """Say on standard error what went wrong."""
    text = sentence.encode("utf-8", "backslashreplace").decode()
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


def quiet_pipes() -> None:
    """Let nothing complain at exit about a reader that has gone."""
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(null, stream.fileno())
