"""Two prompts beside each other, cut so that the place where they part can be seen."""

from __future__ import annotations

from dataclasses import dataclass

from templatefix.analysis.stability import LoopRun

MARK = "█"
_ROOM = 1600  # characters of a prompt that are shown
_BEFORE, _BEHIND = 500, 700  # around the mark, of a prompt that is longer
_WORTH = 200  # what is not more than this is not left out


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A prompt, with a mark where the two of a pair part too early; sizes in bytes."""

    text: str
    size: int
    tools: int  # complete passes over the tool definitions


@dataclass(frozen=True, slots=True)
class Excerpts:
    """Both prompts of a pair."""

    first: Excerpt
    second: Excerpt | None  # None: it fails
    error: str  # why it fails
    common: int  # bytes that both open with
    needed: int  # bytes that the second has to keep: up to the end of the first's last message

    @property
    def kept(self) -> bool:
        """Whether the second keeps what it has to."""
        return not self.error and self.common >= self.needed


def excerpts(run: LoopRun) -> Excerpts | None:
    """What a pair of requests renders to; None where even the first fails."""
    if not run.steps:
        return None
    first, second = run.steps[0], run.steps[1] if len(run.steps) > 1 else None
    error = "" if run.error is None else run.error.message
    if second is None:
        return Excerpts(Excerpt(_cut(first.rendering.text, -1), first.prompt_bytes, first.tools), None, error, 0, 0)
    texts = first.rendering.text, second.rendering.text
    at = next((i for i, (a, b) in enumerate(zip(*texts, strict=False)) if a != b), min(len(texts[0]), len(texts[1])))
    if second.kept_bytes >= run.needed(0):
        at = -1  # nothing to mark
    return Excerpts(
        Excerpt(_cut(texts[0], at), first.prompt_bytes, first.tools),
        Excerpt(_cut(texts[1], at), second.prompt_bytes, second.tools),
        error,
        second.kept_bytes,
        run.needed(0),
    )


def _cut(text: str, at: int) -> str:
    """The prompt with a mark at a place (none below 0); what is far from it is left out."""
    if at < 0:
        return _without_middle(text)
    before, behind = text[:at], text[at:]
    if len(text) > _ROOM:
        before = _without_middle(before, _BEFORE)
        behind = behind if len(behind) <= _BEHIND + _WORTH else behind[:_BEHIND] + _gap(len(behind) - _BEHIND)
    return before + MARK + behind


def _without_middle(text: str, room: int = _ROOM) -> str:
    if len(text) <= room + _WORTH:
        return text
    head = room // 3
    tail = room - head
    return text[:head] + _gap(len(text) - room) + text[-tail:]


def _gap(count: int) -> str:
    return f"\n[… {count} characters …]\n"
