"""`templatefix lock`: what a check says of targets, kept in a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from templatefix.cli.examined import Examined, LockFile, StoreFolder, read_at, read_lock_file
from templatefix.cli.inputs import all_or
from templatefix.cli.options import All, SomeTargets
from templatefix.cli.output import CliError, complain, save, say

if TYPE_CHECKING:
    from templatefix.report.lock import Entry


def run(
    targets: SomeTargets = None,
    every: All = False,
    lock: LockFile = "templatefix.lock",
    forget: Annotated[list[str] | None, typer.Option(metavar="TARGET", help="Take this one out of the file.")] = None,
    store: StoreFolder = None,
) -> int:
    """Remember the templates of targets, with their verdict, findings and loop figures, for `watch`.

    Targets that the file holds already are written anew; the others in it stay. The template's text is kept, so that
    a change can be shown; no system text, no messages and no parameters are.
    Exit code 0: done; 2: a target could not be read or evaluated, and keeps the entry that it had.
    """
    held: dict[str, Entry] = read_lock_file(lock)[0] if Path(lock).expanduser().exists() else {}
    for name in forget or ():
        if held.pop(name, None) is None:
            raise CliError(f"{lock} has no {name}")
    code = 0
    for name in all_or(targets or (), every) if targets or every or not forget else ():
        try:
            held[name] = _entry(name, held.get(name), "store" if store else "locked", store)
        except CliError as error:
            complain(str(error))
            code = 2
        else:
            say(f"{name}: {held[name].verdict}, {held[name].template[:19]}")
    if held or forget:
        from templatefix.report.lock import write_lock

        save(lock, write_lock(held))
    return code


def _entry(name: str, before: Entry | None, place: str, store: str | None) -> Entry:
    if name == "-":
        raise CliError("standard input cannot be locked: it cannot be read again")
    examined = Examined(read_at(name, None, place, store), place)
    if examined.checked.verdict == "not-evaluated":
        raise CliError(examined.checked.failure or f"{name}: {examined.checked.reason}")
    return examined.entry.since(before)
