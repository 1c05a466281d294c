"""A server as it runs, looked at without changing anything: what it is, its models, whether their templates hold."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal
from urllib.parse import quote

from templatefix.analysis.analyse import Analysis, analyse
from templatefix.chat.go import GoChatTemplate
from templatefix.chat.jinja import JinjaChatTemplate
from templatefix.chat.rendering import RenderError
from templatefix.chat.serving import Serving
from templatefix.gotemplate.source import Source
from templatefix.servers.errors import BadAnswer, ModelNotFound, NobodyAnswers, ServerError, ServerRefused
from templatefix.servers.host import base_url
from templatefix.servers.in_force import jinja_in_force, serving_of
from templatefix.servers.jinja_source import JinjaSourceError, from_props
from templatefix.servers.llama_server import LlamaServer, server_url
from templatefix.servers.memory import attention_of
from templatefix.servers.names import ModelName
from templatefix.servers.ollama import OllamaClient
from templatefix.servers.served import as_served
from templatefix.servers.standin import Attention
from templatefix.servers.targets import Target, TargetError, resolve
from templatefix.trace.templates import KnownTemplate

ServerKind = Literal["ollama", "llama-server"]


@dataclass(frozen=True)
class ModelSeen:
    """A model of the server."""

    name: str
    loaded: bool
    context: int | None  # tokens that it holds
    known: KnownTemplate | None = None
    analysis: Analysis | None = None
    memory: Attention | None = None  # None: its metadata are not known
    not_in_force: str = ""  # why prompts are not made with that template
    failure: str = ""  # why it cannot be judged

    @property
    def names(self) -> tuple[str, ...]:
        """What requests can call it: `:latest` may be left out."""
        short = self.name.removesuffix(":latest")
        return (self.name,) if short == self.name else (self.name, short)


@dataclass(frozen=True)
class ServerSeen:
    """The server."""

    kind: ServerKind
    url: str
    version: str
    models: tuple[ModelSeen, ...] = ()
    slots: int | None = None
    fullest: tuple[int, int] | None = None  # tokens of the prompt that fills its slot most, and that slot's context
    router: bool = False  # it passes requests on to one server a model

    @property
    def only(self) -> ModelSeen | None:
        """The one model that it answers with, whatever name a request gives."""
        return self.models[0] if self.kind == "llama-server" and not self.router and self.models else None

    def target(self, model: ModelSeen) -> str:
        """What other commands call a model's template: its name on an Ollama, else an address."""
        if self.kind == "ollama":
            return model.name
        return f"{self.url}?model={quote(model.name, safe='')}" if self.router else self.url


def look(url: str, models: Sequence[str] = ()) -> ServerSeen:
    """Ask a server what it runs; of an Ollama and of a router the models in memory and those named.

    Raises ServerError, and ValueError for what cannot be the name of a model.
    """
    client = OllamaClient(url)
    try:
        version = client.version()
    except NobodyAnswers as error:
        raise NobodyAnswers(f"no Ollama and no llama-server answers at {client.url}") from error
    except (BadAnswer, ServerRefused):
        return _llama(url, models)
    for name in models:
        ModelName.parse(name)
        client.show(name)  # what is asked for by name must be there
    loaded = client.loaded()
    held = {_key(name): size for name, size in loaded.items()}
    seen = [_ollama_model(client, name, held) for name in dict.fromkeys([*models, *loaded])]
    return ServerSeen("ollama", client.url, version, tuple(seen))


def _ollama_model(client: OllamaClient, name: str, held: dict[str, int]) -> ModelSeen:
    loaded, context = _key(name) in held, held.get(_key(name)) or None
    try:
        target = resolve(name, "model", client=lambda: client)
        assert target.shown is not None
        seen = ModelSeen(name, loaded, context, memory=attention_of(target.shown.model_info))
        return _judged(target, seen, client)
    except ModelNotFound:
        return ModelSeen(name, loaded, context, failure=f"there is no model {name} on {client.url}")
    except (TargetError, ServerError) as error:
        return ModelSeen(name, loaded, context, failure=str(error))


def _key(name: str) -> str:
    try:
        return ModelName.parse(name).key
    except ValueError:
        return name


def _llama(url: str, models: Sequence[str]) -> ServerSeen:
    server = LlamaServer(server_url(base_url(url)), key=os.environ.get("LLAMA_API_KEY"))
    try:
        props = server.props()
    except (BadAnswer, ServerRefused) as error:
        raise BadAnswer(f"{server.url} {_refused(error)}") from error
    version = str(props.get("build_info") or "")
    if props.get("role") == "router":
        seen = tuple(_routed(server, models))
        return ServerSeen("llama-server", server.url, version, seen, router=True)
    slots = server.slots()
    path = str(props.get("model_alias") or props.get("model_path") or "its model")
    model = _llama_model(server, path.replace("\\", "/").rsplit("/", 1)[-1], props, slots)
    total = props.get("total_slots")
    count = total if isinstance(total, int) else len(slots) or None
    return ServerSeen("llama-server", server.url, version, (model,), count, _fullest(slots))


def _refused(error: ServerError) -> str:
    """What a server that shows no properties says with that."""
    status = error.status if isinstance(error, ServerRefused) else 0
    if status in (401, 403):
        return "asks for a key: LLAMA_API_KEY of a llama-server, OLLAMA_API_KEY of an Ollama behind a proxy"
    if status == 503:
        return "is still loading its model: ask again in a moment"
    return "answers neither as an Ollama server nor as a llama-server does"


def _llama_model(
    server: LlamaServer, name: str, props: Mapping[str, Any], slots: Sequence[Mapping[str, Any]]
) -> ModelSeen:
    contexts = [slot["n_ctx"] for slot in slots if isinstance(slot.get("n_ctx"), int)]
    model = ModelSeen(name, True, min(contexts, default=None))
    try:
        found = from_props(props, server.url)
    except JinjaSourceError as error:
        return replace(model, failure=str(error))
    return _judged(Target(server.url, "server", Source(found.text, server.url), jinja=found), model)


def _routed(server: LlamaServer, names: Sequence[str]) -> Iterator[ModelSeen]:
    """The models of a router that are in memory, and those named; asking for another would load it."""
    rows = server.ask("GET", "/models").get("data") or []
    states = {str(row["id"]): (row.get("status") or {}).get("value") for row in rows if "id" in row}
    for name in names:
        if name not in states:
            raise ModelNotFound(f"there is no model {name} on {server.url}")
    for name in dict.fromkeys([*names, *(name for name, state in states.items() if state == "loaded")]):
        if states[name] != "loaded":
            yield ModelSeen(name, False, None, failure="the router shows it once it is in memory")
            continue
        which = f"model={quote(name, safe='')}"
        props, slots = (server.ask("GET", f"/{what}?{which}") for what in ("props", "slots"))
        yield _llama_model(server, name, props, slots)


def _fullest(slots: Sequence[Mapping[str, Any]]) -> tuple[int, int] | None:
    """The slot nearest to its context's end, by its last prompt."""
    known = [(slot.get("n_prompt_tokens"), slot.get("n_ctx")) for slot in slots]
    sizes = [(size, held) for size, held in known if isinstance(size, int) and isinstance(held, int) and held > 0]
    return max(sizes, key=lambda pair: pair[0] / pair[1], default=None)


def _judged(target: Target, seen: ModelSeen, client: OllamaClient | None = None) -> ModelSeen:
    """The model with its template checked, as `check` does; `client` is its Ollama's."""
    told, shown, serving = target.jinja, target.shown, _serving(target, client)
    reason = serving.not_in_force or target.not_in_force() or ""
    template: GoChatTemplate | JinjaChatTemplate
    try:
        if told is not None:
            seen = replace(seen, memory=told.memory or seen.memory)
            template = (
                JinjaChatTemplate(target.source.text, bos=told.bos, eos=told.eos, caps=told.caps)
                if shown is None
                else jinja_in_force(told, shown)
            )
        else:
            template = GoChatTemplate(target.source.text)
    except RenderError as error:
        return replace(seen, not_in_force=reason, failure=error.message)
    served = template.as_served if shown is None else lambda request: as_served(request, shown)
    known, analysis = KnownTemplate(seen.name, template, served), analyse(template, serving=serving)
    return replace(seen, known=known, analysis=analysis, not_in_force=reason)


def _serving(target: Target, client: OllamaClient | None) -> Serving:
    """What is known of the server's part."""
    if target.jinja is not None:  # a Jinja text that a server shows is the one in force
        return Serving(memory=target.jinja.memory)
    if client is None or target.shown is None:
        return Serving(not_in_force=target.not_in_force() or "")
    try:
        return serving_of(client, target.shown)
    except ServerError:
        return Serving(not_in_force=target.not_in_force() or "")
