"""A prompt as a table of its pieces."""

from __future__ import annotations

from templatefix.chat.go import GoChatTemplate
from templatefix.chat.request import Request
from templatefix.report.pieces_text import pieces_text


def texts(template: str, content: str) -> list[str]:
    made = GoChatTemplate(template)
    rendering = made.render(Request(({"role": "user", "content": content},)))
    lines = pieces_text(rendering, made.source.position).splitlines()
    at = lines[0].index("text")
    return [line[at:] for line in lines[1:-1]]


def test_a_text_is_unambiguous_in_one_line() -> None:
    assert texts("{{ range .Messages }}{{ .Content }}\n{{ end }}", 'a\\n"b"\n\x1b') == [
        '"a\\\\n"b"\\n\\x1b"',
        '"\\n"',
    ]


def test_a_long_text_is_cut_in_the_middle_wide_characters_counted_twice() -> None:
    (narrow,) = texts("{{ range .Messages }}{{ .Content }}{{ end }}", "a" * 300 + "z" * 300)
    (wide,) = texts("{{ range .Messages }}{{ .Content }}{{ end }}", "語" * 300)
    assert narrow.startswith('"aaa')
    assert narrow.endswith('zzz"')
    assert narrow.count("…") == wide.count("…") == 1
    assert len(narrow) - 2 <= 2 * wide.count("語") + 3 <= len(narrow)
