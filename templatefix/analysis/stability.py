"""Render loops and see what each prompt keeps of the one before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import AnyStr

from templatefix.analysis.loops import Loop
from templatefix.analysis.metering import is_beyond
from templatefix.analysis.tools import Pass, tool_passes
from templatefix.chat.rendering import ChatTemplate, Piece, RenderError, Rendering
from templatefix.chat.request import Request
from templatefix.gotemplate.source import Span


@dataclass(frozen=True)
class Step:
    """One request of a loop, rendered."""

    index: int
    request: Request  # as it was rendered
    rendering: Rendering
    prompt_bytes: int
    kept_bytes: int  # how much of the step before opens this one; 0 for the first
    passes: tuple[Pass, ...]  # over the tool definitions

    @property
    def tools(self) -> int:
        """How many complete passes over the tool definitions the prompt holds."""
        return len(self.passes)

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Where each piece starts, in bytes, and where the last one ends."""
        offsets = [0]
        total = 0
        for piece in self.rendering.pieces:
            total += len(piece.text) if piece.text.isascii() else len(piece.text.encode("utf-8", "surrogateescape"))
            offsets.append(total)
        return tuple(offsets)

    @cached_property
    def last_message(self) -> int | None:
        """The index of the last message that has any piece."""
        return max((p.message for p in self.rendering.pieces if p.message is not None and p.text), default=None)

    @property
    def after_result(self) -> bool:
        """Whether the request ends with a tool result."""
        return bool(self.request.messages) and self.request.messages[-1].get("role") == "tool"


@dataclass(frozen=True)
class LoopRun:
    """A loop as far as it could be rendered."""

    loop: Loop
    steps: tuple[Step, ...]
    error: RenderError | None  # of the request behind the last step

    @property
    def beyond(self) -> bool:
        """Whether it was ended by a limit of this program, not by the template."""
        return is_beyond(self.error)

    @cached_property
    def tails(self) -> tuple[int, ...]:
        """For each step, the index of the first piece of its generation tail."""
        tails = [tail_start(step, following) for step, following in zip(self.steps, self.steps[1:], strict=False)]
        if self.steps:
            known = {
                p.span for step, tail in zip(self.steps, tails, strict=False) for p in step.rendering.pieces[tail:]
            }
            tails.append(_tail_start(self.steps[-1], lambda piece: piece.span in known))
        return tuple(tails)

    def needed(self, index: int) -> int:
        """How many bytes of step `index` each later step has to keep."""
        return self.steps[index].offsets[self.tails[index]]

    def tools_behind(self, index: int) -> bool:
        """Whether tool definitions stand in the generation tail of a step."""
        step = self.steps[index]
        return step.last_message is not None and any(found.last >= self.tails[index] for found in step.passes)

    @property
    def lost(self) -> tuple[int, ...]:
        """The steps that do not keep what they have to, by index; and those whose tools stand behind the messages."""
        return tuple(
            [
                index
                for index, step in enumerate(self.steps)
                if (index and step.kept_bytes < self.needed(index - 1)) or self.tools_behind(index)
            ]
        )


def common_prefix(a: AnyStr, b: AnyStr) -> int:
    """How many bytes, or characters, two texts have in common at their start."""
    size = min(len(a), len(b))
    if a[:size] == b[:size]:
        return size
    low, high = 0, size
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def tail_start(step: Step, following: Step) -> int:
    """The index of the first piece of a step's generation tail.

    The tail is text of the template that stands behind everything else of the last message and that the message no
    longer has when others follow.
    """
    last = step.last_message
    later: set[Span] = {piece.span for piece in following.rendering.pieces if piece.message == last}
    return _tail_start(step, lambda piece: piece.span not in later)


def _tail_start(step: Step, only_last: Callable[[Piece], bool]) -> int:
    pieces = step.rendering.pieces
    last = step.last_message
    start = len(pieces)
    for index in range(len(pieces) - 1, -1, -1):
        piece = pieces[index]
        if piece.message is None or (piece.message == last and piece.origin is None and only_last(piece)):
            start = index
        elif piece.origin is not None or piece.text.strip():
            break  # white space goes with what it stands behind
    return start


def run_loop(template: ChatTemplate, loop: Loop, served: Callable[[Request], Request]) -> LoopRun:
    """Render a loop, each request as `served` makes it; ends at the first that fails."""
    steps: list[Step] = []
    before = b""
    for index, asked in enumerate(loop.requests):
        request = served(asked)
        try:
            rendering = template.render(request)
        except RenderError as error:
            return LoopRun(loop, tuple(steps), error)
        # The pieces share their texts with the template; the joined prompt is not kept.
        prompt = "".join([piece.text for piece in rendering.pieces]).encode("utf-8", "surrogateescape")
        kept = common_prefix(before, prompt)
        steps.append(Step(index, request, rendering, len(prompt), kept, tool_passes(rendering, request)))
        before = prompt
    return LoopRun(loop, tuple(steps), None)
