"""`templatefix publish`: a tag pushed to a registry, and read back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from templatefix.cli.output import CliError, complain, confirm, progress_line, say

if TYPE_CHECKING:
    from collections.abc import Callable


def run(
    tag: Annotated[str, typer.Argument(metavar="TAG", help="A tag on the server.")],
    dest: Annotated[str, typer.Argument(metavar="DEST", help="Its name in the registry: [HOST/]namespace/model:tag.")],
    insecure: Annotated[bool, typer.Option("--insecure", help="The registry has no TLS.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> int:
    """Push a tag to a registry, and compare what arrived, layer by layer.

    The server pushes, with its own key; that key has to be known to the registry.
    """
    from templatefix.servers.errors import ServerError
    from templatefix.servers.ollama import OllamaClient
    from templatefix.servers.publishing import NotPublished, destination, key_of, publish

    try:
        name = destination(dest)
        client = OllamaClient()
        reason = client.show(tag).not_in_force()
        if reason is not None:
            complain(f"TF401: {reason}")
        say(f"{client.url} pushes {tag} to {name.host} as {name.shortest}, with {key_of(client)}")
        confirm(f"Publish {tag} as {name.shortest}?", yes)
        done = publish(client, tag, name, insecure=insecure, progress=_bar())
    except (NotPublished, ServerError, ValueError) as error:
        raise CliError(str(error)) from error
    from templatefix.report.tag_text import size

    how = "compared one by one" if done.compared else "compared by size"
    say(f"{done.name}: published, {done.layers} layers of {size(done.size)}, {how}, digest sha256:{done.digest[:12]}")
    return 0


def _bar() -> Callable[[str, int, int], None]:
    show = progress_line()

    def progress(status: str, done: int, total: int) -> None:
        if status == "success":
            show("")
        elif total:
            filled = 20 * done // total
            show(f"{status} [{'#' * filled}{'.' * (20 - filled)}] {100 * done // total} %")
        else:
            show(status)

    return progress
