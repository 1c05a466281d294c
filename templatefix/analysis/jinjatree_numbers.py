"""Arithmetic with bounds: places in the conversation, and how many messages there are."""

from __future__ import annotations

from templatefix.analysis.jinjatree_values import UNKNOWN, Value, constant, integer

Bounds = tuple["int | None", "int | None"]


def is_integer(value: Value) -> bool:
    """Whether a value is an integer for sure."""
    if value.is_known:
        return isinstance(value.known, int) and not isinstance(value.known, bool)
    return value.base is not None or value.low is not None or value.high is not None


def plus(first: Value, second: Value, sign: int = 1) -> Value:
    """The sum or, with a sign of -1, the difference of two integers."""
    low, high = _sum(bounds(first), bounds(second), sign)
    flags, raw = first.flags | second.flags, first.raw | second.raw
    if sign < 0 and first.base is not None and first.base == second.base:
        low, high = _sum(first.above, second.above, -1)
        return integer(("minus", first.key, second.key), low, high, flags, raw)
    step = second.known if second.is_known else None
    if step is not None and first.base is not None:
        return _shifted(first, sign * step, low, high)
    if sign > 0 and first.is_known and second.base is not None:
        return _shifted(second, first.known, low, high)
    return integer(("plus", sign, first.key, second.key), low, high, flags, raw)


def _shifted(value: Value, step: int, low: int | None, high: int | None) -> Value:
    start, end = value.above
    above = (None if start is None else start + step, None if end is None else end + step)
    # A place at a known distance is the same however it was reckoned.
    key = ("place", value.base, above[0]) if above[0] == above[1] else ("plus", 1, value.key, step)
    if above == (0, 0) and not value.flags:
        key = value.base  # type: ignore[assignment]
    return integer(key, low, high, value.flags, value.raw, value.base, above)


def bounds(value: Value) -> Bounds:
    """The least and the greatest that an integer can be."""
    return (value.known, value.known) if value.is_known else (value.low, value.high)


def _sum(first: Bounds, second: Bounds, sign: int) -> Bounds:
    low, high = (second[0], second[1]) if sign > 0 else (second[1], second[0])
    return (
        None if first[0] is None or low is None else first[0] + sign * low,
        None if first[1] is None or high is None else first[1] + sign * high,
    )


def distance(first: Value, second: Value) -> Bounds:
    """The bounds of how far an integer is above another."""
    if first.base is not None and first.base == second.base:
        return _sum(first.above, second.above, -1)
    return _sum(bounds(first), bounds(second), -1)


def compared(operator: str, first: Value, second: Value) -> bool | None:
    """The truth of a comparison of integers, where it is known."""
    low, high = distance(first, second)
    if operator in ("gt", "gteq"):
        low, high = (None if high is None else -high), (None if low is None else -low)
    if operator in ("eq", "ne"):
        equal = True if low == high == 0 else False if (low or 0) > 0 or (high or 0) < 0 else None
        return equal if operator == "eq" or equal is None else not equal
    if operator in ("lt", "gt"):
        return True if high is not None and high < 0 else False if low is not None and low >= 0 else None
    return True if high is not None and high <= 0 else False if low is not None and low > 0 else None


def negative(value: Value) -> Value:
    """The integer below zero."""
    if value.is_known:
        return constant(-value.known, value.raw)
    return integer(("neg", value.key), None, None, value.flags, value.raw)


def known_integer(value: Value) -> int | None:
    """The integer, where it is known."""
    return value.known if value.known is not UNKNOWN and is_integer(value) else None
