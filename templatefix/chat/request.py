"""A chat request as it arrives over HTTP, in Ollama's shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any


class RequestError(ValueError):
    """A request that the server would refuse before it renders; one sentence."""


@dataclass(frozen=True, slots=True)
class Request:
    """Messages, tools and the wish to think, as a client sends them to `/api/chat`."""

    messages: tuple[Mapping[str, Any], ...]
    tools: tuple[Mapping[str, Any], ...] = ()
    think: bool | None = None  # None: the request says nothing
    think_level: str = ""  # "low", "medium", "high", or empty
    empty_tools: bool = False  # an empty list of tools was sent, which prints as [] where no list prints as null

    def thinking_as_served(self, thinks: bool) -> Request:
        """The request with `think` and its level as Ollama's server fills them in.

        A model that `thinks` (its template has think tags) does so unless told otherwise, and thinking that is merely
        on has the level "medium".
        """
        level = self.think_level
        think = True if level or (self.think is None and thinks) else self.think
        return replace(self, think=think, think_level="medium" if think and not level else level)
