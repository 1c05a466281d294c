"""Arms that are models of an Ollama server: their templates as the server has them, each with an engine of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from templatefix.analysis.loops import Loop
from templatefix.chat.go import GoChatTemplate
from templatefix.lab.ab import Arm
from templatefix.servers.errors import NotMeasurable, ServerError
from templatefix.servers.logs import LogTail
from templatefix.servers.ollama import OllamaClient
from templatefix.servers.ollama_engine import OllamaEngine
from templatefix.servers.served import as_served
from templatefix.servers.shown import Shown
from templatefix.servers.standin import Standin, make_standin
from templatefix.servers.tokenizer import from_show
from templatefix.servers.tokens import TokenCounter
from templatefix.servers.verified import Refusal, check_renders


def served_arm(
    client: OllamaClient,
    shown: Shown,
    counter: TokenCounter,
    *,
    name: str = "",
    context: int | None = None,
    log: LogTail | None = None,
) -> Arm:
    """A model of a server as an arm; `name` is what people call it. Raises RenderError for a template of no use."""
    engine = OllamaEngine(client, shown, counter, context=context, log=log)
    template = GoChatTemplate(shown.template)
    return Arm(name or shown.name, template, lambda request: as_served(request, shown), engine=engine)


def vocabulary(client: OllamaClient, model: str, folder: Path | None = None) -> TokenCounter:
    """The vocabulary of a model, asked for when tokens have to be counted here."""

    def standin() -> Standin | None:
        info = client.show(model, verbose=True).model_info
        if not info.get("tokenizer.ggml.tokens"):
            return None
        return make_standin(from_show({"model_info": info}, model), folder=folder)

    return TokenCounter(standin)


def check_prompts(
    client: OllamaClient, shown: Shown, loops: Sequence[Loop], say: Callable[[str], None]
) -> tuple[int, str]:
    """Hold the server's own render of every request against ours; how many were compared, and a note or nothing.

    Raises NotMeasurable where they differ: the prompts that users' requests become would not be those measured.
    """
    requests = [request for loop in loops for request in loop.requests]
    try:
        return check_renders(client, shown, shown.template, requests, say)
    except Refusal as error:
        failed = isinstance(error.__cause__, ServerError)
        raise NotMeasurable(str(error) if failed else f"TF401: {error}") from error
