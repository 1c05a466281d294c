"""Test data for the executor: the typed JSON of tests/go/value.go, and what the executor makes of it."""

from __future__ import annotations

import base64
import datetime
from typing import Any, Final

from templatefix.chat.go import OLLAMA_FUNCTIONS, ollama_functions
from templatefix.gotemplate.errors import ExecError, ParseError
from templatefix.gotemplate.executor import Executor
from templatefix.gotemplate.functions import BUILTINS
from templatefix.gotemplate.parser import parse
from templatefix.gotemplate.values import (
    INT,
    MAP_OF_ANY,
    SLICE_OF_ANY,
    SLICE_OF_STRING,
    STRING,
    UINT,
    UINT8,
    GoType,
    Map,
    Slice,
    TypedInt,
    from_bytes,
)

_FUNCTIONS: Final = frozenset((*BUILTINS, *OLLAMA_FUNCTIONS))
_WRAPPERS: Final = {
    "$int": int,
    "$uint": lambda value: TypedInt(int(value), UINT),
    "$float": float,
    "$bytes": lambda value: Slice(GoType.slice(UINT8), [TypedInt(byte, UINT8) for byte in base64.b64decode(value)]),
    "$string": lambda value: from_bytes(base64.b64decode(value)),
    "$strings": lambda value: Slice(SLICE_OF_STRING, value),
    "$ints": lambda value: Slice(GoType.slice(INT), value),
    "$map": lambda value: Map(GoType.map(STRING), value),
}


def go_value(data: Any) -> Any:
    """Our Go value for typed JSON; plain numbers are float64."""
    if isinstance(data, dict):
        if len(data) == 1:
            ((key, value),) = data.items()
            if key in _WRAPPERS:
                return _WRAPPERS[key](value)
        return Map(MAP_OF_ANY, {key: go_value(value) for key, value in data.items()})
    if isinstance(data, list):
        return Slice(SLICE_OF_ANY, [go_value(value) for value in data])
    if isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    return data


def execute(template: str, data: Any, date: datetime.date | None = None) -> dict[str, Any]:
    """What the executor makes of a template over typed JSON on a day, in the oracle's words."""
    try:
        tree = parse(template, _FUNCTIONS)
    except ParseError as error:
        return {"ok": False, "stage": "parse", "error": error.message}
    try:
        pieces = Executor(tree, ollama_functions(date)).execute(go_value(data))
    except ExecError as error:
        return {"ok": False, "stage": "exec", "error": error.message}
    return {"ok": True, "output": "".join([text for _, _, text in pieces])}
