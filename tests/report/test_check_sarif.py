"""SARIF against its own schema, and what readers of it rely on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.results import TEXT, checked, finding
from support.sarif import faults

from templatefix.analysis.registry import shipped_rules
from templatefix.gotemplate.source import Source, Span
from templatefix.report.check_sarif import check_sarif
from templatefix.report.checked import Checked

RULES = shipped_rules()


def document(*results: Checked, root: Path = Path("/repo")) -> dict[str, Any]:
    return check_sarif(results, RULES, root, "1.2.3")


def run_of(*results: Checked) -> dict[str, Any]:
    (run,) = document(*results)["runs"]
    found: dict[str, Any] = run
    return found


BAD = Source("{{ if }}")
RESULTS = (
    checked("unstable", finding("error"), finding("info", "TF204", False, 0, 7), path=Path("/repo/a b/ü.tmpl")),
    checked("stable", target="llama3.1:8b", reason="the template has no tools: judged on chats"),
    checked("stable", finding("warning", "TF205"), path=Path("/elsewhere/x.tmpl")),
    Checked("gone.tmpl", failure="there is no file gone.tmpl"),
    Checked(
        "bad.tmpl",
        text=BAD.text,
        file=BAD,
        position=BAD.position,
        failure="bad.tmpl:1:7: missing value for if\n  1 | …",
        path=Path("/repo/bad.tmpl"),
        failed_at=Span(6, 8),
    ),
)


def test_the_schema_holds() -> None:
    assert faults(document(*RESULTS)) == []
    assert faults(document()) == []


def test_the_schema_is_not_a_rubber_stamp() -> None:
    made = document(*RESULTS)
    del made["runs"][0]["results"][0]["message"]
    assert faults(made) == ["$.runs[0].results[0]: 'message' is a required property"]


def test_a_result_with_its_place_and_its_cost() -> None:
    result = run_of(RESULTS[0])["results"][0]
    assert (result["ruleId"], result["level"], result["message"]) == ("TF901", "error", {"text": "It moves."})
    assert "ruleIndex" not in result  # no rule of that code was run
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "a%20b/%C3%BC.tmpl", "uriBaseId": "SRCROOT", "index": 0}
    assert place["region"] == {
        "startLine": 2,
        "startColumn": 22,
        "endLine": 2,
        "endColumn": 33,
        "snippet": {"text": "<{{ .Role }"},
    }
    assert result["properties"] == {
        "fixable": True,
        "scenario": "chat",
        "step": 1,
        "promptBytes": 44,
        "keptBytes": 16,
        "stepsWithoutTools": 1,
        "steps": 2,
    }


def test_every_result_points_at_its_rule() -> None:
    run = run_of(*RESULTS)
    driver = run["tool"]["driver"]
    assert [rule["id"] for rule in driver["rules"]] == [rule.CODE for rule in RULES]
    pointed = [(result["ruleId"], driver["rules"][result["ruleIndex"]]["id"]) for result in run["results"][1:]]
    assert pointed == [("TF204", "TF204"), ("TF205", "TF205")]
    assert [result["level"] for result in run["results"]] == ["error", "note", "warning"]


def test_rules_come_with_their_pages() -> None:
    (rule,) = [rule for rule in run_of()["tool"]["driver"]["rules"] if rule["id"] == "TF101"]
    assert rule["name"] == "tools-follow-last-message"
    assert rule["shortDescription"]["text"].startswith("Finds tool definitions that are printed at the last")
    assert rule["shortDescription"]["text"].endswith(".")
    assert rule["fullDescription"]["text"].startswith("The definitions are most of an agent's prompt.")
    assert rule["help"]["text"].startswith("TF101 tools-follow-last-message\n")
    assert "**Use instead**\n\n```\n{{- if or .System .Tools }}" in rule["help"]["markdown"]
    assert rule["defaultConfiguration"] == {"level": "error"}


def test_files_elsewhere_and_models_have_their_own_addresses() -> None:
    first, model, elsewhere, gone, _ = run_of(*RESULTS)["artifacts"]
    assert first["location"] == {"uri": "a%20b/%C3%BC.tmpl", "uriBaseId": "SRCROOT"}
    assert "contents" not in first
    assert model["location"] == {"uri": "templatefix:llama3.1:8b"}
    assert model["contents"] == {"text": TEXT}
    assert elsewhere["location"] == {"uri": "file:///elsewhere/x.tmpl"}
    assert gone["location"] == {"uri": "templatefix:gone.tmpl"}


def test_verdicts_and_what_was_not_evaluated() -> None:
    run = run_of(*RESULTS)
    verdicts = [artifact["properties"]["verdict"] for artifact in run["artifacts"]]
    assert verdicts == ["unstable", "stable", "stable", "not-evaluated", "not-evaluated"]
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] is False
    gone, bad = invocation["toolExecutionNotifications"]
    assert gone["message"]["text"] == "there is no file gone.tmpl"
    assert bad["message"]["text"] == "bad.tmpl:1:7: missing value for if"
    region = bad["locations"][0]["physicalLocation"]["region"]
    assert (region["startLine"], region["startColumn"], region["endColumn"]) == (1, 7, 9)
    assert run_of(RESULTS[0])["invocations"] == [{"executionSuccessful": True, "toolExecutionNotifications": []}]


def test_columns_are_code_points_and_an_opening_mark_is_none() -> None:
    assert run_of()["columnKind"] == "unicodeCodePoints"
    marked = checked("stable", finding("info", at=3, size=6), text="\ufeff😀é{{ .X }}")
    region = run_of(marked)["results"][0]["locations"][0]["physicalLocation"]["region"]
    assert (region["startColumn"], region["endColumn"], region["snippet"]["text"]) == (1, 3, "😀é")


def test_bytes_that_are_not_utf_8_do_not_break_the_document() -> None:
    odd = checked("stable", finding("info", at=0, size=3), text="a\udcffb", target="od\udcffd")
    made = document(odd)
    json.dumps(made, ensure_ascii=False).encode()
    region = made["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"]
    assert region["snippet"]["text"] == "a\ufffdb"


def test_fingerprints_survive_lines_above_and_tell_findings_apart() -> None:
    def prints(result: Checked) -> list[str]:
        return [found["partialFingerprints"]["ruleFileText/v1"] for found in run_of(result)["results"]]

    def at(*places: int, text: str = TEXT) -> Checked:
        found = [finding("warning", at=place, size=11) for place in places]
        return checked("stable", *found, path=Path("/repo/x.tmpl"), text=text)

    (one,) = prints(at(28))
    assert prints(at(33, text="new.\n" + TEXT)) == [one]
    twice = prints(at(28, 28 + len(TEXT), text=TEXT + TEXT))
    assert twice[0] == one
    assert twice[1] != one
