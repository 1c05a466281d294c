"""What all renders of one analysis may cost together, so that no template, however dense, takes minutes."""

from __future__ import annotations

from typing import Final, Literal

from templatefix.chat.rendering import ChatTemplate, RenderError, Rendering
from templatefix.chat.request import Request
from templatefix.gotemplate.source import Source

WORK: Final = 1_000_000  # pieces, or what costs as much; the templates that people have need a tenth at most
STEPS_A_PIECE: Final = 3  # of the executor: they take time, and no memory
BYTES_A_PIECE: Final = 256  # of a prompt: what is joined and compared costs as well
BEYOND: Final = "template: more than "  # how the sentences of limits begin, the executor's own as well
_ALSO_BEYOND: Final = "template: output longer than "


def is_beyond(error: RenderError | None) -> bool:
    """Whether a limit of this program ended a render, and not the template."""
    return error is not None and error.message.startswith((BEYOND, _ALSO_BEYOND))


class Metered:
    """A template that refuses to render once its renders have cost as much as one analysis may."""

    def __init__(self, template: ChatTemplate, work: int | None = None) -> None:
        self.template = template
        self.work = WORK if work is None else work
        self._left = self.work

    @property
    def kind(self) -> Literal["go", "jinja"]:
        """The template language."""
        return self.template.kind

    @property
    def source(self) -> Source:
        """The template's text."""
        return self.template.source

    @property
    def used(self) -> int:
        """What the renders so far have cost."""
        return self.work - self._left

    def render(self, request: Request) -> Rendering:
        """Render a request; raises RenderError, also where too much was rendered before."""
        if self._left <= 0:
            raise RenderError("exec", f"{BEYOND}{self.work} pieces, or as much work, over all loops")
        before = self._steps()
        try:
            rendering = self.template.render(request)
        finally:
            self._left -= (self._steps() - before) // STEPS_A_PIECE
        size = sum([len(piece.text) for piece in rendering.pieces])
        self._left -= len(rendering.pieces) + size // BYTES_A_PIECE
        return rendering

    def _steps(self) -> int:
        return getattr(self.template, "steps", 0)
