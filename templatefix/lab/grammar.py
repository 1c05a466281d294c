"""Output bound to a given reply, in GBNF: the words as they are, the spacing of JSON left to the model.

So the way from a reply to a parsed call can be tested on any weights, and what a template makes of another spacing
shows.
"""

from __future__ import annotations

import json
from typing import Any

from templatefix.lab.calls import json_objects

_SPACE = "space"


def grammar_of(reply: str) -> str:
    """A grammar whose language is this text, with a blank or none behind JSON's commas and colons."""
    parts: list[str] = []
    at = 0
    for start, value, end in json_objects(reply):
        parts += [_literal(reply[at:start]), *_value(value)]
        at = end
    parts.append(_literal(reply[at:]))
    body = " ".join(part for part in parts if part) or '""'
    return f'root ::= {body}\n{_SPACE} ::= " "?\n'


def _value(value: Any) -> list[str]:
    if isinstance(value, dict):
        items = [
            [_literal(json.dumps(key, ensure_ascii=False) + ":"), _SPACE, *_value(item)] for key, item in value.items()
        ]
        return ['"{"', *_joined(items), '"}"']
    if isinstance(value, list):
        return ['"["', *_joined([_value(item) for item in value]), '"]"']
    return [_literal(json.dumps(value, ensure_ascii=False))]


def _joined(items: list[list[str]]) -> list[str]:
    joined: list[str] = []
    for index, item in enumerate(items):
        joined += [*(['","', _SPACE] if index else []), *item]
    return joined


def _literal(text: str) -> str:
    """A string of GBNF; empty for an empty text."""
    escaped = (
        text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    )
    return f'"{escaped}"' if text else ""
