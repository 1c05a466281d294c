"""The engines of `ab` that are servers."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from templatefix.cli.experiment import Experiment, model_of, plain_errors
from templatefix.cli.inputs import program_path
from templatefix.cli.output import CliError, complain, confirm, progress_line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from templatefix.lab.ab import Arm, Progress
    from templatefix.lab.engine import Engine
    from templatefix.lab.figures import AbResult
    from templatefix.servers.logs import LogTail
    from templatefix.servers.ollama import OllamaClient
    from templatefix.servers.shown import Shown
    from templatefix.servers.standin import Standin
    from templatefix.servers.targets import Target

ENGINES = ("auto", "embedded", "ollama", "llama-server", "openai")


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """What a user says about the server to measure on."""

    url: str | None = None
    log: str | None = None  # a file
    context: int | None = None  # tokens
    yes: bool = False
    program: str | None = None  # a llama-server to start
    model: str | None = None  # the GGUF to start it on; None: a stand-in
    wish: Experiment = field(default_factory=Experiment)  # what to measure


def ab_on_ollama(
    first: Target, second: Target | None, template: str, options: ServerOptions, parser: str = ""
) -> AbResult:
    """Both arms on the server of the first; `template` is the other one's, of the first's variant if there is none.

    `parser` is the PARSER that the template needs beside it.
    """
    from templatefix.lab.served import check_prompts, notes_of, served_arm, vocabulary, with_calls_read
    from templatefix.servers.ollama import OllamaClient

    if first.shown is None:
        raise CliError(f"--engine ollama measures models on a server, and {first.name} is none")
    reasons = [one.not_in_force() for one in (first, second) if one is not None and one.shown is not None]
    for reason in filter(None, reasons):
        raise CliError(f"TF401: {reason}")
    show = progress_line()
    with plain_errors(), ExitStack() as stack:
        stack.callback(show, "")
        client = OllamaClient(options.url)
        shown = second.shown if second is not None else None
        _ask(client, [one for one in (first.shown, shown) if one is not None], options.yes)
        if first.shown.renders_jinja or (shown is not None and shown.renders_jinja):
            client.unload(first.name)  # its engine may not read Jinja
        if shown is None:
            shown = stack.enter_context(_tag_of(client, first.shown, template, parser))
        options = _with_what_both_can(options, (first.shown, shown))
        counter = stack.enter_context(vocabulary(client, first.name))
        log = _log(options.log)
        other = second.name if second is not None else f"{first.name}, patched"
        arms = [
            served_arm(client, one, counter, name=name, context=options.context, log=log)
            for one, name in ((first.shown, first.name), (shown, other))
        ]
        # The engine that the first request starts reads Jinja only where it was started for that.
        for one in sorted((first.shown, shown), key=lambda one: not one.renders_jinja):
            check_prompts(client, one, options.wish.loops, show)
        result = _run(arms, options, show)
        for note in notes_of(arms):
            complain(note)
        if options.wish.live is None or not options.wish.live.force:
            return result
        show("binding a call on the server")
        return with_calls_read(client, arms, (first.shown, shown), options.wish.loops, result)


def _with_what_both_can(options: ServerOptions, shown: Sequence[Shown]) -> ServerOptions:
    """Ask for no thinking where a model cannot: the server would refuse the request."""
    mute = next((one.name for one in shown if not one.thinks), None)
    if mute is None or not options.wish.thinks:
        return options
    complain(f"{mute} has no think tags: thinking is not asked for, and past thoughts are sent all the same")
    return replace(options, wish=options.wish.without_thinking())


def ab_on_llama_server(
    arms: Sequence[Arm], options: ServerOptions, first: Target, second: Target | None = None
) -> AbResult:
    """Both templates, rendered here, on a llama-server that is running; its own template has no part in it.

    A target that is a server is measured there, unless the options name one for both.
    With a program it is started twice, once an arm, on a model's file or on the stand-in for both, which has the
    tokenizer and the kind of memory of the first target where these are known.
    """
    from templatefix.servers.llama_server import LlamaServer, LlamaServerEngine

    show = progress_line()
    if options.program is not None or options.model is not None:
        with plain_errors(), ExitStack() as stack:
            stack.callback(show, "")
            server, weights = _program(options), _weights(arms, options, first)
            arms = [replace(arm, engine=_started(arm, server, weights, options, stack, show)) for arm in arms]
            return _run(arms, options, show)
    own = [one.name.partition("?")[0] for one in (first, second or first) if one.kind == "server"]
    usual = options.url or (own[0] if own else _url(options, "http://127.0.0.1:8080"))
    urls = own if options.url is None and len(own) == len(arms) else [usual] * len(arms)
    with plain_errors():
        engines = [LlamaServerEngine(LlamaServer(url)) for url in urls]
        return _run([replace(arm, engine=engine) for arm, engine in zip(arms, engines, strict=True)], options, show)


def _program(options: ServerOptions) -> Path:
    if options.program is None or options.url is not None:
        raise CliError("--server-bin starts a llama-server: --model goes with it, --url does not")
    return program_path(options.program)


def _weights(arms: Sequence[Arm], options: ServerOptions, first: Target) -> Standin:
    """The user's model, or a stand-in with the tokenizer and the kind of memory asked for."""
    from templatefix.lab.embedded import standin_for
    from templatefix.servers.gguf import read_metadata
    from templatefix.servers.memory import attention_of
    from templatefix.servers.standin import Standin

    if options.wish.weights is not None:
        raise CliError("--weights is for the embedded engine; --model FILE is what --server-bin is started on")
    if options.model is None:
        donor, attention = model_of(first)
        return standin_for(arms, options.wish.loops, donor, attention=options.wish.attention or attention or "full")
    if options.wish.attention is not None:
        raise CliError("--attention is for the stand-in model; that of --model has a memory of its own")
    model = Path(options.model).expanduser()
    if not model.is_file():
        raise CliError(f"there is no file {options.model}")
    kind = attention_of(read_metadata(model, lambda key: not key.startswith("tokenizer.")))
    return Standin(model, model.name, kind or "full")


def _started(
    arm: Arm, program: Path, weights: Standin, options: ServerOptions, stack: ExitStack, show: Callable[[str], None]
) -> Engine:
    from templatefix.servers.llama_server import LlamaServerEngine
    from templatefix.servers.llama_start import started

    folder = Path(stack.enter_context(TemporaryDirectory(prefix="templatefix-")))
    checkpoints = options.wish.checkpoints
    words = ["-c", str(options.context)] if options.context is not None else []
    words += ["--ctx-checkpoints", str(checkpoints)] if checkpoints is not None else []
    if arm.template.kind == "jinja":
        (folder / "template.jinja").write_bytes(arm.template.source.data)
        words += ["--jinja", "--chat-template-file", str(folder / "template.jinja")]
    show(f"starting {program.name} for {arm.name}")
    server = stack.enter_context(started(program, weights.path, folder, words))
    return LlamaServerEngine(server, weights, checkpoints)


def ab_on_openai(first: str, second: str | None, options: ServerOptions) -> AbResult:
    """One model or two behind an OpenAI-shaped API, with the templates that the server has for them."""
    from templatefix.lab.messages import run_messages
    from templatefix.servers.openai_api import OpenAiServer

    if options.wish.live is not None:
        raise CliError("--live is for engines that are given prompts: embedded, ollama and llama-server")
    show = progress_line()
    with plain_errors():
        server = OpenAiServer(_url(options, "http://127.0.0.1:8000"), key=os.environ.get("OPENAI_API_KEY"))
        models = [first] if second is None else [first, second]
        result = run_messages(server, models, options.wish.loops, lambda at: show(f"{at.done}/{at.total} {at.label}"))
        show("")
        return result


def _url(options: ServerOptions, usual: str) -> str:
    if options.url is None:
        raise CliError(f"--engine needs the address of the server: --url {usual}")
    return options.url


def _run(arms: Sequence[Arm], options: ServerOptions, show: Callable[[str], None]) -> AbResult:
    from templatefix.lab.ab import run_ab
    from templatefix.lab.live import run_live
    from templatefix.lab.served import served_chats

    engine, wish = arms[0].engine, options.wish
    assert engine is not None

    def progress(at: Progress) -> None:
        show(f"{at.done}/{at.total} {at.label}")

    if wish.live is None:
        result = run_ab(engine, arms, wish.loops, progress, wish.repeats)
    else:
        result = run_live(engine, served_chats, arms, wish.scenarios, wish.live, wish.repeats, progress)
    show("")
    return result


def _ask(client: OllamaClient, shown: Sequence[Shown], yes: bool) -> None:
    from templatefix.servers.temporary import in_memory

    used = in_memory(client, *shown)
    if used:
        words = "is" if len(used) == 1 else "are"
        confirm(
            f"{', '.join(used)} {words} in the server's memory, perhaps for others; measuring unloads it. Go on?", yes
        )


def _tag_of(client: OllamaClient, first: Shown, template: str, parser: str) -> AbstractContextManager[Shown]:
    """A template that is no model becomes a tag for as long as it takes."""
    from templatefix.servers.temporary import temporary_tag

    return temporary_tag(client, first.name, template, parser=parser)


def _log(file: str | None) -> LogTail | None:
    if file is None:
        return None
    from templatefix.servers.logs import LogTail

    try:
        return LogTail(Path(file).expanduser())
    except OSError as error:
        raise CliError(f"the log {file} cannot be read: {error.strerror or error}") from error
