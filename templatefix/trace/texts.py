"""Texts compared from their ends."""

from __future__ import annotations

from templatefix.analysis.stability import common_prefix


def common_end(first: str, second: str) -> int:
    """How many characters close both texts."""
    return common_prefix(first[::-1], second[::-1])
