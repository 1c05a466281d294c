"""Requests read from JSON as Ollama's server reads them: what is not UTF-8 becomes U+FFFD, and types must fit."""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from collections.abc import Mapping
from typing import Any, Final, NoReturn

import orjson

from templatefix.chat.request import Request

_HALF: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_LONE: Final = re.compile("[\ud800-\udfff]")
_SHORT: Final = 20  # digits of a number that are shown
_LISTS: Final = ("messages", "tools")
_NAMES: Final = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}


class BadRequest(ValueError):
    """JSON that is none, or that holds no request; the string is a clause that follows a place and a colon."""


def read_json(data: bytes) -> Any:
    """The value of a JSON text, which a byte order mark may open; raises BadRequest with the place of an error."""
    data = data.removeprefix(BOM_UTF8)
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return _read_as_go(data)


def _read_as_go(data: bytes) -> Any:
    """What orjson refuses and Go takes (bytes that are not UTF-8, lone surrogates), and errors with their places."""
    broken = False
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode("utf-8", "surrogateescape")
        broken = True
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}" if error.lineno > 1 else f"column {error.colno}"
        raise BadRequest(f"not JSON: {_lower(error.msg)} ({where})") from None
    except RecursionError:
        raise BadRequest("nested too deeply") from None
    except ValueError as error:
        raise BadRequest(f"not JSON: {error}") from None
    return _whole(value) if broken or _HALF.search(data) else value


def read_request(value: Any) -> Request:
    """The request of a JSON object with `messages`, `tools`, `think` and `think_level`.

    `think` may name a level, as over HTTP. Raises BadRequest where a type does not fit.
    """
    if not isinstance(value, dict):
        raise BadRequest(f"a request must be an object, not {_kind(value)}")
    for key in _LISTS:
        rows = value.get(key)
        if rows is None:
            continue
        if not isinstance(rows, list):
            raise BadRequest(f"{key} must be an array, not {_kind(rows)}")
        for index, row in enumerate(rows):
            if row.__class__ is not dict and not isinstance(row, Mapping):
                raise BadRequest(f"{key}[{index}] must be an object, not {_kind(row)}")
    think, level = value.get("think"), value.get("think_level")
    if isinstance(think, str) and not level:
        think, level = True, think
    if think is not None and not isinstance(think, bool):
        raise BadRequest(f"think must be true, false or a level, not {_kind(think)}")
    if level is not None and not isinstance(level, str):
        raise BadRequest(f"think_level must be a string, not {_kind(level)}")
    tools = value.get("tools")
    return Request(tuple(value.get("messages") or ()), tuple(tools or ()), think, level or "", tools == [])


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _number(digits: str) -> Any:
    try:
        return orjson.loads(digits)
    except orjson.JSONDecodeError:
        short = digits if len(digits) <= _SHORT else f"{digits[:_SHORT]}…"
        raise ValueError(f"the number {short} is too large") from None


_DECODER: Final = json.JSONDecoder(parse_constant=_no_number, parse_float=_number, parse_int=_number)


def _whole(value: Any) -> Any:
    """The value with U+FFFD for every half of a surrogate pair and every byte that was not UTF-8."""
    if isinstance(value, str):
        return _LONE.sub("\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, list):
        return [_whole(item) for item in value]
    if isinstance(value, dict):
        return {_whole(key): _whole(item) for key, item in value.items()}
    return value


def _kind(value: Any) -> str:
    return _NAMES.get(type(value), "a number")


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
