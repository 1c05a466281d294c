"""What lies between two requests of a loop: the reply that the server generated, and what is new behind it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from templatefix.chat.rendering import Piece, Rendering
from templatefix.chat.request import Request

_LEAST_HEADER = 4  # characters; what is shorter is alike by chance
_LONGEST_HEADER = 4096


def reply_index(before: Request, after: Request) -> int | None:
    """Which message of the later request is the reply to the earlier one; None where there was no reply."""
    index = len(before.messages)
    replied = index < len(after.messages) and after.messages[index].get("role") == "assistant"
    return index if replied else None


def reply_text(before: Rendering, after: Rendering, reply: int) -> str:
    """The reply as the next prompt words it, without what the generation tail of its own prompt had written already.

    A server that generates has this text in its cache, behind the prompt.
    """
    start, end = reply_span(before, after, reply)
    return after.text[start:end]


def reply_span(before: Rendering, after: Rendering, reply: int) -> tuple[int, int]:
    """Where that text stands in the next prompt, in characters."""
    start, end = _region(after, reply)
    if after.text.startswith(before.text) and end >= len(before.text):
        return len(before.text), end
    return start + _written(before, after.text[start:end]), end


def _written(before: Rendering, region: str) -> int:
    """How many characters of the reply's turn the prompt before it ends with: its header, as a rule.

    A tail that goes on otherwise than the header in history shares the opening with it.
    """
    longest = min(len(region), _LONGEST_HEADER)
    ending = max(size for size in range(longest + 1) if before.text.endswith(region[:size]))
    opening = max((_common(tail, region) for tail in _suffixes(_tail(before)[-_LONGEST_HEADER:])), default=0)
    unclosed = region.rfind("<", 0, opening)
    if unclosed >= 0 and ">" not in region[unclosed:opening]:
        opening = unclosed  # two special tokens that begin alike share nothing
    return max(ending, opening if opening >= _LEAST_HEADER else 0)


def new_ranges(rendering: Rendering, first_new: int) -> list[tuple[int, int]]:
    """Byte ranges of the pieces that belong to messages from `first_new` on, and of the generation tail.

    System text and tool definitions are not new, wherever they stand.
    """
    placed = list(_placed(rendering))
    behind = max((end for piece, _, end in placed if piece.message is not None), default=len(rendering.data))
    ranges: list[tuple[int, int]] = []
    for piece, start, end in placed:
        if piece.origin is not None and piece.origin.kind != "message":
            continue
        new = start >= behind if piece.message is None else piece.message >= first_new
        if not new or start == end:
            continue
        if ranges and ranges[-1][1] == start:
            ranges[-1] = (ranges[-1][0], end)
        else:
            ranges.append((start, end))
    return ranges


def overlapping(ends: Sequence[int], ranges: Iterable[tuple[int, int]]) -> int:
    """How many tokens lie in the ranges, in whole or in part; `ends` as an engine gives them, all in bytes."""
    ranges = sorted(ranges)
    count = at = start = 0
    for end in ends:
        while at < len(ranges) and ranges[at][1] <= start:
            at += 1
        if at < len(ranges) and ranges[at][0] < end and start < end:
            count += 1
        start = end
    return count


def _placed(rendering: Rendering) -> Iterator[tuple[Piece, int, int]]:
    """Each piece with the byte range that it fills in the prompt."""
    at = 0
    for piece in rendering.pieces:
        start, at = at, at + len(piece.text.encode("utf-8", "surrogateescape"))
        yield piece, start, at


def _region(rendering: Rendering, message: int) -> tuple[int, int]:
    """From the first to the last character of a message's pieces; (0, 0) where it has none."""
    at, start, end = 0, None, 0
    for piece in rendering.pieces:
        if piece.message == message and piece.text:
            start = at if start is None else start
            end = at + len(piece.text)
        at += len(piece.text)
    return (start or 0, end)


def _tail(rendering: Rendering) -> str:
    """What the template writes behind the last datum of a message."""
    texts: list[str] = []
    for piece in reversed(rendering.pieces):
        if piece.origin is not None and piece.text:
            break
        texts.append(piece.text)
    return "".join(reversed(texts))


def _suffixes(text: str) -> Iterator[str]:
    return (text[at:] for at in range(len(text)))


def _common(first: str, second: str) -> int:
    """How many characters open both."""
    for index, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return index
    return min(len(first), len(second))
