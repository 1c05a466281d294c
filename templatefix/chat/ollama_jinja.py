"""A Jinja text in force on an Ollama server: its engine renders what the server leaves of a request."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from templatefix.chat.jinja import JinjaChatTemplate, behind
from templatefix.chat.jinja_values import Caps
from templatefix.chat.ollama_native import as_native, with_written_calls
from templatefix.chat.rendering import Piece, Rendering
from templatefix.chat.request import Request
from templatefix.gotemplate.source import Source


class OllamaJinjaTemplate(JinjaChatTemplate):
    """The Jinja text of a model on Ollama.

    `thinks` is whether the server lets the model think unless told otherwise; `ends` whether the vocabulary puts its
    token in front of each text and behind it, so that the server takes one off the prompt. Raises RenderError with
    stage `parse` if it is no template.
    """

    hides_thoughts = True

    def __init__(
        self,
        text: str | Source,
        *,
        bos: str = "",
        eos: str = "",
        date: datetime.date | None = None,
        caps: Caps | None = None,
        kwargs: Mapping[str, Any] | None = None,
        thinks: bool = False,
        ends: tuple[bool, bool] = (False, False),
    ) -> None:
        super().__init__(text, bos=bos, eos=eos, date=date, caps=caps, kwargs=kwargs)
        self.thinks = thinks
        self.ends = ends

    def with_text(self, text: str, *, bos: str | None = None, eos: str | None = None) -> JinjaChatTemplate:
        """The same template with another text, or with other tokens; raises RenderError."""
        other = super().with_text(text, bos=bos, eos=eos)
        if isinstance(other, OllamaJinjaTemplate):
            other.thinks, other.ends = self.thinks, self.ends
        return other

    def as_served(self, request: Request) -> Request:
        """The request as the text sees it: no past thinking, tools in the server's order, no ids but the client's."""
        told = request.thinking_as_served(self.thinks)
        return as_native(replace(told, think_level=request.think_level))

    def render(self, request: Request) -> Rendering:
        """Render a request as the server does; raises RenderError, and RequestError where a type does not fit."""
        rendering = super().render(request)
        begins, stops = (on and bool(token) for on, token in zip(self.ends, (self.bos, self.eos), strict=True))
        pieces: list[Piece] = list(rendering.pieces)
        if begins and rendering.text.startswith(self.bos):
            pieces = behind(pieces, len(self.bos))
        if stops and "".join([piece.text for piece in pieces]).endswith(self.eos):
            pieces = _before(pieces, len(self.eos))
        return Rendering(tuple(pieces))

    def _data(self, request: Request) -> dict[str, Any]:
        level = {"reasoning_effort": request.think_level} if request.think_level else {}
        return {**super()._data(with_written_calls(request)), **level, **self.kwargs}


def _before(pieces: list[Piece], size: int) -> list[Piece]:
    """The pieces without the last characters."""
    kept = list(pieces)
    while size and kept:
        last = kept.pop()
        if len(last.text) > size:
            kept.append(replace(last, text=last.text[: len(last.text) - size]))
        size -= min(size, len(last.text))
    return kept
