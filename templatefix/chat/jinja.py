"""Jinja templates as llama-server uses them for chats."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any, Final, Literal

from jinja2 import Template, TemplateError, TemplateSyntaxError, nodes

from templatefix.chat.jinja_caps import find_caps
from templatefix.chat.jinja_filters import shown
from templatefix.chat.jinja_language import JinjaLanguage, Run
from templatefix.chat.jinja_layout import Layout
from templatefix.chat.jinja_start import unreadable_call
from templatefix.chat.jinja_text import LONGEST, Text, TooLong
from templatefix.chat.jinja_values import Caps, answered_calls, messages_value, tools_value
from templatefix.chat.rendering import Origin, Piece, RenderError, Rendering
from templatefix.chat.request import Request, RequestError
from templatefix.gotemplate.source import Source, Span

_NAME: Final = "<template>"
_GIVEN: Final = {"messages", "tools", "add_generation_prompt", "loop", "caller", "varargs", "kwargs"}
_KEEPS_THINKING: Final = {"preserve_thinking": True, "truncate_history_thinking": False}  # set by the server
_THOUGHT: Final = re.compile(r"[<\[][^<>\[\]]*think[^<>\[\]]*[>\]]", re.IGNORECASE)  # a mark of thinking
_CHANNELS: Final = "<|channel|>"  # what it knows one of gpt-oss by
# What the server knows a template of Gemma 4 by, the end of its turns, the beginning of one of the model, and what
# only the later templates say.
_GEMMA_4, _GEMMA_END, _GEMMA_TURN = "'<|tool_call>call:'", "<turn|>\n", "<|turn>model\n"
_TRIES: Final = 250_000  # steps for all tries of a template, whose conversations are short
_GEMMA_NEW: Final = "{#- OpenAI Chat Completions:"


class JinjaChatTemplate:
    """A Jinja template, compiled once; `kwargs` are variables such as `--chat-template-kwargs` sets.

    Raises RenderError with stage `parse` if it is no template.
    """

    hides_thoughts = False  # whether no past thinking reaches the template, whatever a client sends

    def __init__(
        self,
        text: str | Source,
        *,
        bos: str = "",
        eos: str = "",
        date: datetime.date | None = None,
        caps: Caps | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        self.source = text if isinstance(text, Source) else Source(text)
        self.bos = bos
        self.eos = eos
        self.date = date
        self.kwargs: Mapping[str, Any] = kwargs or {}
        self.steps = 0  # that all renders took
        self._given = caps
        self._language = JinjaLanguage()
        try:
            self.tree = self._language.read(self.source)
            self._template = self._compiled()
        except TemplateSyntaxError as error:
            raise RenderError("parse", error.message or "not a Jinja template", self._place(error.lineno)) from error
        except RecursionError:
            raise RenderError("parse", "nested too deeply", Span(0, 0)) from None

    def _compiled(self) -> Template:
        language = self._language
        code = language._compile(language._generate(self.tree, None, None), _NAME)
        return Template.from_code(language, code, language.make_globals(None))

    def _place(self, line: int) -> Span | None:
        layout = getattr(self._language, "layout", None)
        return None if layout is None else layout.tag(line)

    @property
    def kind(self) -> Literal["go", "jinja"]:
        """The template language."""
        return "jinja"

    def on_day(self, date: datetime.date) -> JinjaChatTemplate:
        """The same template on another day."""
        return self._again(date=date)

    def with_kwargs(self, kwargs: Mapping[str, Any]) -> JinjaChatTemplate:
        """The same template with more of the variables that a client or `--chat-template-kwargs` sets."""
        return self._again(kwargs={**self.kwargs, **kwargs})

    def with_text(self, text: str, *, bos: str | None = None, eos: str | None = None) -> JinjaChatTemplate:
        """The same template with another text, or on a server whose model has other tokens; raises RenderError.

        What a server told of its abilities is true of the other as well, but for those that the change has changed as
        far as trying both tells.
        """
        other = type(self)(
            Source(text, self.source.name),
            bos=self.bos if bos is None else bos,
            eos=self.eos if eos is None else eos,
            date=self.date,
            kwargs=self.kwargs,
        )
        if self._given is not None:
            before, after, other._given = self._found, other._found, self._given
            if isinstance(before, Caps) and isinstance(after, Caps):
                other._given = self._given.changed(before, after)
        return other

    def untold(self) -> JinjaChatTemplate:
        """The same template as if no server had told of it: what it can do is found out by trying."""
        other = self._again()
        other._given = None
        return other

    def _again(
        self, *, date: datetime.date | None = None, kwargs: Mapping[str, Any] | None = None
    ) -> JinjaChatTemplate:
        # What was compiled and found out holds for both.
        other = copy(self)
        other.__dict__.pop("refusal", None)
        other.date = date or self.date
        other.kwargs = self.kwargs if kwargs is None else kwargs
        return other

    def as_served(self, request: Request) -> Request:
        """The request itself: what the server does to it is part of `render`."""
        return request

    @cached_property
    def names(self) -> frozenset[str]:
        """The variables that the template uses, its own included."""
        return frozenset([name.name for name in self.tree.find_all(nodes.Name)])

    @cached_property
    def switches(self) -> frozenset[str]:
        """The variables that the template asks for and neither it nor the server sets."""
        names = list(self.tree.find_all(nodes.Name))
        own = {name.name for name in names if name.ctx != "load"}
        known = own | _GIVEN | set(self._common_data(True)) | set(self._language.globals)
        return frozenset([name.name for name in names if name.name not in known])

    @property
    def layout(self) -> Layout:
        """Where the tokens stand; the line of each node of `tree` is a place in it."""
        return self._language.layout

    @property
    def variables(self) -> Mapping[str, Any]:
        """What the server sets besides messages and tools, where a client asks for nothing."""
        return {**self._common_data(self.thinks_by_default), "add_generation_prompt": True, **self.kwargs}

    @property
    def channels(self) -> bool:
        """Whether the server takes it for a template of gpt-oss."""
        return _CHANNELS in self.source.text

    @property
    def answers_calls(self) -> bool:
        """Whether the server hands it results as part of the turn that called (the first templates of Gemma 4)."""
        return _GEMMA_4 in self.source.text and _GEMMA_NEW not in self.source.text

    @cached_property
    def presets(self) -> Mapping[str, bool]:
        """The switches of the template that the server sets so that thinking stays in the history."""
        return {name: value for name, value in _KEEPS_THINKING.items() if name in self.names}

    @property
    def caps(self) -> Caps:
        """What the server knows about the template: as given, else found out by trying it; raises RenderError."""
        found = self._found if self._given is None else self._given
        if isinstance(found, RenderError):
            raise found
        return found

    @cached_property
    def _found(self) -> Caps | RenderError:
        begun = self.steps

        def tried(data: dict[str, Any]) -> str:
            if self.steps - begun > _TRIES:
                raise RenderError("exec", f"template: more than {_TRIES} steps to try it")
            return self._tried(data)

        try:
            return find_caps(tried, self.names)
        except RenderError as error:
            return error.with_traceback(None)

    def _tried(self, data: dict[str, Any]) -> str:
        return _joined(self._pieces({**self._common_data(True), **data}, True))

    def render(self, request: Request) -> Rendering:
        """Render a request as the server does; raises RenderError, and RequestError where a type does not fit."""
        last = request.messages[-1] if request.messages else {}
        if last.get("role") != "assistant":
            pieces = self._pieces(self._data(request), True)
            if _GEMMA_4 in self.source.text and _joined(pieces[-2:]).endswith(_GEMMA_END):
                # The server opens the turn that the template forgets where a call had text beside it.
                pieces.append(Piece(_GEMMA_TURN, self._end, None, None))
            return Rendering(tuple(pieces))
        content = last.get("content") or ""
        if not isinstance(content, str):
            raise RequestError("the last message's content must be a string")
        data = self._data(replace(request, messages=request.messages[:-1]))
        plain, asked = self._pieces(data, False), self._pieces(data, True)
        index = len(request.messages) - 1
        begun = behind(asked, _common(_joined(plain), _joined(asked)))
        return Rendering((*plain, *begun, Piece(content, self._end, Origin("message", index, "content"), index)))

    @property
    def _end(self) -> Span:
        # Where the server's own additions are said to stand.
        return Span(len(self.source.data), len(self.source.data))

    @cached_property
    def thinks_by_default(self) -> bool:
        """Whether the server lets the model think unless told otherwise: where it finds marks of thinking."""
        if "enable_thinking" not in self.source.text:
            return False
        if "reasoning_content" in self.source.text:
            return True
        asked = [Request(({"role": "user", "content": "x"},), think=think) for think in (True, False)]
        try:
            on, off = (self.render(request).text for request in asked)
        except RenderError:
            return False
        return set(_THOUGHT.findall(on)) != set(_THOUGHT.findall(off))

    def render_text(self, request: Request) -> str:
        """The prompt alone; raises RenderError, with stage `parse` where the server would not start."""
        if self.refusal is not None:
            raise self.refusal
        return self.render(request).text

    @cached_property
    def refusal(self) -> RenderError | None:
        """Why a server refuses to start with the template: it tries it on a short conversation, and on a call.

        None where a server that runs has told of it.
        """
        if self._given is not None:
            return None
        try:
            self.render(Request(({"role": "user", "content": "test"},)))
            objects = self.caps.supports_object_arguments or "tool_calls" not in self.source.text
        except RenderError as error:
            return RenderError("parse", error.message, error.span)
        said = None if objects else unreadable_call(self._tried)
        return None if said is None else RenderError("parse", said)

    def data(self, request: Request) -> Mapping[str, Any]:
        """What the server hands to the template for a request, by name; raises RequestError, and RenderError."""
        return self._data(request)

    def _data(self, request: Request) -> dict[str, Any]:
        data = self._common_data(self.thinks_by_default if request.think is None else request.think)
        messages = messages_value(request, self.caps, self.channels)
        data["messages"] = answered_calls(messages) if self.answers_calls else messages
        if request.tools:
            data["tools"] = tools_value(request.tools)
        return {**data, **self.kwargs}

    def _common_data(self, think: bool) -> dict[str, Any]:
        day = self.date or datetime.date.today()
        now = datetime.datetime.combine(day, datetime.datetime.now().time())
        return {
            "bos_token": self.bos,
            "eos_token": self.eos,
            "enable_thinking": think,
            "datetime": day.strftime("%b %d %Y"),
            "date_string": day.strftime("%d %b %Y"),
            **_KEEPS_THINKING,
            "strftime_now": now.strftime,
        }

    def _pieces(self, data: dict[str, Any], generate: bool) -> list[Piece]:
        run = self._language.run = Run()
        if generate:
            data = {**data, "add_generation_prompt": True}
        pieces: list[Piece] = []
        try:
            printed: Iterable[Any] = self._template.root_render_func(self._template.new_context(data))
            for item in printed:
                tag, value = item if item.__class__ is tuple else (self._end, item)
                text = value if value.__class__ is Text else shown(value)
                run.spend(len(text))
                _add(pieces, tag, text, run.message)
        except TooLong:
            raise RenderError("exec", f"template: output longer than {LONGEST} characters") from None
        except RecursionError:
            raise RenderError("exec", "template: more than a thousand calls within calls") from None
        except TemplateError as error:
            raise RenderError("exec", str(error), self._where(error)) from error
        except Exception as error:  # whatever Python may raise in a template's code
            raise RenderError("exec", str(error) or type(error).__name__, self._where(error)) from error
        finally:
            self.steps += run.steps
        return pieces

    def _where(self, error: BaseException) -> Span | None:
        found = None
        trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == _NAME:
                found = self._place(self._template.get_corresponding_lineno(trace.tb_lineno))
            trace = trace.tb_next
        return found


def _add(pieces: list[Piece], tag: Span, text: Text, message: int | None) -> None:
    if len(text.runs) == 1:
        mark = text.runs[0][1]
        about = message if mark.message is None else mark.message
        pieces.append(Piece(text, mark.span or tag, mark.origin, about))
        return
    for part, mark in text.parts():
        pieces.append(Piece(part, mark.span or tag, mark.origin, message if mark.message is None else mark.message))


def _common(first: str, second: str) -> int:
    pairs = zip(first, second, strict=False)
    return next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(first), len(second)))


def _joined(pieces: list[Piece]) -> str:
    return "".join([piece.text for piece in pieces])


def behind(pieces: list[Piece], start: int) -> list[Piece]:
    """The pieces without the first characters."""
    found = []
    at = 0
    for piece in pieces:
        end = at + len(piece.text)
        if end > start:
            found.append(Piece(piece.text[max(0, start - at) :], piece.span, piece.origin, piece.message))
        at = end
    return found
