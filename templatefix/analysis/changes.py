"""What makes a prompt differ from the one before it: the pieces that went or came, and the branch that decided."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from templatefix.analysis.reading import TOOLS, Branch, Reading
from templatefix.analysis.stability import LoopRun, Step
from templatefix.chat.rendering import Piece

_MANY = 1000  # pieces beyond which two prompts are only compared up to their first difference


@dataclass(frozen=True)
class Change:
    """Pieces of one step that the next does not have at their place, with those that stand there instead."""

    run: LoopRun
    step: int  # the step that lost them
    message: int | None  # the message they belong to
    removed: tuple[Piece, ...]
    added: tuple[Piece, ...]
    gate: Branch | None  # the branch that flipped
    tools: bool  # tool definitions are among them
    system: bool  # the system text is among them

    @property
    def role(self) -> str | None:
        """The role of the message."""
        messages = self.run.steps[self.step].request.messages
        return (
            None if self.message is None or self.message >= len(messages) else str(messages[self.message].get("role"))
        )

    @property
    def holds_content(self) -> bool:
        """Whether the message's own text is among the pieces."""
        return any(
            p.origin is not None and p.origin.kind == "message" and p.origin.field == "content" for p in self.pieces
        )

    def asks_for_tools(self, reading: Reading | None) -> bool:
        """Whether the pieces are printed only when tools are given."""
        return reading is not None and any(reading.condition_on(piece.span, TOOLS) is not None for piece in self.pieces)

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """All pieces, those that went first."""
        return self.removed + self.added


def _key(piece: Piece) -> tuple[int, int, int | None, str]:
    return (piece.span.start, piece.span.end, piece.message, piece.text)


def changes(run: LoopRun, reading: Reading | None) -> Iterator[Change]:
    """What every step of a loop lost of the part that it had to keep of the step before."""
    for index in run.lost:
        if index and run.steps[index].kept_bytes < run.needed(index - 1):
            yield from _between(run, index, reading)


def _between(run: LoopRun, index: int, reading: Reading | None) -> Iterator[Change]:
    before, after = run.steps[index - 1], run.steps[index]
    last = before.last_message
    old = [_key(piece) for piece in before.rendering.pieces[: run.tails[index - 1]]]
    new = [_key(piece) for piece in after.rendering.pieces[: _new_message(after, last, run.tails[index])]]
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    old, new = old[start:], new[start:]
    if len(old) > _MANY:
        old, new = old[:1], new[:1]
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal" or i1 == i2 == len(old):
            continue  # what only comes behind all the rest is a new message
        yield from _by_gate(run, index, range(start + i1, start + i2), range(start + j1, start + j2), reading)


def _new_message(step: Step, last: int | None, tail: int) -> int:
    """The index of the first piece of a message that the step before did not have."""
    for index, piece in enumerate(step.rendering.pieces[:tail]):
        if piece.message is not None and (last is None or piece.message > last):
            return index
    return tail


def _by_gate(
    run: LoopRun, index: int, removed: Sequence[int], added: Sequence[int], reading: Reading | None
) -> Iterator[Change]:
    # Neighbouring pieces can have come and gone for different reasons.
    before, after = run.steps[index - 1], run.steps[index]
    groups: dict[int, tuple[Branch | None, list[int], list[int]]] = {}
    for step, indexes, side in ((before, removed, 1), (after, added, 2)):
        for position in indexes:
            gate = reading.gate(step.rendering.pieces[position].span) if reading is not None else None
            group = groups.setdefault(id(gate) if gate is not None else 0, (gate, [], []))
            (group[1] if side == 1 else group[2]).append(position)
    for gate, gone, come in groups.values():
        gone_pieces = tuple([before.rendering.pieces[i] for i in gone])
        come_pieces = tuple([after.rendering.pieces[i] for i in come])
        if "".join([p.text for p in gone_pieces]) == "".join([p.text for p in come_pieces]):
            continue
        messages = [p.message for p in (*gone_pieces, *come_pieces) if p.message is not None]
        tools = any(_in_pass(before, i) for i in gone) or any(_in_pass(after, i) for i in come)
        system = any(_is_system(before, p) for p in gone_pieces) or any(_is_system(after, p) for p in come_pieces)
        yield Change(
            run, index, _home(messages, gone_pieces, come_pieces), gone_pieces, come_pieces, gate, tools, system
        )


def _home(messages: Sequence[int], gone: Sequence[Piece], come: Sequence[Piece]) -> int | None:
    # The system text belongs to message 0 wherever it stands: what is printed beside it tells the place.
    for piece in (*gone, *come):
        if piece.message is not None and (piece.origin is None or piece.origin.kind != "system"):
            return piece.message
    return messages[0] if messages else None


def _in_pass(step: Step, index: int) -> bool:
    return any(found.first <= index <= found.last for found in step.passes)


def _is_system(step: Step, piece: Piece) -> bool:
    if piece.origin is not None and piece.origin.kind == "system":
        return bool(piece.text)
    texts = [m.get("content") or "" for m in step.request.messages if m.get("role") == "system"]
    return any(text and text in piece.text for text in texts)
