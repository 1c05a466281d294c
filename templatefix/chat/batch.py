"""Many renders in one go: a JSON object a line in, one a line out, in the same order."""

from __future__ import annotations

import datetime
import re
from json import dumps
from json.encoder import encode_basestring as quoted
from typing import Final

from templatefix.chat.go import GoChatTemplate
from templatefix.chat.ollama_data import RequestError
from templatefix.chat.reading import BadRequest, read_json, read_request
from templatefix.chat.rendering import RenderError

_MOST: Final = 2048  # templates kept
_LONE: Final = re.compile("[\ud800-\udfff]")


class Batch:
    """Renders lines, `think` taken literally; a template that comes again is not parsed again."""

    def __init__(self, date: datetime.date | None = None) -> None:
        """`date` is the day that templates see, today if None."""
        self._date = date
        self._templates: dict[str, GoChatTemplate | RenderError] = {}

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
            answer = f',"ok":false,"stage":"{error.stage}","error":{quoted(error.message)}}}\n'
        except RequestError as error:
            raise BadRequest(str(error)) from error
        answer = f'{{"id":{mark if type(mark) is int else dumps(mark)}{answer}'
        try:
            return answer.encode()
        except UnicodeEncodeError:
            return _as_go_writes(answer)

    def _made(self, text: str) -> GoChatTemplate | RenderError:
        made: GoChatTemplate | RenderError
        try:
            made = GoChatTemplate(text, date=self._date)
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
