"""Workflow commands of GitHub Actions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from support.results import TEXT, checked, finding

from templatefix.gotemplate.source import Source, Span
from templatefix.report.check_github import check_github
from templatefix.report.checked import Checked

ROOT = Path("/repo")


def lines(*results: Checked) -> list[str]:
    return check_github(results, ROOT).splitlines()


def test_annotations_at_their_lines() -> None:
    found = [finding("error"), finding("warning", "TF902", at=0, size=20), finding("info", "TF903", at=0, size=6)]
    assert lines(checked("unstable", *found, path=Path("/repo/t/chat.tmpl"))) == [
        "::error file=t/chat.tmpl,line=2,endLine=2,col=22,endColumn=33,title=TF901 made-up::It moves.",
        "::warning file=t/chat.tmpl,line=1,endLine=2,title=TF902 made-up::It moves.",
        "::notice file=t/chat.tmpl,line=1,endLine=1,col=1,endColumn=7,title=TF903 made-up::It moves.",
        "checked chat.tmpl: unstable",
    ]


def test_a_model_has_no_file() -> None:
    assert lines(checked("unstable", finding("error"), target="llama3.1:8b")) == [
        "::error title=TF901 made-up in llama3.1%3A8b::It moves. (line 2, column 22)",
        "checked llama3.1:8b: unstable",
    ]


def test_what_cannot_stand_in_a_command_is_escaped() -> None:
    odd = replace(finding("error"), message="100 % of a, b: c\r\nnext::error::")
    assert lines(checked("unstable", odd, path=Path("/repo/a,b:c%.tmpl"), target="a\n::error::x"))[:1] == [
        "::error file=a%2Cb%3Ac%25.tmpl,line=2,endLine=2,col=22,endColumn=33,title=TF901 made-up::"
        "100 %25 of a, b: c%0D%0Anext::error::"
    ]


def test_no_name_is_taken_for_a_command() -> None:
    assert lines(checked("stable", target="::error::x\n::error::y")) == ["checked ::error::x ::error::y: stable"]


def test_what_was_not_evaluated_is_an_error() -> None:
    source = Source(TEXT)
    bad = Checked(
        "bad.tmpl",
        text=TEXT,
        file=source,
        position=source.position,
        failure="bad.tmpl:2:1: no\n   more",
        path=Path("/repo/bad.tmpl"),
        failed_at=Span(7, 8),
    )
    assert lines(bad, Checked("gone.tmpl", failure="there is no file gone.tmpl")) == [
        "::error file=bad.tmpl,line=2,endLine=2,col=1,endColumn=2,title=not evaluated%3A bad.tmpl::bad.tmpl:2:1: no",
        "checked bad.tmpl: not-evaluated",
        "::error title=not evaluated%3A gone.tmpl::there is no file gone.tmpl",
        "checked gone.tmpl: not-evaluated",
    ]
