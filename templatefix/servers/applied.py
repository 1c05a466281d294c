"""A Jinja template in the real llama-server: whether its prompts are those that the proof was made with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from templatefix.analysis.loops import Loop
from templatefix.chat.jinja import JinjaChatTemplate
from templatefix.chat.rendering import RenderError
from templatefix.chat.request import Request
from templatefix.servers.errors import ServerRefused, ServerUnreachable
from templatefix.servers.llama_server import LlamaServer
from templatefix.servers.llama_start import started
from templatefix.servers.openai_api import openai_messages
from templatefix.servers.standin import standin_bytes
from templatefix.servers.tokenizer import PREFIX, Tokenizer, byte_level

_OPTIONS = ("-c", "512", "--no-warmup")  # nothing is read or generated
_PATIENCE = 30.0  # seconds: a stand-in is loaded in one
_PLAIN = (
    "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"  # that every server takes
)


class NotAsProved(Exception):
    """The server makes another prompt than the proof was made with; the string is a clause that says which."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What came of a comparison."""

    prompts: int  # that were equal
    refused: int = 0  # that the server makes of neither template
    reason: str = ""  # why it makes none, for the first of them


def check_applied(
    program: Path, variant: JinjaChatTemplate, original: JinjaChatTemplate, loops: Sequence[Loop]
) -> Applied:
    """Render the loops with the program's own `/apply-template`, and compare every prompt with ours.

    What the server refuses of the variant it must refuse of the original as well. Raises NotAsProved at the first
    difference, and ServerError where the program does not work, whatever the template.
    """
    requests = [
        (f"request {step} of the loop {loop.name}", request)
        for loop in loops
        for step, request in enumerate(loop.requests, 1)
    ]
    with ExitStack() as stack:
        before = _Lazy(program, original, stack)
        try:
            server = stack.enter_context(_serving(program, variant))
        except _Refused as refusal:
            if not before.refuses(None):
                raise NotAsProved(str(refusal)) from refusal
            _start(program)
            return Applied(0, len(requests), str(refusal))
        ours = _as_on(server, variant)
        reasons = []
        for where, request in requests:
            try:
                theirs = _applied(server, request)
            except _Refused as refusal:
                if not before.refuses(request):
                    raise NotAsProved(f"llama-server refuses {where}: {refusal}") from refusal
                reasons.append(str(refusal))
            else:
                if theirs != _rendered(ours, request):
                    raise NotAsProved(f"llama-server's own render of {where} is not ours")
    return Applied(len(requests) - len(reasons), len(reasons), *reasons[:1])


def _start(program: Path) -> None:
    """Raise ServerError where the program starts with no template at all."""
    try:
        with _serving(program, JinjaChatTemplate(_PLAIN)):
            pass
    except _Refused as error:
        raise ServerUnreachable(str(error)) from error


def _rendered(template: JinjaChatTemplate, request: Request) -> str | None:
    try:
        return template.render(request).text
    except RenderError:
        return None


class _Refused(Exception):
    """The server does not start with a template, or refuses a request; the string says why."""


class _Lazy:
    """A server that is started when it is first asked."""

    def __init__(self, program: Path, template: JinjaChatTemplate, stack: ExitStack) -> None:
        self._program = program
        self._template = template
        self._stack = stack

    @cached_property
    def _server(self) -> LlamaServer:
        return self._stack.enter_context(_serving(self._program, self._template))

    def refuses(self, request: Request | None) -> bool:
        """Whether it refuses a request; of None, whether it starts."""
        try:
            server = self._server
            if request is not None:
                _applied(server, request)
        except _Refused:
            return True
        return False


@contextmanager
def _serving(program: Path, template: JinjaChatTemplate) -> Iterator[LlamaServer]:
    with TemporaryDirectory(prefix="templatefix-") as name:
        folder = Path(name)
        file = folder / "template.jinja"
        file.write_bytes(template.source.data)
        model = folder / "model.gguf"
        model.write_bytes(standin_bytes(_vocabulary(template)))
        with ExitStack() as stack:
            options = ("--jinja", "--chat-template-file", str(file), *_OPTIONS)
            try:
                server = stack.enter_context(started(program, model, folder, options, _PATIENCE))
            except ServerUnreachable as error:
                raise _Refused(str(error)) from error
            yield server


def _vocabulary(template: JinjaChatTemplate) -> Tokenizer:
    """A small one, with the template's tokens for the beginning and the end of a text."""
    ends = {"bos": template.bos, "eos": template.eos}
    made = byte_level(template.source.text).read().with_markers(filter(None, ends.values()))
    numbers = {f"{PREFIX}{key}_token_id": made.tokens.index(token) for key, token in ends.items() if token}
    return Tokenizer({**made.metadata, **numbers})


def _as_on(server: LlamaServer, template: JinjaChatTemplate) -> JinjaChatTemplate:
    """The template with the tokens of the server's model, on the server's day."""
    told = server.props()
    tokens = [str(told.get(key) or "") for key in ("bos_token", "eos_token")]
    return template.with_text(template.source.text, bos=tokens[0], eos=tokens[1]).on_day(date.today())


def _applied(server: LlamaServer, request: Request) -> str:
    kwargs = {} if request.think is None else {"enable_thinking": request.think}
    try:
        return server.apply_template(_messages(request), request.tools, kwargs)
    except ServerRefused as error:
        raise _Refused(error.message) from error


def _messages(request: Request) -> list[dict[str, Any]]:
    made = openai_messages(request.messages)
    for message, found in zip(request.messages, made, strict=True):
        if message.get("tool_name"):
            found["name"] = message["tool_name"]
    return made
