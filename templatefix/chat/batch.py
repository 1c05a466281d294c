"""Many renders in one go: a JSON object a line in, one a line out, in the same order."""

from __future__ import annotations

import re
from collections.abc import Callable
from json import dumps
from json.encoder import encode_basestring as quoted
from typing import Final, Protocol, TypeAlias

from templatefix.chat.reading import BadRequest, read_json, read_request
from templatefix.chat.rendering import RenderError
from templatefix.chat.request import Request, RequestError

Answers: TypeAlias = "tuple[bytes, list[tuple[int, str]], int]"

_MOST: Final = 2048  # templates kept
_LONE: Final = re.compile("[\ud800-\udfff]")


class Renders(Protocol):
    """A template of any language that makes prompts."""

    def render_text(self, request: Request) -> str:
        """The prompt of a request; raises RenderError."""
        ...


class Batch:
    """Renders lines, `think` taken literally; a template that comes again is not parsed again."""

    def __init__(self, make: Callable[[str], Renders], stages: tuple[str, str] = ("parse", "exec")) -> None:
        """`make` makes a template of its text, or raises RenderError; `stages` are the words for its two stages."""
        self._make = make
        self._stages = dict(zip(("parse", "exec"), stages, strict=True))
        self._templates: dict[str, Renders | RenderError] = {}

    def answers(self, lines: bytes) -> Answers:
        """The answers to lines, the lines that are not as they should be (number from 1 and why), how many lines."""
        answers: list[bytes] = []
        bad: list[tuple[int, str]] = []
        rows = lines.removesuffix(b"\n").split(b"\n") if lines else []
        for number, line in enumerate(rows, 1):
            if line.strip():
                try:
                    answers.append(self.answer(line))
                except BadRequest as error:
                    bad.append((number, str(error)))
        return b"".join(answers), bad, len(rows)

    def answer(self, line: bytes) -> bytes:
        """The answer to a line, with its line end; raises BadRequest where the line is not as it should be."""
        row = read_json(line)
        request = read_request(row)
        text = row.get("template")
        if not isinstance(text, str):
            raise BadRequest("template must be a string")
        mark = row.get("id")
        try:
            found = self._templates.get(text) or self._made(text)
            if isinstance(found, RenderError):
                raise found
            answer = f',"ok":true,"output":{quoted(found.render_text(request))}}}\n'
        except RenderError as error:
            answer = f',"ok":false,"stage":"{self._stages[error.stage]}","error":{quoted(error.message)}}}\n'
        except RequestError as error:
            raise BadRequest(str(error)) from error
        answer = f'{{"id":{mark if type(mark) is int else dumps(mark)}{answer}'
        try:
            return answer.encode()
        except UnicodeEncodeError:
            return _as_go_writes(answer)

    def _made(self, text: str) -> Renders | RenderError:
        made: Renders | RenderError
        try:
            made = self._make(text)
        except RenderError as error:
            made = error.with_traceback(None)
        if len(self._templates) >= _MOST:
            self._templates.pop(next(iter(self._templates)))
        self._templates[text] = made
        return made


def _as_go_writes(text: str) -> bytes:
    """UTF-8 in which every byte that belongs to no character is U+FFFD; bytes that make one in their place are one."""
    joined = text.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
    return _LONE.sub("\N{REPLACEMENT CHARACTER}", joined).encode()
