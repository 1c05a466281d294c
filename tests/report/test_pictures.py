"""Spans in their lines, and loops as bars."""

from __future__ import annotations

import pytest

from templatefix.analysis.loops import Loop, assistant, requests_of, user
from templatefix.analysis.stability import run_loop
from templatefix.chat.go import GoChatTemplate
from templatefix.gotemplate.source import Source
from templatefix.report.pictures import loop_lines, span_lines
from templatefix.report.style import Style


def lines(text: str, start: int, end: int) -> list[str]:
    source = Source(text)
    return span_lines(source, source.position(start), source.position(end))


def test_a_span_in_one_line() -> None:
    assert lines("one\ntwo three four\n", 8, 13) == [
        "  2 | two three four",
        "    |     ^^^^^",
    ]


def test_an_empty_span_has_one_caret() -> None:
    assert lines("ab", 1, 1) == ["  1 | ab", "    |  ^"]


def test_a_span_over_lines_marks_what_belongs_to_it() -> None:
    assert lines("a {{ if .X }}\n\n  text\n{{ end }} b", 2, 31) == [
        "  1 | a {{ if .X }}",
        "    |   ^^^^^^^^^^^",
        "  2 |",
        "  3 |   text",
        "    |   ^^^^",
        "  4 | {{ end }} b",
        "    | ^^^^^^^^^",
    ]


def test_a_span_that_ends_with_a_line_break_does_not_show_the_next_line() -> None:
    assert lines("one\ntwo\n", 0, 4) == ["  1 | one", "    | ^^^"]


def test_the_middle_of_a_long_span_is_left_out() -> None:
    text = "".join(f"line {number}\n" for number in range(9, 21))
    assert lines(text, 0, len(text) - 1) == [
        "   1 | line 9",
        "     | ^^^^^^",
        "   2 | line 10",
        "     | ^^^^^^^",
        "   3 | line 11",
        "     | ^^^^^^^",
        "   … |",
        "  12 | line 20",
        "     | ^^^^^^^",
    ]


def test_tabs_stay_below_tabs_and_wide_text_is_cut() -> None:
    assert lines("\t\tab", 2, 4) == ["  1 | \t\tab", "    | \t\t^^"]
    shown, carets = lines("x" * 200 + "SPAN" + "y" * 200, 200, 204)
    assert shown == "  1 | …" + "x" * 24 + "SPAN" + "y" * 40 + "…"
    assert carets == "    | " + " " * 25 + "^^^^"


def test_columns_are_characters() -> None:
    assert lines("äöü{{ x }}", 6, 13) == ["  1 | äöü{{ x }}", "    |    ^^^^^^^"]


TOOL = ({"type": "function", "function": {"name": "look", "description": "d" * 40}},)
CHAT = Loop("chat", requests_of([user("one"), assistant("two"), user("three")], TOOL), True)
TEXT = "{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}"
MOVING = (
    "{{ range $i, $m := .Messages }}{{ if eq (len (slice $.Messages $i)) 1 }}{{ $.Tools }}{{ end }}"
    "<{{ .Role }}>{{ .Content }}{{ end }}"
)
FIXED = "{{ .Tools }}" + TEXT
FAILING = "{{ range $i, $m := .Messages }}{{ if gt $i 1 }}{{ index .Content 9 }}{{ end }}{{ .Content }}{{ end }}"


def picture(template: str, style: Style | None = None) -> list[str]:
    made = GoChatTemplate(template)
    return loop_lines(run_loop(made, CHAT, made.as_served), style or Style())


def test_tools_that_move() -> None:
    head, first, second = picture(MOVING)
    assert head == "  step  after  prompt                               bytes          kept tools"
    # 148 bytes of tools, then <user>one; behind the answer <user>one<assistant>two, the tools, <user>three.
    assert first == "     0  user   ttttttttttttttttttttttttttt..          157                   1"
    assert second == "     1  user   ....ttttttttttttttttttttttttttt...     182         0/157     1"
    assert len(first) == len(second) <= 80


def test_tools_that_stay() -> None:
    _, first, second = picture(FIXED)
    assert first.split()[2].strip("t.") == ""
    assert second.split()[2].strip("T=.") == ""
    assert second.split()[-2:] == ["157/157", "1"]


def test_a_loop_that_fails_says_so() -> None:
    rows = picture(FAILING)
    assert len(rows) == 3
    assert rows[1].split() == ["0", "user", "." * 34, "3", "none"]
    assert rows[2].startswith("     1  fails: template: :1:")


@pytest.mark.parametrize("template", [MOVING, FIXED, TEXT])
def test_colours_change_no_letter(template: str) -> None:
    import re

    coloured = picture(template, Style(True))
    assert any("\x1b[" in line for line in coloured)
    assert [re.sub(r"\x1b\[\d*m", "", line) for line in coloured] == picture(template)
