"""What `watch` found, for CI servers: SARIF, JUnit and workflow commands of GitHub, at lines of the lock file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as xml

from templatefix import __version__
from templatefix.report.check_github import command, one_line
from templatefix.report.check_junit import writable, written
from templatefix.report.check_sarif import ROOT, SCHEMA, file_location, fingerprint
from templatefix.report.watched import Outcome, Watched

_LEVELS: dict[Outcome, str] = {"worse": "error", "not-compared": "warning", "better": "note"}  # `same` tells nothing
_RULES = {
    "template-worse": "An update made a chat template worse than the one that was locked.",
    "template-better": "An update made a chat template better than the one that was locked.",
    "template-not-compared": "A locked template could not be compared with what it is now.",
}


@dataclass(frozen=True)
class Places:
    """Where targets stand in the lock file."""

    lock: str
    root: Path  # that readers take paths from
    lines: Mapping[str, int]

    @property
    def path(self) -> str:
        """The lock file from the root, with slashes; absolute where it lies elsewhere."""
        path = Path(os.path.abspath(Path(self.lock).expanduser()))
        try:
            return path.relative_to(os.path.abspath(self.root)).as_posix()
        except ValueError:
            return path.as_posix()


def _told(results: Sequence[Watched]) -> list[Watched]:
    return [one for one in results if one.outcome in _LEVELS]


def _message(watched: Watched) -> str:
    sentences = watched.comparison.consequences if watched.comparison is not None else ()
    further = [sentence for sentence in sentences if sentence != watched.reason]
    return " ".join([f"{watched.target}: {watched.reason}", *further])


def watch_sarif(results: Sequence[Watched], places: Places) -> dict[str, Any]:
    """The document that `watch --format sarif` writes: a result a target that is better, worse or was not compared."""
    ids = list(_RULES)
    rows = [
        {
            "ruleId": f"template-{one.outcome}",
            "ruleIndex": ids.index(f"template-{one.outcome}"),
            "level": _LEVELS[one.outcome],
            "message": {"text": _message(one)},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": file_location(places.path),
                        "region": {"startLine": places.lines[one.target]},
                    }
                }
            ],
            "partialFingerprints": {
                "lockedTarget/v1": fingerprint(f"{one.outcome}\n{one.target}\n{one.now.template if one.now else ''}")
            },
        }
        for one in _told(results)
    ]
    driver = {
        "name": "templatefix",
        "semanticVersion": __version__,
        "rules": [{"id": name, "shortDescription": {"text": text}} for name, text in _RULES.items()],
    }
    run = {
        "tool": {"driver": driver},
        "originalUriBaseIds": {ROOT: {"description": {"text": "The folder that the watch ran in."}}},
        "invocations": [{"executionSuccessful": all(one.outcome != "not-compared" for one in results)}],
        "results": rows,
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def watch_junit(results: Sequence[Watched]) -> bytes:
    """The document that `watch --format junit` writes: a test case a target."""
    suite = xml.Element("testsuite", name="templatefix watch")
    for one in results:
        case = xml.SubElement(suite, "testcase", classname="templatefix.watch", name=writable(one.target), time="0")
        if one.outcome in ("worse", "not-compared"):
            kind = "failure" if one.outcome == "worse" else "error"
            fault = xml.SubElement(case, kind, type=one.outcome, message=writable(one.reason))
            fault.text = writable(_message(one))
        elif one.outcome == "better":
            xml.SubElement(case, "system-out").text = writable(_message(one))
    suite.set("tests", str(len(results)))
    suite.set("failures", str(sum(one.outcome == "worse" for one in results)))
    suite.set("errors", str(sum(one.outcome == "not-compared" for one in results)))
    suite.set("skipped", "0")
    suite.set("time", "0")
    return written([suite])


def watch_github(results: Sequence[Watched], places: Places) -> str:
    """What `watch --format github` writes: a command a target that tells something, and a line a target."""
    lines: list[str] = []
    for one in results:
        if one.outcome in _LEVELS:
            name = {"worse": "error", "not-compared": "error", "better": "notice"}[one.outcome]
            where: dict[str, str | int] = {"file": places.path, "line": places.lines[one.target]}
            lines.append(command(name, where | {"title": f"{one.outcome}: {one.target}"}, _message(one)))
        lines.append(f"watched {one_line(one.target)}: {one.outcome}")
    return "\n".join(lines) + "\n"
