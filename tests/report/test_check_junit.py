"""JUnit's XML as its readers take it."""

from __future__ import annotations

from xml.etree import ElementTree as xml

import pytest
from support.results import checked, finding

from templatefix.analysis.findings import Severity
from templatefix.analysis.registry import shipped_rules
from templatefix.report.check_junit import check_junit
from templatefix.report.checked import Checked

RULES = tuple(rule for rule in shipped_rules() if rule.CODE in ("TF101", "TF205"))
GONE = Checked("gone.tmpl", failure="there is no file gone.tmpl\n  more")


def parsed(*results: Checked, fail_on: Severity = "error") -> xml.Element:
    return xml.fromstring(check_junit(results, RULES, fail_on))


def test_the_whole_document() -> None:
    moved = checked("unstable", finding("error", "TF101"), finding("warning", "TF205", False, 0, 6), reason="of late")
    assert check_junit([moved, GONE], RULES, "error").decode() == (
        "<?xml version='1.0' encoding='utf-8'?>\n"
        '<testsuites name="templatefix" tests="3" failures="1" errors="1" time="0">\n'
        '  <testsuite name="chat.tmpl" tests="2" failures="1" errors="0" skipped="0" time="0">\n'
        "    <properties>\n"
        '      <property name="verdict" value="unstable" />\n'
        '      <property name="reason" value="of late" />\n'
        "    </properties>\n"
        '    <testcase classname="chat.tmpl" name="TF101 tools-follow-last-message" time="0">\n'
        '      <failure type="error" message="It moves.">chat.tmpl:2:22: error: It moves.\n'
        "  2 | {{ range .Messages }}&lt;{{ .Role }}&gt;{{ .Content }}\n"
        "    |                      ^^^^^^^^^^^</failure>\n"
        "    </testcase>\n"
        '    <testcase classname="chat.tmpl" name="TF205 late-system-moves-up" time="0">\n'
        "      <system-out>chat.tmpl:1:1: warning: It moves.\n"
        "  1 | Hello.\n"
        "    | ^^^^^^</system-out>\n"
        "    </testcase>\n"
        "  </testsuite>\n"
        '  <testsuite name="gone.tmpl" tests="1" failures="0" errors="1" skipped="0" time="0">\n'
        "    <properties>\n"
        '      <property name="verdict" value="not-evaluated" />\n'
        '      <property name="reason" value="there is no file gone.tmpl" />\n'
        "    </properties>\n"
        '    <testcase classname="gone.tmpl" name="can be evaluated" time="0">\n'
        '      <error type="not-evaluated" message="there is no file gone.tmpl">there is no file gone.tmpl\n'
        "  more</error>\n"
        "    </testcase>\n"
        "  </testsuite>\n"
        "</testsuites>\n"
    )


@pytest.mark.parametrize(("fail_on", "failures"), [("error", 1), ("warning", 2), ("info", 2)])
def test_what_fails_is_what_the_exit_code_counts(fail_on: Severity, failures: int) -> None:
    root = parsed(checked("unstable", finding("error", "TF101"), finding("warning", "TF205")), fail_on=fail_on)
    assert root.get("failures") == str(failures) == str(len(root.findall(".//failure")))


def test_counts_are_those_of_the_cases() -> None:
    root = parsed(checked("stable"), checked("broken", finding("error", "TF101")), GONE)
    for suite in root:
        cases = suite.findall("testcase")
        assert int(suite.get("tests", "")) == len(cases)
        assert int(suite.get("failures", "")) == len(suite.findall("testcase/failure"))
        assert int(suite.get("errors", "")) == len(suite.findall("testcase/error"))
    assert root.get("tests") == str(len(root.findall(".//testcase")))


def test_two_findings_of_a_rule_are_one_failure() -> None:
    (failure,) = parsed(checked("unstable", finding("error", "TF101"), finding("error", "TF101", at=7))).iter("failure")
    assert failure.text is not None
    assert failure.text.count("error: It moves.") == 2


def test_characters_that_xml_lacks_are_replaced() -> None:
    odd = checked("stable", finding("warning", "TF205", at=0, size=1), text="a\x1b\udcff\x00", target="b\x07]]>&\udcff")
    suite = parsed(odd)[0]
    assert suite.get("name") == "b\ufffd]]>&\ufffd"
    assert "a\ufffd\ufffd\ufffd" in suite.findall(".//system-out")[0].text  # type: ignore[operator]
