"""Makes a tag that differs from its base in the template alone, and proves it on the server."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from templatefix.chat.go import GoChatTemplate
from templatefix.chat.rendering import RenderError
from templatefix.chat.request import Request
from templatefix.servers.errors import ServerError
from templatefix.servers.names import ModelName
from templatefix.servers.ollama import OllamaClient
from templatefix.servers.shown import Shown, TagInfo
from templatefix.servers.verified import Refusal, Weighed, check_renders, check_same_model, weigh

Progress = Callable[[str], None]


class TagExists(Exception):
    """A tag of that name is there, with another template; the string is one sentence."""


class TagRefused(Exception):
    """No tag is left behind, for the reason that the string gives in one sentence."""


@dataclass(frozen=True, slots=True)
class TagReport:
    """A tag that is as it should be; sizes in bytes, the digest is the manifest's."""

    name: str
    digest: str
    shared_bytes: int  # config and layers that the base has too
    added_bytes: int
    outcome: Literal["made", "exists"]
    renders: int  # prompts of the server that were compared with ours
    layers: Literal["store", "stream"]  # where the layers were read
    notes: tuple[str, ...] = ()


def create_variant(
    client: OllamaClient,
    base: str,
    tag: str,
    template: str,
    *,
    requests: Sequence[Request] = (),
    force: bool = False,
    progress: Progress | None = None,
    over_jinja: bool = False,
    parser: str = "",
) -> TagReport:
    """Make `tag` of `base` with another template, and verify it; `requests` are rendered by the server and by us.

    With `over_jinja` the base may be served with the Jinja text of its weights, and the tag may read the model's output
    with another `parser` of the server's. An existing tag is kept, but for `force`, and never made again where it has
    the same template. Whatever fails, a new tag is removed and an old one restored. Raises TagExists, TagRefused,
    ServerError (ModelNotFound first of all: a base that is not there is never asked for by `create`, which would pull
    it).
    """
    say = progress or (lambda _line: None)
    names = _names(base, tag)
    try:
        template.encode()
    except UnicodeEncodeError:
        raise TagRefused("the template is not valid UTF-8, so the server's API cannot carry it") from None
    shown = client.show(base)
    reason = shown.not_in_force()
    if reason is not None and not (over_jinja and shown.renders_jinja):
        raise TagRefused(reason)
    tags = client.tags()
    before, old = _find(tags, names[0]), _find(tags, names[1])
    if before is None:
        raise TagRefused(f"{client.url} shows {base} but does not list it, so its digest cannot be watched")
    if old is not None:
        difference = "with another template"
        present = client.show(old.name)
        if present.template == template and present.instruction("PARSER") == (parser or shown.instruction("PARSER")):
            try:
                weighed = weigh(client.url, shown, before, old, template, ())
            except Refusal as error:
                difference = f"with this template, but {error}"
            else:
                return TagReport(old.name, old.digest, weighed.shared, weighed.added, "exists", 0, weighed.source)
        if not force:
            raise TagExists(f"{old.name} is there already, {difference}")
    return _Making(client, shown, before, names[1], template, old, say, parser).run(requests)


class _Making:
    """One creation, with what it takes to undo it."""

    def __init__(
        self,
        client: OllamaClient,
        base: Shown,
        before: TagInfo,
        name: ModelName,
        template: str,
        old: TagInfo | None,
        say: Progress,
        parser: str,
    ) -> None:
        self.client = client
        self.base = base
        self.before = before
        self.name = name
        self.tag = old.name if old is not None else name.shortest
        self.template = template
        self.old = old
        self.say = say
        self.parser = parser
        self.backup = ""

    def run(self, requests: Sequence[Request]) -> TagReport:
        try:
            if self.old is not None:
                self._keep_old()
            lines = self.client.create(self.tag, self.base.name, self.template, self.say, parser=self.parser)
            report = self._verified(lines, requests)
        except Refusal as error:
            raise TagRefused(f"{error}; {self._undone()}") from error
        except BaseException as error:
            undone = self._undone()
            if isinstance(error, ServerError) and undone.startswith("but"):
                raise type(error)(f"{error}; {undone}", *error.args[1:]) from error
            raise
        return self._without_backup(report)

    def _without_backup(self, report: TagReport) -> TagReport:
        if self.backup:
            try:
                self.client.delete(self.backup)
            except ServerError as error:
                note = f"the old tag is still there as {self.backup}: {error}"
                return dataclasses.replace(report, notes=(*report.notes, note))
        return report

    def _keep_old(self) -> None:
        stem = self.name.tag[:60]
        spare = ModelName(self.name.host, self.name.namespace, self.name.model, f"{stem}-kept-{secrets.token_hex(4)}")
        self.client.copy(self.tag, spare.shortest)
        self.backup = spare.shortest

    def _verified(self, lines: tuple[str, ...], requests: Sequence[Request]) -> TagReport:
        self.say("verifying")
        tags = self.client.tags()
        made, after = _find(tags, self.name), _find(tags, ModelName.parse(self.base.name))
        if made is None:
            raise Refusal(f"the server reports success, but lists no {self.tag}")
        if after is None or after.digest != self.before.digest:
            raise Refusal(f"{self.base.name} itself has changed meanwhile")
        shown = self.client.show(self.tag)
        notes = check_same_model(self.base, shown, self.template, self.parser)
        weighed: Weighed = weigh(self.client.url, self.base, self.before, made, self.template, lines)
        compared, note = self._compared(shown, requests)
        return TagReport(
            made.name,
            made.digest,
            weighed.shared,
            weighed.added,
            "made",
            compared,
            weighed.source,
            (*notes, *weighed.notes, *([note] if note else [])),
        )

    def _compared(self, shown: Shown, requests: Sequence[Request]) -> tuple[int, str]:
        """Compare renders; an engine that was started for that is ended where the base needs another one.

        Tags on the same weights share an engine. One started for a Go template reads no Jinja, and then the server
        refuses the base's requests with tools (seen on 0.33).
        """
        before = self.client.loaded() if self.base.renders_jinja else {}
        try:
            compared = check_renders(self.client, shown, _parsed(self.template), requests, self.say)
        except BaseException:
            with suppress(ServerError):  # the first error is the one to tell
                self._end_engine(before)
            raise
        self._end_engine(before)
        return compared

    def _end_engine(self, before: Mapping[str, int]) -> None:
        if self.base.renders_jinja and before.keys() != self.client.loaded().keys():
            self.client.unload(self.tag)

    def _undone(self) -> str:
        """Take back what was made; a clause for the end of a sentence, beginning with `but` if that failed."""
        try:
            if self.backup:
                self.client.copy(self.backup, self.tag)
                self.client.delete(self.backup)
                return f"{self.tag} is again what it was"
            if self.old is None and _find(self.client.tags(), self.name) is not None:
                self.client.delete(self.tag)
                return f"{self.tag} was removed again"
        except ServerError:
            rest = f", the old one is kept as {self.backup}" if self.backup else ""
            return f"but whether {self.tag} is left on the server could not be seen{rest}"
        return f"{self.tag} was not made"


def _parsed(template: str) -> GoChatTemplate:
    try:
        return GoChatTemplate(template)
    except RenderError as error:
        raise Refusal(f"the template does not render: {error}") from error


def _names(base: str, tag: str) -> tuple[ModelName, ModelName]:
    try:
        names = ModelName.parse(base), ModelName.parse(tag)
    except ValueError as error:
        raise TagRefused(str(error)) from error
    if names[0].key == names[1].key:
        raise TagRefused(f"{tag} is the model itself, which is never overwritten")
    return names


def _find(tags: dict[str, TagInfo], name: ModelName) -> TagInfo | None:
    for found in tags.values():
        with suppress(ValueError):
            if ModelName.parse(found.name).key == name.key:
                return found
    return None
