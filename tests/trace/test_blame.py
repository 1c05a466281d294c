"""How lost tokens are shared among those who lost them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from templatefix.trace.blame import Cause, shared_out


def client(*ranges: tuple[float, float]) -> Cause:
    return Cause("client", "client", ranges)


def template(*ranges: tuple[float, float]) -> Cause:
    return Cause("template", "template", ranges)


def told(causes: list[Cause], lost: list[tuple[float, float]], total: int) -> list[tuple[str, int, int]]:
    return [
        (loss.layer, loss.tokens, loss.evidence.get("alone_tokens", -1)) for loss in shared_out(causes, lost, total)
    ]


def test_what_one_lost_alone_is_its_own() -> None:
    assert told([client((0, 100)), template((100, 300))], [(0, 300)], 300) == [
        ("client", 100, 100),
        ("template", 200, 200),
    ]


def test_what_both_would_have_lost_is_halved() -> None:
    assert told([client((0, 300)), template((100, 300))], [(0, 300)], 300) == [
        ("client", 200, 300),
        ("template", 100, 200),
    ]


def test_what_nobody_lost_is_unknown() -> None:
    assert told([client((0, 100))], [(0, 300)], 300) == [("client", 100, 100), ("unknown", 200, -1)]
    assert told([], [(0, 300)], 300) == [("unknown", 300, -1)]


def test_what_was_forgotten_because_of_a_break_belongs_to_who_broke_it() -> None:
    engine = Cause("engine", "window", ((0, 90),), follows=True)
    assert told([template((90, 100)), engine], [(0, 100)], 100) == [("template", 100, 10), ("engine", 0, 0)]


ranges = st.lists(
    st.tuples(st.integers(0, 500), st.integers(1, 500)).map(lambda p: (float(p[0]), float(p[0] + p[1]))), max_size=3
)


@given(ranges, ranges, ranges, st.integers(0, 2000))
def test_shares_add_up_to_what_was_lost(
    first: list[tuple[float, float]], second: list[tuple[float, float]], lost: list[tuple[float, float]], total: int
) -> None:
    losses = shared_out([client(*first), template(*second)], lost, total)
    assert sum(loss.tokens for loss in losses) == total
    assert all(loss.tokens >= 0 for loss in losses)
