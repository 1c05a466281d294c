"""`templatefix doctor`: what makes agents slow on a server."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from templatefix.cli.inputs import known
from templatefix.cli.options import Format
from templatefix.cli.output import CliError, colours, say_json, write

if TYPE_CHECKING:
    from templatefix.trace.patient import ServerSeen


def run(
    server: Annotated[
        str | None, typer.Argument(metavar="SERVER", help="An Ollama or a llama-server (default: OLLAMA_HOST).")
    ] = None,
    log: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="The server's log (OLLAMA_DEBUG=1; llama-server: -lv 4).")
    ] = None,
    trace: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="A recording of `trace record`, or any that trace reads.")
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A model to look at, beside those in memory.")
    ] = None,
    form: Format = "text",
) -> int:
    """Look at a running server and say what makes agents slow there, the dearest first; nothing is changed.

    A log says most, with a recording of the same time; --log and --trace can be given several times. What costs less
    than a hundredth is not listed. Exit code 1: something costs more than a tenth of the prompt; 2: nothing could be
    read. --format json: version, healthy, server, setup, figures, prompt, costs, missing, unread.
    """
    known("--format", form, ("text", "json"))
    from templatefix.trace.diagnosis import diagnose
    from templatefix.trace.sources import TraceError

    logs, traces = ([Path(file).expanduser() for file in files or ()] for files in (log, trace))
    seen, silent = _look(server, model or [], needed=not logs and not traces)
    try:
        found = diagnose(seen, logs, traces)
    except TraceError as error:
        raise CliError(str(error)) from error
    if seen is None and found.blind:
        read = ", ".join([*(log or ()), *(trace or ())])
        raise CliError(f"{read}: no request of a server was found there, and {silent}")
    if silent:
        from dataclasses import replace

        found = replace(found, missing=(*found.missing, f"the server as it runs: {silent}"))
    if form == "json":
        from templatefix.report.doctor_json import doctor_json

        say_json(doctor_json(found))
    else:
        from templatefix.report.doctor_text import doctor_text
        from templatefix.report.style import Style

        write(doctor_text(found, Style(colours())))
    return int(found.ill)


def _look(server: str | None, models: list[str], needed: bool) -> tuple[ServerSeen | None, str]:
    """The server as it runs; beside a log or a recording it may be silent, with the sentence that says so."""
    from templatefix.servers.errors import ServerError
    from templatefix.trace.patient import look

    try:
        return look(os.environ.get("OLLAMA_HOST", "") if server is None else server, models), ""
    except (ServerError, ValueError) as error:
        if needed:
            raise CliError(str(error)) from error
        return None, str(error)
