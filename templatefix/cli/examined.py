"""Targets read and checked for the lock file, and what is in it beside what is there now."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from templatefix import __version__
from templatefix.cli.check import look
from templatefix.cli.inputs import known, resolved
from templatefix.cli.output import CliError

if TYPE_CHECKING:
    from templatefix.analysis.analyse import Analysis
    from templatefix.analysis.comparison import Side
    from templatefix.chat.rendering import ChatTemplate
    from templatefix.chat.serving import Serving
    from templatefix.report.checked import Checked
    from templatefix.report.lock import Entry
    from templatefix.report.watched import Watched
    from templatefix.servers.targets import Target

PLACES = ("locked", "server", "store", "registry")  # what `--source` takes
REGISTRY = "registry:"

Source = Annotated[
    str, typer.Option(metavar="locked|server|store|registry", help="Where to look (default: as locked).")
]
LockFile = Annotated[str, typer.Option("--lock", metavar="FILE", help="The lock file.")]
StoreFolder = Annotated[
    str | None, typer.Option("--store", metavar="DIR", help="A store of Ollama to read, without a server.")
]


class Examined:
    """A target that was checked, with what was known of its server and the entry that a lock would hold."""

    def __init__(self, found: Target, place: str = "locked") -> None:
        """Check the target; where it cannot be evaluated, the analysis is missing."""
        self.template: ChatTemplate | None = None
        self.serving: Serving | None = None
        self.found = found
        self.checked: Checked = look(found, self._analysed)
        self.entry = self._entry(place)

    @property
    def side(self) -> Side:
        """What is compared."""
        from templatefix.analysis.comparison import Side

        return Side(self.template, self.checked.analysis)

    @property
    def facts(self) -> tuple[str, str, Serving]:
        """All that a check goes by."""
        return self.entry.text, self.entry.kind, self.entry.serving

    def _analysed(self, template: ChatTemplate, serving: Serving) -> Analysis:
        from templatefix.analysis.analyse import analyse

        self.template, self.serving = template, serving
        return analyse(template, serving=serving)

    def _entry(self, place: str) -> Entry:
        from templatefix.chat.serving import Serving
        from templatefix.report.lock import entry_of, source_kind

        source = source_kind("store" if place == "store" else self.found.kind)
        today = datetime.date.today().isoformat()
        return entry_of(self.checked, self.serving or Serving(), source, manifest_of(self.found), today, __version__)


def manifest_of(found: Target) -> str | None:
    """The digest of a tag's manifest; None for files, and where the server does not list it."""
    if found.packed is not None:
        return found.packed.manifest.digest
    if found.shown is None:
        return None
    from templatefix.servers.errors import ServerError
    from templatefix.servers.names import ModelName
    from templatefix.servers.ollama import OllamaClient

    try:
        key = ModelName.parse(found.name).key
        return next(
            (row.digest for row in OllamaClient().tags().values() if ModelName.parse(row.name).key == key), None
        )
    except (ServerError, ValueError) as error:
        raise CliError(str(error)) from error


def read_at(target: str, entry: Entry | None, place: str, store: str | None) -> Target:
    """Read a target where it was locked, or at another place: `server`, `store` or `registry`."""
    source = place if place != "locked" else entry.source if entry is not None else ""
    bare = target.removeprefix(REGISTRY)
    if source == "file" or (entry is not None and entry.source == "file"):
        return resolved(target, None)
    if source == "registry":
        return resolved(REGISTRY + bare, None)
    if source == "store":
        from templatefix.servers.stored import default_store, stored_target
        from templatefix.servers.targets import TargetError

        try:
            return stored_target(Path(store).expanduser() if store else default_store(), bare)
        except TargetError as error:
            raise CliError(str(error)) from error
    return resolved(target if place == "locked" else bare, "model" if place == "server" else None)


def side_of(entry: Entry, now: ChatTemplate | None = None) -> Side:
    """A locked template, checked anew by the rules of today, so that like is compared with like.

    `now` is what has become of it: a Jinja text had the same server.
    """
    from templatefix.analysis.analyse import analyse
    from templatefix.analysis.comparison import Side
    from templatefix.chat.go import GoChatTemplate
    from templatefix.chat.rendering import RenderError

    template: ChatTemplate
    try:
        if entry.kind == "jinja":
            from templatefix.chat.jinja import JinjaChatTemplate

            same = now if isinstance(now, JinjaChatTemplate) else None
            template = JinjaChatTemplate(entry.text) if same is None else same.with_text(entry.text)
        else:
            template = GoChatTemplate(entry.text)
    except RenderError:
        return Side(None, None)
    return Side(template, analyse(template, serving=entry.serving))


def watched(target: str, entry: Entry, read: Callable[[], Target], place: str) -> Watched:
    """Compare a locked target with what it is now; what fails is part of the result, so that it stops no other."""
    from templatefix.analysis.comparison import compare
    from templatefix.report.watched import Watched

    try:
        now = Examined(read(), entry.source if place == "locked" else place)
    except CliError as error:
        return Watched(target, entry, failure=str(error))
    before = now.side if (entry.text, entry.kind, entry.serving) == now.facts else side_of(entry, now.template)
    return Watched(target, entry, now.entry, compare(before, now.side))


def place_of(source: str, store: str | None) -> str:
    """Where to look, by the options `--source` and `--store`."""
    place = known("--source", source, PLACES)
    return "store" if store and place == "locked" else place


def read_lock_file(file: str) -> tuple[dict[str, Entry], bytes]:
    """The entries of a lock file, and its bytes; raises CliError."""
    from templatefix.cli.inputs import read_input
    from templatefix.report.lock import LockError, read_lock

    data = read_input(file)
    try:
        return read_lock(data, file), data
    except LockError as error:
        raise CliError(str(error)) from error
