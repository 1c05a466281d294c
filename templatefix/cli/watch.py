"""`templatefix watch`: whether an update made a locked template worse."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from templatefix.cli.examined import LockFile, Source, StoreFolder, place_of, read_at, read_lock_file, watched
from templatefix.cli.inputs import known
from templatefix.cli.output import CliError, colours, complain, say_json, write, write_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from templatefix.report.watched import Watched

_FORMATS = ("text", "json", "sarif", "junit", "github")


def run(
    targets: Annotated[
        list[str] | None, typer.Argument(metavar="[TARGET]...", help="Some of the targets in the file (default: all).")
    ] = None,
    lock: LockFile = "templatefix.lock",
    source: Source = "locked",
    store: StoreFolder = None,
    form: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="text, json, sarif, junit, or github for its Actions.")
    ] = "text",
) -> int:
    """Compare the templates of a lock file with what they are now, and say what a change means.

    With `--source registry` a tag is compared with what a pull would bring. No weights are read, nothing is written.
    Exit code 0: none is worse; 1: at least one is; 2: a target could not be compared.
    """
    known("--format", form, _FORMATS)
    place = place_of(source, store)
    held, data = read_lock_file(lock)
    missing = [name for name in targets or () if name not in held]
    if missing:
        raise CliError(f"{lock} has no {missing[0]}; lock it first: templatefix lock {missing[0]}")
    if not held:
        raise CliError(f"{lock} holds no targets")
    results = [
        watched(name, held[name], lambda name=name: read_at(name, held[name], place, store), place)  # type: ignore[misc]
        for name in targets or sorted(held)
    ]
    for one in results:
        if one.outcome == "not-compared":
            complain(one.reason)
    _end(results, form, lock, data)
    outcomes = [one.outcome for one in results]
    return 2 if "not-compared" in outcomes else int("worse" in outcomes)


def _end(results: Sequence[Watched], form: str, lock: str, data: bytes) -> None:
    if form == "json":
        from templatefix.report.watch_text import watch_json

        say_json(watch_json(results, lock))
    elif form == "text":
        from templatefix.report.style import Style
        from templatefix.report.watch_text import watch_text

        write(watch_text(results, Style(colours())))
    else:
        from templatefix.report import watch_ci
        from templatefix.report.lock import line_of

        root = Path(os.environ.get("GITHUB_WORKSPACE") or os.curdir)
        places = watch_ci.Places(lock, root, {one.target: line_of(data, one.target) for one in results})
        if form == "sarif":
            say_json(watch_ci.watch_sarif(results, places))
        elif form == "junit":
            write_bytes(watch_ci.watch_junit(results))
        else:
            write(watch_ci.watch_github(results, places))
