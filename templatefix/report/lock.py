"""The lock file: what a check said of targets, kept to be compared with later.

JSON, sorted, and the same bytes for the same facts:

    {"version": 1, "targets": {"NAME": {
       "source": "server"|"store"|"registry"|"file",   where the template was read
       "kind": "go"|"jinja",
       "locked": "YYYY-MM-DD",                          the day from which all of this has been so
       "manifest": null|"sha256:…",                     of the tag, as its source has it
       "template": "sha256:…",                          of the template's bytes
       "text": ["…\\n", …],                              the template in lines: a later diff needs both templates
       "server": null|"0.30.1", "not_in_force": null|"…",
       "tool": "0.1.0",                                 the version of templatefix
       "verdict": "…", "reason": null|"…",
       "findings": [{"code", "severity", "line", "column"}],
       "loops": {"SCENARIO": [[prompt_bytes, kept_bytes, tools], …]}}}}   core loops, a row a request

Nothing else of a model is in it: no system text, no messages, no parameters.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, cast

from templatefix.chat.serving import Serving, version_of, version_text
from templatefix.report.checked import Checked

FILE = "templatefix.lock"
VERSION = 1
_ROOM = 110  # columns within which a list or mapping stays on one line

SourceKind = Literal["server", "store", "registry", "file"]
SOURCES: tuple[SourceKind, ...] = ("server", "store", "registry", "file")


class LockError(Exception):
    """A lock file that cannot be used; one sentence that names it."""


@dataclass(frozen=True)
class Entry:
    """What is kept of one target."""

    source: SourceKind
    kind: Literal["go", "jinja"]
    locked: str
    manifest: str | None
    template: str
    text: str
    server: str | None
    not_in_force: str | None
    tool: str
    verdict: str
    reason: str | None
    findings: tuple[Mapping[str, Any], ...]
    loops: Mapping[str, list[list[int]]]

    @property
    def serving(self) -> Serving:
        """What was known of the server."""
        return Serving(version_of(self.server or ""), self.not_in_force or "")

    def since(self, before: Entry | None) -> Entry:
        """The entry with the day of an earlier one that says the same."""
        if before is not None and replace(before, locked=self.locked, tool=self.tool) == self:
            return replace(self, locked=before.locked)
        return self


def entry_of(
    checked: Checked, serving: Serving, source: SourceKind, manifest: str | None, day: str, tool: str
) -> Entry:
    """What is kept of a target that was checked; raises ValueError where its template was not read."""
    if checked.text is None:
        raise ValueError(f"{checked.target} was not read")
    loops = checked.analysis.core if checked.analysis is not None else ()
    return Entry(
        source,
        checked.kind,
        day,
        manifest and f"sha256:{manifest.removeprefix('sha256:')}",
        digest(checked.text),
        checked.text,
        version_text(serving.version) if serving.version is not None else None,
        serving.not_in_force or None,
        tool,
        checked.verdict,
        checked.reason,
        tuple([_finding(checked, finding) for finding in checked.findings]),
        {run.loop.name: [[step.prompt_bytes, step.kept_bytes, step.tools] for step in run.steps] for run in loops},
    )


def _finding(checked: Checked, finding: Any) -> dict[str, Any]:
    place = checked.place(finding.span.start)
    return {"code": finding.code, "severity": finding.severity, "line": place.line, "column": place.column}


def digest(text: str) -> str:
    """The digest of a template's bytes, as manifests have it."""
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def write_lock(entries: Mapping[str, Entry]) -> bytes:
    """The bytes of a lock file."""
    targets = {name: {**asdict(entry), "text": entry.text.splitlines(keepends=True)} for name, entry in entries.items()}
    return (_laid_out({"version": VERSION, "targets": targets}, 0) + "\n").encode("utf-8", "surrogateescape")


def _laid_out(value: Any, depth: int) -> str:
    """JSON with what is short on one line, sorted."""
    short = json.dumps(value, sort_keys=True)
    if not isinstance(value, (dict, list, tuple)) or (depth > 1 and len(short) + 2 * depth <= _ROOM) or not value:
        return short
    margin = "\n" + "  " * (depth + 1)
    if isinstance(value, dict):
        rows = [f"{json.dumps(key)}: {_laid_out(value[key], depth + 1)}" for key in sorted(value)]
        return "{" + margin + f",{margin}".join(rows) + "\n" + "  " * depth + "}"
    return "[" + margin + f",{margin}".join([_laid_out(one, depth + 1) for one in value]) + "\n" + "  " * depth + "]"


def read_lock(data: bytes, name: str = FILE) -> dict[str, Entry]:
    """The entries of a lock file by target. Raises LockError."""
    try:
        value = json.loads(data)
    except ValueError as error:
        at = f" in line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise LockError(f"{name} is no lock file: it has no JSON{at}") from error
    if not isinstance(value, dict) or not isinstance(value.get("targets"), dict):
        raise LockError(f"{name} is no lock file: it has no targets")
    if value.get("version") != VERSION:
        raise LockError(f"{name} is of version {value.get('version')}; this templatefix reads version {VERSION}")
    return {target: _entry(name, target, row) for target, row in value["targets"].items()}


def _entry(name: str, target: str, row: Any) -> Entry:
    try:
        made = Entry(**{**row, "text": "".join(row["text"]), "findings": tuple(row["findings"])})
        texts = (made.locked, made.template, made.tool, made.verdict)
        sound = made.source in SOURCES and all(isinstance(text, str) for text in texts)
        if not sound or digest(made.text) != made.template:
            raise ValueError
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise LockError(f"{name} cannot be used: what it says of {target} is not whole; lock it again") from error
    return made


def line_of(data: bytes, target: str) -> int:
    """The line of a lock file that a target's entry begins in, from 1."""
    mark = f"{json.dumps(target)}: {{".encode()
    for number, line in enumerate(data.splitlines(), 1):
        if line.strip().startswith(mark) and line.startswith(b"    ") and not line.startswith(b"     "):
            return number
    return 1


def source_kind(kind: str) -> SourceKind:
    """Where a target of a kind (`model`, `registry`, `go`, …) was read."""
    named = {"model": "server", "registry": "registry", "store": "store"}
    return cast("SourceKind", named.get(kind, "file"))
