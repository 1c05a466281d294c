"""The smallest two requests that show a fault, and how to send them: nothing of a user's is in them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from templatefix.analysis.evidence import Evidence
from templatefix.analysis.findings import Finding
from templatefix.analysis.loops import Loop, Message, assistant, call, requests_of, result, system, user
from templatefix.analysis.registry import find_rule, shipped_rules
from templatefix.analysis.stability import LoopRun, run_loop
from templatefix.chat.rendering import ChatTemplate
from templatefix.chat.request import Request

Repo = Literal["ollama", "llama.cpp", "huggingface"]
REPOS: tuple[Repo, ...] = ("ollama", "llama.cpp", "huggingface")

_TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
_ASKED, _CALLED = user("How is the weather in Oslo?"), assistant("", call("get_weather", city="Oslo"))
_ANSWERED = result("get_weather", "4 degrees, rain")
_LATER = [assistant("It rains, at 4 degrees."), user("And in Rome?")]
_BOTH = assistant("", call("get_weather", city="Oslo"), call("get_weather", city="Rome"))
_CONVERSATIONS: tuple[list[Message], ...] = (
    [_ASKED, _CALLED, _ANSWERED],
    [user("Hello."), assistant("Hello. What can I do for you?"), _ASKED],
    [_ASKED, _CALLED, _ANSWERED, *_LATER],
    [_ASKED, assistant("I will look.", call("get_weather", city="Oslo")), _ANSWERED],
    [user("How is the weather in Oslo and Rome?"), _BOTH, _ANSWERED, result("get_weather", "19 degrees")],
    [user("Hello."), assistant("Hello."), system("Answer in one word."), _ASKED],
)


@dataclass(frozen=True)
class Pair:
    """Two successive requests of one conversation, rendered by the template of the report."""

    run: LoopRun  # of both, or of one where the second fails
    small: bool  # ours, in plain words; else two of a loop that check uses

    @property
    def requests(self) -> tuple[Request, ...]:
        """Both requests, as a client sends them."""
        return self.run.loop.requests


@dataclass(frozen=True)
class _Narrow(Evidence):
    """Evidence of a few runs alone."""

    runs: tuple[LoopRun, ...] = ()

    @cached_property
    def core(self) -> tuple[LoopRun, ...]:
        """The runs, as far as they give the verdict."""
        return tuple([run for run in self.runs if run.loop.core])

    @cached_property
    def others(self) -> tuple[LoopRun, ...]:
        """The other runs."""
        return tuple([run for run in self.runs if not run.loop.core])


def smallest_pair(template: ChatTemplate, finding: Finding, runs: Sequence[LoopRun]) -> Pair:
    """Two requests in which the rule finds the same; those of the finding's loop where no small ones show it."""
    rule, served = find_rule(finding.code, shipped_rules()), Evidence(template).served
    core = next((run.loop.core for run in runs if run.loop.name == finding.loop), True)
    for messages in (*_CONVERSATIONS, *([system("Be brief."), *one] for one in _CONVERSATIONS)):
        whole = requests_of(messages, (_TOOL,))
        for index in range(len(whole) - 1) if rule is not None else ():
            run = run_loop(template, Loop("small", whole[index : index + 2], core), served)
            found = rule.check(_Narrow(template, runs=(run,))) if rule is not None else ()
            if any(one.code == finding.code and one.span == finding.span for one in found):
                return Pair(run, True)
    return Pair(run_loop(template, Loop("shown", _of_loop(finding, runs), core), served), False)


def _of_loop(finding: Finding, runs: Sequence[LoopRun]) -> tuple[Request, ...]:
    run = next((run for run in runs if run.loop.name == finding.loop), runs[0])
    step = finding.step or 0
    first = max(0, min(step - 1, len(run.loop.requests) - 2))
    return run.loop.requests[first : first + 2]


def commands(requests: Sequence[Request], repo: Repo, model: str, jinja: bool) -> tuple[list[str], str]:
    """What sends the requests and keeps the prompts as 1.txt and 2.txt; and the language that it is written in."""
    if repo == "ollama" or not jinja:
        return [_ollama(request, model, number) for number, request in enumerate(requests, 1)], "sh"
    if repo == "llama.cpp":
        return [_llama_cpp(request, number) for number, request in enumerate(requests, 1)], "sh"
    return [_transformers(requests, model)], "python"


def _ollama(request: Request, model: str, number: int) -> str:
    body: dict[str, Any] = {"model": model, "stream": False, "_debug_render_only": True, **_body(request)}
    show = f"jq -j ._debug_info.rendered_template > {number}.txt"
    return f"curl -s http://localhost:11434/api/chat -d '{_quoted(body)}' | {show}"


def _llama_cpp(request: Request, number: int) -> str:
    body = {"messages": openai_messages(request), **({"tools": list(request.tools)} if request.tools else {})}
    return f"curl -s http://localhost:8080/apply-template -d '{_quoted(body)}' | jq -j .prompt > {number}.txt"


def _transformers(requests: Sequence[Request], model: str) -> str:
    lines = ["import json", "from transformers import AutoTokenizer", ""]
    lines += [f"tokenizer = AutoTokenizer.from_pretrained({model!r})"]
    lines += [f"tools = json.loads('''{_laid_out(list(requests[-1].tools))}''')"]
    for number, request in enumerate(requests, 1):
        lines += [
            f"messages = json.loads('''{_laid_out(openai_messages(request, parsed=True))}''')",
            "prompt = tokenizer.apply_chat_template(messages, tools=tools, tokenize=False, add_generation_prompt=True)",
            f"open('{number}.txt', 'w').write(prompt)",
        ]
    return "\n".join(lines)


def _body(request: Request) -> dict[str, Any]:
    think = request.think_level or request.think
    return {
        "messages": list(request.messages),
        **({"tools": list(request.tools)} if request.tools else {}),
        **({"think": think} if think is not None else {}),
    }


def openai_messages(request: Request, parsed: bool = False) -> list[dict[str, Any]]:
    """The messages in OpenAI's shape: calls have an id, their arguments are text (or `parsed`), results name the id."""
    made: list[dict[str, Any]] = []
    ids: list[str] = []
    for message in request.messages:
        row = {key: value for key, value in message.items() if key not in ("tool_calls", "tool_name", "thinking")}
        if message.get("thinking"):
            row["reasoning_content"] = message["thinking"]
        if message.get("tool_calls"):
            calls = [one["function"] for one in message["tool_calls"]]
            ids = [f"call_{len(made)}_{index}" for index in range(len(calls))]
            row["tool_calls"] = [
                {
                    "id": mark,
                    "type": "function",
                    "function": {
                        "name": one["name"],
                        "arguments": one["arguments"] if parsed else json.dumps(one["arguments"]),
                    },
                }
                for mark, one in zip(ids, calls, strict=True)
            ]
        if message.get("role") == "tool" and ids:
            row["tool_call_id"] = ids.pop(0)
        made.append(row)
    return made


def _quoted(body: object) -> str:
    return _laid_out(body).replace("'", "\\u0027")


def _laid_out(body: object) -> str:
    """JSON with a line a key, and a line an item of a list."""
    if isinstance(body, dict):
        rows = [f"{json.dumps(key)}: {_rows(value)}" for key, value in body.items()]
        return "{\n  " + ",\n  ".join(rows) + "}"
    return _rows(body)


def _rows(value: object) -> str:
    if not isinstance(value, list) or len(value) < 2:
        return json.dumps(value, ensure_ascii=False)
    return "[\n    " + ",\n    ".join(json.dumps(one, ensure_ascii=False) for one in value) + "]"
