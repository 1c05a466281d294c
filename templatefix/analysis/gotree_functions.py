"""What Go's functions give on abstract values."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Final

from templatefix.analysis.gotree_values import UNKNOWN, Frame, Value, constant, conversation, integer, message, unknown
from templatefix.analysis.reading import DATA, DATE, TAIL

COMPARISONS: Final = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})


def _union(values: Sequence[Value]) -> tuple[int, int]:
    flags = raw = 0
    for value in values:
        flags |= value.flags
        raw |= value.raw
    return flags, raw


def _unknown(name: str, values: Sequence[Value], truth: bool | None = None) -> Value:
    flags, raw = _union(values)
    key: Hashable = ("call", name, tuple([value.key for value in values]))
    return unknown(key, flags, truth, "scalar", raw)


def _apart(a: Value, b: Value) -> tuple[int | None, int | None]:
    """The bounds of b - a, for integers."""
    if a.base is not None and a.base == b.base:
        low = None if a.above[1] is None else b.above[0] - a.above[1]
        high = None if b.above[1] is None else b.above[1] - a.above[0]
        return low, high
    low = None if b.low is None or a.high is None else b.low - a.high
    high = None if b.high is None or a.low is None else b.high - a.low
    return low, high


def _equal(a: Value, b: Value) -> bool | None:
    if a.is_known and b.is_known:
        if isinstance(a.known, bool) != isinstance(b.known, bool):
            return False
        return bool(a.known == b.known)
    if a.key == b.key:
        return True
    low, high = _apart(a, b)
    if low == high == 0:
        return True
    if (low is not None and low > 0) or (high is not None and high < 0):
        return False
    if (a.truth is True and b.is_known and not b.known) or (b.truth is True and a.is_known and not a.known):
        return False
    return None


def _less(a: Value, b: Value) -> bool | None:
    if a.is_known and b.is_known:
        if isinstance(a.known, str) and isinstance(b.known, str):
            return a.known < b.known
        if isinstance(a.known, (int, float)) and isinstance(b.known, (int, float)):
            return a.known < b.known
        return None
    low, high = _apart(a, b)
    if low is not None and low > 0:
        return True
    if high is not None and high <= 0:
        return False
    return None


def _or(answers: Sequence[bool | None]) -> bool | None:
    if True in answers:
        return True
    return None if None in answers else False


def _not(answer: bool | None) -> bool | None:
    return None if answer is None else not answer


def compare(name: str, values: Sequence[Value]) -> Value:
    """One of Go's comparisons; the flags go where the outcome is certain."""
    answer: bool | None = None
    if name == "eq" and len(values) >= 2:
        answer = _or([_equal(values[0], other) for other in values[1:]])
    elif len(values) == 2:
        a, b = values
        if name == "ne":
            answer = _not(_equal(a, b))
        elif name == "lt":
            answer = _less(a, b)
        elif name == "gt":
            answer = _less(b, a)
        elif name == "le":
            answer = _not(_less(b, a))
        elif name == "ge":
            answer = _not(_less(a, b))
    if answer is not None:
        return constant(answer, _union(values)[1])
    return _unknown(name, values)


def logic(name: str, values: Sequence[Value]) -> Value:
    """`and` and `or`: the value that decides, as far as that is known."""
    _, raw = _union(values)
    deciding = name == "or"
    open_values: list[Value] = []
    for value in values:
        if value.truth is deciding:
            if not open_values:
                return (
                    value
                    if value.raw == raw
                    else Value(
                        value.key,
                        value.shape,
                        value.known,
                        value.low,
                        value.high,
                        value.truth,
                        value.flags,
                        raw,
                        value.role,
                        value.offset,
                    )
                )
            # Some earlier value may be the one that is given, but the truth is certain.
            return unknown(("call", name, tuple([v.key for v in [*open_values, value]])), 0, deciding, "other", raw)
        if value.truth is None:
            open_values.append(value)
    if not open_values:
        last = values[-1] if values else constant(None)
        return Value(
            last.key, last.shape, last.known, last.low, last.high, last.truth, last.flags, raw, last.role, last.offset
        )
    if len(open_values) == 1 and open_values[0] is values[-1]:
        only = open_values[0]
        return Value(
            only.key, only.shape, only.known, only.low, only.high, only.truth, only.flags, raw, only.role, only.offset
        )
    flags, _ = _union(open_values)
    return unknown(("call", name, tuple([v.key for v in open_values])), flags, None, "other", raw)


def length(value: Value, frame: Frame | None) -> Value:
    """`len`: of the conversation from a place on, or of anything else."""
    key = ("call", "len", value.key)
    if value.shape == "messages":
        assert value.offset is not None
        if frame is not None and value.offset.key == frame.index.key:
            return integer(key, frame.low, frame.high, TAIL)
        if frame is not None and value.offset.known == 0:
            low = None if frame.index.low is None else frame.index.low + frame.low
            high = None if frame.index.high is None or frame.high is None else frame.index.high + frame.high
            return integer(
                ("end", frame.index.key, frame.low), low, high, TAIL, frame.index.base, (frame.low, frame.high)
            )
        return integer(key, 1 if value.offset.known == 0 else 0, None, TAIL)
    if isinstance(value.known, str):
        return constant(len(value.known.encode("utf-8", "surrogateescape")), value.raw)
    if value.known == ():
        return constant(0, value.raw)
    if value.shape == "scalar" and value.offset is not None:
        return value.offset
    low = 1 if value.truth is True else 0
    return Value(key, "scalar", UNKNOWN, low, None, True if low else None, value.flags, value.raw)


def _behind(place: Value, frame: Frame | None) -> bool:
    # Whether an index points at a message that is there already whenever the expression is evaluated.
    if place.moves:
        return False
    if frame is not None and place.base is not None and place.base == frame.index.base:
        return place.above[1] is not None and place.above[1] < frame.low
    if frame is not None and place.is_known and frame.index.low is not None and isinstance(place.known, int):
        return place.known < frame.index.low + frame.low
    # A value that was counted may be ahead of the loop; one that a variable took from it is not.
    return place.base is None and not (isinstance(place.key, tuple) and place.key[:1] == ("call",))


def padded(values: Sequence[Value]) -> Value | None:
    """`printf` with one `%*s`: a text that serves to count with, for it is as long as the number and the rest."""
    if len(values) != 3 or not isinstance(values[0].known, str) or values[2].known != "":
        return None
    pieces = values[0].known.split("%*s")
    width = values[1]
    if len(pieces) != 2 or "%" in pieces[0] + pieces[1] or width.low is None or width.low < 0:
        return None
    more = len((pieces[0] + pieces[1]).encode())
    high = None if width.high is None else width.high + more
    above = (width.above[0] + more, None if width.above[1] is None else width.above[1] + more)
    total = integer(("plus", width.key, more), width.low + more, high, width.flags, width.base, above)
    return Value(
        ("padded", *pieces, total.key),
        "scalar",
        truth=True if more else None,
        flags=width.flags,
        raw=width.raw,
        offset=total,
    )


def _ahead(values: Sequence[Value]) -> Value:
    value = _unknown("index", values)
    return Value(value.key, "message", truth=value.truth, flags=value.flags | TAIL, raw=value.raw | TAIL | DATA)


def _part(name: str, values: Sequence[Value]) -> Value:
    # What is taken from messages holds what they say.
    value = _unknown(name, values)
    return replace(value, raw=value.raw | DATA) if values[0].shape == "messages" else value


def index(values: Sequence[Value], frame: Frame | None, first_role: Callable[[], Value]) -> Value:
    """`index`: a message of the conversation, or an element of anything else."""
    target, *places = values
    if target.shape == "messages" and len(places) == 1 and target.offset is not None and target.offset.known == 0:
        place = places[0]
        if frame is not None and place.key == frame.index.key:
            return frame.message
        if place.known == 0:
            return first_role()
        if _behind(place, frame):
            return message(("index", place.key), None)
        return _ahead(values)
    return _part("index", values)


def cut(values: Sequence[Value], frame: Frame | None) -> Value:
    """`slice`: the conversation from a place on, the part up to a place, or a part of anything else."""
    target, *places = values
    if target.shape == "messages" and target.offset is not None and target.offset.known == 0:
        if not places:
            return target
        if len(places) == 1 and not places[0].moves:
            return conversation(places[0])
        if len(places) == 2 and all(_behind(place, frame) for place in places):
            # Both ends lie behind: the same messages, whatever comes later.
            return unknown(("call", "slice", tuple([v.key for v in values])), 0, None, "other", TAIL | DATA)
    if isinstance(target.known, str) and all(isinstance(place.known, int) for place in places):
        data = target.known.encode("utf-8", "surrogateescape")
        start = places[0].known if places else 0
        end = places[1].known if len(places) > 1 else len(data)
        if 0 <= start <= end <= len(data):
            return constant(data[start:end].decode("utf-8", "surrogateescape"), target.raw)
    return _part("slice", values)


def call(name: str, values: Sequence[Value], frame: Frame | None, first_role: Callable[[], Value]) -> Value:
    """Any function on evaluated arguments."""
    if name in COMPARISONS and values:
        return compare(name, values)
    if name in ("and", "or") and values:
        return logic(name, values)
    if name == "not" and len(values) == 1:
        truth = _not(values[0].truth)
        return _unknown(name, values) if truth is None else constant(truth, values[0].raw)
    if name == "len" and len(values) == 1:
        return length(values[0], frame)
    if name == "index" and len(values) >= 2:
        return index(values, frame, first_role)
    if name == "slice" and values:
        return cut(values, frame)
    if name == "print" and values and all(isinstance(value.known, str) for value in values):
        return constant("".join([value.known for value in values]), _union(values)[1])
    if name == "printf":
        return padded(values) or _unknown(name, values)
    if name in ("currentDate", "yesterdayDate"):
        return unknown(("date", name), DATE, True)
    return _unknown(name, values)
