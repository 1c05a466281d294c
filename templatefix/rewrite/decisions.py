"""Whether a condition holds when tools are given, as far as it does not depend on what a message says."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final


class Decision(Enum):
    """What is known of a condition."""

    YES = "it holds"
    NO = "it does not hold"
    OPEN = "it depends on the place, on roles or on settings"
    SAID = "it depends on what a message says"

    @staticmethod
    def of(value: object) -> Decision:
        """That of a constant."""
        return Decision.YES if value else Decision.NO


# Of a message beside its role and place, in both languages: whether it has them is for each message to say.
GO_FIELDS: Final = frozenset({"Content", "Thinking", "ToolCalls", "Images", "ToolName", "ToolCallID"})
JINJA_FIELDS: Final = frozenset(
    {"content", "reasoning_content", "reasoning", "thinking", "tool_calls", "tool_call_id", "name", "images"}
)


def all_of(parts: Iterable[Decision]) -> Decision:
    """`and`."""
    return _joined(list(parts), Decision.NO, Decision.YES)


def any_of(parts: Iterable[Decision]) -> Decision:
    """`or`."""
    return _joined(list(parts), Decision.YES, Decision.NO)


def _joined(parts: list[Decision], decides: Decision, otherwise: Decision) -> Decision:
    for each in (decides, Decision.SAID, Decision.OPEN):
        if each in parts:
            return each
    return otherwise


def negated(part: Decision) -> Decision:
    """`not`."""
    return {Decision.YES: Decision.NO, Decision.NO: Decision.YES}.get(part, part)


def of_roles(known: frozenset[str] | None, asked: Iterable[str]) -> Decision:
    """Whether a message's role is one of those asked for; `known` are those that it may have, None if any."""
    wanted = frozenset(asked)
    if known is None or (known & wanted and known - wanted):
        return Decision.OPEN
    return Decision.of(known & wanted)
