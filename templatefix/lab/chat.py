"""A model that answers requests, as the laboratory sees it; and one made of an engine and a template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from templatefix.analysis.loops import Message, user
from templatefix.chat.rendering import RenderError, Rendering
from templatefix.chat.request import Request
from templatefix.lab.ab import Arm
from templatefix.lab.calls import read_reply
from templatefix.lab.engine import Session
from templatefix.lab.grammar import grammar_of
from templatefix.lab.replies import reply_text
from templatefix.servers.errors import NotMeasurable
from templatefix.servers.timings import Generated, Sampling, Timings


class GeneratingSession(Session, Protocol):
    """A session that can also go on from a prompt."""

    def generate(self, prompt: str, sampling: Sampling, *, cold: bool = False) -> Generated:
        """Go on from a prompt; raises NotMeasurable as `evaluate` does."""
        ...


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back for one request."""

    message: Message  # the assistant's, with the calls that the server read out of it
    timings: Timings
    text: str | None = None  # as generated; None where the server does not tell
    prompt: Rendering | None = None  # None where the server does not tell
    end: str = ""  # what ends a turn behind the text, in the template's words
    token_ends: Sequence[int] = ()  # of the prompt


class Chat(Protocol):
    """A model behind one template, with a cache of its own."""

    def ask(self, request: Request, sampling: Sampling, *, cold: bool = False, bound: Message | None = None) -> Answer:
        """Answer a request, `cold` without use of the cache, with the output bound to a message where one is given.

        Raises NotMeasurable where the request cannot be rendered, or the output not be bound.
        """
        ...


class RenderedChat:
    """An engine that is given rendered prompts; what it generates is read by the template's own tags."""

    def __init__(self, session: GeneratingSession, arm: Arm) -> None:
        self._session = session
        self._arm = arm

    def ask(self, request: Request, sampling: Sampling, *, cold: bool = False, bound: Message | None = None) -> Answer:
        """Answer a request; raises NotMeasurable."""
        prompt = self._render(request)
        end = self._end(request, prompt)
        wish = replace(sampling, stop=(*sampling.stop, *([end] if end else [])))
        if bound is not None:
            words = self._worded(request, prompt, bound).removesuffix(end)
            wish = replace(wish, grammar=grammar_of(words), temperature=max(sampling.temperature, 0.5))
            wish = replace(wish, max_tokens=max(wish.max_tokens, len(words.encode()) + len(end)))
        generated = self._session.generate(prompt.text, wish, cold=cold)
        text = generated.text.removesuffix(end) if end else generated.text
        if bound is not None:
            # A grammar lets a model spell a text in tokens that it would never take by itself.
            self._session.evaluate(prompt.text + text, n_predict=0)
        message = read_reply(text, self._arm.tags, request.tools, prompt.text)
        ends = self._session.token_ends(prompt.text)
        return Answer(message, generated.timings, text, prompt, end, ends)

    def _render(self, request: Request) -> Rendering:
        try:
            return self._arm.template.render(self._arm.served(request))
        except RenderError as error:
            raise NotMeasurable(f"It cannot render a request: {error}") from error

    def _worded(self, request: Request, prompt: Rendering, message: Message) -> str:
        """A reply in the template's words."""
        later = self._render(replace(request, messages=(*request.messages, message, *_answers(message))))
        return reply_text(prompt, later, len(request.messages))

    def _end(self, request: Request, prompt: Rendering) -> str:
        """What stands behind a reply's text in the history: the end of the turn, which ends the generation as well."""
        said = "Halcyon"
        return self._worded(request, prompt, {"role": "assistant", "content": said}).partition(said)[2].strip()


def _answers(message: Message) -> tuple[Mapping[str, Any], ...]:
    """What must follow a reply so that a template renders it as history."""
    calls = message.get("tool_calls") or ()
    if calls:
        return tuple([{"role": "tool", "tool_name": made["function"]["name"], "content": "done"} for made in calls])
    return (user("Good."),)
