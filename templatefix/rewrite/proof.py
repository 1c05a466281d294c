"""What a variant must show before it is offered: each point rendered and compared, none assumed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from templatefix.analysis.loops import Loop, chat_loops, core_loops, other_loops, thinking_loop, without_tools
from templatefix.analysis.metering import Budget, Metered
from templatefix.analysis.stability import LoopRun, Step, run_loop
from templatefix.chat.rendering import ChatTemplate, RenderError, Rendering
from templatefix.chat.request import Request
from templatefix.rewrite.conserved import compare_first, compare_step, vocabulary
from templatefix.rewrite.conversations import generated_chats, generated_loops, generated_talks, odd_loops, pondering
from templatefix.rewrite.frames import frame_lost
from templatefix.rewrite.kept import Kept, explained
from templatefix.rewrite.spending import WORK
from templatefix.rewrite.standing import demands, lost_at, printed_mark
from templatefix.rewrite.tools_kept import no_more_once, not_always_once, not_once, taken_by_texts
from templatefix.rewrite.traits import KEEPS, derived_traits, names_used, server_of, thinks
from templatefix.rewrite.words import Word, words_of

SYSTEM_MESSAGE: Final = {"role": "system", "content": "Zorquin plagmev."}
_SLACK: Final = 64  # bytes: where two prompts part by chance may shift by a few words
NAMES: Final = (
    "parses",
    "derived_unchanged",
    "no_tools_identical",
    "prefix_stable",
    "tools_once",
    "messages_kept",
    "conserved",
    "idempotent",
)


@dataclass(frozen=True, slots=True)
class Check:
    """One point of a proof."""

    holds: bool
    renders: int  # how many renders stand behind it
    reason: str | None = None  # what speaks against it


@dataclass(frozen=True)
class Proof:
    """All points of a proof, by name; a point that was not looked at does not hold."""

    checks: Mapping[str, Check] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        """Whether every point holds."""
        return all(name in self.checks and self.checks[name].holds for name in NAMES)

    @property
    def failure(self) -> str | None:
        """The first point that does not hold, with what speaks against it."""
        for name, check in self.checks.items():
            if not check.holds:
                return f"{name}: {check.reason}"
        missing = [name for name in NAMES if name not in self.checks]
        return f"{missing[0]} was not shown" if missing else None

    def results(self) -> dict[str, bool]:
        """Each point's name and whether it holds."""
        return {name: name in self.checks and self.checks[name].holds for name in NAMES}

    def renders(self) -> dict[str, int]:
        """Each point's name and how many renders stand behind it."""
        return {name: self.checks[name].renders if name in self.checks else 0 for name in NAMES}


@dataclass(frozen=True)
class Baseline:
    """A template's renders on all conversations of a proof, made once and compared with every variant."""

    template: ChatTemplate
    generated: int = 12  # how many generated loops stand beside the fixed ones
    seed: int = 0
    tools: bool = True  # False for a template without them: chats stand in for tool loops
    thoughts: bool = False  # whether histories with thinking are among the loops on which a variant must be stable
    keeps: bool = False  # whether text that the original drops from the history may stay
    moves_system: bool = False  # whether the system text may move in chats without tools as well
    budget: Budget = field(default_factory=lambda: Budget(WORK))  # of its renders and those compared with them

    @cached_property
    def traits(self) -> Mapping[str, object]:
        """What a server reads from the template's tree."""
        return derived_traits(self.template)

    @cached_property
    def core(self) -> tuple[Loop, ...]:
        """The loops on which a variant must be stable."""
        loops: tuple[Loop, ...] = (*core_loops(), *generated_loops(self.generated, self.seed))
        if not self.tools:
            loops = (*chat_loops(), *generated_talks(self.generated, self.seed))
        if self.thoughts:
            made = loops[-self.generated :]
            loops += (thinking_loop(core=True), *[pondering(loop, self.seed) for loop in made])
        return loops if self.tools else tuple([without_tools(loop) for loop in loops])

    @cached_property
    def others(self) -> tuple[Loop, ...]:
        """The loops on which a variant must be no worse."""
        loops = [loop for loop in other_loops() if self.tools or loop.name != "thinking-off"]
        if thinks(self.template):
            loops += [
                replace(loop, name=f"{loop.name}, thinking off", core=False, requests=_off(loop)) for loop in self.core
            ]
        return tuple(loops)

    @cached_property
    def runs(self) -> tuple[LoopRun, ...]:
        """The core loops, rendered as a server would."""
        return self.run(self.template, self.core)

    @cached_property
    def other_runs(self) -> tuple[LoopRun, ...]:
        """The other loops, rendered as a server would."""
        return self.run(self.template, self.others)

    @cached_property
    def odd_runs(self) -> tuple[LoopRun, ...]:
        """Loops with odd texts, rendered as a server would."""
        return self.run(self.template, odd_loops(self.template.kind == "go")) if self.tools else ()

    @cached_property
    def chats(self) -> tuple[tuple[Request, Rendering | RenderError], ...]:
        """Requests without tools, each with what the template makes of it."""
        requests: list[Request] = []
        serve = server_of(self.template)
        for loop in (*(without_tools(loop) for loop in (*other_loops(), *self.core)), *chat_loops()):
            for request in loop.requests:
                requests.append(request)
                if serve(request) != request:
                    requests.append(serve(request))
        requests += generated_chats(6 * self.generated, self.seed)
        return tuple([(request, self.render(self.template, request)) for request in requests])

    @property
    def rendered(self) -> tuple[tuple[Request, Rendering], ...]:
        """Every request that the template could render, of loops and chats."""
        steps = [(step.request, step.rendering) for run in (*self.runs, *self.other_runs) for step in run.steps]
        chats = [(request, before) for request, before in self.chats if isinstance(before, Rendering)]
        return (*steps, *chats)

    def run(self, template: ChatTemplate, loops: Iterable[Loop]) -> tuple[LoopRun, ...]:
        """Render loops with a template, requests shaped as for the original."""
        serve = server_of(self.template)
        return tuple([run_loop(Metered(template, self.budget), loop, serve) for loop in loops])

    def render(self, template: ChatTemplate, request: Request) -> Rendering | RenderError:
        """What a template makes of a request."""
        try:
            return Metered(template, self.budget).render(request)
        except RenderError as error:
            return error

    def plain(self, request: Request) -> Rendering | None:
        """What the template makes of a request without its tools, if anything."""
        rendering = self.render(self.template, replace(request, tools=()))
        return rendering if isinstance(rendering, Rendering) else None

    @cached_property
    def plains(self) -> tuple[tuple[Rendering | None, ...], ...]:
        """The steps of the core loops without tools."""
        return tuple([tuple([self.plain(step.request) for step in run.steps]) for run in self.runs])


def _off(loop: Loop) -> tuple[Request, ...]:
    return tuple([replace(request, think=False) for request in loop.requests])


def prove(
    original: ChatTemplate | Baseline,
    variant: ChatTemplate,
    *,
    dropped: Sequence[str] = (),
    added: Sequence[str] = (),
    patch_again: Callable[[ChatTemplate], bool] | None = None,
) -> Proof:
    """Compare a variant with its original on every conversation.

    `dropped` and `added` are the texts that may go or come. `patch_again` says whether patching the variant changes it.
    The checks end at the first that does not hold.
    """
    base = original if isinstance(original, Baseline) else Baseline(original)
    checks: dict[str, Check] = {}
    for name, check in _checks(base, variant, dropped, added, patch_again):
        checks[name] = check
        if not check.holds:
            break
    return Proof(checks)


def _checks(
    base: Baseline,
    variant: ChatTemplate,
    dropped: Sequence[str],
    added: Sequence[str],
    patch_again: Callable[[ChatTemplate], bool] | None,
) -> Iterator[tuple[str, Check]]:
    yield "parses", _parses(base, variant)
    yield "derived_unchanged", _derived_unchanged(base, variant)
    same = variant.source.text == base.template.source.text  # repairs alone: rendered already
    runs = base.runs if same else base.run(variant, base.core)
    others = base.other_runs if same else base.run(variant, base.others)
    yield "prefix_stable", _prefix_stable(base, runs, others)
    yield "no_tools_identical", _no_tools_identical(base, variant, added)
    yield "tools_once", _tools_once(base, variant, runs, others)
    yield "messages_kept", _messages_kept(base, runs, others)
    yield "conserved", _conserved(base, runs, dropped, added)
    if patch_again is not None:
        changed = patch_again(variant)
        reason = "patching the variant changes it again" if changed else None
        yield "idempotent", Check(not changed, sum(len(run.steps) for run in runs), reason)


def _parses(base: Baseline, variant: ChatTemplate) -> Check:
    before, after = names_used(base.template), names_used(variant)
    if before == after:
        return Check(True, 1)
    names = ", ".join(sorted(before ^ after))
    return Check(False, 1, f"other names are used than before: {names}")


def _derived_unchanged(base: Baseline, variant: ChatTemplate) -> Check:
    after = derived_traits(variant)
    for name, value in base.traits.items():
        if after.get(name) != value and not (base.keeps and name == KEEPS):
            return Check(False, 1, f"the {name} was {value!r} and is {after.get(name)!r}")
    return Check(True, 1)


def _no_tools_identical(base: Baseline, variant: ChatTemplate, added: Sequence[str]) -> Check:
    renders = 0
    for request, before in base.chats:
        after = base.render(variant, request)
        renders += 1
        if isinstance(before, RenderError):
            continue  # what failed may fail differently
        if isinstance(after, RenderError):
            return Check(False, renders, f"without tools a request fails: {after}")
        if before.data != after.data and not _asked_for(base, request, before, after, added):
            return Check(False, renders, "without tools a prompt differs")
    return Check(True, renders)


def _asked_for(base: Baseline, request: Request, before: Rendering, after: Rendering, added: Sequence[str]) -> bool:
    """Whether a difference without tools is one that was asked for by name."""
    if not (base.keeps or base.moves_system):
        return False
    return explained(before, after, request, added=added if base.keeps else (), system=base.moves_system)


def _prefix_stable(base: Baseline, runs: Sequence[LoopRun], others: Sequence[LoopRun]) -> Check:
    renders = 0
    for known, run in zip(base.runs, runs, strict=True):
        renders += len(run.steps)
        if run.error is not None and not (base.template.kind == "jinja" and declined(known, run)):
            return Check(False, renders, f"loop {run.loop.name}: {run.error}")
        if run.lost:
            return Check(False, renders, f"loop {run.loop.name}, step {run.lost[0]}: the prompt before is not kept")
    for before, after in zip(base.other_runs, others, strict=True):
        renders += len(after.steps)
        if (reason := _worse(before, after)) is not None:
            return Check(False, renders, f"loop {after.loop.name}: {reason}")
    return Check(True, renders)


def declined(before: LoopRun, after: LoopRun) -> bool:
    """Whether a template raises on a generated loop what the original raised at the same step."""
    if before.loop in core_loops() or before.error is None or after.error is None:
        return False
    return len(before.steps) == len(after.steps) and before.error.message == after.error.message


def _worse(before: LoopRun, after: LoopRun) -> str | None:
    if len(after.steps) < len(before.steps):
        return f"{after.error}"
    for old, new in zip(before.steps, after.steps, strict=False):
        if new.index in after.lost and new.index not in before.lost:
            return f"step {new.index} keeps less than before"
        fresh_before, fresh_after = old.prompt_bytes - old.kept_bytes, new.prompt_bytes - new.kept_bytes
        if new.index and new.kept_bytes + _SLACK < old.kept_bytes and fresh_after > fresh_before + _SLACK:
            return f"step {new.index} keeps {new.kept_bytes} bytes where it kept {old.kept_bytes}"
    return None


def _tools_once(base: Baseline, variant: ChatTemplate, runs: Sequence[LoopRun], others: Sequence[LoopRun]) -> Check:
    odd = base.run(variant, [run.loop for run in base.odd_runs])
    reason = (
        not_once(base.runs, runs, int(base.tools))
        or no_more_once(base.other_runs, others)
        or (taken_by_texts(base.runs, variant, runs) if base.tools else None)
        or not_always_once(base.odd_runs, odd)
    )
    return Check(reason is None, sum(len(run.steps) for run in (*runs, *others, *odd)), reason)


def _messages_kept(base: Baseline, runs: Sequence[LoopRun], others: Sequence[LoopRun]) -> Check:
    renders = 0
    for before, after in zip((*base.runs, *base.other_runs), (*runs, *others), strict=True):
        kept = Kept()
        for old, new in zip(before.steps, after.steps, strict=False):
            renders += 1
            was, words = words_of(old.rendering), words_of(new.rendering)
            lost = _data_differ(was, kept.without(was, words) if base.keeps else words)
            if lost is not None:
                return Check(False, renders, f"loop {after.loop.name}, step {new.index}: {lost}")
    return Check(True, renders)


def _data_differ(before: Sequence[Word], after: Sequence[Word]) -> str | None:
    """What became of the messages' data: none is lost, none changed, none at another place in the order."""
    old, new = [word.text for word in before if word.is_message], [word.text for word in after if word.is_message]
    if old != new:
        for left, right in zip(old, new, strict=False):
            if left != right:
                return f"{right[:40]!r} stands where {left[:40]!r} stood"
        return "texts of messages are missing or new"
    system_before, system_after = (Counter(w.text for w in words if w.is_system) for words in (before, after))
    if set(system_before) - set(system_after):
        return "the system text is missing"
    repeated = [text for text, times in system_after.items() if times > max(1, system_before[text])]
    return f"the system text {repeated[0][:40]!r} is repeated" if repeated else None


def _conserved(base: Baseline, runs: Sequence[LoopRun], dropped: Sequence[str], added: Sequence[str]) -> Check:
    renders = 0
    for before, plains, after in zip(base.runs, base.plains, runs, strict=True):
        if not before.steps or plains[0] is None:
            continue
        first = before.steps[0]
        model = _model(base, first)
        bare = base.render(base.template, _without_system(model.request))
        known = bare if isinstance(bare, Rendering) else model.rendering
        plain_known = base.plain(_without_system(model.request)) or known
        words = vocabulary(model.rendering, model.plain or plains[0], known, plain_known, dropped, added)
        renders += 1
        problem = compare_first(first.rendering, model.rendering, words_of(after.steps[0].rendering), words)
        if problem is not None:
            return Check(False, renders, f"loop {after.loop.name}, step 0: {problem}")
        kept = Kept()
        wanted = demands(before, plains, (words.tools, words.system))
        for old, plain, new in zip(before.steps, plains, after.steps, strict=False):
            renders += 1
            said = words_of(new.rendering)
            said = kept.without(words_of(old.rendering), said) if base.keeps else said
            problem = lost_at(wanted[new.index], said) or compare_step(old.rendering, plain, said, words)
            if problem is not None:
                return Check(False, renders, f"loop {after.loop.name}, step {new.index}: {problem}")
    lost = frame_lost(base.runs, base.plains, runs) if base.tools else None
    if lost is not None:
        return Check(False, renders, lost)
    if (mark := printed_mark(dropped, base.runs)) is not None:
        return Check(False, renders, f"the mark {mark!r} would be given up, and only words may be")
    return Check(renders > 0, renders, None if renders else "nothing could be rendered")


@dataclass(frozen=True, slots=True)
class _Model:
    """The original's first prompt with tools, from which the words about tools are known."""

    request: Request
    rendering: Rendering
    plain: Rendering | None  # without tools


def _model(base: Baseline, first: Step) -> _Model:
    """The first request; with a system message put in front where the tools are missing without one."""
    if not first.tools:
        request = replace(first.request, messages=(SYSTEM_MESSAGE, *first.request.messages))
        rendering, plain = base.render(base.template, request), base.plain(request)
        if isinstance(rendering, Rendering) and plain is not None:
            return _Model(request, rendering, plain)
    return _Model(first.request, first.rendering, None)


def _without_system(request: Request) -> Request:
    return replace(request, messages=tuple([m for m in request.messages if m.get("role") != "system"]))
