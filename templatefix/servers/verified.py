"""Whether a new tag is its base with another template, and nothing else: what shows it, layers, renders."""

from __future__ import annotations

import datetime
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from templatefix.chat.go import GoChatTemplate
from templatefix.chat.rendering import RenderError
from templatefix.chat.request import Request
from templatefix.servers.errors import ServerRefused
from templatefix.servers.ollama import OllamaClient
from templatefix.servers.served import as_served
from templatefix.servers.shown import Shown, TagInfo
from templatefix.servers.store import Layer, Manifest, Store

if TYPE_CHECKING:
    from templatefix.chat.jinja import JinjaChatTemplate

_STATUS = re.compile(r"(using existing|creating new) layer (sha256:[0-9a-f]{64})")
_CONFIG_SLACK = 1024  # bytes by which two tags of one model may differ in their configs


class Refusal(Exception):
    """A new tag is not what it should be; the string is a clause that says why."""


@dataclass(frozen=True, slots=True)
class Weighed:
    """Bytes that a tag shares with its base and bytes it adds, and where its layers were read."""

    shared: int
    added: int
    source: Literal["store", "stream"]
    notes: tuple[str, ...] = ()


def check_same_model(base: Shown, made: Shown, template: str, parser: str = "") -> tuple[str, ...]:
    """Compare what `show` tells of both; notes for people. Raises Refusal for a difference beyond the template.

    `parser` is the PARSER that was asked for, empty for the base's own.
    """
    reason = made.not_in_force()
    if reason is not None:
        raise Refusal(reason)
    if made.template != template:
        raise Refusal(f"the server shows another template for {made.name} than it was given")
    pairs = {
        "SYSTEM": (base.system, made.system),
        "MESSAGE": (base.messages, made.messages),
        "PARAMETER": (_lines(base.parameters), _lines(made.parameters)),
        "LICENSE": (base.license, made.license),
        "RENDERER": (base.instruction("RENDERER"), made.instruction("RENDERER")),
        "PARSER": (parser or base.instruction("PARSER"), made.instruction("PARSER")),
        "ADAPTER": (base.instruction("ADAPTER"), made.instruction("ADAPTER")),
    }
    for word, (before, after) in pairs.items():
        if before != after:
            raise Refusal(f"{made.name} differs from {base.name} in its {word}")
    for key in ("format", "family", "families", "parameter_size", "quantization_level"):
        if base.details.get(key) != made.details.get(key):
            raise Refusal(f"{made.name} differs from {base.name} in its {key.replace('_', ' ')}")
    gone = sorted(set(base.capabilities) - set(made.capabilities))
    return (f"{made.name} has lost the capability {', '.join(gone)}",) if gone else ()


def weigh(url: str, base: Shown, before: TagInfo, made: TagInfo, template: str, lines: Sequence[str]) -> Weighed:
    """Compare layers in the store where it can be read, else by create's status lines and the sizes.

    Raises Refusal if a layer other than the template's is not the base's.
    """
    store = Store.of(url, base)
    if store is not None:
        old, new = store.manifest(before.name, before.digest), store.manifest(made.name, made.digest)
        if old is not None and new is not None:
            return _by_store(store, old, new, template)
    return _by_stream(base, before, made, template, lines)


def _by_store(store: Store, old: Manifest, new: Manifest, template: str) -> Weighed:
    digest, size = _digest(template), len(template.encode())
    texts = [layer for layer in new.layers if layer.kind == "template"]
    if [(layer.digest, layer.size) for layer in texts] != [(digest, size)]:
        raise Refusal("the new tag's template layer is not the template that was sent")
    notes: list[str] = []
    mine, theirs = _others(new), _others(old)
    if mine != theirs:
        odd = sorted({*mine} ^ {*theirs}, key=lambda layer: layer.media_type)
        if {layer.kind for layer in odd} != {"params"} or not _same_parameters(store, odd):
            raise Refusal(f"the new tag does not share the original's {', '.join(sorted({x.kind for x in odd}))} layer")
        notes.append("the server wrote the parameters anew, with the same values")
    held = {layer.digest for layer in (old.config, *old.layers)}
    parts = {layer.digest: layer.size for layer in (new.config, *new.layers)}
    shared = sum(size for digest, size in parts.items() if digest in held)
    return Weighed(shared, sum(parts.values()) - shared, "store", tuple(notes))


def _others(manifest: Manifest) -> list[Layer]:
    # The server moves layers that it writes anew to the end.
    found = [layer for layer in manifest.layers if layer.kind != "template"]
    return sorted(found, key=lambda layer: (layer.media_type, layer.digest, layer.size))


def _same_parameters(store: Store, layers: Sequence[Layer]) -> bool:
    texts = [store.small_layer(layer) for layer in layers]
    if len(texts) != 2 or texts[0] is None or texts[1] is None:
        return False
    try:
        return bool(json.loads(texts[0]) == json.loads(texts[1]))
    except ValueError:
        return False


def _by_stream(base: Shown, before: TagInfo, made: TagInfo, template: str, lines: Sequence[str]) -> Weighed:
    size = len(template.encode())
    made_new = {found[2] for line in lines if (found := _STATUS.fullmatch(line)) and found[1] == "creating new"}
    notes = ("the server's store cannot be read here: layers were compared by its status lines and sizes",)
    if lines:
        foreign = made_new - {_digest(template)}
        # `show` has the parameters; the server may write them anew, and what they say was compared before.
        if len(foreign) > (1 if base.parameters else 0):
            raise Refusal("the server made new layers beside the template's")
        # A Jinja text is shown in the template's place, but lies in the weights.
        old = base.carried if base.renders_jinja else base.template
        rest, old_rest = made.size - size, before.size - len(old.encode())
        if base.template and not 0 <= abs(rest - old_rest) <= _CONFIG_SLACK:
            raise Refusal(f"the new tag is {abs(rest - old_rest)} bytes off the original beside the template")
    return Weighed(made.size - size, size, "stream", notes)


def check_renders(
    client: OllamaClient,
    shown: Shown,
    template: GoChatTemplate | JinjaChatTemplate,
    requests: Sequence[Request],
    say: Callable[[str], None],
) -> tuple[int, str]:
    """Compare the server's own render of each request with ours; how many were compared, and a note or nothing.

    Raises Refusal at the first difference.
    """
    if not requests:
        return 0, ""
    if not client.can_render():
        return 0, f"Ollama {client.version()} cannot show its own renders (0.11.5 can): they were not compared"
    for index, request in enumerate(requests):
        say(f"comparing the server's render {index + 1} of {len(requests)}")
        try:
            theirs = client.render(shown.name, request)
        except ServerRefused as error:
            raise Refusal(f"the server cannot render request {index + 1} of the loop: {error.message}") from error
        if all(ours != theirs for ours in _ours(template, as_served(request, shown))):
            raise Refusal(
                f"the server's render of request {index + 1} of the loop is not ours: {shown.name} is shown "
                "with this template, but its prompts are made with something else"
            )
    return len(requests), ""


def _ours(template: GoChatTemplate | JinjaChatTemplate, request: Request) -> Iterator[str]:
    # The server may be in another time zone than this machine.
    today = datetime.date.today()
    dated = any(word in template.source.text for word in ("currentDate", "yesterdayDate", "strftime_now"))
    for day in (0, 1, -1) if dated else (0,):
        one = template.on_day(today + datetime.timedelta(days=day)) if dated else template
        try:
            yield one.render(request).text
        except RenderError as error:
            raise Refusal(f"the template does not render: {error}") from error


def _digest(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _lines(text: str) -> list[str]:
    return sorted(" ".join(line.split()) for line in text.splitlines())
