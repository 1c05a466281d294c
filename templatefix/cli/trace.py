"""`templatefix trace`: records real sessions, and says which layer broke the prefix."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from templatefix.cli.inputs import chat_template_of, known, resolved, served
from templatefix.cli.output import CliError, colours, save, say, write

if TYPE_CHECKING:
    from templatefix.trace.session import Session
    from templatefix.trace.templates import KnownTemplate

HELP = "Record real sessions of an agent, and say which layer broke the prefix."


def explain(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE…", help="Recordings, JSON lines of requests, folders of request dumps, logs."),
    ],
    template: Annotated[
        list[str] | None,
        typer.Option(metavar="TARGET|MODEL=TARGET", help="The template of the models, or of one, in the recording."),
    ] = None,
    form: Annotated[str, typer.Option("--format", metavar="text|json|html", help="How to write the result.")] = "text",
    output: Annotated[str | None, typer.Option("--output", "-o", metavar="FILE", help="Write the result here.")] = None,
) -> int:
    """Read sessions of any source, and say for each loss of cache whether client, template, server or engine did it.

    A recording says most together with the server's log of the same time (OLLAMA_DEBUG=1; llama-server: -lv 4).
    Exit code 0: done, whatever was found; 2: the work could not be done.
    """
    known("--format", form, ("text", "json", "html"))
    from templatefix.trace.explain import explain as explained
    from templatefix.trace.sources import TraceError

    given = dict(_template(word) for word in template or ())
    try:
        session = explained([Path(file).expanduser() for file in files], given)
    except TraceError as error:
        raise CliError(str(error)) from error
    if form == "json":
        from templatefix.trace.session import json_lines

        save("-" if output is None else output, json_lines(session))
    elif output is not None:
        save(output, _text(session, form, coloured=False).encode("utf-8", "replace"))
    else:
        write(_text(session, form, colours()))
    return 0


def _text(session: Session, form: str, coloured: bool) -> str:
    if form == "html":
        from templatefix.report.trace_html import trace_html

        return trace_html(session)
    from templatefix.report.style import Style
    from templatefix.report.trace_text import trace_text

    return trace_text(session, Style(coloured))


def _template(word: str) -> tuple[str | None, KnownTemplate]:
    from templatefix.trace.templates import KnownTemplate

    model, marked, target = word.partition("=")
    if not marked or Path(word).expanduser().exists():
        model, target = "", word
    found = resolved(target, None)
    made = chat_template_of(found)
    return model or None, KnownTemplate(found.name, made, served(found, made))


def record(
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where the agent connects to.")] = "127.0.0.1:11435",
    upstream: Annotated[
        str | None, typer.Option(metavar="URL", help="The server behind (default: OLLAMA_HOST).")
    ] = None,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="The recording; it is gone on with where it exists.")
    ] = "trace.jsonl",
) -> int:
    """Stand between an agent and its server, pass everything on, and record what is chat; Ctrl-C ends it.

    Only loopback can connect unless --listen names another address. The recording holds what is said in the chats, so
    only you can read it; keys and tokens are taken out.
    """
    from templatefix.servers.host import base_url
    from templatefix.trace.proxy import Proxy
    from templatefix.trace.recording import Recording

    try:
        behind = base_url(upstream if upstream is not None else os.environ.get("OLLAMA_HOST", ""))
    except ValueError as error:
        raise CliError(f"--upstream: {error}" if upstream is not None else str(error)) from error
    address = _address(listen)
    try:
        recording = Recording(Path(output).expanduser())
    except OSError as error:
        raise CliError(f"{output} cannot be written: {error.strerror or error}") from error
    with recording:
        try:
            proxy = Proxy(address, behind, recording, lambda said: print(said, file=sys.stderr, flush=True))
        except OSError as error:
            raise CliError(f"cannot listen at {listen}: {error.strerror or error}") from error
        with proxy:
            say(f"{proxy.url} passes on to {behind} and records to {output}; point your agent at it. Ctrl-C ends it.")
            sys.stdout.flush()
            try:
                proxy.serve_forever()
            except KeyboardInterrupt:
                print(f"{recording.count} requests are in {output}", file=sys.stderr)
    return 0


def _address(listen: str) -> tuple[str, int]:
    import ipaddress

    host, marked, port = listen.rpartition(":")
    if not marked:
        host, port = ("127.0.0.1", listen) if listen.isdigit() else (listen, "11435")
    if not port.isdigit() or int(port) > 65535:
        raise CliError(f"--listen takes HOST:PORT, not {listen}")
    host = host.strip("[]") or "127.0.0.1"
    try:
        loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        print(f"templatefix: {host} lets others connect and see the chats", file=sys.stderr)
    return host, int(port)


COMMANDS = {"explain": explain, "record": record}
