"""Which family a Jinja text belongs to, and the Go template that can stand in its place on an Ollama server.

A Go TEMPLATE wins over the Jinja text of a GGUF file if the server sees in it as many capabilities and a round trip of
tool calls; with a PARSER beside it, it always wins. Without a PARSER the server reads calls behind a Go TEMPLATE as
JSON only, so a family whose models write them otherwise comes with the server's own reader of that form.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from importlib import resources
from typing import Any

from templatefix.chat.go import GoChatTemplate
from templatefix.chat.jinja import JinjaChatTemplate
from templatefix.chat.rendering import RenderError
from templatefix.chat.request import Request
from templatefix.servers.modelfile import Modelfile


class NoFamily(Exception):
    """No template here can stand in a Jinja text's place; the string is a clause that says why."""


class BuiltIn(NoFamily):
    """No template at all would come into force; the string is a clause that says why."""


@dataclass(frozen=True, slots=True)
class Family:
    """A layout of prompts, with the sample in `modelfiles/` of the same name."""

    name: str
    own_head: bool = False  # whether its Jinja texts write words of their own, such as dates, before the system text
    tail: str = ""  # what a prompt of the Go template ends with that the Jinja texts leave for the model to write

    @property
    def modelfile(self) -> Modelfile:
        """The sample."""
        name = f"{self.name}.Modelfile"
        return Modelfile.from_bytes((resources.files("templatefix.modelfiles") / name).read_bytes(), name)

    @property
    def template(self) -> str:
        """The Go template."""
        found = self.modelfile.template
        return "" if found is None else found.value

    @property
    def parser(self) -> str:
        """The server's reader of tool calls that the template needs beside it; empty where JSON is written."""
        found = self.modelfile.find("parser")
        return "" if found is None else found.value


FAMILIES = (
    Family("qwen3.5"),
    Family("qwen3-thinking"),
    Family("qwen3"),
    Family("glm4.5", tail="\n<think>"),
    Family("mixtral"),
    Family("mistral-nemo"),
    Family("llama3.1", own_head=True),
)

_BUILT_IN = (
    (("<|turn>", "<turn|>"), "Ollama gives every tag that is made of Gemma 4's weights its built-in RENDERER"),
    (("<|start|>", "<|channel|>"), "Ollama renders gpt-oss in the harmony format itself"),
)


def family_of(template: JinjaChatTemplate) -> Family:
    """The family whose Go template writes a chat, a call and a result as a Jinja text does, to the byte.

    Nor may the Go template give the model a capability that the text has not. Raises NoFamily where there is none.
    """
    text = template.source.text
    for marks, reason in _BUILT_IN:
        if all(mark in text for mark in marks):
            raise BuiltIn(reason)
    capabilities = capabilities_of(text)
    if "tools" not in capabilities:
        raise NoFamily("the text takes no tools, while every Go template here would offer the model some")
    written = _written(template)
    for family in FAMILIES:
        go = GoChatTemplate(family.template)
        if capabilities == {*go.derived.capabilities} - {"completion"} and _fits(family, go, written):
            return family
    raise NoFamily(f"the template is of none of the families known here ({', '.join(one.name for one in FAMILIES)})")


_SYSTEM = {"role": "system", "content": "Be brief."}
_ASKED = {"role": "user", "content": "Find it."}
_REPLIED = {"role": "assistant", "content": "Here it is."}
_ANSWER = "An owl."
_TOOL = {
    "type": "function",
    "function": {
        "name": "look_up",
        "description": "Finds a word.",
        "parameters": {"type": "object", "properties": {"word": {"type": "string", "description": "The word."}}},
    },
}
_END = "</s>"  # by its name `eos_token` in Mistral's Jinja texts; the others write theirs out


def _called(number: str) -> tuple[dict[str, Any], ...]:
    """A question, a call and its result; `number` is the call's, none if empty."""
    call = {"function": {"name": "look_up", "arguments": {"word": "owl"}}, **({"id": number} if number else {})}
    result = {
        "role": "tool",
        "tool_name": "look_up",
        "content": _ANSWER,
        **({"tool_call_id": number} if number else {}),
    }
    return _ASKED, {"role": "assistant", "content": "", "tool_calls": [call]}, result


_CHAT, _TALK = (_SYSTEM, _ASKED), (_ASKED, _REPLIED, _ASKED)
_CALLS = (_called("call00001"), _called(""))  # the number is the one that llama-server gives the first call


@dataclass(frozen=True, slots=True)
class _Written:
    """What a Jinja text makes of the conversations above; empty where it refuses one."""

    chat: str
    talk: str
    calls: tuple[str, ...]
    tools: str


def _written(template: JinjaChatTemplate) -> _Written:
    jinja = template.with_text(template.source.text, bos="", eos=_END)

    def prompt(messages: tuple[dict[str, Any], ...], *tools: dict[str, Any]) -> str:
        try:
            return jinja.render_text(Request(messages, tools))
        except RenderError:
            return ""

    # Llama 3.1's texts write a result as a JSON string.
    calls = [prompt(messages).replace(json.dumps(_ANSWER), _ANSWER) for messages in _CALLS]
    return _Written(prompt(_CHAT), prompt(_TALK), tuple(calls), prompt((_ASKED,), _TOOL))


def _fits(family: Family, go: GoChatTemplate, written: _Written) -> bool:
    """Whether a family's Go template writes the same."""

    def prompt(messages: tuple[dict[str, Any], ...]) -> str:
        return go.render_text(go.as_served(Request(messages))).removesuffix(family.tail)

    chat = prompt(_CHAT)
    if family.own_head:
        chat = chat[chat.index(_SYSTEM["content"]) :]
    if not (written.chat.endswith(chat) if family.own_head else written.chat == chat):
        return False
    # Of a thought that is empty one writes a mark and the other does not: what stands before a reply may differ.
    if not written.talk.endswith(prompt(_TALK).partition(_REPLIED["content"])[2]):
        return False
    begun = len(prompt((_ASKED, {"role": "assistant", "content": ""})))
    called = any(
        mine.endswith(prompt(messages)[begun:]) for messages, mine in zip(_CALLS, written.calls, strict=True) if mine
    )
    return called and _defines(written.tools)


def _defines(prompt: str) -> bool:
    """Whether the tool stands in a prompt as it was sent, as JSON: so all templates here write it."""
    reader = json.JSONDecoder()
    for brace in re.finditer(r"\{", prompt):
        try:
            found, _ = reader.raw_decode(prompt, brace.start())
        except ValueError:
            continue
        if found == _TOOL:
            return True
    return False


def capabilities_of(text: str) -> frozenset[str]:
    """The capabilities that the server sees in a Jinja text, by the words in it (its source as of 2026-08-21)."""
    found = {"tools"} if "tools" in text or "tool_call" in text else set()
    splits = "content.split('</think>')" in text or 'content.split("</think>")' in text
    tagged = "<think>" in text and "</think>" in text
    if tagged or (splits and "reasoning_content" not in text and "<SPECIAL_12>" not in text):
        found.add("thinking")
    return frozenset(found)
