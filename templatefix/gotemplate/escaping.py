"""The escapers of text/template: html, js and urlquery."""

from __future__ import annotations

import re
from typing import Final

from templatefix.gotemplate.printable import is_print
from templatefix.gotemplate.strconv import runes
from templatefix.gotemplate.values import to_bytes

_HTML: Final = str.maketrans({"\0": "\ufffd", '"': "&#34;", "'": "&#39;", "&": "&amp;", "<": "&lt;", ">": "&gt;"})
_HTML_SPECIAL: Final = re.compile("[\0\"'&<>]")

_JS_SPECIAL: Final = re.compile("[\0-\x1f\"'&<=>\\\\]|[^\0-\x7f]")
_JS_ESCAPES: Final = {
    "\\": r"\\",
    "'": r"\'",
    '"': r"\"",
    "<": r"\u003C",
    ">": r"\u003E",
    "&": r"\u0026",
    "=": r"\u003D",
}

_UNRESERVED: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~"
_QUERY: Final = tuple(
    chr(byte) if byte in _UNRESERVED else "+" if byte == 0x20 else f"%{byte:02X}" for byte in range(256)
)


def escape_html(text: str) -> str:
    """HTMLEscapeString: text that can stand between tags and in attributes."""
    return text.translate(_HTML) if _HTML_SPECIAL.search(text) else text


def escape_js(text: str) -> str:
    """JSEscapeString: text that can stand in a JavaScript string literal."""
    return _JS_SPECIAL.sub(_escape_js_char, runes(text))


def _escape_js_char(match: re.Match[str]) -> str:
    char = match[0]
    if char in _JS_ESCAPES:
        return _JS_ESCAPES[char]
    # Bytes that are not UTF-8 (held as surrogates) stay as they are.
    if "\udc80" <= char <= "\udcff" or (char >= "\x80" and is_print(char)):
        return char
    return f"\\u{ord(char):04X}"


def escape_query(text: str) -> str:
    """url.QueryEscape: text that can stand in the query of a URL."""
    return "".join([_QUERY[byte] for byte in to_bytes(text)])
