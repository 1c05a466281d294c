"""Go templates as Ollama uses them for chats."""

from __future__ import annotations

import datetime
from functools import cached_property
from typing import Any, Final, Literal

from templatefix.chat.derived import Derived, UndefinedTemplate, derive
from templatefix.chat.legacy import CutFailed, cut_at_response, with_response
from templatefix.chat.ollama_data import chat_data, legacy_data
from templatefix.chat.ollama_types import typescript_type
from templatefix.chat.rendering import Origin, Piece, RenderError, Rendering
from templatefix.chat.request import Request
from templatefix.gotemplate.errors import ExecError, ParseError
from templatefix.gotemplate.executor import Executor, Limits, RawPiece
from templatefix.gotemplate.functions import BUILTINS, Function
from templatefix.gotemplate.gojson import MarshalError, marshal
from templatefix.gotemplate.nodes import ListNode
from templatefix.gotemplate.parser import Tree, parse
from templatefix.gotemplate.runtime import TEXT
from templatefix.gotemplate.source import Source
from templatefix.gotemplate.values import Composite, TracedStr

OLLAMA_FUNCTIONS: Final = ("json", "currentDate", "yesterdayDate", "toTypeScriptType")
_ALL_FUNCTIONS: Final = frozenset((*BUILTINS, *OLLAMA_FUNCTIONS))


def _json(value: Any) -> str:
    try:
        return marshal(value)
    except MarshalError:
        return ""


def ollama_functions(date: datetime.date | None) -> dict[str, Function]:
    """Ollama's functions beside Go's own; `date` is the day that templates see, today if None."""

    def current_date(*_formats: str) -> str:
        return (date or datetime.date.today()).isoformat()

    def yesterday_date(*_formats: str) -> str:
        return ((date or datetime.date.today()) - datetime.timedelta(days=1)).isoformat()

    return {
        "json": Function(_json, ("any",), prints=True),
        "currentDate": Function(current_date, ("string",), variadic=True),
        "yesterdayDate": Function(yesterday_date, ("string",), variadic=True),
        "toTypeScriptType": Function(typescript_type, ("any",)),
    }


class GoChatTemplate:
    """A Go template, parsed and compiled as Ollama does it.

    Raises RenderError with stage `parse` if Ollama would refuse the template.
    """

    def __init__(self, text: str | Source, *, date: datetime.date | None = None, limits: Limits | None = None) -> None:
        self.source = text if isinstance(text, Source) else Source(text)
        self.date = date
        self.limits = limits
        try:
            self.tree: Tree = parse(self.source, _ALL_FUNCTIONS)
            self.derived: Derived = derive(self.tree)
        except ParseError as error:
            raise RenderError("parse", error.message, error.span) from error
        except UndefinedTemplate as error:
            raise RenderError("parse", str(error), self.tree.root.span) from error
        self._functions = ollama_functions(date)

    @property
    def kind(self) -> Literal["go", "jinja"]:
        """The template language."""
        return "go"

    @property
    def legacy(self) -> bool:
        """Whether the template never sees `.Messages`, and so is run once a pair of prompt and response."""
        return "messages" not in self.derived.vars

    @property
    def uses_tools(self) -> bool:
        """Whether tools reach the prompt as far as Ollama knows."""
        return "tools" in self.derived.vars

    @property
    def has_think_tags(self) -> bool:
        """Whether the server takes the model for one that thinks."""
        return "thinking" in self.derived.capabilities

    @cached_property
    def _executor(self) -> Executor:
        return Executor(self.tree, self._functions, root=self._root)

    @cached_property
    def _last_executor(self) -> Executor:
        return Executor(
            self.tree, root=cut_at_response(self._root, self.tree.depth), templates={}, missing_is_zero=False
        )

    @property
    def steps(self) -> int:
        """How many steps all renders so far took, nodes that are executed but once apart."""
        made = [self.__dict__.get(name) for name in ("_executor", "_last_executor")]
        return sum([executor.steps for executor in made if executor is not None])

    @property
    def _root(self) -> ListNode:
        return with_response(self.tree.root) if self.derived.response_appended else self.tree.root

    def raw_pieces(self, request: Request) -> list[RawPiece]:
        """The executor's own pieces of a request; raises RenderError with stage `exec`."""
        try:
            if not self.legacy:
                return self._executor.execute(chat_data(request), self.limits)
            pieces: list[RawPiece] = []
            roots = legacy_data(request)
            for root in roots[:-1]:
                pieces += self._executor.execute(root, self.limits)
            return pieces + self._last_executor.execute(roots[-1], self.limits)
        except ExecError as error:
            raise RenderError("exec", error.message, error.span) from error
        except CutFailed as error:
            raise RenderError("exec", str(error), self.tree.root.span) from error

    def render_text(self, request: Request) -> str:
        """The prompt alone; raises RenderError."""
        return "".join(map(TEXT, self.raw_pieces(request)))

    def render(self, request: Request) -> Rendering:
        """Render a request, `think` taken literally; raises RenderError."""
        return Rendering(tuple([_piece(*raw) for raw in self.raw_pieces(request)]))

    def on_day(self, date: datetime.date) -> GoChatTemplate:
        """The same template on another day."""
        return GoChatTemplate(self.source, date=date, limits=self.limits)

    def as_served(self, request: Request) -> Request:
        """The request as the server would render it: thinking is on where there are think tags and nobody spoke."""
        return request.thinking_as_served(self.has_think_tags)


def _piece(node: Any, scope: int | None, text: str) -> Piece:
    origin: Origin | None = text.origin if isinstance(text, (TracedStr, Composite)) else None
    message = scope
    if origin is not None and origin.kind in ("message", "system"):
        message = origin.index if origin.index >= 0 else None
    return Piece(text, node.span, origin, message)
