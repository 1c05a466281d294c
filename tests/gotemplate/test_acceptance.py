"""What the parser accepts and refuses, node by node and sentence by sentence, against real Go.

TEMPLATEFIX_FUZZ_EXAMPLES sets how many templates each generating test makes.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from random import Random
from typing import Any

import pytest
from gotemplate.strategies import Writer, any_template
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.oracle import Oracle
from support.trees import FUNCTIONS, parsed

from templatefix.gotemplate.errors import ParseError
from templatefix.gotemplate.parser import BUILTINS, parse
from templatefix.gotemplate.source import Source

EXAMPLES = int(os.environ.get("TEMPLATEFIX_FUZZ_EXAMPLES", "2000"))
CASES = Path(__file__).parent / "data" / "parse_cases.jsonl"
ROWS: list[dict[str, Any]] = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]

fuzz = settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
fewer = settings(fuzz, max_examples=max(1, EXAMPLES // 4))  # whole templates take longer to draw


@pytest.mark.parametrize("row", ROWS, ids=lambda row: ascii(row["template"]))
def test_recorded(row: dict[str, Any]) -> None:
    assert parsed(row["template"]) == row["answer"]


def test_recordings_are_what_go_says_today(go_oracle: Oracle) -> None:
    answers = go_oracle.ask_all([{"op": "parse", "template": row["template"]} for row in ROWS])
    for row, answer in zip(ROWS, answers, strict=True):
        assert row["answer"] == answer, row["template"]


def test_refuses_what_ollama_refused(rejected: list[dict[str, Any]]) -> None:
    for row in rejected:
        assert parsed(row["template"]) == {"ok": False, "stage": "parse", "error": row["error"]}, row["id"]


def test_corpus(corpus: dict[str, dict[str, Any]], go_oracle: Oracle) -> None:
    answers = go_oracle.ask_all([{"op": "parse", "template": row["template"]} for row in corpus.values()])
    for row, answer in zip(corpus.values(), answers, strict=True):
        assert answer["ok"], row["id"]
        assert parsed(row["template"]) == answer, row["id"]


@given(st.randoms(use_true_random=False))
@fewer
def test_parses_as_go(go_oracle: Oracle, random: Random) -> None:
    template = Writer(random, wild=0.1).template()
    answer = go_oracle.ask({"op": "parse", "template": template})
    assert answer["ok"], template
    assert parsed(template) == answer, template


@given(st.randoms(use_true_random=False))
@fuzz
def test_refuses_as_go(go_oracle: Oracle, random: Random) -> None:
    template = any_template(random)
    assert parsed(template) == go_oracle.ask({"op": "parse", "template": template}), template


def test_functions_are_those_given() -> None:
    with pytest.raises(ParseError, match=r'^template: :1: function "json" not defined$'):
        parse("{{ json . }}", BUILTINS)
    assert parse("{{ json . }}", FUNCTIONS).depth == 0
    with pytest.raises(ParseError, match=r'^template: :1: function "len" not defined$'):
        parse("{{ len . }}", ())


def test_functions_named_break_and_continue_hide_the_keywords() -> None:
    # Go's parser keeps both words for functions of that name.
    assert parse("{{ break }}{{ continue 1 }}", {"break", "continue"}).depth == 0


def test_the_name_stands_in_the_sentence() -> None:
    with pytest.raises(ParseError, match=r"^template: chat:2: unclosed action started at chat:1$"):
        parse(Source("{{\n", "chat"))
