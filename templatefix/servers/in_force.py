"""Which template a server makes a model's prompts with, as far as can be seen without loading the model."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from templatefix.chat.go import GoChatTemplate
from templatefix.chat.serving import Serving, version_of
from templatefix.servers.errors import BadAnswer
from templatefix.servers.log_events import LogEvent, LogItem
from templatefix.servers.names import ModelName
from templatefix.servers.ollama import OllamaClient
from templatefix.servers.packed import Packed, from_store
from templatefix.servers.shown import Shown
from templatefix.servers.store import Store

if TYPE_CHECKING:
    from templatefix.chat.jinja import JinjaChatTemplate
    from templatefix.chat.ollama_jinja import OllamaJinjaTemplate
    from templatefix.servers.jinja_source import JinjaSource

_CHOICES = {
    "gguf_chat_template": "the Jinja text of its GGUF file",
    "renderer": "a built-in RENDERER",
    "renderer_parser": "a built-in RENDERER",
    "harmony": "the harmony format",
    "none": "no template at all",
}  # a PARSER alone reads the output; prompts are made with the template


def serving_of(client: OllamaClient, shown: Shown) -> Serving:
    """The server's version, and why the model's Go template is not in force, if it is not. Raises ServerError.

    Asked in this order: what `show` tells, with the Modelfile's text; the manifest and its config, where the store can
    be read. The last word has the server's own render, which takes the model into memory (`check_renders`).
    """
    reason = shown.not_in_force() or ""
    if not reason:
        stored = stored_of(client, shown)
        reason = (stored.not_in_force() if stored is not None else None) or ""
    return Serving(version_of(client.version()), reason)


def template_in_force(client: OllamaClient, shown: Shown) -> GoChatTemplate | JinjaChatTemplate:
    """The template that a model is shown with, ready to render. Raises RenderError for one of no use, ServerError."""
    if not shown.renders_jinja:
        return GoChatTemplate(shown.template)
    from templatefix.servers.jinja_source import from_shown

    return jinja_in_force(from_shown(client, shown), shown)


def jinja_in_force(
    source: JinjaSource,
    shown: Shown,
    date: datetime.date | None = None,
    bos: str | None = None,
    eos: str | None = None,
) -> OllamaJinjaTemplate:
    """A model's Jinja text as its server renders it; `bos` and `eos` are its own by default. Raises RenderError."""
    from templatefix.chat.ollama_jinja import OllamaJinjaTemplate  # with jinja2, which Go templates do without

    return OllamaJinjaTemplate(
        source.text,
        bos=source.bos if bos is None else bos,
        eos=source.eos if eos is None else eos,
        date=date,
        caps=source.caps,
        thinks=shown.thinks,
        ends=source.ends,
    )


def stored_of(client: OllamaClient, shown: Shown) -> Packed | None:
    """What the server's store holds for a model, where this machine can read it. Raises ServerError."""
    store = Store.of(client.url, shown)
    if store is None:
        return None
    try:
        key = ModelName.parse(shown.name).key
    except ValueError:
        return None
    for found in client.tags().values():
        with suppress(ValueError, BadAnswer):
            if ModelName.parse(found.name).key == key:
                return from_store(store, found.name, found.digest)
    return None


def chosen_in_log(items: Iterable[LogItem], model: str) -> str | None:
    """What the server last said it makes prompts with instead of the Go template; None if it said no such thing.

    The line is written when an engine is started, for the tag that started it.
    """
    key = ModelName.parse(model).key
    choice = ""
    for item in items:
        if isinstance(item, LogEvent) and item.kind == "selection":
            with suppress(ValueError):
                if ModelName.parse(item.model).key == key:
                    choice = item.text
    return f"{model} is served with {_CHOICES[choice]}, as the log shows" if choice in _CHOICES else None
