"""Why llama-server does not start with a template: of an example of a call it makes the parser of the replies.

Where the example looks like JSON it is read as JSON, and where that fails there is no parser and no server (seen with
build 11434). The example's arguments are an object, whatever the server hands to the template later.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final

from templatefix.chat.rendering import RenderError

_NAME: Final = "example_function"
_CALL: Final = {
    "id": "call00001",
    "type": "function",
    "function": {"name": _NAME, "arguments": {"first": "example value"}},
}
_MESSAGES: Final = (
    {"role": "user", "content": "User message"},
    {"role": "assistant", "content": "", "tool_calls": [_CALL]},
)
_FUNCTION: Final = {
    "name": _NAME,
    "description": "Does something",
    "parameters": {"type": "object", "properties": {"first": {"type": "string"}}, "required": ["first"]},
}
_OPENED: Final = re.compile(rf'\{{(?:[^{{}}]*,)?\s*"\w+"\s*:\s*(?="{_NAME}")')  # an object, up to the value


def unreadable_call(render: Callable[[dict[str, Any]], str]) -> str | None:
    """What the server would say of a template whose calls look like JSON and are none; None where all is well."""
    tools = [{"type": "function", "function": _FUNCTION}]
    try:
        prompt = render({"messages": [dict(message) for message in _MESSAGES], "tools": tools})
    except RenderError:
        return None  # that is said when such a conversation comes
    found = list(_OPENED.finditer(prompt))
    if not found:
        return None
    example = prompt[found[-1].start() :]
    try:
        json.JSONDecoder().raw_decode(example)
    except ValueError:
        shown = example.partition("\n")[0][:80]
        return f"Unable to generate parser for this template: its calls look like JSON and are none, as in {shown}"
    return None
