"""Errors: the picture for people, and the way through pickles."""

from __future__ import annotations

import pickle

import pytest

from templatefix.gotemplate.errors import ExecError, GoError, ParseError
from templatefix.gotemplate.parser import parse
from templatefix.gotemplate.source import Source, Span


def refusal(source: Source | str) -> ParseError:
    with pytest.raises(ParseError) as caught:
        parse(source)
    return caught.value


def test_the_place_is_shown() -> None:
    assert refusal("a\né {{ if .A }}{{ nope .B }}{{ end }}").explain() == (
        'template:2:17: template: :2: function "nope" not defined\n'
        " 2 | é {{ if .A }}{{ nope .B }}{{ end }}\n"
        "   |                 ^^^^"
    )


def test_a_file_has_a_name() -> None:
    assert refusal("{{ end }}").explain("chat.gotmpl").startswith("chat.gotmpl:1:8: template: :1: unexpected {{end}}\n")
    assert refusal(Source("{{ end }}", "chat")).explain().startswith("chat:1:8: template: chat:1: unexpected {{end}}\n")


def test_tabs_keep_the_caret_in_place() -> None:
    assert refusal("\t{{\t!\t}}").explain().split("\n")[1:] == [" 1 | \t{{\t!\t}}", "   | \t  \t^"]


def test_a_place_at_the_end() -> None:
    assert refusal("{{ if .A }}\n").explain() == "template:2:1: template: :2: unexpected EOF\n 2 | \n   | ^"


@pytest.mark.parametrize(
    ("before", "after", "shown", "caret"),
    [
        (10, 300, "x" * 10 + "{{ ! }}" + "y" * 83 + "…", 13),
        (300, 300, "…" + "x" * 57 + "{{ ! }}" + "y" * 36 + "…", 61),
        (300, 0, "…" + "x" * 93 + "{{ ! }}", 97),
    ],
)
def test_long_lines_are_cut_around_the_caret(before: int, after: int, shown: str, caret: int) -> None:
    _, line, marks = refusal("x" * before + "{{ ! }}" + "y" * after).explain().split("\n")
    assert line == f" 1 | {shown}"
    assert marks == "   | " + " " * caret + "^"


def test_control_characters_are_not_printed() -> None:
    assert refusal("\x1b[31m\udcff{{ ! }}").explain().split("\n")[1] == " 1 | \ufffd[31m\ufffd{{ ! }}"


def test_without_a_place_the_sentence_is_all() -> None:
    assert ExecError("out of steps").explain() == "out of steps"


@pytest.mark.parametrize("kind", [GoError, ParseError, ExecError])
def test_errors_survive_pickling(kind: type[GoError]) -> None:
    error = kind("what", Source("{{ a }}", "t"), Span(3, 4))
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert (copy.message, copy.span, str(copy)) == ("what", Span(3, 4), "what")
    assert copy.explain() == error.explain()
