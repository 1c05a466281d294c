"""What many renders may cost together, so that no template, however dense, takes minutes.

Steps are counted, not seconds: what is beyond a limit is beyond it on every machine.
"""

from __future__ import annotations

from typing import Final, Literal

from templatefix.chat.rendering import ChatTemplate, RenderError, Rendering
from templatefix.chat.request import Request
from templatefix.gotemplate.source import Source

WORK: Final = 1_000_000  # pieces of an analysis, or what costs as much; the templates that people have need a tenth
STEPS_A_PIECE: Final = 3  # of the executor: they take time, and no memory
BYTES_A_PIECE: Final = 256  # of a prompt: what is joined and compared costs as well
BEYOND: Final = "template: more than "  # how the sentences of limits begin, the executor's own as well
_ALSO_BEYOND: Final = "template: output longer than "


def is_beyond(error: RenderError | None) -> bool:
    """Whether a limit of this program ended a render, and not the template."""
    return error is not None and error.message.startswith((BEYOND, _ALSO_BEYOND))


class Budget:
    """What the renders of some templates may cost together."""

    __slots__ = ("left", "work")

    def __init__(self, work: int | None = None) -> None:
        """`work` is in pieces, or what costs as much; that of one analysis if None."""
        self.work = WORK if work is None else work
        self.left = self.work

    @property
    def used(self) -> int:
        """What the renders so far have cost."""
        return self.work - self.left

    def spent(self) -> Exception:
        """What a render raises for which nothing is left: a RenderError."""
        return RenderError("exec", f"{BEYOND}{self.work} pieces, or as much work, over all loops")


class Metered:
    """A template that refuses to render once the renders of a budget have cost all of it."""

    def __init__(self, template: ChatTemplate, budget: Budget) -> None:
        self.template = template
        self.budget = budget

    @property
    def kind(self) -> Literal["go", "jinja"]:
        """The template language."""
        return self.template.kind

    @property
    def source(self) -> Source:
        """The template's text."""
        return self.template.source

    def render(self, request: Request) -> Rendering:
        """Render a request; raises RenderError, also where too much was rendered before."""
        if self.budget.left <= 0:
            raise self.budget.spent()
        before = self._steps()
        try:
            rendering = self.template.render(request)
        finally:
            self.budget.left -= (self._steps() - before) // STEPS_A_PIECE
        size = sum([len(piece.text) for piece in rendering.pieces])
        self.budget.left -= len(rendering.pieces) + size // BYTES_A_PIECE
        return rendering

    def _steps(self) -> int:
        return getattr(self.template, "steps", 0)
