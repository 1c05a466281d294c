"""Strings that know where each part of them comes from, whatever a template does to them on the way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import Formatter
from typing import Any, Final, SupportsIndex

from templatefix.chat.rendering import Origin
from templatefix.gotemplate.source import Span

LONGEST: Final = 16 * 1024 * 1024  # characters of one string


class TooLong(Exception):
    """A string, or all that was made so far, is beyond what a prompt can need."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a run of characters comes from; what is not known yet is None."""

    span: Span | None = None  # the literal or the tag of the template that it was printed by
    origin: Origin | None = None
    message: int | None = None


Run = tuple[int, Mark]  # a number of characters, and where they come from
UNMARKED: Final = Mark()


class Text(str):
    """A string with runs; string operations that keep characters keep their runs."""

    __slots__ = ("runs",)
    runs: tuple[Run, ...]

    def __new__(cls, text: str = "") -> Text:
        """Text of which nothing is known."""
        return text if isinstance(text, Text) else _text(text, ((len(text), UNMARKED),))

    def __str__(self) -> str:
        return self

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str.__str__(self),)

    def marked(self, span: Span, message: int | None) -> Text:
        """The same with what its runs lack."""
        return _text(
            self,
            tuple(
                [
                    (
                        size,
                        mark
                        if mark.span is not None and mark.message is not None
                        else Mark(
                            mark.span or span, mark.origin, mark.message if mark.message is not None else message
                        ),
                    )
                    for size, mark in self.runs
                ]
            ),
        )

    def parts(self) -> Iterator[tuple[str, Mark]]:
        """The runs with their characters."""
        start = 0
        for size, mark in self.runs:
            yield str.__getitem__(self, slice(start, start + size)), mark
            start += size

    # -- operations that keep characters

    def __add__(self, other: str) -> Text:
        return join_texts((self, other))

    def __radd__(self, other: str) -> Text:
        return join_texts((other, self))

    def __mul__(self, count: SupportsIndex) -> Text:
        times = max(0, count.__index__())
        if len(self) * times > LONGEST or (len(self.runs) - 1) * times > LONGEST // 64:
            raise TooLong
        text = str.__mul__(self, times)
        return _text(text, ((len(text), self.runs[0][1]),) if len(self.runs) == 1 else self.runs * times)

    __rmul__ = __mul__

    def __getitem__(self, key: SupportsIndex | slice) -> Text:
        text = str.__getitem__(self, key)
        if len(self.runs) == 1:
            return _text(text, ((len(text), self.runs[0][1]),))
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            if step == 1:
                return _text(text, self._cut(start, max(start, stop)))
            return _text(text, ((len(text), UNMARKED),))
        index = key.__index__()
        index += len(self) if index < 0 else 0
        return _text(text, self._cut(index, index + 1))

    def __iter__(self) -> Iterator[str]:
        if len(self) > LONGEST // 128:
            raise TooLong
        for part, mark in self.parts():
            for character in part:
                yield _of(character, mark)

    def _cut(self, start: int, stop: int) -> tuple[Run, ...]:
        runs: list[Run] = []
        at = 0
        for size, mark in self.runs:
            low, high = max(start, at), min(stop, at + size)
            if low < high or (size == 0 and start <= at <= stop):
                runs.append((high - low, mark))
            at += size
        return tuple(runs or [(0, self.runs[0][1] if self.runs else UNMARKED)])

    def strip(self, chars: str | None = None) -> Text:
        """As `str` does it."""
        return self.lstrip(chars).rstrip(chars)

    def lstrip(self, chars: str | None = None) -> Text:
        """As `str` does it."""
        kept = str.lstrip(self, chars)
        return self if len(kept) == len(self) else self[len(self) - len(kept) :]

    def rstrip(self, chars: str | None = None) -> Text:
        """As `str` does it."""
        kept = str.rstrip(self, chars)
        return self if len(kept) == len(self) else self[: len(kept)]

    def removeprefix(self, prefix: str) -> Text:
        """As `str` does it."""
        return self[len(prefix) :] if prefix and self.startswith(prefix) else self

    def removesuffix(self, suffix: str) -> Text:
        """As `str` does it."""
        return self[: -len(suffix)] if suffix and self.endswith(suffix) else self

    def split(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[str]:
        """As `str` does it."""
        return self._found(str.split(self, sep, maxsplit))

    def rsplit(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[str]:
        """As `str` does it."""
        return self._found(str.rsplit(self, sep, maxsplit))

    def splitlines(self, keepends: bool = False) -> list[str]:
        """As `str` does it."""
        return self._found(str.splitlines(self, keepends))

    def _found(self, words: list[str]) -> list[str]:
        if len(words) > LONGEST // 32:
            raise TooLong
        found: list[str] = []
        at = start = index = 0  # `start` is where run `index` begins
        for word in words:
            at = str.find(self, word, at)
            end = at + len(word)
            while index < len(self.runs) - 1 and start + self.runs[index][0] <= at:
                start += self.runs[index][0]
                index += 1
            runs: list[Run] = []
            here, low = index, start
            while here < len(self.runs) and low < end:
                size, mark = self.runs[here]
                runs.append((min(end, low + size) - max(at, low), mark))
                low += size
                here += 1
            found.append(_text(word, tuple(runs or [(0, self.runs[index][1] if self.runs else UNMARKED)])))
            at = end
        return found

    def replace(self, old: str, new: str, count: SupportsIndex = -1) -> Text:
        """As `str` does it."""
        if old not in self:
            return self
        most = count.__index__()
        found = str.count(self, old) if most < 0 else min(most, str.count(self, old))
        if len(self) + found * (len(new) - len(old)) > LONGEST:
            raise TooLong
        if not old:
            return _of(str.replace(self, old, new, count), UNMARKED)
        if len(self.runs) == 1:
            text = str.replace(self, old, new, count)
            return _of(text, self.runs[0][1])  # what stands in the place of a datum's part is taken for its part
        words = self.split(old, count)
        return join_texts(words, new if isinstance(new, Text) else _of(new, self.runs[0][1]))

    def join(self, words: Iterable[Any]) -> Text:
        """As `str` does it."""
        return join_texts(list(words), self)

    def format(self, *values: Any, **named: Any) -> Text:
        """As `str` does it, for places that are `{}`, a number or a name; raises ValueError for others."""
        return join_texts(self._filled(values, named))

    def _filled(self, values: Sequence[Any], named: Mapping[str, Any]) -> Iterator[str]:
        count = 0
        for before, name, layout, conversion in Formatter().parse(self):
            yield _of(before, self.runs[0][1] if self.runs else UNMARKED)
            if name is None:
                continue
            if layout or conversion or not (name == "" or name.isalnum()):
                raise ValueError("a text to format may hold plain places such as {} alone")
            if name == "" or name.isdigit():
                yield str(values[int(name) if name else count])
                count += 1
            else:
                yield str(named[name])

    def upper(self) -> Text:
        """As `str` does it."""
        return self._changed(str.upper(self))

    def lower(self) -> Text:
        """As `str` does it."""
        return self._changed(str.lower(self))

    def capitalize(self) -> Text:
        """As `str` does it."""
        return self._changed(str.capitalize(self))

    def title(self) -> Text:
        """As `str` does it."""
        return self._changed(str.title(self))

    def _changed(self, text: str) -> Text:
        same = len(text) == len(self)
        return _text(text, self.runs if same else ((len(text), self.runs[0][1] if self.runs else UNMARKED),))


def _text(text: str, runs: tuple[Run, ...]) -> Text:
    made = str.__new__(Text, text)
    made.runs = runs
    return made


def _of(text: str, mark: Mark) -> Text:
    return _text(text, ((len(text), mark),))


def datum(text: str, origin: Origin, message: int | None) -> Text:
    """Text of a request."""
    return _text(text, ((len(text), Mark(None, origin, message)),))


def marked(text: str, mark: Mark) -> Text:
    """Text that comes from one place."""
    return _of(text, mark)


def literal(text: str, span: Span) -> Text:
    """Text of the template."""
    return _text(text, ((len(text), Mark(span)),))


def plain(text: str) -> Text:
    """Text of which nothing is known."""
    return text if isinstance(text, Text) else _text(text, ((len(text), UNMARKED),))


def join_texts(words: Iterable[str], between: str = "") -> Text:
    """Texts in a row; neighbours from one place become one run."""
    runs: list[Run] = []
    gap = plain(between) if between else None
    parts: list[str] = []
    size = 0
    for word in words:
        if parts and gap is not None:
            _append(runs, gap)
            size += len(gap)
        parts.append(word)
        size += len(word)
        if size > LONGEST or len(parts) > LONGEST // 32:
            raise TooLong
        _append(runs, word)
    return _text(str.join(between, parts), tuple(runs))


def _append(runs: list[Run], word: str) -> None:
    if isinstance(word, Text):
        more = word.runs
    elif word:
        more = ((len(word), UNMARKED),)
    else:
        return
    if runs and more and runs[-1][1] is more[0][1]:
        runs[-1] = (runs[-1][0] + more[0][0], more[0][1])
        more = more[1:]
    runs += more
