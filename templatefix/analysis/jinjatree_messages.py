"""The conversation as a Jinja template sees it: its messages by their places, and what each of them holds."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Final

from templatefix.analysis.jinjatree_numbers import compared, distance, is_integer, plus
from templatefix.analysis.jinjatree_values import (
    UNDEFINED,
    Assumptions,
    Frame,
    Part,
    Value,
    constant,
    integer,
    message,
    unknown,
)
from templatefix.analysis.reading import DATA, SYSTEM, TAIL

_EVERY: Final = ("system", "user", "assistant", "tool")


class Conversation:
    """All messages, from where a loop stands."""

    def __init__(self, assumptions: Assumptions) -> None:
        self.assumptions = assumptions
        # The messages of the first request: at most one system message, then a user's.
        self.opening: tuple[str, ...] = (
            ("system", "user") if assumptions.system and not assumptions.joined else ("user",)
        )

    def whole(self) -> Value:
        """`messages`."""
        return self.part(Part(constant(0)))

    def part(self, part: Part, frame: Frame | None = None) -> Value:
        """Some of the messages."""
        key = ("part", part.offset.key, part.drop, part.backwards, part.tests)
        truth: bool | None = None
        if not part.tests and not part.drop:
            least, most = self._left(part.offset, frame)
            truth = True if least > 0 else False if most is not None and most <= 0 else None
        return Value(key, "messages", truth=truth, flags=TAIL, raw=TAIL | DATA, inner=part)

    def _left(self, place: Value, frame: Frame | None) -> tuple[int, int | None]:
        """How many messages there are from a place on, at least and at most."""
        if frame is not None:
            low, high = distance(frame.index, place)
            if low is not None or high is not None:
                least = 0 if low is None else low + frame.low
                return max(0, least), None if high is None or frame.high is None else high + frame.high
        return (max(0, len(self.opening) - place.known) if place.is_known else 0), None

    def length(self, part: Part, frame: Frame | None) -> Value:
        """How many messages a part has."""
        key = ("length", part.offset.key, part.drop, part.tests)
        if part.tests or not is_integer(part.offset):
            last = frame is not None and frame.high == 1
            return replace(integer(key, 0, None, 0 if last else TAIL, TAIL), inner=part)
        if frame is None:
            total = integer(("length",), len(self.opening), None, TAIL)
        else:
            flags = 0 if frame.low == frame.high else TAIL
            low = None if frame.index.low is None else frame.index.low + frame.low
            base = frame.index.base if frame.index.base is not None else frame.index.key
            total = integer(("total", base), low, None, flags, TAIL, base, (frame.low, frame.high))
            if frame.index.is_known and frame.high is not None:
                total = constant(frame.index.known + frame.high, TAIL)
        found = plus(plus(total, part.offset, -1), constant(part.drop), -1)
        return replace(found, inner=part)

    # -- one message --------------------------------------------------------------------------------------------------

    def member(self, part: Part, index: Value, frame: Frame | None) -> Value:
        """A message by its place in a part, counted from the end where that is negative."""
        if part.tests or part.backwards:
            return self._sifted(part, index, frame)
        if index.is_known and index.known < 0:
            return self.from_end(part.drop - index.known, frame)
        place = plus(index, part.offset)
        if not index.is_known and (index.low is None or index.low < 0):
            return self._moving(("wrapped", place.key), _EVERY)  # it may be counted from the end
        if part.drop and not (place.is_known and place.known < len(self.opening) - part.drop):
            return self._moving(("dropped", part.drop, place.key), _EVERY)
        return self.at(place, frame)

    def _sifted(self, part: Part, index: Value, frame: Frame | None) -> Value:
        key = ("sifted", part.offset.key, part.drop, part.backwards, part.tests, index.key)
        if index.known == 0 and not part.backwards and not part.drop and part.offset.known == 0:
            for place, role in enumerate(self.opening):
                kept = self.kept(part, message(("first", place), (role,)))
                if kept:
                    return message(("first", place), (role,))
                if kept is None:
                    break
        last = frame is not None and frame.high == 1
        return Value(key, "message", flags=0 if last else TAIL, raw=TAIL | DATA, among=_EVERY)

    def kept(self, part: Part, one: Value) -> bool | None:
        """Whether a message passes the tests of a part."""
        for attribute, test, arguments, wanted in part.tests:
            found = None if "." in attribute else self._passes(self.field(one, attribute, None), test, arguments)
            if found is None:
                return None
            if found is not wanted:
                return False
        return True

    @staticmethod
    def _passes(value: Value, test: str, arguments: tuple[Value, ...]) -> bool | None:
        if not test and not arguments:
            return value.truth
        if test in ("defined", "undefined") and not arguments:
            there = False if value.known is UNDEFINED else True if value.is_known else value.truth or None
            return there if there is None or test == "defined" else not there
        if len(arguments) != 1 or not value.is_known:
            return None
        (other,) = arguments
        if test in ("equalto", "eq", "==", "ne", "!=") and other.is_known:
            return bool(value.known == other.known) is (test not in ("ne", "!="))
        if test == "in" and isinstance(value.known, str):
            if isinstance(other.known, str):
                return value.known in other.known
            if other.shape == "list" and all(each.is_known for each in other.inner):
                return any(value.known == each.known for each in other.inner)
        return None

    def from_end(self, number: int, frame: Frame | None) -> Value:
        """The message that is `number` messages from the end, the last one being 1."""
        if frame is not None and frame.high is not None and frame.low == frame.high:
            return self.at(plus(frame.index, constant(frame.high - number)), frame)
        roles = self.assumptions.ends if number == 1 else _EVERY
        return self._moving(("end", number), roles)

    def at(self, place: Value, frame: Frame | None) -> Value:
        """The message at a place of the conversation."""
        if frame is not None:
            low, high = distance(place, frame.index)
            if low is not None and low == high:
                return self._near(place, low, frame)
            if high is not None and high < 0:
                return message(("at", place.key), _EVERY, place.flags)
        if place.is_known and 0 <= place.known < len(self.opening):
            return message(("first", place.known), (self.opening[place.known],))
        earlier = (
            frame is not None and frame.index.low is not None and place.is_known and place.known <= frame.index.low
        )
        if earlier and place.known >= 0:
            return message(("first", place.known), ("assistant",) if place.known == len(self.opening) else _EVERY)
        return self._moving(("at", place.key), _EVERY)

    def _near(self, place: Value, step: int, frame: Frame) -> Value:
        if step == 0:
            return frame.message
        if step < 0:
            if place.is_known:
                return self.from_end(-place.known, frame) if place.known < 0 else self._opened(place.known)
            before = self.assumptions.before(frame.message.among[0]) if len(frame.message.among) == 1 else _EVERY
            return message(("near", frame.message.key, step), before if step == -1 else _EVERY)
        if frame.high is not None and step >= frame.high:
            return constant(UNDEFINED, TAIL)
        roles: tuple[str, ...] = _EVERY
        if frame.next_roles:
            roles = frame.next_roles
            for _ in range(step - 1):
                roles = tuple(dict.fromkeys(r for role in roles for r in self.assumptions.following(role)))
        if step < frame.low:
            return message(("near", frame.message.key, step), roles)
        return self._moving(("near", frame.message.key, step), roles)

    def _opened(self, place: int) -> Value:
        known = place < len(self.opening)
        return message(("first", place), (self.opening[place],) if known else _EVERY)

    @staticmethod
    def _moving(key: Hashable, roles: tuple[str, ...]) -> Value:
        # It may not be there yet.
        return replace(message(key, roles, TAIL), truth=None)

    # -- what a message holds -----------------------------------------------------------------------------------------

    def field(self, one: Value, name: str, frame: Frame | None) -> Value:
        """A member of a message."""
        key = ("field", one.key, name)
        flags, raw, roles = one.flags & TAIL, DATA | (one.raw & TAIL), one.among
        if name == "role":
            if len(roles) == 1:
                return constant(roles[0], raw)
            return Value(key, "string", truth=True, flags=flags, raw=raw, among=roles)
        if name == "content":
            if "system" in roles or (self.assumptions.joined and "user" in roles):
                raw |= SYSTEM
            return self._content(key, one, flags, raw, frame)
        holders, truth = self._holders(name)
        if not set(holders) & set(roles):
            return constant(UNDEFINED, raw)
        if set(roles) - set(holders):
            truth = None
        elif name in ("tool_calls", "tool_responses") and frame is not None and one.key == frame.message.key:
            # A turn with calls is followed by their results, and no other is.
            if frame.calls is False:
                return constant(UNDEFINED, raw)
            truth = frame.calls
        shape = "row" if name in ("tool_calls", "tool_responses") else "string"
        return unknown(key, flags, truth, raw, shape)  # type: ignore[arg-type]

    def _content(self, key: Hashable, one: Value, flags: int, raw: int, frame: Frame | None) -> Value:
        if self.assumptions.answered and "assistant" in one.among:
            # The answer behind the results becomes the text of the turn that called.
            mine = frame is not None and one.key == frame.message.key
            if mine and frame is not None and frame.high == 1:
                return constant(UNDEFINED, raw | TAIL)
            return unknown(key, flags, None, raw, "string" if mine and frame and frame.calls is False else "other")
        return unknown(key, flags, None, raw, "string" if self.assumptions.texts else "row")

    def _holders(self, name: str) -> tuple[tuple[str, ...], bool | None]:
        """The roles whose messages may have a member, and whether they always do."""
        if name == "tool_calls":
            return ("assistant",) if self.assumptions.tools else (), None
        if name == "reasoning_content" or (name == "thinking" and self.assumptions.channels):
            return ("assistant",) if self.assumptions.thoughts else (), None
        if name in ("name", "tool_call_id"):
            return ("tool",), True
        if name == "tool_responses" and self.assumptions.answered:
            return ("assistant",), None
        return (), None


def truth_of(operator: str, first: Value, second: Value) -> bool | None:
    """The truth of a comparison, where both are integers and it is known."""
    return compared(operator, first, second) if is_integer(first) and is_integer(second) else None
