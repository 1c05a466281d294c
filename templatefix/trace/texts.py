"""Texts compared from their ends."""

from __future__ import annotations


def common(first: str, second: str) -> int:
    """How many characters open both texts."""
    size = min(len(first), len(second))
    if first[:size] == second[:size]:
        return size
    low, high = 0, size
    while low < high:
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def common_end(first: str, second: str) -> int:
    """How many characters close both texts."""
    return common(first[::-1], second[::-1])
