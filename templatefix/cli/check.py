"""`templatefix check`: findings, and a picture of each loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from templatefix.cli.inputs import all_or, codes, known, resolved, rules_of, template_of
from templatefix.cli.options import All, Format, Ignore, Kind, Rules, Select, SomeTargets
from templatefix.cli.output import CliError, colours, complain, say_json, write

if TYPE_CHECKING:
    from collections.abc import Callable

    from templatefix.analysis.analyse import Analysis
    from templatefix.chat.go import GoChatTemplate
    from templatefix.chat.serving import Serving
    from templatefix.report.checked import Checked
    from templatefix.servers.targets import Target

_FORMATS = ("text", "json")


def run(
    targets: SomeTargets = None,
    every: All = False,
    form: Format = "text",
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
    wanted, unwanted, judges = codes(select), codes(ignore), rules_of(rules)
    results = []
    names = all_or(targets or (), every)
    for number, target in enumerate(names):
        checked = _check(
            target,
            "model" if every else kind,
            lambda template, serving: analyse(template, wanted, unwanted, judges, serving),
        )
        results.append(checked)
        if checked.failure is not None:
            complain(checked.failure)
        if form == "text":
            show(checked, first=number == 0)
    _end(results, form)
    return 2 if any(c.failure is not None for c in results) else int(any(c.at_least(severity) for c in results))


def _check(target: str, kind: str | None, analysed: Callable[[GoChatTemplate, Serving], Analysis]) -> Checked:
    """Check one target; a failure is part of the result, so that it stops no other."""
    try:
        found = resolved(target, kind)
    except CliError as error:
        from templatefix.report.checked import Checked

        return Checked(target, failure=str(error))
    return look(found, analysed)


def look(found: Target, analysed: Callable[[GoChatTemplate, Serving], Analysis]) -> Checked:
    """Check a target that was read."""
    from templatefix.report.checked import Checked

    file = found.source if found.modelfile is None else found.modelfile.source
    text, note = found.source.text, found.not_in_force()
    try:
        template = template_of(found)
    except CliError as error:
        return Checked(found.name, text=text, failure=note if found.reason and note else str(error), note=note)
    analysis = analysed(template, _serving(found))
    return Checked(found.name, template.kind, text, file, found.position, analysis, note=note)


def _serving(found: Target) -> Serving:
    """What is known of the target's server."""
    from templatefix.chat.serving import Serving

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


def _end(results: list[Checked], form: str) -> None:
    if form == "json":
        from templatefix.report.check_json import check_json

        say_json(check_json(results))
    elif len(results) > 1:
        from templatefix.report.check_text import check_table
        from templatefix.report.style import Style

        write("\n" + check_table(results, Style(colours())))
