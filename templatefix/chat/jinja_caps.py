"""What llama-server finds out about a template by trying it, found out in the same way."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from templatefix.chat.jinja_values import Caps, Record, Row
from templatefix.chat.rendering import Origin, RenderError

Render = Callable[[dict[str, Any]], str]  # of the template's data; raises RenderError

_ORIGIN: Final = Origin("message", 0, "tried")
_USER: Final = {"role": "user", "content": "User message"}
_FUNCTION: Final = {
    "name": "tool1",
    "description": "Tool description",
    "parameters": {
        "type": "object",
        "properties": {"arg": {"type": "string", "description": "Arg description"}},
        "required": ["arg"],
    },
}
_TOOLS: Final = [{"name": "tool", "type": "function", "function": _FUNCTION}]


class _Watched(Record):
    """An object that remembers which of its members were asked for."""

    __slots__ = ("asked",)

    def __init__(self, members: Mapping[Any, Any]) -> None:
        super().__init__({key: _watched(value) for key, value in members.items()}, _ORIGIN, None)
        self.asked: set[str] = set()

    def __getitem__(self, key: Any) -> Any:
        self.asked.add(key)
        return super().__getitem__(key)

    def get(self, key: Any, default: Any = None) -> Any:
        """As `dict` does it."""
        self.asked.add(key)
        return super().get(key, default)

    def items(self) -> Any:
        """As `dict` does it."""
        self.asked.update(self)
        return super().items()


class _WatchedRow(Row):
    """An array that remembers whether its items were asked for."""

    __slots__ = ("asked",)

    def __init__(self, items: list[Any]) -> None:
        super().__init__([_watched(item) for item in items], _ORIGIN)
        self.asked = False

    def __getitem__(self, key: Any) -> Any:
        self.asked = True
        return super().__getitem__(key)

    def __iter__(self) -> Iterator[Any]:
        self.asked = True
        return super().__iter__()


def _watched(value: Any) -> Any:
    if isinstance(value, Mapping):
        return _Watched(value)
    return _WatchedRow(value) if isinstance(value, list) else value


def _try(render: Render, messages: list[Any], **data: Any) -> str | None:
    try:
        return render({"messages": messages, **data})
    except RenderError as error:
        if error.message.startswith("template: "):
            raise  # beyond limits, and so it would be each time
        return None


def find_caps(render: Render, names: Collection[str]) -> Caps:
    """Try a template; `render` gives its prompt for data, with a generation prompt, `names` are all it uses.

    Raises RenderError where a try goes beyond limits.
    """
    plain = _try(render, [_Watched(_USER)])
    typed = _Watched({"role": "user", "content": [{"type": "text", "text": "User message"}]})
    parts = _try(render, [typed])
    reads_parts = dict.__getitem__(typed, "content").asked and parts is not None and "User message" in parts
    text = plain is not None and ("User message" in plain or not reads_parts)
    system = _Watched({"role": "system", "content": _content("System message", text)})
    _try(render, [system, _Watched({"role": "user", "content": _content("User message", text)})])
    tools, calls, parallel, objects = _tool_caps(render, text)
    thought = _Watched(
        {"role": "assistant", "content": _content("Assistant message", text), "reasoning_content": "Reasoning"}
    )
    user = {"role": "user", "content": _content("User message", text)}
    earlier = _try(render, [_Watched(user), thought, _Watched(user)], preserve_thinking=True)
    return Caps(
        supports_string_content=text,
        supports_typed_content=reads_parts,
        supports_system_role="content" in system.asked,
        supports_tools=tools,
        supports_tool_calls=calls,
        supports_parallel_tool_calls=parallel,
        supports_object_arguments=objects,
        supports_preserve_reasoning=earlier is not None and "Reasoning" in earlier,
        supports_reasoning_effort="reasoning_effort" in names,
    )


def _content(text: str, plain: bool) -> Any:
    return text if plain else [{"type": "text", "text": text}]


def _tool_caps(render: Render, text: bool) -> tuple[bool, bool, bool, bool]:
    """Whether tools, calls, more than one call a turn, and arguments that are objects reach the prompt."""

    def attempt(arguments: Any, numbers: Sequence[int]) -> tuple[Any, Any, str | None]:
        calls = [
            {
                "id": f"call0000{number}",
                "type": "function",
                "function": {"name": f"tool{number}", "arguments": arguments},
            }
            for number in numbers
        ]
        messages = [
            _Watched({"role": "user", "content": _content("User message", text)}),
            _Watched({"role": "assistant", "content": "", "tool_calls": calls}),
            *[
                _Watched({"role": "tool", "content": _content("Result", text), "tool_call_id": f"call0000{number}"})
                for number in numbers
            ],
            _Watched({"role": "assistant", "content": _content("Answer", text)}),
            _Watched({"role": "user", "content": _content("User message", text)}),
        ]
        tools = _watched(_TOOLS)
        return messages[1], tools, _try(render, messages, tools=tools)

    for numbers in ((1, 2), (1,)):
        for arguments in ({"arg": "value"}, '{"arg": "value"}'):
            assistant, tools, prompt = attempt(arguments, numbers)
            if prompt is not None:
                return _told(assistant, tools, prompt)
    return False, False, False, False


def _told(assistant: _Watched, tools: Any, prompt: str) -> tuple[bool, bool, bool, bool]:
    function = dict.__getitem__(list.__getitem__(tools, 0), "function")
    calls = dict.__getitem__(assistant, "tool_calls")
    seen = "tool_calls" in assistant.asked
    functions = [dict.__getitem__(call, "function") for call in list.__iter__(calls)]
    arguments = dict.__getitem__(functions[0], "arguments")
    return (
        "name" in function.asked,
        seen,
        seen and len(functions) > 1 and bool(functions[1].asked),
        isinstance(arguments, _Watched) and "value" in prompt and bool(arguments.asked),
    )
