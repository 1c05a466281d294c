"""Two templates through the same loops on one kind of engine.

Scripted: the assistant's turns are given, and stand in the cache as if the engine had generated them. Only the cache
is measured, so a run is exact and can be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from templatefix.analysis.loops import Loop
from templatefix.analysis.tools import tool_passes
from templatefix.chat.rendering import ChatTemplate, RenderError, Rendering
from templatefix.chat.request import Request
from templatefix.lab.calls import Tags
from templatefix.lab.engine import Engine, Session
from templatefix.lab.figures import AbResult, ArmFigures, RequestFigures
from templatefix.lab.parts import parts_of
from templatefix.lab.replies import new_ranges, overlapping, reply_index, reply_text
from templatefix.servers.errors import NotMeasurable

# Ends with a line: no token of a word reaches over it, and a memory that cannot go back may go on from there.
WARM_UP = (
    "These words stand for nothing but themselves; they are read once so that all that follows is read alike.\n" * 2
)


def _as_it_is(request: Request) -> Request:
    return request


@dataclass(frozen=True, slots=True)
class Arm:
    """One side of an A/B."""

    name: str
    template: ChatTemplate
    served: Callable[[Request], Request] = _as_it_is  # the request as the server hands it to the template
    engine: Engine | None = None  # an engine of its own, where arms are models of a server
    tags: Tags = field(default_factory=Tags)  # how the server reads what the model says
    # The same as `served` for a request that ends with a reply, as the model wrote it; None: as it stands later.
    written: Callable[[Request], Request] | None = None


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
    request: Request
    prompt: Rendering
    before: str  # what the cache holds when it comes: the prompt before and its reply; empty for the first
    new: tuple[tuple[int, int], ...]  # byte ranges


def run_ab(
    engine: Engine,
    arms: Sequence[Arm],
    loops: Sequence[Loop],
    progress: Callable[[Progress], None] = lambda _: None,
    repeats: int = 1,
) -> AbResult:
    """Measure every arm on every loop, each arm on a cold engine and each loop from an empty cache.

    Every other repeat begins with the last arm. What cannot be rendered or measured makes the run invalid; an
    interrupt (Ctrl-C) ends it with what was measured until then. Raises what the engine raises else.
    """
    reasons = [reason for loop in loops if (reason := _changed_tools(loop)) is not None]
    steps = [[step for loop in loops for step in _steps(arm, loop, reasons)] for arm in arms]
    recorder = Recorder(engine, arms, repeats * sum(map(len, steps)), progress, reasons)
    texts = [text for row in steps for step in row for text in (step.prompt.text, step.before)]
    room = max(len(_data(text)) for text in (WARM_UP * 2, *texts))
    with recorder.interruptible():
        for repeat, index in turns(len(arms), repeats):
            with recorder.measurable(index), (arms[index].engine or engine).session(room) as session:
                recorder.warm_up(session)
                for step in steps[index]:
                    recorder.add(index, _measure(session, step, repeat))
    return recorder.result(repeats)


def _changed_tools(loop: Loop) -> str | None:
    """Why a loop says nothing of the templates: other tools make another prompt in any template."""
    for index, (before, after) in enumerate(zip(loop.requests, loop.requests[1:], strict=False), 1):
        if before.tools != after.tools:
            return f"{loop.name}: request {index} has other tools than the one before"
    return None


def turns(arms: int, repeats: int) -> list[tuple[int, int]]:
    """Repeat and arm in the order in which they are measured: forwards, backwards, forwards, …"""
    orders = [range(arms), range(arms - 1, -1, -1)]
    return [(repeat, arm) for repeat in range(repeats) for arm in orders[repeat % 2]]


class Recorder:
    """Takes in figures while a run goes on, so that there is a result at any time."""

    def __init__(
        self,
        engine: Engine,
        arms: Sequence[Arm],
        total: int,
        progress: Callable[[Progress], None],
        reasons: list[str] | None = None,
    ) -> None:
        self._engine = engine
        self._arms = arms
        self._total = total
        self._progress = progress
        self._reasons = reasons if reasons is not None else []
        self._rows: list[list[RequestFigures]] = [[] for _ in arms]
        self._interrupted = False

    def add(self, arm: int, row: RequestFigures) -> None:
        """One more request."""
        self._rows[arm].append(row)
        done = sum(map(len, self._rows))
        label = f"{self._arms[arm].name}: {row.scenario}, step {row.step}"
        self._progress(Progress(done, max(done, self._total), label))

    def warm_up(self, session: Session) -> None:
        """Let the engine do what it does only once, and see that it keeps anything at all."""
        session.evaluate(WARM_UP, cold=True)
        if not session.evaluate(WARM_UP * 2).cached_tokens:
            raise NotMeasurable("The engine keeps nothing from one request to the next: its cache is off.")

    @contextmanager
    def measurable(self, arm: int) -> Iterator[None]:
        """Go on with the next arm where this one cannot be measured, and say why."""
        try:
            yield
        except NotMeasurable as error:
            reason = f"{self._arms[arm].name}: {error}"
            if reason not in self._reasons:
                self._reasons.append(reason)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """End at an interrupt."""
        try:
            yield
        except KeyboardInterrupt:
            self._interrupted = True
            done = sum(map(len, self._rows))
            self._reasons.append(f"interrupted after {done} of {max(done, self._total)} requests")

    def result(self, repeats: int, *, live: bool = False) -> AbResult:
        """What was measured so far."""
        return AbResult(
            engine=self._engine.name,
            source=self._engine.source,
            tokenizer=self._engine.tokenizer,
            arms=tuple([ArmFigures(arm.name, tuple(rows)) for arm, rows in zip(self._arms, self._rows, strict=True)]),
            invalid_reasons=tuple(self._reasons),
            repeats=repeats,
            attention=self._engine.attention,
            checkpoints=self._engine.checkpoints,
            live=live,
            interrupted=self._interrupted,
        )


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
            before, new = _transition(arm, loop.requests[index - 1], prompts[index - 1], request, prompt)
        steps.append(_Step(loop.name, index, request, prompt, before, tuple(new)))
    return steps


def _transition(
    arm: Arm, earlier: Request, before: Rendering, later: Request, after: Rendering
) -> tuple[str, list[tuple[int, int]]]:
    """What the cache holds between two requests, and what is new in the later one."""
    reply = reply_index(earlier, later)
    if reply is None:
        return before.text, new_ranges(after, len(earlier.messages))
    if arm.written is not None:
        return _written(arm, before, after, later, reply), new_ranges(after, reply + 1)
    return before.text + reply_text(before, after, reply), new_ranges(after, reply + 1)


def _written(arm: Arm, before: Rendering, after: Rendering, later: Request, reply: int) -> str:
    """The prompt with the reply behind it as the model wrote it, of which a later prompt may lose something."""
    assert arm.written is not None
    request = arm.written(replace(later, messages=later.messages[: reply + 1]))
    try:
        whole = arm.template.render(request).text
    except RenderError:
        whole = ""
    return whole if whole.startswith(before.text) else before.text + reply_text(before, after, reply)


def _measure(session: Session, step: _Step, repeat: int) -> RequestFigures:
    if step.before:
        session.evaluate(step.before, n_predict=0)
    timings = session.evaluate(step.prompt.text, cold=not step.before)
    ends = session.token_ends(step.prompt.text)
    return RequestFigures(
        scenario=step.scenario,
        step=step.index,
        prompt_tokens=timings.prompt_tokens,
        cached_tokens=timings.cached_tokens,
        fresh_tokens=timings.fresh_tokens,
        new_tokens=overlapping(ends, step.new) if step.before else timings.prompt_tokens,
        prompt_ms=timings.prompt_ms,
        tools_in_prompt=bool(tool_passes(step.prompt, step.request)),
        repeat=repeat,
        parts=parts_of(step.prompt, step.request, ends),
    )


def _data(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
