"""Markdown that holds whatever it is given."""

from __future__ import annotations

import pytest

from templatefix.report.markdown import ReportTemplateError, code, fenced, render_report, table


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("a\n", "```\na\n```"),
        ("```\nb\n```", "````\n```\nb\n```\n````"),
        ("a\x1b[31mb", "```\na\N{REPLACEMENT CHARACTER}[31mb\n```"),
        ("\udc80", "```\n\N{REPLACEMENT CHARACTER}\n```"),
    ],
)
def test_fences(text: str, made: str) -> None:
    assert fenced(text) == made


@pytest.mark.parametrize(
    ("text", "made"), [("a b", "`a b`"), ("a`b", "``a`b``"), ("`a", "`` `a ``"), ("a\nb", "`a b`")]
)
def test_code(text: str, made: str) -> None:
    assert code(text) == made


def test_tables() -> None:
    assert table(["name", "n"], [("a|b\nc", 1), ("d", "–")]) == (
        "| name | n |\n| --- | ---: |\n| a\\|b c | 1 |\n| d | – |"
    )


def test_a_report_is_one_text_with_single_gaps() -> None:
    assert render_report("\n\na\n\n\n\n{{ b }}", "x", {"b": "c"}) == "a\n\nc\n"
    with pytest.raises(ReportTemplateError, match=r"^x, line 2: "):
        render_report("a\n{% endif %}", "x", {})
