"""`templatefix scenario`: what `ab` can measure."""

from __future__ import annotations

from typing import Annotated

import typer

from templatefix.cli.output import CliError, say


def run(
    action: Annotated[str, typer.Argument(metavar="list|show|check|help", help="What to do.")] = "list",
    name: Annotated[str | None, typer.Argument(metavar="NAME|FILE", help="The scenario to show or check.")] = None,
) -> int:
    """List the scenarios that come with the program, show one, check a file of your own, or say how to write one.

    `show` writes the file of a scenario: a copy of it, changed, is a scenario of your own.
    """
    if action == "list" and name is None:
        say(_listed())
    elif action == "help" and name is None:
        from templatefix.lab import scenario_file

        say((scenario_file.__doc__ or "").strip())
    elif action in ("show", "check") and name is not None:
        say(_shown(name) if action == "show" else _checked(name))
    else:
        raise CliError("it is `scenario list`, `scenario show NAME`, `scenario check FILE` or `scenario help`")
    return 0


def _listed() -> str:
    from templatefix.lab.scenario_file import load, shipped_names

    scenarios = [load(name) for name in shipped_names()]
    width = max(len(scenario.name) for scenario in scenarios)
    rows = [f"{one.name:<{width}}  {len(one.loop().requests):>3} requests  {one.about}" for one in scenarios]
    return "\n".join([*rows, "", "templatefix scenario help: how to write one of your own"])


def _shown(name: str) -> str:
    from templatefix.lab.document import DocumentError
    from templatefix.lab.scenario_file import text_of

    try:
        return text_of(name)
    except (DocumentError, OSError) as error:
        raise CliError(str(error)) from error


def _checked(file: str) -> str:
    from templatefix.lab.document import DocumentError
    from templatefix.lab.scenario_file import load

    try:
        scenario = load(file)
    except DocumentError as error:
        raise CliError(str(error)) from error
    except OSError as error:
        raise CliError(f"{file} cannot be read: {error.strerror or error}") from error
    requests, tools = len(scenario.loop().requests), len(scenario.definitions)
    return f"{file} is a scenario: {requests} request{'s' * (requests != 1)}, {tools} tool{'s' * (tools != 1)}"
