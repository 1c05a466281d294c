"""What a check says on the terminal and in JSON, from results made up here."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import pytest
from support.results import CHAT, TEXT, checked, finding

from templatefix.analysis.analyse import Analysis
from templatefix.analysis.findings import Cost, Finding, Severity
from templatefix.analysis.stability import run_loop
from templatefix.chat.go import GoChatTemplate
from templatefix.report.check_json import check_json
from templatefix.report.check_text import ON_REQUEST, check_table, check_text
from templatefix.report.checked import Checked
from templatefix.rewrite.adaptations import LOST, PARALLEL, RESULTS


def test_a_finding_with_its_place_its_loop_and_what_to_do() -> None:
    result = checked("unstable", finding("error"), finding("warning", "TF902", False, 0))
    assert check_text(result) == (
        "chat.tmpl:2:22: error TF901 made-up\n"
        "  It moves.\n"
        "  2 | {{ range .Messages }}<{{ .Role }}>{{ .Content }}\n"
        "    |                      ^^^^^^^^^^^\n"
        "  = kept of the request before   . read anew   T tools kept   t tools read anew\n"
        "  loop chat\n"
        "  step  after  prompt                               bytes          kept tools\n"
        "     0  user   .............                           17                none\n"
        "     1  user   =============.....................      44         17/17  none\n"
        "  cost  16 bytes kept, 28 read anew at step 1 of chat\n"
        "        no tools in 1 of 2 requests of chat\n"
        "  fix   templatefix patch chat.tmpl\n"
        "  why   templatefix explain TF901\n"
        "\n"
        "chat.tmpl:1:1: warning TF902 made-up\n"
        "  It moves.\n"
        "  1 | Hello.\n"
        "    | ^^^^^^\n"
        "  2 | {{ range .Messages }}<{{ .Role }}>{{ .Content }}\n"
        "    | ^^^^\n"
        "  fix   none by patch; the page says what can be done\n"
        "  why   templatefix explain TF902\n"
        "\n"
        "chat.tmpl: unstable, 1 error, 1 warning; patch mends 1 of 2\n"
    )


def said_of(finding: Finding) -> list[str]:
    return check_text(checked("unstable", finding)).splitlines()


def test_what_is_mended_on_request_says_how() -> None:
    assert "  fix   on request: templatefix patch --select TF,TF303 chat.tmpl" in said_of(
        finding("warning", "TF303", False)
    )
    assert set(ON_REQUEST) == {RESULTS, LOST, PARALLEL}
    lost = replace(checked("unstable", finding("warning", "TF303", False)), kind="jinja")
    assert "  fix   none by patch; the page says what can be done" in check_text(lost).splitlines()


def test_an_option_and_what_a_cost_hangs_on_are_told() -> None:
    assert "  fix   templatefix patch chat.tmpl" in said_of(finding("error", "TF203"))
    dropped = replace(finding("error", "TF203"), option="--keep-thinking", cost=Cost(0, 44, 0, 2, "with no checkpoint"))
    said = said_of(dropped)
    assert "  fix   templatefix patch --keep-thinking chat.tmpl" in said
    assert "  cost  0 bytes kept, 44 read anew at step 1 of chat, with no checkpoint" in said


def test_what_has_nothing_to_do_with_the_cache_has_no_cost() -> None:
    lines = said_of(finding("error", "TF301"))
    assert "  seen  at step 1 of chat" in lines
    assert not [line for line in lines if line.startswith("  cost")]


def test_lines_are_eighty_columns_and_hold_no_control_characters() -> None:
    loud = replace(
        finding("error"), message="It says \x1b[31m and\nmore. " + "word " * 40, cost=Cost(1, 123456789, 10, 20)
    )
    lines = said_of(loud)
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in "".join(lines)
    start = lines.index("  cost  1 byte kept, 123456788 read anew at step 1 of chat")
    assert lines[start + 1] == "        no tools in 10 of 20 requests of chat"


def test_a_first_request_has_nothing_to_keep() -> None:
    bare = replace(finding("error"), step=0, cost=Cost(0, 44, 5, 5))
    assert "  cost  no tools in 5 of 5 requests of chat" in said_of(bare)
    assert "  seen  at step 0 of chat" in said_of(replace(bare, cost=Cost(0, 44, 0, 5)))


def test_a_clean_template_is_one_line_and_its_reason() -> None:
    assert check_text(checked("stable")) == "chat.tmpl: stable, nothing found\n"
    said = check_text(checked("stable", reason="the template has no tools: judged on chats"))
    assert said == "chat.tmpl: stable, nothing found\n  the template has no tools: judged on chats\n"


def test_a_disagreement_is_shown() -> None:
    assert "note: the loops say one thing\n" in check_text(checked("stable", notes=("the loops say one thing",)))


def test_what_was_not_evaluated_is_never_clean() -> None:
    result = Checked("gone.tmpl", failure="there is no file gone.tmpl")
    assert check_text(result) == "gone.tmpl: not evaluated\n"
    assert check_json([result]) == {
        "version": 1,
        "results": [
            {
                "target": "gone.tmpl",
                "kind": "go",
                "sha256": None,
                "verdict": "not-evaluated",
                "reason": "there is no file gone.tmpl",
                "findings": [],
                "loops": [],
                "disagreement": [],
            }
        ],
    }


def test_json() -> None:
    (result,) = check_json([checked("unstable", finding("error"))])["results"]
    assert result == {
        "target": "chat.tmpl",
        "kind": "go",
        "sha256": hashlib.sha256(TEXT.encode()).hexdigest(),
        "verdict": "unstable",
        "reason": None,
        "findings": [
            {
                "code": "TF901",
                "name": "made-up",
                "severity": "error",
                "message": "It moves.",
                "start": {"line": 2, "column": 22, "offset": 28},
                "end": {"line": 2, "column": 33, "offset": 39},
                "loop": {"scenario": "chat", "step": 1},
                "fixable": True,
                "option": None,
            }
        ],
        "loops": [
            {
                "scenario": "chat",
                "steps": [
                    {"step": 0, "prompt_bytes": 17, "kept_bytes": 0, "tools": 0},
                    {"step": 1, "prompt_bytes": 44, "kept_bytes": 17, "tools": 0},
                ],
            }
        ],
        "disagreement": [],
    }


def test_findings_stand_worst_first_then_by_place() -> None:
    mixed = [finding("info", "TF904"), finding("error", "TF903", at=40), finding("error", "TF902", at=7)]
    result = checked("unstable", *mixed)
    assert [f.code for f in result.findings] == ["TF902", "TF903", "TF904"]
    assert [found["code"] for found in check_json([result])["results"][0]["findings"]] == ["TF902", "TF903", "TF904"]


def test_the_table_has_the_worst_first() -> None:
    results: list[Any] = [
        checked("stable"),
        Checked("gone.tmpl", failure="there is no file gone.tmpl"),
        checked("unstable", finding("error")),
        checked("broken", finding("error"), finding("warning")),
    ]
    assert check_table(results).splitlines() == [
        "verdict       read again no tools  err warn  target",
        "broken                 0        -    1    1  chat.tmpl",
        "unstable               0        -    1    0  chat.tmpl",
        "not-evaluated          ?        ?    ?    ?  gone.tmpl",
        "stable                 0        -    0    0  chat.tmpl",
        "4 targets: 1 broken, 1 unstable, 1 not-evaluated, 1 stable.",
        "read again  bytes a turn that stood in the turn before, on average over loops",
        "no tools    how many of the prompts lack the tools that the request has",
    ]


@pytest.mark.parametrize(
    ("target", "shown"),
    [
        ("a" * 60 + "/model.tmpl", "…" + "a" * 23 + "/model.tmpl"),
        ("語" * 40 + ".tmpl", "…" + "語" * 14 + ".tmpl"),  # each is two columns wide
        ("a\x1b[31m\nb.tmpl", "a\ufffd[31m\ufffdb.tmpl"),
    ],
)
def test_the_table_has_eighty_columns_and_no_control_characters(target: str, shown: str) -> None:
    row = check_table([Checked(target, failure="gone"), checked("stable")]).splitlines()[1]
    assert row == f"not-evaluated          ?        ?    ?    ?  {shown}"


@pytest.mark.parametrize(
    ("worst", "limit", "reached"),
    [
        ("error", "error", True),
        ("warning", "error", False),
        ("warning", "warning", True),
        ("info", "warning", False),
        ("info", "info", True),
    ],
)
def test_at_least(worst: Severity, limit: Severity, reached: bool) -> None:
    assert checked("stable", finding(worst)).at_least(limit) is reached


def test_bytes_read_again() -> None:
    moving = GoChatTemplate(
        "{{ range $i, $_ := .Messages }}{{ if eq (len (slice $.Messages $i)) 1 }}#{{ end }}<{{ .Role }}>{{ .Content }}"
        "{{ end }}"
    )
    run = run_loop(moving, CHAT, moving.as_served)
    analysis = Analysis("unstable", None, (), (run,), ())
    # "#<user>one" was there; of it, nothing opens "<user>one<assistant>two#<user>three".
    assert Checked("x", analysis=analysis).lost_bytes() == 10
