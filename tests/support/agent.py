"""A small agent for tests of servers: its template, its tool, its loop, and the servers it talks to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from templatefix.chat.request import Request
from templatefix.servers.ollama import OllamaClient

# A small chat template with tools, in words of its own.
PLAIN = (
    "{{- if or .System .Tools }}<sys>{{ .System }}{{ range .Tools }}<def>{{ . }}</def>{{ end }}</sys>{{ end }}"
    '{{- range .Messages }}{{ if eq .Role "user" }}<you>{{ .Content }}</you>'
    '{{ else if eq .Role "assistant" }}<me>{{ .Content }}'
    "{{ range .ToolCalls }}[{{ .Function.Name }} {{ .Function.Arguments }}]{{ end }}</me>"
    '{{ else if eq .Role "tool" }}<out>{{ .Content }}</out>{{ end }}{{ end }}<me>'
)
CHANGED = PLAIN.replace("<sys>", "<sys>Be brief. ")
THINKING = (
    "{{ .IsThinkSet }}/{{ .Think }}/{{ .ThinkLevel }}{{ range .Messages }}<{{ .Role }}>"
    "{{ if .Thinking }}<think>{{ .Thinking }}</think>{{ end }}{{ .Content }}{{ end }}"
)
TOOL = {
    "type": "function",
    "function": {
        "name": "look_up",
        "description": "Finds a <word> & its use",
        "parameters": {"type": "object", "required": ["word"], "properties": {"word": {"type": "string"}}},
    },
}
CALL = {"function": {"name": "look_up", "arguments": {"word": "owl", "depth": 2}}}


def loop(*, system: bool = False) -> tuple[Request, ...]:
    """The steps of a short tool loop."""
    messages: list[dict[str, Any]] = [
        *([{"role": "system", "content": "Answer in verse."}] if system else []),
        {"role": "user", "content": "What is an owl?"},
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        {"role": "tool", "content": "a bird <night> & day"},
        {"role": "assistant", "content": "A bird."},
        {"role": "user", "content": "And a bat?"},
    ]
    first = 2 if system else 1
    return tuple(Request(tuple(messages[:end]), (TOOL,)) for end in (first, first + 2, first + 4))


@dataclass(frozen=True)
class Backend:
    """A server to hold to the contract, and how to make a model on it."""

    client: OllamaClient
    make: Callable[..., str]  # (name, template, **fields of create) -> name; removed at the end
