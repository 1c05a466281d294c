"""What makes a Jinja template fail, read from where it stops."""

from __future__ import annotations

import re
from typing import Final

from templatefix.chat.rendering import RenderError
from templatefix.gotemplate.source import Source, Span

_RAISED: Final = "Jinja Exception: "
_MISSING: Final = re.compile(r"Callee is not a function: got Undefined \(hint: '(\w+)'\)")
_BRANCH: Final = re.compile(r"\{%[-+]?\s*(if|elif|else|endif)\b(.*?)%\}", re.DOTALL)


def refuses_several_calls(source: Source, error: RenderError) -> bool:
    """Whether a template stopped itself because an assistant turn holds more than one call."""
    if error.span is None or not error.message.startswith(_RAISED):
        return False
    opened: list[list[str]] = []  # the conditions of each branch that is open
    for found in _BRANCH.finditer(source.slice(Span(0, error.span.start))):
        word, condition = found.groups()
        if word == "if":
            opened.append([condition])
        elif opened and word == "elif":
            opened[-1].append(condition)
        elif opened and word == "endif":
            opened.pop()
    return bool(opened) and any("tool_calls" in each and re.search(r"length|count", each) for each in opened[-1])


def why_it_fails(error: RenderError) -> str:
    """Why a failure cannot be mended, as the end of a sentence."""
    if error.message.startswith(_RAISED):
        said = error.message.removeprefix(_RAISED)
        return f"the template itself stops here ({said}), and what it should print instead only its maker can tell"
    if found := _MISSING.search(error.message):
        return f"the template calls `{found.group(1)}` of something that llama-server does not give it"
    return f"execution fails, and no repair of it is known: {error.message}"
