"""Two templates through the same loops on one kind of engine.

Scripted: the assistant's turns are given, and stand in the cache as if the engine had generated them. Only the cache
is measured, so a run is exact and can be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from templatefix.analysis.loops import Loop
from templatefix.analysis.tools import tool_passes
from templatefix.chat.rendering import ChatTemplate, RenderError, Rendering
from templatefix.chat.request import Request
from templatefix.lab.engine import Engine, Session
from templatefix.lab.figures import AbResult, ArmFigures, RequestFigures, overlapping
from templatefix.lab.replies import new_ranges, reply_index, reply_text


def _as_it_is(request: Request) -> Request:
    return request


@dataclass(frozen=True, slots=True)
class Arm:
    """One side of an A/B."""

    name: str
    template: ChatTemplate
    served: Callable[[Request], Request] = _as_it_is  # the request as the server hands it to the template
    engine: Engine | None = None  # an engine of its own, where arms are models of a server


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run has come, in requests."""

    done: int
    total: int
    label: str  # what was measured last


@dataclass(frozen=True, slots=True)
class _Step:
    """One request of a loop as one template renders it, ready to be measured."""

    scenario: str
    index: int
    prompt: str
    before: str  # what the cache holds when it comes: the prompt before and its reply; empty for the first
    new: tuple[tuple[int, int], ...]  # byte ranges
    tools: bool


def run_ab(
    engine: Engine,
    arms: Sequence[Arm],
    loops: Sequence[Loop],
    progress: Callable[[Progress], None] = lambda _: None,
) -> AbResult:
    """Measure every arm on every loop, each arm on a cold engine and each loop from an empty cache.

    A loop that an arm cannot render makes the run invalid. Raises what the engine raises.
    """
    reasons: list[str] = []
    steps = [[step for loop in loops for step in _steps(arm, loop, reasons)] for arm in arms]
    total = sum(map(len, steps))
    room = max((len(_data(text)) for row in steps for step in row for text in (step.prompt, step.before)), default=0)
    done = 0
    measured: list[ArmFigures] = []
    for arm, row in zip(arms, steps, strict=True):
        requests: list[RequestFigures] = []
        with (arm.engine or engine).session(room) as session:
            for step in row:
                requests.append(_measure(session, step))
                done += 1
                progress(Progress(done, total, f"{arm.name}: {step.scenario}, step {step.index}"))
            reasons += [f"{arm.name}: {fault}" for fault in session.faults()]
        measured.append(ArmFigures(arm.name, tuple(requests)))
    return AbResult(engine.name, engine.source, engine.tokenizer, tuple(measured), tuple(reasons))


def _steps(arm: Arm, loop: Loop, reasons: list[str]) -> list[_Step]:
    """Render a loop; what cannot be rendered is a reason against the run."""
    prompts: list[Rendering] = []
    for request in loop.requests:
        try:
            prompts.append(arm.template.render(arm.served(request)))
        except RenderError as error:
            reasons.append(f"{arm.name} cannot render {loop.name}, step {len(prompts)}: {error}")
            return []
    steps: list[_Step] = []
    for index, (request, prompt) in enumerate(zip(loop.requests, prompts, strict=True)):
        before, new = "", [(0, len(prompt.data))]
        if index > 0:
            before, new = _transition(loop.requests[index - 1], prompts[index - 1], request, prompt)
        tools = bool(tool_passes(prompt, request))
        steps.append(_Step(loop.name, index, prompt.text, before, tuple(new), tools))
    return steps


def _transition(
    earlier: Request, before: Rendering, later: Request, after: Rendering
) -> tuple[str, list[tuple[int, int]]]:
    """What the cache holds between two requests, and what is new in the later one."""
    reply = reply_index(earlier, later)
    if reply is None:
        return before.text, new_ranges(after, len(earlier.messages))
    return before.text + reply_text(before, after, reply), new_ranges(after, reply + 1)


def _measure(session: Session, step: _Step) -> RequestFigures:
    if step.before:
        session.evaluate(step.before, n_predict=0)
    timings = session.evaluate(step.prompt, cold=not step.before)
    new = overlapping(session.token_ends(step.prompt), step.new) if step.before else timings.prompt_tokens
    return RequestFigures(
        scenario=step.scenario,
        step=step.index,
        prompt_tokens=timings.prompt_tokens,
        cached_tokens=timings.cached_tokens,
        fresh_tokens=timings.fresh_tokens,
        new_tokens=new,
        prompt_ms=timings.prompt_ms,
        tools_in_prompt=step.tools,
    )


def _data(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
