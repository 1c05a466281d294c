"""`templatefix patch`: a variant with its proof, as a file or as a tag."""

from __future__ import annotations

import shlex
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from templatefix.cli import family, llama_renders
from templatefix.cli.inputs import all_or, as_file, chat_template_of, codes, known, resolved, rules_of, selected
from templatefix.cli.options import All, Format, Ignore, Kind, Select, SomeTarget
from templatefix.cli.output import CliError, colours, complain, confirm, progress_line, save, say, say_json, write

if TYPE_CHECKING:
    from collections.abc import Collection

    from templatefix.rewrite.candidates import Placement
    from templatefix.rewrite.result import PatchResult
    from templatefix.servers import targets
    from templatefix.servers.tags import TagReport

PLACEMENTS: tuple[Placement, ...] = ("system", "first-user")


def run(
    target: SomeTarget = None,
    every: All = False,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write the variant here (Go: as it came; Jinja: the text); - for stdout.",
        ),
    ] = None,
    tag: Annotated[
        str | None, typer.Option(metavar="NAME", help="The new tag of a model (default: its tag and -prefix-stable).")
    ] = None,
    placement: Annotated[str, typer.Option(metavar="system|first-user", help="Where tools are to stand.")] = "system",
    keep_thinking: Annotated[
        bool,
        typer.Option("--keep-thinking", help="Let a Jinja template keep the thinking that it drops from the history."),
    ] = False,
    gguf: Annotated[
        str | None, typer.Option("--gguf", metavar="OUT", help="Of a GGUF: write a copy with the variant in it.")
    ] = None,
    server_bin: Annotated[
        str | None,
        typer.Option("--server-bin", metavar="PATH", help="A llama-server to prove a Jinja variant with as well."),
    ] = None,
    select: Select = None,
    ignore: Ignore = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the variant, and write nothing.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a tag or copy that exists (asks first).")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    form: Format = "text",
    kind: Kind = None,
) -> int:
    """Make a variant whose prompts only grow, and prove it.

    A file is shown as a diff and written with -o. Of a model a new tag is made on the server, read back and compared.
    Where the Jinja text of the weights is in force, the tag gets a Go template of the same family, which wins over it:
    another template, not a variant, so that prompts without tools may differ too; what goes and comes is listed.
    A Jinja variant is also rendered by llama-server, where the program is on the PATH or named.
    Thinking that a Jinja template drops from the history stays only with --keep-thinking: it changes what a model sees.
    Exit code 0: done, or nothing to do; 1: refused, with the reason; 2: the work could not be done.
    """
    known("--format", form, ("text", "json"))
    where = known("--placement", placement, PLACEMENTS)
    if every and any(given is not None for given in (output, tag, gguf, server_bin)):
        raise CliError("--all makes a tag of every model that needs it; -o, --gguf, --tag and --server-bin are for one")
    chosen, left_out = codes(select), codes(ignore)
    selected(rules_of(None), chosen, left_out)  # a code that no rule has is a slip, not a choice
    wish, where_to = _Wish(where, chosen, left_out, keep_thinking, server_bin), _Outputs(output, tag, gguf)
    if every:
        return _all(wish, dry_run, force, yes, form)
    (name,) = all_or([target] if target else [], False)
    found = resolved(name, kind)
    _usable(found, wish, where_to)
    return _one(found, wish, where_to, dry_run, force, yes, form)


@dataclass(frozen=True, slots=True)
class _Wish:
    """What the command line asks for."""

    placement: Placement
    select: Collection[str]
    ignore: Collection[str]
    keep_thinking: bool
    program: str | None = None  # a llama-server to compare with


@dataclass(frozen=True, slots=True)
class _Outputs:
    """Where the command line wants a variant: a file, a tag, a copy of a GGUF file."""

    output: str | None
    tag: str | None
    gguf: str | None


def _usable(found: targets.Target, wish: _Wish, where: _Outputs) -> None:
    """Raise CliError for an option that a target has no use for."""
    name, replaced = found.name, where.output is None and family.in_force(found) is not None
    if where.tag is not None and found.shown is None:
        raise CliError(f"--tag is for models on a server, and {name} is none")
    if where.tag is not None and where.output is not None and found.jinja is not None:
        raise CliError("-o writes the variant of the Jinja text, --tag names a tag with another template: ask for one")
    if where.gguf is not None and found.kind != "gguf":
        raise CliError(f"--gguf copies a GGUF file, and {name} is none")
    if where.output not in (None, "-"):
        _spared(found, Path(f"{where.output}").expanduser())
    jinja = found.jinja is not None or replaced
    for option, given in (("--server-bin", wish.program is not None), ("--keep-thinking", wish.keep_thinking)):
        if given and not jinja:
            raise CliError(f"{option} is for Jinja templates, and that of {name} is none")
    for option, given in (
        ("--server-bin", wish.program is not None),
        ("--placement first-user", wish.placement == "first-user"),
    ):
        if given and replaced:
            raise CliError(f"{option} is for variants of a Jinja text (-o FILE); {name} gets another template")


def _spared(found: targets.Target, out: Path) -> None:
    """Raise CliError where writing the variant would take weights, or the file that a Jinja text came in."""
    if not out.is_file():
        return
    if found.jinja is not None and found.path is not None and out.samefile(found.path):
        raise CliError(f"{out} is the file itself: -o writes another, so that the original stays")
    with suppress(OSError), out.open("rb") as file:
        if file.read(4) == b"GGUF":
            raise CliError(f"{out} is a GGUF file, and -o writes a template; --gguf OUT writes a copy of a GGUF file")


def _one(found: targets.Target, wish: _Wish, where: _Outputs, dry_run: bool, force: bool, yes: bool, form: str) -> int:
    result = _patched(found, wish, to_file=where.output is not None)
    result, renders = llama_renders.compared(found, result, wish.program)
    code = int(bool(result.refused) and not result.changed)
    if form == "text":
        show(found, result, to_error=where.output == "-")
        if renders is not None:
            write(f"\n{renders.text()}\n", sys.stderr if where.output == "-" else sys.stdout)
    report = None
    if result.changed and not dry_run:
        if where.output is not None:
            save(where.output, _written(found, result))
        if where.gguf is not None:
            _copy(found, result, where.gguf, force, yes, form)
        if found.shown is not None and (where.output is None or (where.tag is not None and found.jinja is None)):
            report, code = _tagged(found, result, where.tag, force, yes)
    _end(found, result, report, form, _command(found, where.output, where.gguf), renders)
    if form == "text" and result.changed and where.output != "-" and report is None and where.gguf is None:
        say(_where(where.output, dry_run, found))
    return code


def _all(wish: _Wish, dry_run: bool, force: bool, yes: bool, form: str) -> int:
    """Every model on the server that needs it, one after another; what fails stops no other."""
    worst, results = 0, []
    for name in all_or((), True):
        try:
            found = resolved(name, "model")
            result = _patched(found, wish, to_file=False)
            code, report = int(bool(result.refused) and not result.changed), None
            if form == "text" and (result.changed or result.refused):
                show(found, result)
            if result.changed and not dry_run:
                report, code = _tagged(found, result, None, force, yes)
        except CliError as error:
            complain(str(error))
            code = 2
        else:
            results.append(_json(found, result, report))
            if form == "text" and report is not None:
                _end(found, result, report, form)
        worst = max(worst, code)
    if form == "json":
        say_json({"version": 1, "results": results})
    elif not any(result["changed"] or result["refused"] for result in results):
        say("no model on the server needs a patch")
    else:
        changed = sum(result["changed"] for result in results)
        refused = sum(bool(result["refused"]) and not result["changed"] for result in results)
        said = f"{len(results)} models: {changed} with a variant, {refused} refused"
        say(f"\n{said}, {len(results) - changed - refused} with nothing to do")
    return worst


def _where(output: str | None, dry_run: bool, found: targets.Target) -> str:
    if output is None or dry_run:
        return "\nnothing was written" + (" (-o FILE writes it)" if found.shown is None else "")
    command = _command(found, output, None)
    return f"\nwritten to {output}" + (f"; in force with\n  {command}" if command else "")


def _command(found: targets.Target, output: str | None, gguf: str | None) -> str | None:
    """The command line that puts a Jinja template in force."""
    if found.jinja is None or (gguf is None and output in (None, "-")):
        return None
    if gguf is not None:
        return shlex.join(["llama-server", "-m", gguf, "--jinja"])
    model = found.name if found.kind == "gguf" else "MODEL.gguf"
    return shlex.join(["llama-server", "-m", model, "--jinja", "--chat-template-file", f"{output}"])


def _copy(found: targets.Target, result: PatchResult, out: str, force: bool, yes: bool, form: str) -> None:
    """Write the copy of a GGUF, and say what was checked."""
    from templatefix.servers.gguf import GgufError
    from templatefix.servers.gguf_copy import copy_with_template

    target = Path(out).expanduser()
    assert found.path is not None
    if target.exists() and force:
        confirm(f"{out} exists already. Replace it?", yes)
    try:
        made = copy_with_template(found.path, target, result.template, force)
    except FileExistsError as error:
        raise CliError(f"{error}; --force replaces it") from error
    except GgufError as error:
        raise CliError(str(error)) from error
    except OSError as error:
        raise CliError(f"{out} cannot be written: {error.strerror or error}") from error
    if form == "text":
        say(
            f"\nwritten to {out}: {made.key} is new, its {made.tensors} tensors are those of {found.name} "
            f"(sha256 {made.sha256[:12]})\n  {_command(found, None, out)}"
        )


def _patched(found: targets.Target, wish: _Wish, *, to_file: bool) -> PatchResult:
    from templatefix.rewrite.patch import patch
    from templatefix.rewrite.result import PatchResult, Refusal

    if not to_file and family.in_force(found) is not None:
        return family.replaced(found, wish.select, wish.ignore, wish.keep_thinking)
    text = found.source.text
    reason = found.not_in_force()
    if reason is not None:
        return PatchResult(text, text, False, refused=(Refusal("TF401", reason),), placement=wish.placement)
    return patch(
        chat_template_of(as_file(found)),
        placement=wish.placement,
        select=wish.select,
        ignore=wish.ignore,
        keep_thinking=wish.keep_thinking,
    )


def show(found: targets.Target, result: PatchResult, to_error: bool = False) -> None:
    """Write the diff and the proof, or why there is none."""
    from templatefix.report.family_text import family_text
    from templatefix.report.patch_text import file_diff, patch_text
    from templatefix.report.style import Style
    from templatefix.rewrite.family import Replacement

    stream = sys.stderr if to_error else sys.stdout
    if isinstance(result, Replacement) and result.changed:
        write(family_text(found.name, result, Style(colours(stream))), stream)
        return
    diff = ""
    if result.changed:
        before, after = _file(found), _written(found, result)
        diff = file_diff(found.path.name if found.path else found.name, before, after)
    write(patch_text(found.name, result, diff, Style(colours(stream))), stream)


def _file(found: targets.Target) -> bytes:
    return found.modelfile.data if found.modelfile is not None else found.source.data


def _written(found: targets.Target, result: PatchResult) -> bytes:
    from templatefix.servers.targets import TargetError

    try:
        return found.written(result.template)
    except TargetError as error:
        raise CliError(str(error)) from error


def _tagged(
    found: targets.Target, result: PatchResult, tag: str | None, force: bool, yes: bool
) -> tuple[TagReport | None, int]:
    """Make the tag; what came of it, and the exit code."""
    from templatefix.servers.errors import ServerError
    from templatefix.servers.tags import TagExists, TagRefused

    try:
        return _make_tag(found, result, tag, force, yes), 0
    except TagExists as error:
        complain(f"{error}; --force replaces it, --tag gives another name")
    except TagRefused as error:
        complain(str(error))
    except ServerError as error:
        raise CliError(str(error)) from error
    return None, 1


def _make_tag(found: targets.Target, result: PatchResult, tag: str | None, force: bool, yes: bool) -> TagReport:
    from templatefix.analysis.loops import core_loops
    from templatefix.servers.names import ModelName
    from templatefix.servers.ollama import OllamaClient
    from templatefix.servers.tags import TagExists, create_variant

    client = OllamaClient()
    name = tag or ModelName.parse(found.name).variant
    requests = core_loops()[0].requests  # a tool loop of two calls

    def make(over: bool) -> TagReport:
        return create_variant(
            client,
            found.name,
            name,
            result.template,
            requests=requests,
            force=over,
            progress=progress_line(),
            over_jinja=family.in_force(found) is not None,
            parser=family.parser_of(result),
        )

    try:
        return make(False)
    except TagExists as error:
        if not force:
            raise
        confirm(f"{error}. Replace it?", yes)
        return make(True)


def _end(
    found: targets.Target,
    result: PatchResult,
    report: TagReport | None,
    form: str,
    command: str | None = None,
    renders: llama_renders.LlamaRenders | None = None,
) -> None:
    if form == "text":
        if report is not None:
            from templatefix.report.tag_text import tag_text

            write("\n" + tag_text(found.name, report))
            if family.in_force(found) is not None:
                from templatefix.report.family_text import next_steps

                write(next_steps(found.name, report.name))
        return
    made = _json(found, result, report)
    if renders is not None:
        made["server_renders"] = renders.to_json()
    say_json(made if command is None or not result.changed else {**made, "command": command})


def _json(found: targets.Target, result: PatchResult, report: TagReport | None) -> dict[str, Any]:
    made = result.to_json(found.name)
    if report is not None:
        made["tag"] = {
            "name": report.name,
            "digest": report.digest,
            "shared_bytes": report.shared_bytes,
            "added_bytes": report.added_bytes,
        }
    return made
