"""Render loops and see what each prompt keeps of the one before."""

from __future__ import annotations

from dataclasses import dataclass

from templatefix.analysis.loops import Loop
from templatefix.chat.rendering import RenderError, Rendering


@dataclass(frozen=True, slots=True)
class Step:
    """One request of a loop, rendered."""

    index: int
    rendering: Rendering
    prompt_bytes: int
    kept_bytes: int  # how much of the step before opens this one; 0 for the first
    needed_bytes: (
        int  # what this step must keep: the end of the last message's pieces in the step before; 0 for the first
    )
    tools: int  # complete passes over the tool definitions


@dataclass(frozen=True, slots=True)
class LoopRun:
    """A loop as far as it could be rendered."""

    loop: Loop
    steps: tuple[Step, ...]
    error: RenderError | None  # of the step behind the last one rendered
