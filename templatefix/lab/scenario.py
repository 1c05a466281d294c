"""Conversations that arms are measured on: what is said and called, and how long tools and system text are."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from templatefix.analysis.loops import Loop, Message, requests_of, system
from templatefix.lab.prose import Prose

# Measured with Llama 3's tokenizer on definitions as JSON.
_TOOL_TOKENS = 62  # of a filler tool without its words
_WORD_TOKENS = 1.07
_LEAST_TOOL = 16  # words
_USUAL_TOOL = 190  # words
_TOOL_SHARE = 0.58  # of the room, the rest is system text


@dataclass(frozen=True, slots=True)
class Filler:
    """Text that only takes room, as long prompts of agents do."""

    tools: int = 0
    tool_words: int = 0  # in one tool's description and its parameters'
    system_words: int = 0


@dataclass(frozen=True, slots=True)
class Turn:
    """A message of the script."""

    message: Message
    expect: str = ""  # of an assistant's turn: what a live answer must say


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scripted conversation with tools."""

    name: str
    about: str
    turns: tuple[Turn, ...]
    tools: tuple[Mapping[str, Any], ...] = ()
    system: str | None = None
    think: bool | None = None
    filler: Filler = Filler()

    @property
    def definitions(self) -> tuple[Mapping[str, Any], ...]:
        """The tools that are sent: the scenario's own, then filler."""
        return self._texts()[1]

    def loop(self) -> Loop:
        """The conversation as the successive requests of a client."""
        head, tools = self._texts()
        messages = [turn.message for turn in self.turns]
        return Loop(self.name, requests_of([*head, *messages], tools, self.think), True)

    def head(self) -> tuple[Message, ...]:
        """The system message, where there is one."""
        return self._texts()[0]

    def _texts(self) -> tuple[tuple[Message, ...], tuple[Mapping[str, Any], ...]]:
        prose = Prose()
        tools = (*self.tools, *[prose.tool(index, self.filler.tool_words) for index in range(self.filler.tools)])
        if self.system is None:
            return (), tools
        return (system(f"{self.system} {prose.text(self.filler.system_words)}".strip()),), tools

    def sized(self, tokens: int) -> Scenario:
        """The same with filler such that the first prompt has about so many tokens.

        Counted by Llama 3's tokenizer on definitions as JSON; other tokenizers and templates differ by a fifth.
        """
        own = sum(len(str(tool)) for tool in self.tools) / 4 + len(self.system or "") / 5 + 40
        room = max(0.0, tokens - own)
        if self.system is None and not self.tools:
            return self
        for_tools = room * (_TOOL_SHARE if self.system is not None else 1.0) if self.tools else 0.0
        each = _TOOL_TOKENS + _USUAL_TOOL * _WORD_TOKENS
        count = round(for_tools / each) or int(for_tools >= _TOOL_TOKENS + _LEAST_TOOL * _WORD_TOKENS)
        words = max(_LEAST_TOOL, round((for_tools / count - _TOOL_TOKENS) / _WORD_TOKENS)) if count else 0
        spent = count * (_TOOL_TOKENS + words * _WORD_TOKENS)
        prose = max(0, round((room - spent) / _WORD_TOKENS)) if self.system is not None else 0
        return dataclasses.replace(self, filler=Filler(count, words, prose))
