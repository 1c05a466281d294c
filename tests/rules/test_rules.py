"""Every rule finds what its examples say, and has a page."""

from __future__ import annotations

import re
from typing import Any

import pytest

from templatefix.analysis.analyse import analyse
from templatefix.analysis.registry import page, shipped_rules
from templatefix.analysis.rule import Rule
from templatefix.chat.go import GoChatTemplate

RULES = shipped_rules()
HEADINGS = ["What it does", "Why it is bad", "Example", "Use instead", "Fix safety"]


def examples(attribute: str) -> list[Any]:
    return [
        pytest.param(rule, text, id=f"{rule.CODE}-{number}")
        for rule in RULES
        for number, text in enumerate(getattr(rule, attribute))
    ]


def sections(rule: Rule) -> dict[str, str]:
    parts = re.split(r"^(\S[^\n]*)\n(?=    )", page(rule), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize(("rule", "text"), examples("VALID"))
def test_valid_examples_pass(rule: Rule, text: str) -> None:
    found = analyse(GoChatTemplate(text), serving=rule.EXAMPLES_ON)
    assert rule.CODE not in [finding.code for finding in found.findings]
    assert found.disagreement == ()


@pytest.mark.parametrize(("rule", "text"), examples("INVALID"))
def test_invalid_examples_are_found(rule: Rule, text: str) -> None:
    found = analyse(GoChatTemplate(text), select=(rule.CODE,), serving=rule.EXAMPLES_ON)
    assert {finding.code for finding in found.findings} == {rule.CODE}
    assert found.disagreement == ()
    size = len(text.encode())
    loops = {run.loop.name: run for run in found.loops}
    for finding in found.findings:
        assert 0 <= finding.span.start < finding.span.end <= size
        assert finding.loop in loops
        assert finding.message.endswith((".", "`.")) or finding.code == "TF305"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.CODE)
def test_pages(rule: Rule) -> None:
    assert page(rule).splitlines()[0] == f"{rule.CODE} {rule.NAME}"
    found = sections(rule)
    assert [heading for heading in found if heading in HEADINGS] == HEADINGS
    for heading in ("Example", "Use instead"):
        GoChatTemplate(found[heading])


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.CODE)
def test_the_page_s_example_is_found_and_what_to_use_is_not(rule: Rule) -> None:
    found = sections(rule)
    for heading, expected in (("Example", True), ("Use instead", False)):
        text = "\n".join(line[4:] for line in found[heading].strip("\n").splitlines())
        if "Tools" not in text and rule.CODE != "TF204":
            text = "{{ json .Tools }}" + text
        expected = expected or rule.CODE == "TF401"  # where the template is the same, and the server is not
        codes = {finding.code for finding in analyse(GoChatTemplate(text), serving=rule.EXAMPLES_ON).findings}
        assert (rule.CODE in codes) is expected, heading


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.CODE)
def test_rules_have_examples_of_both_kinds(rule: Rule) -> None:
    assert rule.VALID or rule.CODE == "TF401"
    assert rule.INVALID
    assert rule.NAME.replace("-", "_") == type(rule).__module__.rsplit(".", 1)[1]


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.REFERENCES], ids=lambda rule: rule.CODE)
def test_references_name_a_thread_and_what_it_says(rule: Rule) -> None:
    for reference in rule.REFERENCES:
        assert re.fullmatch(r"[\w-]+/[\w.-]+#\d+(, #\d+)* — \S.*[^.\s]", reference)
