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


def test_tabs_are_shown_as_blanks() -> None:
    assert lines("\t\tab", 2, 4) == ["  1 |         ab", "    |         ^^"]


def test_long_lines_are_cut_around_the_span() -> None:
    shown, carets = lines("x" * 200 + "SPAN" + "y" * 200, 200, 204)
    assert shown == "  1 | …" + "x" * 24 + "SPAN" + "y" * 40 + "…"
    assert carets == "    | " + " " * 25 + "^^^^"
    shown, carets = lines("x" * 200 + "SPAN", 200, 204)
    assert shown == "  1 | …" + "x" * 64 + "SPAN"
    assert carets == "    | " + " " * 65 + "^^^^"
    assert lines("y" * 69, 0, 1)[0] == "  1 | " + "y" * 68 + "…"


def test_wide_characters_take_two_columns_and_marks_none() -> None:
    assert lines("語語{{ x }}語", 6, 13) == ["  1 | 語語{{ x }}語", "    |     ^^^^^^^"]
    assert lines("e\u0301語!", 3, 6) == ["  1 | e\u0301語!", "    |  ^^"]
    shown, carets = lines("語" * 200 + "SPAN", 600, 604)
    assert shown == "  1 | …" + "語" * 32 + "SPAN"
    assert carets == "    | " + " " * 65 + "^^^^"


def test_a_carriage_return_and_what_terminals_act_on_are_not_shown() -> None:
    assert lines("a{{ x }}\r\nb\x1b[31m\r\n", 1, 16) == [
        "  1 | a{{ x }}",
        "    |  ^^^^^^^",
        "  2 | b\ufffd[31m",
        "    | ^^^^^^",
    ]


def test_a_span_does_not_open_with_an_empty_line() -> None:
    assert lines("\n{{ x }}\n", 0, 8) == ["  2 | {{ x }}", "    | ^^^^^^^"]
    assert lines("a\n\n  {{ x }}\n", 1, 12) == ["  3 |   {{ x }}", "    |   ^^^^^^^"]


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
    assert second == "  >  1  user   ....ttttttttttttttttttttttttttt...     182         0/157     1"
    assert len(first) == len(second) <= 80


def test_tools_that_stay() -> None:
    _, first, second = picture(FIXED)
    assert first.split()[2].strip("t.") == ""
    assert second.split()[2].strip("T=.") == ""  # and no mark stands before it
    assert second.split()[-2:] == ["157/157", "1"]


def test_a_loop_that_fails_says_so() -> None:
    rows = picture(FAILING)
    assert len(rows) == 3
    assert rows[1].split() == ["0", "user", "." * 34, "3", "none"]
    assert rows[2].startswith("     1  fails: template: :1:")
    assert len(rows[2]) == 80
    assert rows[2].endswith("…")


def test_a_loop_that_fails_at_once_has_no_empty_picture() -> None:
    (row,) = picture("{{ index .Messages 99 }}")
    assert row.startswith("     0  fails: template: :1:")


@pytest.mark.parametrize("template", [MOVING, FIXED, TEXT])
def test_colours_change_no_letter(template: str) -> None:
    import re

    coloured = picture(template, Style(True))
    assert any("\x1b[" in line for line in coloured)
    assert [re.sub(r"\x1b\[\d*m", "", line) for line in coloured] == picture(template)
