"""`templatefix ab`: two templates through the same tool loop on one engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from templatefix.cli import engines
from templatefix.cli.engines import ENGINES, ServerOptions
from templatefix.cli.inputs import known, resolved, served, template_of
from templatefix.cli.options import Format, Kind
from templatefix.cli.output import CliError, progress_line, save, write

if TYPE_CHECKING:
    from templatefix.lab.ab import Arm
    from templatefix.lab.figures import AbResult
    from templatefix.servers import targets
    from templatefix.servers.tokenizer import Donor


def run(
    a: Annotated[str, typer.Argument(metavar="A", help="A model, a file, or - for standard input.")],
    b: Annotated[str | None, typer.Argument(metavar="B", help="What to compare with (default: A's variant).")] = None,
    engine: Annotated[
        str, typer.Option(metavar="auto|embedded|ollama|llama-server|openai", help="What to measure on.")
    ] = "auto",
    url: Annotated[str | None, typer.Option(metavar="URL", help="Where a server is that is no Ollama.")] = None,
    log: Annotated[str | None, typer.Option(metavar="FILE", help="The server's log, for its cache figures.")] = None,
    context: Annotated[
        int | None, typer.Option(metavar="TOKENS", min=1, help="A context other than the model's own (Ollama).")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    output: Annotated[str | None, typer.Option("--output", "-o", metavar="FILE", help="Write the result here.")] = None,
    form: Format = "text",
    kind: Kind = None,
) -> int:
    """Measure how much of each prompt comes from the cache, with A's template and with B's.

    The replies are scripted, so that only the cache is measured. `auto` is the Ollama server where A is a model on it,
    else the embedded engine, with the tokenizer of A where A is a model.
    Exit code 0: B is better or the same; 1: it is worse, or the run is not valid; 2: the work could not be done.
    """
    known("--format", form, ("text", "json"))
    where = known("--engine", engine, ENGINES)
    if a == b == "-":
        raise CliError("A and B cannot both come from standard input")
    options = ServerOptions(url, log, context, yes)
    if where == "openai":
        result = engines.ab_on_openai(a, b, options)
    else:
        result = _compared(resolved(a, kind), None if b is None else resolved(b, kind), where, options)
    text = _text(result, form)
    if output is None:
        write(text)
    else:
        save(output, text.encode("utf-8", "replace"))
    return int(not result.valid or result.verdict == "worse")


def _compared(first: targets.Target, second: targets.Target | None, where: str, options: ServerOptions) -> AbResult:
    """Two templates on an Ollama server, on a llama-server, or on the embedded engine."""
    if where == "auto":
        where = "embedded" if first.shown is None else "ollama"
    arm = _arm(first)
    other = _variant(first, arm) if second is None else _arm(second)
    if where == "ollama":
        return engines.ab_on_ollama(first, second, other.template.source.text, options)
    if where == "llama-server":
        return engines.ab_on_llama_server([arm, other], options)
    return measured([arm, other], _donor(first))


def measured(arms: list[Arm], donor: Donor | None = None) -> AbResult:
    """Both arms on the embedded engine; raises CliError where it cannot run."""
    from templatefix.lab.ab import run_ab
    from templatefix.lab.embedded import embedded_engine
    from templatefix.lab.scenario_file import seed_loop
    from templatefix.servers.embedded import EngineError
    from templatefix.servers.tokenizer import TokenizerError

    loops = [seed_loop().loop()]
    show = progress_line()
    try:
        engine = embedded_engine(arms, loops, donor)
        result = run_ab(engine, arms, loops, lambda at: show(f"{at.done}/{at.total} {at.label}"))
    except (EngineError, TokenizerError) as error:
        raise CliError(_clause(str(error))) from error
    except OSError as error:
        raise CliError(f"the stand-in model cannot be kept: {error}") from error
    show("")
    return result


def _clause(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:].rstrip(".")


def _arm(target: targets.Target) -> Arm:
    from templatefix.lab.ab import Arm

    template = template_of(target)
    return Arm(target.name, template, served(target, template))


def _variant(target: targets.Target, arm: Arm) -> Arm:
    from templatefix.chat.go import GoChatTemplate
    from templatefix.lab.ab import Arm
    from templatefix.rewrite.patch import patch

    result = patch(arm.template)
    if not result.changed:
        why = "; ".join(f"{refusal.code} {refusal.reason}".strip() for refusal in result.refused)
        raise CliError(f"{target.name} has no variant to compare with: {why or 'it is stable as it is'}")
    return Arm(f"{target.name}, patched", GoChatTemplate(result.template), arm.served)


def _donor(target: targets.Target) -> Donor | None:
    """The tokenizer of a model on the server, where it tells; of anything else None."""
    if target.shown is None:
        return None
    from templatefix.servers.errors import ServerError
    from templatefix.servers.ollama import OllamaClient
    from templatefix.servers.tokenizer import from_show

    try:
        info = OllamaClient().show(target.name, verbose=True).model_info
    except ServerError as error:
        raise CliError(str(error)) from error
    if not info.get("tokenizer.ggml.tokens"):
        return None
    return from_show({"model_info": info}, target.name)


def _text(result: AbResult, form: str) -> str:
    if form == "json":
        import json

        from templatefix.lab.figures import to_json

        return json.dumps(to_json(result), indent=2) + "\n"
    from templatefix.report.ab_text import ab_text

    return ab_text(result)
