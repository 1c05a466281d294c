"""Escapers against texts recorded from real Go: text/template and net/url of Go 1.27.3."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.oracle import Oracle

from templatefix.gotemplate.escaping import escape_html, escape_js, escape_query
from templatefix.gotemplate.formatting import sprintf
from templatefix.gotemplate.printable import is_print
from templatefix.gotemplate.values import from_bytes, to_bytes

# Text, and what HTMLEscapeString, JSEscapeString and QueryEscape return.
ESCAPED = [
    ("", "", "", ""),
    ("plain é 😀", "plain é 😀", "plain é 😀", "plain+%C3%A9+%F0%9F%98%80"),
    (
        "<a href='x' title=\"y\">&amp;</a>",
        "&lt;a href=&#39;x&#39; title=&#34;y&#34;&gt;&amp;amp;&lt;/a&gt;",
        "\\u003Ca href\\u003D\\'x\\' title\\u003D\\\"y\\\"\\u003E\\u0026amp;\\u003C/a\\u003E",
        "%3Ca+href%3D%27x%27+title%3D%22y%22%3E%26amp%3B%3C%2Fa%3E",
    ),
    (
        "a\x00b\x01\x1f\x7f\n\r\t",
        "a�b\x01\x1f\x7f\n\r\t",
        "a\\u0000b\\u0001\\u001F\x7f\\u000A\\u000D\\u0009",
        "a%00b%01%1F%7F%0A%0D%09",
    ),
    (r"a=b; c\d `e` {f}", r"a=b; c\d `e` {f}", r"a\u003Db; c\\d `e` {f}", "a%3Db%3B+c%5Cd+%60e%60+%7Bf%7D"),
    (
        "\u2028\u2029\xa0\xad\ufeff\u0378\u200b\U000e0001\U0010ffff",
        "\u2028\u2029\xa0\xad\ufeff\u0378\u200b\U000e0001\U0010ffff",
        r"\u2028\u2029\u00A0\u00AD\uFEFF\u0378\u200B\uE0001\u10FFFF",
        "%E2%80%A8%E2%80%A9%C2%A0%C2%AD%EF%BB%BF%CD%B8%E2%80%8B%F3%A0%80%81%F4%8F%BF%BF",
    ),
    (
        "100% sure? yes/no+maybe~_-.!*()",
        "100% sure? yes/no+maybe~_-.!*()",
        "100% sure? yes/no+maybe~_-.!*()",
        "100%25+sure%3F+yes%2Fno%2Bmaybe~_-.%21%2A%28%29",
    ),
    ("\udcff\udce4", "\udcff\udce4", "\udcff\udce4", "%FF%E4"),
    ("\udce4\udcb8\udcad", "中", "中", "%E4%B8%AD"),
    ("中文", "中文", "中文", "%E4%B8%AD%E6%96%87"),
    ("⃀\U0001fae8\U00033479", "⃀\U0001fae8\U00033479", "⃀\U0001fae8\U00033479", "%E2%83%80%F0%9F%AB%A8%F0%B3%91%B9"),
]


@pytest.mark.parametrize(("text", "html", "js", "query"), ESCAPED)
def test_escapers(text: str, html: str, js: str, query: str) -> None:
    assert to_bytes(escape_html(text)) == to_bytes(html)
    assert to_bytes(escape_js(text)) == to_bytes(js)
    assert escape_query(text) == query


@pytest.mark.parametrize(
    ("char", "printed"),
    [
        (" ", True),
        ("\x7f", False),
        ("\xa0", False),
        ("\xad", False),
        ("\u0301", True),
        ("\u200b", False),
        ("\u2028", False),
        ("\ue000", False),
        ("\ufffd", True),
        ("\u0378", False),  # assigned in no version
        ("\u061d", True),  # since Unicode 14
        ("\u1c89", True),  # since Unicode 16
        ("\U00033479", True),  # since Unicode 17, the last of a range
        ("\U0003347a", False),
        ("\U0010ffff", False),
    ],
)
def test_is_print(char: str, printed: bool) -> None:
    assert is_print(char) is printed


@settings(deadline=None, max_examples=300)
@given(data=st.one_of(st.binary(max_size=12), st.text(st.characters(codec="utf-8")).map(str.encode)))
def test_any_text_is_escaped_as_by_go(go_oracle: Oracle, data: bytes) -> None:
    wrapped = {"$string": base64.b64encode(data).decode("ascii")}
    template = "{{ html . }}\n{{ js . }}\n{{ urlquery . }}\n{{ printf `%q %+q %#q` . . . }}"
    answer = go_oracle.ask({"op": "exec", "template": template, "data": wrapped})
    text = from_bytes(data)
    ours = [escape_html(text), escape_js(text), escape_query(text), sprintf("%q %+q %#q", [text] * 3)]
    assert to_bytes("\n".join(ours)) == to_bytes(answer["output"])
