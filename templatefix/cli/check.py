"""`templatefix check`: findings, and a picture of each loop."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from templatefix.cli.inputs import all_or, chat_template_of, codes, known, resolved, rules_of, selected
from templatefix.cli.options import All, Ignore, Kind, Rules, Select, SomeTargets
from templatefix.cli.output import CliError, colours, complain, fault, say_json, write, write_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from templatefix.analysis.analyse import Analysis
    from templatefix.analysis.findings import Severity
    from templatefix.analysis.rule import Rule
    from templatefix.chat.rendering import ChatTemplate
    from templatefix.chat.serving import Serving
    from templatefix.report.checked import Checked
    from templatefix.servers.targets import Target

_FORMATS = ("text", "json", "sarif", "junit", "github")


def run(
    targets: SomeTargets = None,
    every: All = False,
    form: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="text, json, sarif, junit, or github for its Actions.")
    ] = "text",
    fail_on: Annotated[
        str, typer.Option(metavar="error|warning|info", help="The least finding that gives exit code 1.")
    ] = "error",
    select: Select = None,
    ignore: Ignore = None,
    rules: Rules = None,
    kind: Kind = None,
) -> int:
    """Find what makes prompts move, and show it on tool loops.

    Exit code 0: nothing at or above --fail-on; 1: findings; 2: a target could not be checked.
    """
    from templatefix.analysis.analyse import analyse
    from templatefix.report.checked import SEVERITIES

    known("--format", form, _FORMATS)
    severity = known("--fail-on", fail_on, SEVERITIES)
    judges = selected(rules_of(rules), codes(select), codes(ignore))
    results = []
    names = all_or(targets or (), every)
    for number, target in enumerate(names):
        checked = _check(
            target,
            "model" if every else kind,
            lambda template, serving: analyse(template, rules=judges, serving=serving),
        )
        results.append(checked)
        if checked.verdict == "not-evaluated":
            complain(checked.failure or f"{checked.target}: {checked.reason}")
        if form == "text":
            show(checked, first=number == 0)
    _end(results, form, judges, severity)
    if any(checked.verdict == "not-evaluated" for checked in results):
        return 2
    return int(any(checked.at_least(severity) for checked in results))


def _check(target: str, kind: str | None, analysed: Callable[[ChatTemplate, Serving], Analysis]) -> Checked:
    """Check one target; a failure is part of the result, so that it stops no other."""
    try:
        return look(resolved(target, kind), analysed)
    except BrokenPipeError:
        raise
    except Exception as error:
        from templatefix.report.checked import Checked

        said = str(error) if isinstance(error, CliError) else f"{target}: {fault(error)}"
        return Checked(target, failure=said)


def look(found: Target, analysed: Callable[[ChatTemplate, Serving], Analysis]) -> Checked:
    """Check a target that was read."""
    from templatefix.report.checked import Checked

    file = found.source if found.modelfile is None else found.modelfile.source
    text, note = found.source.text, found.not_in_force() or found.hidden_thoughts()
    try:
        template = chat_template_of(found)
    except CliError as error:
        failure = note if found.reason and note else str(error)
        at = getattr(error.__cause__, "span", None)
        return Checked(
            found.name,
            "go" if found.jinja is None else "jinja",
            text=text,
            file=file,
            position=found.position,
            failure=failure,
            note=note,
            path=found.path,
            failed_at=at,
        )
    analysis = analysed(template, _serving(found))
    return Checked(found.name, template.kind, text, file, found.position, analysis, note=note, path=found.path)


def _serving(found: Target) -> Serving:
    """What is known of the target's server."""
    from templatefix.chat.serving import Serving

    if found.jinja is not None:
        return Serving(memory=found.jinja.memory)
    if found.shown is None:
        return Serving(not_in_force=found.not_in_force() or "")
    from templatefix.servers.errors import ServerError
    from templatefix.servers.in_force import serving_of
    from templatefix.servers.ollama import OllamaClient

    try:
        return serving_of(OllamaClient(), found.shown)
    except ServerError:
        return Serving(not_in_force=found.not_in_force() or "")


def show(checked: Checked, first: bool = True) -> None:
    """Write what was found in one target."""
    from templatefix.report.check_text import check_text
    from templatefix.report.style import Style

    write(("" if first else "\n") + check_text(checked, Style(colours())))


def _end(results: Sequence[Checked], form: str, rules: Sequence[Rule], fail_on: Severity) -> None:
    if form == "json":
        from templatefix.report.check_json import check_json

        say_json(check_json(results))
    elif form == "sarif":
        from templatefix import __version__
        from templatefix.report.check_sarif import check_sarif

        say_json(check_sarif(results, rules, _root(), __version__))
    elif form == "junit":
        from templatefix.report.check_junit import check_junit

        write_bytes(check_junit(results, rules, fail_on))
    elif form == "github":
        from templatefix.report.check_github import check_github

        write(check_github(results, _root()))
    elif len(results) > 1:
        from templatefix.report.check_text import check_table
        from templatefix.report.style import Style

        write("\n" + check_table(results, Style(colours())))


def _root() -> Path:
    """The folder that the readers of reports take paths from: on GitHub's runners that of the checkout."""
    return Path(os.environ.get("GITHUB_WORKSPACE") or os.curdir)
