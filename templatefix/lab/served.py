"""Arms that are models of an Ollama server: their templates as the server has them, each with an engine of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from templatefix.analysis.loops import Loop
from templatefix.chat.go import GoChatTemplate
from templatefix.chat.request import Request
from templatefix.lab.ab import WARM_UP, Arm
from templatefix.lab.calls import Tags
from templatefix.lab.chat import Chat, GeneratingSession, RenderedChat
from templatefix.lab.engine import Engine
from templatefix.lab.figures import AbResult
from templatefix.lab.replies import reply_index
from templatefix.servers.errors import NotMeasurable, ServerError
from templatefix.servers.in_force import template_in_force
from templatefix.servers.logs import LogTail
from templatefix.servers.ollama import OllamaClient
from templatefix.servers.ollama_engine import OllamaEngine
from templatefix.servers.served import as_served, as_written
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
    template = template_in_force(client, shown)
    tags = Tags.of(template.derived) if isinstance(template, GoChatTemplate) else Tags.of_jinja(shown.template)
    return Arm(
        name or shown.name,
        template,
        lambda request: as_served(request, shown),
        engine=engine,
        tags=tags,
        written=(lambda request: as_written(request, shown)) if shown.renders_jinja else None,
    )


@contextmanager
def served_chats(arm: Arm) -> Iterator[Chat]:
    """A session of an arm's own engine, for a live run."""
    engine = cast("Engine", arm.engine)
    with engine.session(0) as session:
        session.evaluate(WARM_UP, cold=True)
        yield RenderedChat(cast("GeneratingSession", session), arm)


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
        return check_renders(client, shown, template_in_force(client, shown), requests, say)
    except Refusal as error:
        failed = isinstance(error.__cause__, ServerError)
        raise NotMeasurable(str(error) if failed else f"TF401: {error}") from error


def notes_of(arms: Sequence[Arm]) -> list[str]:
    """What two sources of cache figures say differently, one sentence each."""
    engines = [arm.engine for arm in arms if isinstance(arm.engine, OllamaEngine)]
    return [f"{arm.name}: {note}" for arm, engine in zip(arms, engines, strict=False) for note in engine.notes]


def with_calls_read(
    client: OllamaClient, arms: Sequence[Arm], models: Sequence[Shown], loops: Sequence[Loop], result: AbResult
) -> AbResult:
    """The result, invalid where a server that reads calls out of JSON does not read one that it was bound to.

    Only templates whose calls begin with a brace can be tried so: the server binds all of the output. Raises
    ServerError.
    """
    request, call = next(
        (
            (before, made)
            for loop in loops
            for before, after in pairwise(loop.requests)
            for made in _calls(before, after)
        ),
        (None, None),
    )
    if request is None or call is None:
        return result
    reasons = [
        f"{arm.name}: the server does not read the call that its output was bound to"
        for arm, shown in zip(arms, models, strict=True)
        if arm.tags.tool == "{" and not client.call_bound(shown.name, request, call)
    ]
    return replace(result, invalid_reasons=(*result.invalid_reasons, *reasons))


def _calls(before: Request, after: Request) -> Sequence[Mapping[str, Any]]:
    index = reply_index(before, after)
    return [] if index is None else after.messages[index].get("tool_calls") or []
