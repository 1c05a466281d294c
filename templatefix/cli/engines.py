"""The engines of `ab` that are servers."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from templatefix.cli.output import CliError, confirm, progress_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from templatefix.analysis.loops import Loop
    from templatefix.lab.ab import Arm
    from templatefix.lab.figures import AbResult
    from templatefix.servers.logs import LogTail
    from templatefix.servers.ollama import OllamaClient
    from templatefix.servers.shown import Shown
    from templatefix.servers.targets import Target


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """What a user says about the server to measure on."""

    url: str | None = None
    log: str | None = None  # a file
    context: int | None = None  # tokens
    yes: bool = False
    repeats: int = 1


def is_for_server(targets: Sequence[Target | None]) -> bool:
    """Whether `auto` means the server: the first target is a model on it, and every other one can become a tag."""
    return targets[0] is not None and targets[0].shown is not None


def ab_on_ollama(
    first: Target, second: Target | None, patched: str | None, loops: Sequence[Loop], options: ServerOptions
) -> AbResult:
    """Both arms on the server of the first; `patched` is the template of its variant where there is no second one."""
    from templatefix.chat.rendering import RenderError
    from templatefix.lab.ab import run_ab
    from templatefix.lab.served import check_prompts, vocabulary
    from templatefix.servers.errors import ServerError
    from templatefix.servers.ollama import OllamaClient
    from templatefix.servers.tags import TagExists, TagRefused
    from templatefix.servers.tokenizer import TokenizerError

    if first.shown is None:
        raise CliError(f"--engine ollama measures models on a server, and {first.name} is none")
    show = progress_line()
    try:
        client = OllamaClient(options.url)
        _ask(client, [found.shown for found in (first, second) if found is not None and found.shown], options.yes)
        with ExitStack() as stack:
            counter = stack.enter_context(vocabulary(client, first.name))
            shown = _shown(client, stack, first.shown, second, patched)
            names = (first.name, second.name if second is not None else f"{first.name}, patched")
            log = _log(options.log)
            arms = [_arm(client, one, name, counter, options, log) for one, name in zip(shown, names, strict=True)]
            for one in shown:
                check_prompts(client, one, loops, show)
            engine = arms[0].engine
            assert engine is not None
            return run_ab(engine, arms, loops, lambda at: show(f"{at.done}/{at.total} {at.label}"), options.repeats)
    except (TagExists, TagRefused, ServerError, TokenizerError, RenderError) as error:
        raise CliError(str(error)) from error
    finally:
        show("")


def _ask(client: OllamaClient, shown: Sequence[Shown], yes: bool) -> None:
    from templatefix.servers.temporary import in_memory

    used = in_memory(client, *shown)
    if used:
        words = "is" if len(used) == 1 else "are"
        confirm(
            f"{', '.join(used)} {words} in the server's memory, perhaps for others; measuring unloads it. Go on?", yes
        )


def _shown(
    client: OllamaClient, stack: ExitStack, first: Shown, second: Target | None, patched: str | None
) -> tuple[Shown, Shown]:
    """Both models as the server shows them; a template that is no model becomes a tag for as long as it takes."""
    from templatefix.servers.temporary import temporary_tag

    if second is not None and second.shown is not None:
        return first, second.shown
    template = second.source.text if second is not None else patched
    assert template is not None
    return first, stack.enter_context(temporary_tag(client, first.name, template))


def _arm(
    client: OllamaClient, shown: Shown, name: str, counter: object, options: ServerOptions, log: LogTail | None
) -> Arm:
    from templatefix.lab.served import served_arm
    from templatefix.servers.tokens import TokenCounter

    assert isinstance(counter, TokenCounter)
    return served_arm(client, shown, counter, name=name, context=options.context, log=log)


def _log(file: str | None) -> LogTail | None:
    if file is None:
        return None
    from templatefix.servers.logs import LogTail

    try:
        return LogTail(Path(file).expanduser())
    except OSError as error:
        raise CliError(f"the log {file} cannot be read: {error.strerror or error}") from error
