"""The result of a check as JUnit's XML, as Jenkins, GitLab and Surefire's readers take it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree as xml

from templatefix.analysis.findings import Finding, Severity
from templatefix.analysis.rule import Rule
from templatefix.report.checked import SEVERITIES, Checked
from templatefix.report.pictures import span_lines
from templatefix.report.places import said

# What XML 1.0 has no way to write; lone surrogates are bytes that were not UTF-8.
_UNWRITABLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def check_junit(results: Sequence[Checked], rules: Sequence[Rule], fail_on: Severity) -> bytes:
    """The document that `check --format junit` writes: a suite a target, a test case a rule.

    A rule fails with its findings at or above `fail_on`; what else it found stands in the case's output. A target that
    was not evaluated has one case, with an error.
    """
    return written([_suite(checked, rules, fail_on) for checked in results])


def written(suites: Sequence[xml.Element]) -> bytes:
    """The document of some suites, with their sums."""
    root = xml.Element("testsuites", {"name": "templatefix", **_sums(suites)})
    root.extend(suites)
    xml.indent(root)
    data: bytes = xml.tostring(root, encoding="utf-8", xml_declaration=True)
    return data + b"\n"


def _sums(suites: Sequence[xml.Element]) -> dict[str, str]:
    counts = {name: sum(int(suite.get(name, "0")) for suite in suites) for name in ("tests", "failures", "errors")}
    return {**{name: str(count) for name, count in counts.items()}, "time": "0"}


def _suite(checked: Checked, rules: Sequence[Rule], fail_on: Severity) -> xml.Element:
    suite = xml.Element("testsuite", name=writable(checked.target))
    properties = xml.SubElement(suite, "properties")
    xml.SubElement(properties, "property", name="verdict", value=checked.verdict)
    if checked.reason:
        xml.SubElement(properties, "property", name="reason", value=writable(checked.reason))
    cases = [_missed(checked)] if checked.verdict == "not-evaluated" else []
    cases += [_case(checked, rule, fail_on) for rule in rules if checked.analysis is not None]
    suite.extend(cases)
    suite.set("tests", str(len(cases)))
    suite.set("failures", str(sum(case.find("failure") is not None for case in cases)))
    suite.set("errors", str(sum(case.find("error") is not None for case in cases)))
    suite.set("skipped", "0")
    suite.set("time", "0")
    return suite


def _missed(checked: Checked) -> xml.Element:
    case = xml.Element("testcase", classname=writable(checked.target), name="can be evaluated", time="0")
    error = xml.SubElement(case, "error", type="not-evaluated", message=writable(said(checked)))
    error.text = writable(checked.failure or said(checked))
    return case


def _case(checked: Checked, rule: Rule, fail_on: Severity) -> xml.Element:
    case = xml.Element("testcase", classname=writable(checked.target), name=f"{rule.CODE} {rule.NAME}", time="0")
    found = [finding for finding in checked.findings if finding.code == rule.CODE]
    limit = SEVERITIES.index(fail_on)
    bad = [finding for finding in found if SEVERITIES.index(finding.severity) <= limit]
    if bad:
        failure = xml.SubElement(case, "failure", type=bad[0].severity, message=writable(bad[0].message))
        failure.text = writable("\n".join(_lines(checked, bad)))
    others = [finding for finding in found if finding not in bad]
    if others:
        xml.SubElement(case, "system-out").text = writable("\n".join(_lines(checked, others)))
    return case


def _lines(checked: Checked, findings: Sequence[Finding]) -> list[str]:
    lines: list[str] = []
    for finding in findings:
        start, end = checked.place(finding.span.start), checked.place(finding.span.end)
        lines.append(f"{checked.target}:{start.line}:{start.column}: {finding.severity}: {finding.message}")
        if checked.file is not None:
            lines += span_lines(checked.file, start, end)
    return lines


def writable(text: str) -> str:
    """Text that XML can carry."""
    return _UNWRITABLE.sub("\N{REPLACEMENT CHARACTER}", text)
