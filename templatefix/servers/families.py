"""Which family a Jinja text belongs to, and the Go template that can stand in its place on an Ollama server.

A Go TEMPLATE wins over the Jinja text of a GGUF file if the server sees in it as many capabilities and a round trip of
tool calls; with a PARSER beside it, it always wins. Without a PARSER the server reads calls behind a Go TEMPLATE as
JSON only, so a family whose models write them otherwise comes with the server's own reader of that form.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources

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
    marks: tuple[str, ...]  # all of them stand in a Jinja text of the family
    without: tuple[str, ...] = ()  # and none of these
    opens_thought: bool | None = None  # whether its prompts end inside a thought; None: either way

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


_QWEN3 = ("<|im_start|>", "<tool_call>", "<tool_response>", "<think>")
_OTHERS = ("truncate_history_thinking", "<|tool_list_start|>", "<|im_user|>", "[INST]")

FAMILIES = (
    Family("qwen3.5", ("<|im_start|>", "<tool_call>", "<tool_response>", "<function=", "<think>"), _OTHERS),
    Family("qwen3-thinking", _QWEN3, ("<function=", "<arg_key>", *_OTHERS), opens_thought=True),
    Family("qwen3", _QWEN3, ("<function=", "<arg_key>", *_OTHERS), opens_thought=False),
    Family("glm4.5", ("[gMASK]<sop>", "<|observation|>", "<tool_call>", "<arg_key>")),
    Family("mixtral", ("[INST] ", "[/INST]"), ("[SYSTEM_PROMPT]", "<<SYS>>", "<think>", "[THINK]")),
    Family("mistral-nemo", ("[INST]", "[/INST]", "[TOOL_CALLS]"), ("[SYSTEM_PROMPT]", "<<SYS>>", "<think>", "[THINK]")),
    Family("llama3.1", ("<|start_header_id|>", "<|eot_id|>", "ipython"), ("<tool_call>", "<think>", "<function=")),
)

_BUILT_IN = (
    (("<|turn>", "<turn|>"), "Ollama gives every tag that is made of Gemma 4's weights its built-in RENDERER"),
    (("<|start|>", "<|channel|>"), "Ollama renders gpt-oss in the harmony format itself"),
)


def family_of(template: JinjaChatTemplate) -> Family:
    """The first family whose marks a Jinja text has. Raises NoFamily where there is none."""
    text = template.source.text
    for marks, reason in _BUILT_IN:
        if all(mark in text for mark in marks):
            raise BuiltIn(reason)
    opens = _opens_thought(template)
    for family in FAMILIES:
        fits = all(mark in text for mark in family.marks) and not any(mark in text for mark in family.without)
        if fits and family.opens_thought in (None, opens):
            return family
    raise NoFamily(f"the template is of none of the families known here ({', '.join(one.name for one in FAMILIES)})")


def _opens_thought(template: JinjaChatTemplate) -> bool:
    try:
        return template.render(Request(({"role": "user", "content": "?"},))).text.rstrip().endswith("<think>")
    except RenderError:
        return False


def capabilities_of(text: str) -> frozenset[str]:
    """The capabilities that the server sees in a Jinja text, by the words in it (its source as of 2026-08-21)."""
    found = {"tools"} if "tools" in text or "tool_call" in text else set()
    splits = "content.split('</think>')" in text or 'content.split("</think>")' in text
    tagged = "<think>" in text and "</think>" in text
    if tagged or (splits and "reasoning_content" not in text and "<SPECIAL_12>" not in text):
        found.add("thinking")
    return frozenset(found)
