"""Lock files: the same bytes for the same facts, and nothing lost on the way."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from templatefix.report.lock import Entry, LockError, digest, line_of, read_lock, write_lock

TEXT = "a\r\n{{ .Tools }}\u2028\udc80"
ENTRY = Entry(
    source="server",
    kind="go",
    locked="2026-11-29",
    manifest="sha256:" + "0" * 64,
    template=digest(TEXT),
    text=TEXT,
    server="0.30.1",
    not_in_force=None,
    tool="0.1.0",
    verdict="stable",
    reason=None,
    findings=({"code": "TF205", "severity": "warning", "line": 1, "column": 2},),
    loops={"single-call": [[10, 0, 1], [20, 10, 1]]},
)


def test_what_is_written_is_read_again() -> None:
    assert read_lock(write_lock({"owl:1": ENTRY})) == {"owl:1": ENTRY}


@given(st.text(st.characters(exclude_categories=[])), st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_and_name(text: str, name: str) -> None:
    try:
        entry = replace(ENTRY, text=text, template=digest(text))
    except UnicodeEncodeError:  # a surrogate that stands for no byte comes from no file
        return
    data = write_lock({name: entry})
    assert read_lock(data) == {name: entry}
    assert data.isascii()


def test_targets_are_sorted_and_short_rows_stay_on_one_line() -> None:
    lines = write_lock({"owl:2": ENTRY, "owl:1": ENTRY}).decode().splitlines()
    assert write_lock({"owl:1": ENTRY, "owl:2": ENTRY}).decode().splitlines() == lines
    assert [line.strip() for line in lines if line.startswith('    "')] == ['"owl:1": {', '"owl:2": {']
    assert '      "loops": {"single-call": [[10, 0, 1], [20, 10, 1]]},' in lines
    assert max(map(len, lines)) <= 120


def test_lines_of_targets() -> None:
    data = write_lock({"owl:1": ENTRY, "owl:2": ENTRY})
    assert data.splitlines()[line_of(data, "owl:2") - 1] == b'    "owl:2": {'
    assert line_of(data, "owl:3") == 1


def test_the_day_stays_while_nothing_else_differs() -> None:
    old = replace(ENTRY, locked="2025-05-01", tool="0.0.9")
    assert ENTRY.since(old) == replace(ENTRY, locked="2025-05-01")
    assert ENTRY.since(replace(old, verdict="unstable")) == ENTRY
    assert ENTRY.since(None) == ENTRY


def test_a_text_that_was_changed_by_hand_is_refused() -> None:
    value = json.loads(write_lock({"owl:1": ENTRY}))
    value["targets"]["owl:1"]["text"].append("more")
    with pytest.raises(LockError, match=r"^x\.lock cannot be used: what it says of owl:1 is not whole; lock it again$"):
        read_lock(json.dumps(value).encode(), "x.lock")
