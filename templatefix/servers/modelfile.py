"""An Ollama Modelfile, read without losing a byte and written with only its TEMPLATE value changed.

The rules are those of Ollama's own reader, which are looser than they look: a value runs to the first line end at
which its quotes are closed, quotes escape nothing, unprintable runes outside of blanks and line ends are dropped, the
last TEMPLATE of several counts, an empty one counts as none, and a byte order mark may announce UTF-8 or UTF-16.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from functools import cached_property

from templatefix.gotemplate.source import Position, Source, Span

COMMANDS = frozenset(
    {
        "from",
        "license",
        "template",
        "system",
        "adapter",
        "draft",
        "renderer",
        "parser",
        "parameter",
        "message",
        "requires",
    }
)
ROLES = frozenset({"system", "user", "assistant"})

_ENCODINGS = (  # byte order mark, codec of what follows it
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_BROKEN = re.compile(r"[\udc80-\udcff]+")
_LINE_END = re.compile(r"[\r\n]")
_FIRST_WORD = re.compile(r"\s*(?:#[^\r\n]*[\r\n]+\s*)*([A-Za-z]+)[ \t]")
_FROM_LINE = re.compile(r"^[ \t]*from[ \t]+\S", re.IGNORECASE | re.MULTILINE)


class ModelfileError(Exception):
    """A Modelfile that Ollama would not read, or that cannot hold what should be written.

    The string is one sentence, with the file and, where there is a place, line and column in front.
    """

    def __init__(self, message: str, name: str = "", position: Position | None = None) -> None:
        super().__init__(message, name, position)
        self.message = message
        self.name = name
        self.position = position

    def __str__(self) -> str:
        place = self.name or "Modelfile"
        if self.position is not None:
            place += f":{self.position.line}:{self.position.column}"
        return f"{place}: {self.message}"


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction of a Modelfile; spans are bytes of UTF-8 in the decoded text behind a byte order mark."""

    name: str  # lower case: "from", "template", "parameter", …
    key: str  # of a PARAMETER its name, of a MESSAGE its role, else empty
    value: str  # as Ollama reads it: unquoted, without unprintable runes
    quote: str  # '"""', '"' or '' around the value
    span: Span  # from the word to the end of the value
    inner: Span  # the value within its quotes


class Modelfile:
    """A Modelfile's text with its instructions; `data` gives back the bytes it was read from."""

    def __init__(self, source: Source, bom: bytes = b"", encoding: str = "utf-8") -> None:
        """Read the text; raises ModelfileError where Ollama would refuse it."""
        self.source = source
        self.bom = bom
        self.encoding = encoding
        self.instructions = tuple(_Reader(source).read())
        if not any(instruction.name == "from" for instruction in self.instructions):
            raise ModelfileError("there is no FROM line", source.name)

    @classmethod
    def from_bytes(cls, data: bytes, name: str = "") -> Modelfile:
        """Read a file's bytes: UTF-8, or UTF-16 behind a byte order mark."""
        for bom, encoding in _ENCODINGS:
            if data.startswith(bom):
                body = data[len(bom) :]
                try:
                    text = body.decode(encoding, "surrogateescape" if encoding == "utf-8" else "strict")
                except UnicodeDecodeError as error:
                    raise ModelfileError("the byte order mark says UTF-16, the text is not", name) from error
                return cls(Source(text, name), bom, encoding)
        return cls(Source.from_bytes(data, name))

    @cached_property
    def data(self) -> bytes:
        """The file's bytes."""
        return self.bom + self.source.text.encode(self.encoding, "surrogateescape")

    def find(self, name: str) -> Instruction | None:
        """The last instruction of a name (lower case), the one that counts where only one can."""
        return next((found for found in reversed(self.instructions) if found.name == name), None)

    @property
    def template(self) -> Instruction | None:
        """The TEMPLATE that counts; None where there is none or the last one is empty."""
        found = self.find("template")
        return found if found is not None and found.value else None

    def position_of(self, offset: int) -> Position:
        """The place in the file of a byte offset in the TEMPLATE's value; raises ValueError if there is no TEMPLATE."""
        template = self.template
        if template is None:
            raise ValueError("the Modelfile has no TEMPLATE")
        if self.source.slice(template.inner) == template.value:
            return self.source.position(template.inner.start + offset)
        wanted = Source(template.value).char_index(offset)
        text = self.source.slice(template.inner)
        kept = [index for index, char in enumerate(_readable(text)) if _kept(char)] + [len(text)]
        return self.source.position(
            self.source.byte_offset(self.source.char_index(template.inner.start) + kept[wanted])
        )

    def with_template(self, text: str) -> Modelfile:
        """A Modelfile in which the TEMPLATE is `text` and no other byte differs; where there is none, it is added.

        Raises ModelfileError, with the reason, if a Modelfile cannot hold the text.
        """
        reason = unholdable(text)
        if reason is not None:
            raise ModelfileError(f"a Modelfile cannot hold this template: {reason}", self.source.name)
        old = self.find("template")
        for quote in dict.fromkeys((old.quote if old else '"""', '"""')):
            try:
                new = self._written(old, quote, text)
            except ModelfileError:
                continue
            if self._only_template_differs(new, text):
                return new
        raise ModelfileError("a Modelfile cannot hold this template: it would not read back the same", self.source.name)

    def _written(self, old: Instruction | None, quote: str, text: str) -> Modelfile:
        whole = self.source.text
        if old is None:
            end = "\r\n" if "\r\n" in whole else "\n"
            gap = "" if not whole or whole[-1] in "\r\n" else end
            written = f"{whole}{gap}TEMPLATE {quote}{text}{quote}{end}"
        else:
            start = self.source.char_index(old.inner.start) - len(old.quote)
            stop = self.source.char_index(old.inner.end) + len(old.quote)
            written = f"{whole[:start]}{quote}{text}{quote}{whole[stop:]}"
        return Modelfile(Source(written, self.source.name), self.bom, self.encoding)

    def _only_template_differs(self, new: Modelfile, text: str) -> bool:
        if new.template is None or new.template.value != text:
            return False
        target, other = new.find("template"), self.find("template")
        before = [(i.name, i.key, i.value) for i in self.instructions if i is not other]
        after = [(i.name, i.key, i.value) for i in new.instructions if i is not target]
        return before == after


def unholdable(text: str) -> str | None:
    """Why no Modelfile can hold a template text, or None."""
    if not text:
        return "an empty TEMPLATE counts as none"
    if '"""' in text:
        return 'it contains """, which ends the value'
    for index, char in enumerate(text):
        if not _kept(char) or 0xD800 <= ord(char) <= 0xDFFF:
            place = Source(text).position(Source(text).byte_offset(index))
            what = "a byte that is not UTF-8" if 0xD800 <= ord(char) <= 0xDFFF else f"U+{ord(char):04X}"
            return f"Ollama's reader would drop or change {what} (line {place.line}, column {place.column})"
    return None


def looks_like_modelfile(name: str, text: str) -> bool:
    """Whether a file is a Modelfile rather than a template, by its name, else by its first word and a FROM line."""
    base = name.replace("\\", "/").rsplit("/", 1)[-1].lower()
    if base == "modelfile" or base.startswith("modelfile.") or base.endswith(".modelfile"):
        return True
    text = text.removeprefix("\ufeff")
    first = _FIRST_WORD.match(text)
    return first is not None and first[1].lower() in COMMANDS and _FROM_LINE.search(text) is not None


def _kept(char: str) -> bool:
    # Invalid bytes (lone surrogates here) reach Ollama's reader as U+FFFD, which is printable.
    return char.isprintable() or char in "\t\r\n" or 0xDC80 <= ord(char) <= 0xDCFF


def _readable(text: str) -> str:
    # One U+FFFD for each maximal part of a broken sequence, as Go's decoder and Python's have it; NUL, which is
    # dropped later, fills up, so that indices stay.
    def replace(run: re.Match[str]) -> str:
        return run[0].encode("utf-8", "surrogateescape").decode("utf-8", "replace").ljust(len(run[0]), "\0")

    return _BROKEN.sub(replace, text)


def _filtered(text: str) -> str:
    if text.isprintable():
        return text
    return "".join([char for char in _readable(text) if _kept(char)])


class _Reader:
    """Ollama's state machine, a state a method; positions are character indices."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.text = source.text
        self.at = 0

    def read(self) -> list[Instruction]:
        found = []
        while self._skip_blank():
            found.append(self._instruction())
        return found

    def _fail(self, message: str, at: int) -> ModelfileError:
        return ModelfileError(message, self.source.name, self.source.position(self.source.byte_offset(at)))

    def _skip_blank(self) -> bool:
        while self.at < len(self.text):
            if self.text[self.at] == "#":
                self.at = self._line_end(self.at)
            elif self.text[self.at] not in " \t\r\n":
                return True
            else:
                self.at += 1
        return False

    def _line_end(self, at: int) -> int:
        found = _LINE_END.search(self.text, at)
        return found.start() if found else len(self.text)

    def _word(self, allowed: str) -> str | None:
        # The word up to a blank, which is eaten; None if anything else ends it.
        word = re.compile(allowed).match(self.text, self.at)
        end = word.end() if word else self.at
        if end >= len(self.text) or self.text[end] not in " \t":
            return None
        found, self.at = self.text[self.at : end], end + 1
        return found

    def _instruction(self) -> Instruction:
        start = self.at
        # A first rune that does not print is dropped like any other, so a word may hide behind it.
        if not _kept(self.text[start]):
            self.at += 1
        word = self._word(r"[A-Za-z]+")
        if word is None or word.lower() not in COMMANDS:
            known = ", ".join(sorted(COMMANDS)).upper()
            raise self._fail(f"expected an instruction (one of {known}) and a blank behind it", start)
        name, key = word.lower(), ""
        if name in ("parameter", "message"):
            at = self.at
            key = self._word(r"[A-Za-z0-9_]*" if name == "parameter" else r"[A-Za-z]*") or ""
            if name == "message" and key not in ROLES:
                raise self._fail("a MESSAGE begins with its role: system, user or assistant", at)
            if self.at == at:
                raise self._fail("a PARAMETER has a name and a value", at)
        return self._value(name, key, start)

    def _value(self, name: str, key: str, start: int) -> Instruction:
        begin = self.at
        end = self._line_end(begin)
        quote = _opening(_filtered(self.text[begin:end]).lstrip(" \t"))
        if quote and not _closed(_filtered(self.text[begin:end]).strip(" \t"), quote):
            end = self._closing_line(end, quote)
            if end < 0:
                raise self._fail(f"the value opened with {quote} here is never closed at a line's end", begin)
        self.at = end
        return self._made(name, key, start, begin, end, quote)

    def _closing_line(self, end: int, quote: str) -> int:
        while end < len(self.text):
            start, end = end + 1, self._line_end(end + 1)
            if _filtered(self.text[start:end]).rstrip(" \t").endswith(quote):
                return end
        return -1

    def _made(self, name: str, key: str, start: int, begin: int, end: int, quote: str) -> Instruction:
        raw = self.text[begin:end]
        kept = [index for index, char in enumerate(raw) if _kept(char)]
        while kept and raw[kept[0]] in " \t":
            del kept[0]
        while kept and raw[kept[-1]] in " \t\r\n":
            del kept[-1]
        wide = len(quote)
        inner_start = kept[wide - 1] + 1 if wide else kept[0] if kept else 0
        inner_end = kept[len(kept) - wide] if wide else kept[-1] + 1 if kept else 0
        offset = self.source.byte_offset
        inner = Span(offset(begin + inner_start), offset(begin + inner_end))
        value = _filtered(raw[inner_start:inner_end])
        stop = begin + (kept[-1] + 1 if kept else 0)
        return Instruction(name, key, value, quote, Span(offset(start), offset(stop)), inner)


def _opening(value: str) -> str:
    return '"""' if value.startswith('"""') else '"' if value.startswith('"') else ""


def _closed(value: str, quote: str) -> bool:
    return len(value) >= 2 * len(quote) and value.endswith(quote)
