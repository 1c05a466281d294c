"""`templatefix render`: the exact prompt of a request."""

from __future__ import annotations

import select
import sys
from collections.abc import Iterator
from io import BufferedReader
from typing import TYPE_CHECKING, Annotated, cast

import typer

from templatefix.cli.inputs import chat_template_of, explained, known, read_input, resolved, served
from templatefix.cli.options import Bos, Date, Eos, Kind
from templatefix.cli.output import CliError, complain, say, write_bytes

if TYPE_CHECKING:
    import datetime

    from templatefix.chat.batch import Batch
    from templatefix.chat.request import Request

_PART = 4 << 20  # bytes read at a time
_PIPE = 64 * 1024  # bytes in a full pipe
_MOMENT = 0.002  # seconds
_SHOWN = 20  # lines that are complained about one by one


def run(
    target: Annotated[str | None, typer.Argument(help="A model, a file, or - for standard input.")] = None,
    request: Annotated[
        str | None, typer.Option(metavar="FILE", help="The request as JSON; - for standard input.")
    ] = None,
    pieces: Annotated[bool, typer.Option("--pieces", help="Show where each part of the prompt comes from.")] = False,
    batch: Annotated[bool, typer.Option("--batch", help="Render JSON lines from standard input.")] = False,
    date: Date = None,
    kind: Kind = None,
    bos: Bos = None,
    eos: Eos = None,
) -> int:
    """Write the exact prompt bytes that the server would make of a request.

    Thinking is on where the template has think tags, as on the server. With --batch, each line of standard input is
    {"id","template","messages","tools","think","think_level"}, `think` is taken literally, and each line of output is
    {"id","ok":true,"output"} or {"id","ok":false,"stage","error"}; --kind jinja renders as llama-server does.
    """
    day = _day(date)
    if batch:
        if target is not None or request is not None or pieces:
            raise CliError("--batch reads templates and requests from standard input, and takes no target")
        return _batch(day, known("--kind", kind or "go", ("go", "jinja")), bos or "", eos or "")
    if target is None or request is None:
        raise CliError("render needs a TARGET and --request FILE, or --batch")
    if target == "-" and request == "-":
        raise CliError("the template and the request cannot both come from standard input")
    return _render(target, request, kind, day, pieces, bos, eos)


def _day(text: str | None) -> datetime.date | None:
    if text is None:
        return None
    import datetime

    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise CliError(f"--date takes a day such as 2026-11-29, not {text}") from None


def _batch(day: datetime.date | None, kind: str, bos: str, eos: str) -> int:
    import gc

    usual = gc.get_threshold()
    gc.set_threshold(100_000)  # renders leave few cycles behind, and looking for them takes a tenth of the time
    try:
        return _answer_all(_renders(day, kind, bos, eos))
    finally:
        gc.set_threshold(*usual)


def _answer_all(renders: Batch) -> int:
    from templatefix.cli.halves import Halves

    bad: list[str] = []
    seen = 0
    with Halves(renders.answers) as halves:
        for part in _parts():
            for answers, problems, lines in halves.answers(part):
                write_bytes(answers)
                bad += [f"line {seen + number}: {sentence}" for number, sentence in problems]
                seen += lines
    for sentence in bad[:_SHOWN]:
        complain(sentence)
    if len(bad) > _SHOWN:
        complain(f"and {len(bad) - _SHOWN} more lines that could not be read")
    return 2 if bad else 0


def _renders(day: datetime.date | None, kind: str, bos: str, eos: str) -> Batch:
    from templatefix.chat.batch import Batch

    if kind == "jinja":
        from templatefix.chat.jinja import JinjaChatTemplate

        return Batch(lambda text: JinjaChatTemplate(text, bos=bos, eos=eos, date=day), ("start", "render"))
    from templatefix.chat.go import GoChatTemplate

    return Batch(lambda text: GoChatTemplate(text, date=day))


def _parts() -> Iterator[bytes]:
    """Standard input in parts of whole lines: each is what there is without waiting, so that no answer waits."""
    stdin = cast(BufferedReader, sys.stdin.buffer)
    rest = b""
    while chunk := stdin.read1(_PART):
        chunks = [rest, chunk]
        size = len(chunk)
        while size < _PART and chunk and _has_more(stdin, len(chunk)):
            chunk = stdin.read1(_PART)
            chunks.append(chunk)
            size += len(chunk)
        lines, end, rest = b"".join(chunks).rpartition(b"\n")
        yield lines + end
    yield rest


def _has_more(stdin: BufferedReader, last: int) -> bool:
    """Whether input, or its end, can be read now; False where nobody can say.

    Who has filled a pipe, by the size of what was read last, has a moment to fill it again.
    """
    if sys.platform == "win32":  # where only sockets can be asked
        return False
    try:
        return bool(select.select([stdin], [], [], _MOMENT if last >= _PIPE else 0)[0])
    except (OSError, ValueError):
        return False


def _render(
    target: str,
    file: str,
    kind: str | None,
    day: datetime.date | None,
    pieces: bool,
    bos: str | None,
    eos: str | None,
) -> int:
    from templatefix.chat.go import GoChatTemplate
    from templatefix.chat.rendering import RenderError
    from templatefix.chat.request import RequestError

    request = _request(file)
    found = resolved(target, kind)
    try:
        template = chat_template_of(found, day, bos, eos)
        if not isinstance(template, GoChatTemplate) and template.refusal is not None:
            raise template.refusal
        rendering = template.render(served(found, template)(request))
    except RenderError as error:
        raise CliError(explained(error, found)) from error
    except RequestError as error:
        raise CliError(f"{file}: {error}") from error
    if pieces:
        from templatefix.report.pieces_text import pieces_text

        say(pieces_text(rendering, found.position))
    else:
        write_bytes(rendering.data)
    return 0


def _request(file: str) -> Request:
    from templatefix.chat.reading import BadRequest, read_json, read_request

    data = read_input(file)
    try:
        return read_request(read_json(data))
    except BadRequest as error:
        raise CliError(f"{file}: {error}") from error
