"""What the rules judge by: the loops as they were rendered, what changed in them, and the tree as it was read."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from templatefix.analysis.changes import Change, changes
from templatefix.analysis.dependence import read
from templatefix.analysis.findings import Cost
from templatefix.analysis.loops import (
    CUT,
    Loop,
    chat_loops,
    core_loops,
    other_loops,
    system,
    thinking_loop,
    without_tools,
)
from templatefix.analysis.metering import Budget, Metered
from templatefix.analysis.reading import Place, Reading, TooComplex
from templatefix.analysis.sampling import chat_of, loops_around, samples
from templatefix.analysis.stability import LoopRun, run_loop
from templatefix.chat.go import GoChatTemplate
from templatefix.chat.rendering import ChatTemplate, RenderError, ServedTemplate, SwitchedTemplate
from templatefix.chat.request import Request
from templatefix.chat.serving import Serving
from templatefix.gotemplate.source import Span

_OF_THINKING = ("think", "thought", "reason")  # in the name of a variable
_SEED, _SAMPLES = 20261129, 60  # of the search for loops


@dataclass(frozen=True)
class Evidence:
    """Everything that a rule may look at. Loops are rendered when they are first asked for."""

    template: ChatTemplate
    serving: Serving = field(default_factory=Serving)
    budget: Budget = field(default_factory=Budget)

    def served(self, request: Request) -> Request:
        """A request as the server would render it."""
        return self.template.as_served(request) if isinstance(self.template, ServedTemplate) else request

    @property
    def hides_thoughts(self) -> bool:
        """Whether no past thinking reaches the template, whatever a client sends."""
        return bool(getattr(self.template, "hides_thoughts", False))

    @cached_property
    def takes_tools(self) -> bool:
        """Whether tools can reach the prompt at all."""
        if isinstance(self.template, GoChatTemplate):
            return self.template.uses_tools and not self.template.legacy
        return "tools" in self.template.source.text

    @cached_property
    def thinks(self) -> bool:
        """Whether thinking makes a difference to the template."""
        if isinstance(self.template, GoChatTemplate):
            return any("think" in name for name in self.template.derived.vars)
        return any(word in self.template.source.text for word in ("think", "reasoning_content"))

    @cached_property
    def reading(self) -> Reading | None:
        """The tree, read; None for legacy templates, where nothing can be rendered, and beyond limits."""
        return self._read(thoughts=bool(self._thinking))

    @cached_property
    def reading_thoughts(self) -> Reading | None:
        """The tree, read for conversations whose earlier turns hold thinking."""
        unread = self.thinks and not self._thinking and not self.hides_thoughts
        return self._read(thoughts=True) if unread else self.reading

    def _read(self, thoughts: bool) -> Reading | None:
        template = self.template
        try:
            if isinstance(template, GoChatTemplate):
                if template.legacy:
                    return None
                return read(template.tree, template.has_think_tags, thoughts, self.takes_tools)
            from templatefix.analysis.jinjatree import read_jinja  # with jinja2, which Go templates do without
            from templatefix.chat.jinja import JinjaChatTemplate

            if isinstance(template, JinjaChatTemplate) and template.refusal is None:
                return read_jinja(template, thoughts, self.takes_tools)
        except (TooComplex, RenderError):
            pass
        return None

    def run(self, loop: Loop) -> LoopRun:
        """Render a loop as the server would."""
        return self.run_other(self.template, loop)

    def run_other(self, template: ChatTemplate, loop: Loop) -> LoopRun:
        """Render a loop with another template, at the cost of the same budget."""
        return run_loop(Metered(template, self.budget), loop, self.served)

    def _runs(self, loops: Iterable[Loop]) -> Iterator[LoopRun]:
        # A template that goes beyond a limit takes its time for it: once is enough.
        beyond: RenderError | None = None
        for loop in loops:
            run = self.run(loop) if beyond is None else LoopRun(loop, (), beyond)
            if run.beyond:
                beyond = run.error
            yield run

    @cached_property
    def core(self) -> tuple[LoopRun, ...]:
        """The loops that give the verdict; last those that were looked for because of what the tree says."""
        return self._fixed + tuple(self._search())

    @cached_property
    def _fixed(self) -> tuple[LoopRun, ...]:
        if not self.takes_tools:
            return tuple(self._runs((*chat_loops(), *self._thinking)))
        return tuple(self._runs((*core_loops(), *self._thinking)))

    @property
    def _thinking(self) -> tuple[Loop, ...]:
        # llama-server lets a model think unless told otherwise, and takes its thoughts back with the history.
        taken = self.thinks and self.template.kind == "jinja" and not self.hides_thoughts
        return (self._thinking_loop,) if taken else ()

    def _search(self) -> Iterator[LoopRun]:
        # What the tree calls unstable and no fixed loop shows: look for a loop that does.
        if self.reading is None or any(run.error for run in self._fixed):
            return
        shown = [span for run in self._fixed for span in self._spans(run)]
        missing = self._missing(shown)
        if not missing:
            return
        around = [loops_around(count, self.takes_tools) for count in self.reading.counts]
        sampled = samples(_SEED, _SAMPLES, bool(self._thinking))
        for loop in (*around, *(sampled if self.takes_tools else map(chat_of, sampled))):
            run = self.run(loop)
            still = self._missing([*shown, *self._spans(run)]) if run.lost else missing
            if len(still) < len(missing):
                yield run
                shown += self._spans(run)
                missing = still
            if not missing:
                return

    def _spans(self, run: LoopRun) -> list[Span]:
        """What a loop shows to move: the places of its changes, and of tools that stand behind the messages."""
        found = [span for each in changes(run, self.reading) for span in (self.place(each), *_spans_of(each))]
        for step in run.steps:
            if run.tools_behind(step.index):
                pieces = step.rendering.pieces
                found += [piece.span for each in step.passes for piece in pieces[each.first : each.last + 1]]
        return found

    def _missing(self, shown: Sequence[Span]) -> list[Place]:
        assert self.reading is not None
        places = sorted(set(shown))
        return [one for one in self.reading.places if not _shown(one, places)]

    @cached_property
    def others(self) -> tuple[LoopRun, ...]:
        """The loops that give notes."""
        thinks = self.thinks and not self.hides_thoughts
        loops = [loop for loop in other_loops(thinks) if not any(core.name == loop.name for core in self._thinking)]
        return tuple(self._runs([loop if self.takes_tools else without_tools(loop) for loop in loops]))

    @cached_property
    def renders(self) -> bool:
        """Whether anything can be rendered at all."""
        if any(run.steps for run in self.core) or self.plain.steps:
            return True
        try:
            self.template.render(self.served(Request((system(),))))
        except RenderError:
            return False
        return True

    @cached_property
    def plain(self) -> LoopRun:
        """The first core loop without tools."""
        return self.run(without_tools(self.core[0].loop))

    @cached_property
    def core_changes(self) -> tuple[Change, ...]:
        """What core loops lost."""
        return tuple([change for run in self.core for change in changes(run, self.reading)])

    @cached_property
    def other_changes(self) -> tuple[Change, ...]:
        """What the other loops lost, beyond what core loops lose by the same branch."""
        known = {self.place(change) for change in self.core_changes}
        grown = [run for run in self.others if run.loop.name != CUT]  # a history that was cut keeps nothing by nature
        found = [change for run in grown for change in changes(run, self.reading_thoughts)]
        return tuple([change for change in found if self.place(change) not in known])

    def place(self, change: Change) -> Span:
        """The opening action of the branch that flipped; else the node whose text changed."""
        return change.gate.open if change.gate is not None else change.pieces[0].span

    @cached_property
    def conversation_span(self) -> Span:
        """The opening action of the loop that prints the messages; the whole template if there is none."""
        found = self.reading.conversation if self.reading is not None else None
        return found if found is not None else Span(0, len(self.template.source.data))

    @cached_property
    def thinking_preset(self) -> str:
        """A switch that the server sets, and without which thinking would be dropped from the history; or nothing."""
        template = self.template
        if not isinstance(template, SwitchedTemplate) or self.hides_thoughts:
            return ""
        for name, value in template.presets.items():
            run = self.run_other(template.with_kwargs({name: not value}), self._thinking_loop)
            if run.error is None and run.lost:
                return name
        return ""

    @cached_property
    def thinking_switch(self) -> str:
        """A variable of the template that keeps all thinking in the history, as JSON with its value; or nothing."""
        template = self.template
        if not isinstance(template, SwitchedTemplate):
            return ""
        messages = self._thinking_loop.requests[-1].messages
        thoughts = [str(message["thinking"]) for message in messages if message.get("thinking")]
        for name in sorted(name for name in template.switches if any(word in name for word in _OF_THINKING)):
            for value in (True, False):
                run = self.run_other(template.with_kwargs({name: value}), self._thinking_loop)
                if run.error is None and not run.lost and all(one in run.steps[-1].rendering.text for one in thoughts):
                    return json.dumps({name: value})
        return ""

    @property
    def _thinking_loop(self) -> Loop:
        loop = thinking_loop(core=True)
        return loop if self.takes_tools else without_tools(loop)

    @cached_property
    def moved_tools(self) -> Change | None:
        """The first change of a core loop that took tool definitions from their place."""
        return next((change for change in self.core_changes if change.tools), None)

    def tools_span(self, run: LoopRun, step: int) -> Span:
        """The branch that decides about the tools of a step, or the action that prints them."""
        found = run.steps[step].passes[-1]
        span = run.steps[step].rendering.pieces[found.first].span
        gate = self.reading.gate(span) if self.reading is not None else None
        if gate is None and self.reading is not None:
            gate = next((branch for branch in self.reading.via(span)), None)
        return gate.open if gate is not None else span

    def cost(self, run: LoopRun, step: int) -> Cost | None:
        """What a step of a loop keeps, and how many of its steps have no tools."""
        if step >= len(run.steps):
            return None
        without = sum(1 for each in run.steps if each.request.tools and not each.tools)
        return Cost(run.steps[step].kept_bytes, run.steps[step].prompt_bytes, without, len(run.steps))

    def lacking(self) -> Iterator[tuple[LoopRun, int]]:
        """The steps of core loops behind a tool result that have no tools."""
        for run in self.core:
            for step in run.steps:
                if step.after_result and step.request.tools and not step.tools:
                    yield run, step.index

    @cached_property
    def disagreement(self) -> tuple[str, ...]:
        """Where rendering and reading do not say the same, one sentence each."""
        if self.reading is None:
            if isinstance(self.template, GoChatTemplate):
                unasked = self.template.legacy
            else:
                unasked = not hasattr(self.template, "refusal") or self.template.refusal is not None
            return () if unasked else ("the template is too complex to be read: it is judged by rendering alone",)
        if any(run.error is not None for run in self.core):
            return ()
        source = self.template.source
        said: list[str] = []
        for suspect in self._missing([span for run in self.core for span in self._spans(run)]):
            line = source.position(suspect.span.start).line
            said.append(f"line {line} depends on later messages as it reads, but no loop shows it")
        unread: dict[int, dict[str, None]] = {}  # the loops that show a line to change
        for change in self.core_changes:
            # What a named template prints stands in the branches around its call.
            around = {branch.span for piece in change.pieces for branch in self.reading.via(piece.span)}
            spans = sorted(around.union(piece.span for piece in change.pieces))
            if not any(_shown(suspect, spans) for suspect in self.reading.places):
                line = source.position(self.place(change).start).line
                unread.setdefault(line, {})[change.run.loop.name] = None
        for line, loops in unread.items():
            where = f"loop {next(iter(loops))}" if len(loops) == 1 else f"loops {', '.join(loops)}"
            said.append(f"line {line} changes on the {where}, but its text does not say why")
        return tuple(dict.fromkeys(said))


def _spans_of(change: Change) -> tuple[Span, ...]:
    return tuple([piece.span for piece in change.pieces])


def _shown(one: Place, places: Sequence[Span]) -> bool:
    return _any_within(one.span, places) or (one.shown is not None and _any_within(one.shown, places))


def _any_within(span: Span, places: Sequence[Span]) -> bool:
    # The places are sorted.
    for place in places[bisect_left(places, Span(span.start, span.start)) :]:
        if place.start >= span.end:
            return False
        if place.end <= span.end:
            return True
    return False
