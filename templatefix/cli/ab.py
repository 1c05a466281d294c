"""`templatefix ab`: two templates through the same tool loop on one engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

import typer

from templatefix.cli import engines
from templatefix.cli.engines import ENGINES, ServerOptions
from templatefix.cli.experiment import Experiment, experiment, on_embedded, replayed
from templatefix.cli.inputs import as_file, chat_template_of, known, resolved, served
from templatefix.cli.options import Kind
from templatefix.cli.output import CliError, complain, save, write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from templatefix.chat.go import GoChatTemplate
    from templatefix.chat.jinja import JinjaChatTemplate
    from templatefix.lab.ab import Arm
    from templatefix.lab.calls import Tags
    from templatefix.lab.figures import AbResult
    from templatefix.rewrite.result import PatchResult
    from templatefix.servers import targets


def run(
    a: Annotated[str, typer.Argument(metavar="A", help="A model, a file, or - for standard input.")],
    b: Annotated[str | None, typer.Argument(metavar="B", help="What to compare with (default: A's variant).")] = None,
    engine: Annotated[
        str, typer.Option(metavar="auto|embedded|ollama|llama-server|openai", help="What to measure on.")
    ] = "auto",
    scenario: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME|FILE|all", help="What to measure (default: seed-loop); see: templatefix scenario."),
    ] = None,
    from_trace: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Send a recorded session again; see: templatefix trace record."),
    ] = None,
    size: Annotated[
        int | None,
        typer.Option(metavar="TOKENS", min=200, max=1_000_000, help="Tools and system text of about this size."),
    ] = None,
    repeat: Annotated[int, typer.Option(metavar="N", min=1, max=1000, help="Measure so many times.")] = 1,
    attention: Annotated[
        str | None, typer.Option(metavar="full|swa|recurrent", help="The kind of memory of the stand-in model.")
    ] = None,
    checkpoints: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            max=1_000_000,
            help="States of a window or recurrent memory to go back to (default: the engine's).",
        ),
    ] = None,
    weights: Annotated[
        str | None, typer.Option(metavar="FILE", help="A GGUF file to run in place of the stand-in (embedded engine).")
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="Let the model answer, and judge that.")] = False,
    force_calls: Annotated[
        bool, typer.Option("--force-calls", help="A live run with the script's replies, on any weights.")
    ] = False,
    temperature: Annotated[float, typer.Option(min=0.0, max=5.0, help="Of a live run.")] = 0.7,
    seed: Annotated[int, typer.Option(min=0, help="Of a live run's first repeat.")] = 1,
    keep_thinking: Annotated[
        bool, typer.Option("--keep-thinking", help="Without B: A's variant keeps its thinking, as of patch.")
    ] = False,
    prefill_rate: Annotated[
        float | None, typer.Option(metavar="TOKENS", min=0.1, help="What your model reads in a second.")
    ] = None,
    url: Annotated[str | None, typer.Option(metavar="URL", help="Where a server is that is no Ollama.")] = None,
    server_bin: Annotated[
        str | None, typer.Option("--server-bin", metavar="PATH", help="A llama-server to start, once for each arm.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="FILE", help="The GGUF file to start it on (default: a stand-in model)."),
    ] = None,
    log: Annotated[str | None, typer.Option(metavar="FILE", help="The server's log, for its cache figures.")] = None,
    context: Annotated[
        int | None, typer.Option(metavar="TOKENS", min=1, help="A context other than the model's own (Ollama).")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    output: Annotated[str | None, typer.Option("--output", "-o", metavar="FILE", help="Write the result here.")] = None,
    form: Annotated[str, typer.Option("--format", metavar="text|json|html", help="How to write the result.")] = "text",
    kind: Kind = None,
) -> int:
    """Measure how much of each prompt comes from the cache, with A's template and with B's.

    The replies are scripted, so that only the cache is measured, or with --live the model's own. `auto` is the Ollama
    server where A is a model on it, llama-server with --server-bin, else the embedded engine, with the tokenizer of A
    where A is a model or a GGUF file.
    Exit code 0: B is better or the same; 1: it is worse, or the run is not valid; 2: the work could not be done.
    """
    known("--format", form, ("text", "json", "html"))
    where = known("--engine", engine, ENGINES)
    if a == b == "-":
        raise CliError("A and B cannot both come from standard input")
    wish = experiment(scenario, size, repeat, attention, checkpoints, weights, live, force_calls, temperature, seed)
    if from_trace:
        if scenario or size or wish.live is not None:
            raise CliError("--from-trace sends what was recorded: no --scenario, --size or live run goes with it")
        wish = replayed(wish, from_trace)
    if server_bin and where == "auto":
        where = "llama-server"
    if (server_bin or model) and where != "llama-server":
        raise CliError("--server-bin and --model belong to --engine llama-server")
    options = ServerOptions(url, log, context, yes, server_bin, model, wish)
    if where == "openai":
        _for_running(wish)
        compared: tuple[AbResult, Sequence[str]] = engines.ab_on_openai(a, b, options), ()
    else:
        second = None if b is None else resolved(b, kind)
        compared = _compared(resolved(a, kind), second, where, options, wish, keep_thinking)
    result, templates = compared
    text = _text(result, form, templates, prefill_rate)
    if output is None:
        write(text)
    else:
        save(output, text.encode("utf-8", "replace"))
    if result.interrupted:
        raise KeyboardInterrupt
    return int(not result.valid or result.verdict == "worse")


def _compared(
    first: targets.Target,
    second: targets.Target | None,
    where: str,
    options: ServerOptions,
    wish: Experiment,
    keep_thinking: bool,
) -> tuple[AbResult, Sequence[str]]:
    """Two templates on an Ollama server, on a llama-server, or on the embedded engine; with the templates' texts."""
    if where == "auto":
        where = "embedded" if first.shown is None or wish.own_engine else "ollama"
    arm = _arm(first)
    if where == "ollama" and arm.template.kind == "jinja" and first.shown is not None:
        _for_running(wish)
        return _with_its_family(first, second, arm, options, keep_thinking)
    if where != "ollama":
        arm = _arm(as_file(first))
        second = None if second is None else as_file(second)
    other = _variant(first, arm, keep_thinking) if second is None else _arm(second)
    templates = (arm.template.source.text, other.template.source.text)
    if where == "embedded":
        if first.kind == "server":
            complain("measured on the embedded engine; on that server: --engine llama-server")
        return on_embedded([arm, other], wish, first), templates
    if where == "llama-server" and options.program is not None:
        return engines.ab_on_llama_server([arm, other], options, first), templates
    _for_running(wish)
    if where == "ollama":
        _for_ollama(first, second)
        return engines.ab_on_ollama(first, second, other.template.source.text, options), templates
    return engines.ab_on_llama_server([arm, other], options, first, second), templates


def _with_its_family(
    first: targets.Target, second: targets.Target | None, arm: Arm, options: ServerOptions, keep_thinking: bool
) -> tuple[AbResult, Sequence[str]]:
    """A model whose Jinja text is in force on its Ollama server, beside another one or a Go template of its family."""
    from templatefix.cli import family

    text = arm.template.source.text
    if second is not None:
        _for_ollama(first, second)
        other = second.source.text
        return engines.ab_on_ollama(first, second, other, options), (text, other)
    result = family.replaced(first, (), (), keep_thinking)
    if not result.changed:
        raise CliError(_no_variant(first, result))
    made = engines.ab_on_ollama(first, None, result.template, options, parser=family.parser_of(result))
    return made, (text, result.template)


def _for_ollama(*compared: targets.Target | None) -> None:
    if any(one is not None and one.jinja is not None and one.shown is None for one in compared):
        raise CliError("Ollama takes no Jinja template from a client: --engine embedded or llama-server")


def _for_running(wish: Experiment) -> None:
    if wish.own_engine:
        raise CliError(f"{wish.own_engine} is for an engine started for this run: --engine embedded, or --server-bin")


def _arm(target: targets.Target) -> Arm:
    from templatefix.lab.ab import Arm

    template = chat_template_of(target)
    return Arm(target.name, template, served(target, template), tags=_tags(template))


def _tags(template: GoChatTemplate | JinjaChatTemplate) -> Tags:
    from templatefix.lab.calls import Tags

    if template.kind == "go":
        return Tags.of(cast("GoChatTemplate", template).derived)
    return Tags.of_jinja(template.source.text)


def _variant(target: targets.Target, arm: Arm, keep_thinking: bool) -> Arm:
    from templatefix.chat.go import GoChatTemplate
    from templatefix.lab.ab import Arm
    from templatefix.rewrite.patch import patch

    result = patch(arm.template, keep_thinking=keep_thinking)
    if not result.changed:
        raise CliError(_no_variant(target, result))
    template: GoChatTemplate | JinjaChatTemplate
    if arm.template.kind == "go":
        template = GoChatTemplate(result.template)
    else:
        template = cast("JinjaChatTemplate", arm.template).with_text(result.template)
    return Arm(f"{target.name}, patched", template, arm.served, tags=_tags(template))


def _no_variant(target: targets.Target, result: PatchResult) -> str:
    why = "; ".join(f"{refusal.code} {refusal.reason}".strip() for refusal in result.refused)
    return f"{target.name} has no variant to compare with: {why or 'it is stable as it is'}"


def _text(result: AbResult, form: str, templates: Sequence[str], rate: float | None) -> str:
    if form == "json":
        import json

        from templatefix.lab.figures import to_json

        return json.dumps(to_json(result), indent=2) + "\n"
    if form == "html":
        from templatefix.report.ab_html import ab_html

        return ab_html(result, templates, rate)
    from templatefix.report.ab_text import ab_text

    return ab_text(result, rate)
