"""`templatefix unpatch`: takes away a tag that was made here."""

from __future__ import annotations

from typing import Annotated

import typer

from templatefix.cli.output import CliError, complain, confirm, say


def run(
    tag: Annotated[str, typer.Argument(metavar="TAG", help="A tag that was made here.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> int:
    """Take a variant away again; its base stays as it is.

    Exit code 1: the tag was not made here, by what the server tells, and stays.
    """
    from templatefix.cli.variants import mend
    from templatefix.servers.errors import ServerError
    from templatefix.servers.ollama import OllamaClient
    from templatefix.servers.variants import variant_of

    client = OllamaClient()
    try:
        found = variant_of(client, client.show(tag), mend)
        if found is None:
            complain(f"{tag} was not made here: it stays (ollama rm {tag} takes it away)")
            return 1
        confirm(f"Take away {found.name}, the variant of {found.base}?", yes)
        client.delete(found.name)
    except (ServerError, ValueError) as error:
        raise CliError(str(error)) from error
    say(f"{found.name}: taken away; {found.base} is as it was")
    return 0
