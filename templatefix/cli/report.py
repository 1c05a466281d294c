"""`templatefix report`: an issue for the maintainers of a template, as Markdown."""

from __future__ import annotations

import json
import platform
from typing import TYPE_CHECKING, Annotated, Any

import typer

from templatefix import __version__
from templatefix.cli.examined import (
    REGISTRY,
    Examined,
    LockFile,
    Source,
    StoreFolder,
    place_of,
    read_at,
    read_lock_file,
    side_of,
)
from templatefix.cli.inputs import known, read_input, resolved
from templatefix.cli.options import Kind
from templatefix.cli.output import CliError, complain, save

if TYPE_CHECKING:
    from templatefix.chat.rendering import ChatTemplate
    from templatefix.report.upstream import Subject, Variant
    from templatefix.report.upstream_requests import Repo
    from templatefix.servers import targets

REPRODUCTION = "prefix-repro"  # the tag that a report tells its reader to make of a file


def run(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="A model, a file, or - for standard input.")],
    repo: Annotated[
        str | None,
        typer.Option(
            metavar="ollama|llama.cpp|huggingface",
            help="Whose maintainers are to read it (default: ollama; of a Jinja template that is no model llama.cpp).",
        ),
    ] = None,
    ab: Annotated[
        str | None, typer.Option("--ab", metavar="FILE", help="A result of ab --format json to put in.")
    ] = None,
    regression: Annotated[
        bool, typer.Option("--regression", help="Report what watch found worse than in the lock file.")
    ] = False,
    lock: LockFile = "templatefix.lock",
    source: Source = "locked",
    store: StoreFolder = None,
    include_prompts: Annotated[
        bool, typer.Option("--include-prompts", help="Show the tag's own SYSTEM and MESSAGE texts too.")
    ] = False,
    template: Annotated[
        str | None, typer.Option(metavar="FILE", help="A Jinja template of your own for the report.")
    ] = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Write the report here; - for stdout.")
    ] = None,
    kind: Kind = None,
) -> int:
    """Write an issue that maintainers can act on: what happens, where, two requests that show it, and a diff.

    Nothing is sent anywhere. The prompts in it are made of words of templatefix's own; the template itself is quoted.
    Exit code 0: written, or nothing to report; 2: the work could not be done.
    """
    from templatefix.report.upstream_requests import REPOS

    to = None if repo is None else known("--repo", repo, REPOS)
    measured = None if ab is None else _measured(ab)
    if regression:
        made = _regression(target, lock, place_of(source, store), store, to)
    else:
        found = read_at(target, None, "store", store) if store else resolved(target, kind)
        made = _upstream(found, "store" if store else "locked", to, measured, include_prompts)
    if made is None:
        return 0
    values, name = made
    save(output or "-", _filled(template, name, values).encode("utf-8", "replace"))
    return 0


def _upstream(
    found: targets.Target, place: str, repo: Repo | None, ab: dict[str, Any] | None, include: bool
) -> tuple[dict[str, Any], str] | None:
    from templatefix.report.upstream import TEMPLATE, upstream_values

    examined = _evaluated(found, place)
    to = repo or _readers(examined)
    if to == "llama.cpp" and examined.checked.kind == "go":
        raise CliError(f"{found.name} is a Go template, which llama.cpp does not read; --repo ollama or huggingface")
    if not examined.checked.findings:
        complain(f"{found.name}: {examined.checked.verdict}, there is nothing to report")
        return None
    subject = _subject(found, examined, include)
    try:
        return upstream_values(subject, variant_of(examined), to, ab), TEMPLATE
    except ValueError as error:
        raise CliError(str(error)) from error


def _regression(
    target: str, lock: str, place: str, store: str | None, repo: Repo | None
) -> tuple[dict[str, Any], str] | None:
    from templatefix.analysis.comparison import compare
    from templatefix.report.regression import TEMPLATE, regression_values

    held, _ = read_lock_file(lock)
    if target not in held:
        raise CliError(f"{lock} has no {target}; lock it first: templatefix lock {target}")
    then = held[target]
    examined = _evaluated(read_at(target, then, place, store), then.source if place == "locked" else place)
    before = side_of(then, examined.template)
    found = compare(before, examined.side)
    if found.outcome != "worse":
        complain(f"{target}: {found.outcome}, there is nothing to report")
        return None
    subject = _subject(examined.found, examined, False)
    to = repo or _readers(examined)
    return regression_values(subject, then, examined.entry, before, found, variant_of(examined), to), TEMPLATE


def _readers(examined: Examined) -> Repo:
    """Whose maintainers a report is for where nobody says."""
    return "llama.cpp" if examined.checked.kind == "jinja" and examined.found.shown is None else "ollama"


def _evaluated(found: targets.Target, place: str) -> Examined:
    examined = Examined(found, place)
    if examined.template is None or examined.checked.verdict == "not-evaluated":
        raise CliError(examined.checked.failure or f"{found.name}: {examined.checked.reason}")
    return examined


def _subject(found: targets.Target, examined: Examined, include: bool) -> Subject:
    from templatefix.report.upstream import Subject

    assert examined.template is not None
    name = found.path.name if found.path is not None else found.name
    facts = [("file" if found.path is not None else "model", name)]
    entry = examined.entry
    facts += [("template", entry.template)]
    facts += [("manifest", entry.manifest)] if entry.manifest else []
    facts += [("not in force", entry.not_in_force)] if entry.not_in_force else []
    facts += [("Ollama", entry.server)] if entry.server else []
    facts += [("system", f"{platform.system()} {platform.machine()}")] if found.shown is not None else []
    facts += [("checked by", f"templatefix {__version__}, {entry.locked}")]
    model = REPRODUCTION if found.shown is None and found.packed is None else name.removeprefix(REGISTRY)
    return Subject(name, model, examined.checked, examined.template, tuple(facts), _private(found) if include else ())


def _private(found: targets.Target) -> tuple[tuple[str, str], ...]:
    """The texts that a tag or Modelfile carries beside its template."""
    if found.shown is not None:
        texts = [("SYSTEM", found.shown.system)]
        texts += [(f"MESSAGE {one.get('role')}", str(one.get("content") or "")) for one in found.shown.messages]
    elif found.modelfile is not None:
        parts = [one for one in found.modelfile.instructions if one.name in ("system", "message")]
        texts = [(f"{one.name.upper()} {one.key}".strip(), one.value) for one in parts]
    else:
        texts = []
    return tuple((label, text) for label, text in texts if text)


def variant_of(examined: Examined) -> Variant:
    """What patch makes of a template, or why it makes nothing."""
    from templatefix.analysis.analyse import analyse
    from templatefix.report.upstream import Variant
    from templatefix.rewrite.patch import patch

    reason = examined.found.not_in_force()
    if reason is not None:
        return Variant(None, None, None, (f"TF401: {reason}",))
    template = examined.template
    assert template is not None
    result = patch(template)
    if not result.changed and template.kind == "jinja":
        # What keeps the thinking has to be asked for on the command line; maintainers may want to see it.
        keeping = patch(template, keep_thinking=True)
        result = keeping if keeping.changed else result
    refused = tuple(f"{one.code}: {one.reason}".removeprefix(": ") for one in result.refused)
    if not result.changed:
        return Variant(None, None, result, refused)
    changed = _with_text(template, result.template)
    return Variant(changed, analyse(changed), result, refused)


def _with_text(template: ChatTemplate, text: str) -> ChatTemplate:
    """Another text in the place of a template."""
    if template.kind == "go":
        from templatefix.chat.go import GoChatTemplate

        return GoChatTemplate(text)
    from templatefix.chat.jinja import JinjaChatTemplate

    assert isinstance(template, JinjaChatTemplate)
    return template.with_text(text)


def _measured(file: str) -> dict[str, Any]:
    from templatefix.report.upstream import ab_values

    try:
        value = json.loads(read_input(file))
        ab_values(value)
    except ValueError as error:
        reason = "it is no JSON" if isinstance(error, (json.JSONDecodeError, UnicodeDecodeError)) else str(error)
        raise CliError(f"{file}: {reason}") from error
    return dict(value)


def _filled(template: str | None, name: str, values: dict[str, Any]) -> str:
    from templatefix.report.markdown import ReportTemplateError, render_report, shipped

    try:
        text = shipped(name) if template is None else read_input(template).decode("utf-8")
        return render_report(text, template or name, values)
    except ReportTemplateError as error:
        raise CliError(str(error)) from error
    except UnicodeDecodeError as error:
        raise CliError(f"{template} is no UTF-8 text") from error
