"""From text to tokens, as Go's lexer cuts them.

The lexer works on the bytes of the source, held in a string of one character a byte, so that every index is a byte
offset. White space inside actions makes no token here; `gaps` puts it back where every byte must be accounted for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from templatefix.gotemplate.letters import is_alphanumeric
from templatefix.gotemplate.source import Source
from templatefix.gotemplate.strconv import quote
from templatefix.gotemplate.strings import describe_char


class TokenKind(IntEnum):
    """What a token is. The kinds up to NUMBER are the groups of the lexer's pattern."""

    WORD = 1  # becomes IDENTIFIER, BOOL or a keyword
    RIGHT = 2  # }} with its trim marker
    FIELD = 3
    VARIABLE = 4
    DOT = 5
    STRING = 6
    RAW_STRING = 7
    LEFT_PAREN = 8
    RIGHT_PAREN = 9
    PIPE = 10
    DECLARE = 11
    ASSIGN = 12
    NUMBER = 13
    CHAR_CONSTANT = 14
    CHAR = 15  # a printable ASCII character that has no meaning of its own
    COMPLEX = 16
    IDENTIFIER = 17
    BOOL = 18
    NIL = 19
    BLOCK = 20
    BREAK = 21
    CONTINUE = 22
    DEFINE = 23
    ELSE = 24
    END = 25
    IF = 26
    RANGE = 27
    TEMPLATE = 28
    WITH = 29
    TEXT = 30
    LEFT = 31  # {{ with its trim marker and the one space that belongs to it
    COMMENT = 32  # the whole action {{/* … */}}
    EOF = 33
    ERROR = 34
    SPACE = 35  # white space inside an action
    TRIMMED = 36  # white space that a trim marker removes


RawToken: TypeAlias = tuple[int, int, int]  # kind, start, end

WORD, RIGHT, FIELD, VARIABLE, DOT, STRING, RAW_STRING = range(1, 8)
LEFT_PAREN, RIGHT_PAREN, PIPE, DECLARE, ASSIGN, NUMBER, CHAR_CONSTANT, CHAR, COMPLEX = range(8, 17)
IDENTIFIER, BOOL, NIL, BLOCK, BREAK, CONTINUE, DEFINE, ELSE, END, IF, RANGE, TEMPLATE, WITH = range(17, 30)
TEXT, LEFT, COMMENT, EOF, ERROR, SPACE, TRIMMED = range(30, 37)

KEYWORDS = {
    "true": BOOL,
    "false": BOOL,
    "nil": NIL,
    "block": BLOCK,
    "break": BREAK,
    "continue": CONTINUE,
    "define": DEFINE,
    "else": ELSE,
    "end": END,
    "if": IF,
    "range": RANGE,
    "template": TEMPLATE,
    "with": WITH,
}

_SPACE = " \t\r\n"
_WORD_END = r"(?=[ \t\r\n.,|:()]|\}\}|\Z)"
# One alternative a kind, in the order of TokenKind; what none of them takes is left to _Lexer.unusual.
_TOKEN = re.compile(
    r"[ \t\r\n]*(?:"
    rf"([A-Za-z_][A-Za-z0-9_]*){_WORD_END}"
    r"|(\}\}|(?<=[ \t\r\n])-\}\})"
    rf"|(\.[A-Za-z_][A-Za-z0-9_]*){_WORD_END}"
    rf"|(\$[A-Za-z0-9_]*){_WORD_END}"
    r"|(\.)(?=[ \t\r\n.,|:()]|\}\})"
    r'|("[^"\\\n]*(?:\\[^\n][^"\\\n]*)*")'
    r"|(`[^`]*`)"
    r"|(\()|(\))|(\|)|(:=)|(=)"
    r"|([+-]?[0-9]+)(?![0-9A-Za-z_.+\-\x80-\xff])"
    r"|('[^'\\\n]*(?:\\[^\n][^'\\\n]*)*')"
    r"|([!#%&*,/;<>?@\[\\\]^{}~])"
    r")"
)
_NUMBER = re.compile(
    r"[+-]?(?:0[xX][0-9a-fA-F_]*(?:\.[0-9a-fA-F_]*)?(?:[pP][+-]?[0-9_]*)?"
    r"|0[oO][0-7_]*(?:\.[0-7_]*)?"
    r"|0[bB][01_]*(?:\.[01_]*)?"
    r"|[0-9_]*(?:\.[0-9_]*)?(?:[eE][+-]?[0-9_]*)?)i?"
)
_WORD_BYTES = re.compile(r"[A-Za-z0-9_\x80-\xff]*")
_BLANKS = re.compile(r"[ \t\r\n]*")


_KINDS = tuple(TokenKind)


class Token(NamedTuple):
    """A piece of the source: `start` and `end` are byte offsets."""

    kind: TokenKind
    start: int
    end: int


class Lexed(NamedTuple):
    """All tokens up to the end (EOF) or the first fault (ERROR, its reason in `error`)."""

    data: str  # the source, one character a byte
    tokens: list[RawToken]
    error: str


class LexError(Exception):
    """A place where no token is: Go's reason, and where the token would have begun and the fault ends."""

    def __init__(self, reason: str, start: int, end: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.start = start
        self.end = end


def byte_string(source: Source) -> str:
    """The source with one character a byte."""
    return source.text if source.text.isascii() else source.data.decode("latin-1")


def text_of(piece: str) -> str:
    """What a piece of a byte string says."""
    return piece if piece.isascii() else piece.encode("latin-1").decode("utf-8", "surrogateescape")


def lex(source: Source, keywords: dict[str, int] = KEYWORDS) -> Lexed:
    """All tokens of a source but white space; never raises: a fault is the last token."""
    data = byte_string(source)
    tokens: list[RawToken] = []
    try:
        _lex(data, tokens, keywords)
    except LexError as fault:
        tokens.append((ERROR, fault.start, fault.end))
        return Lexed(data, tokens, fault.reason)
    return Lexed(data, tokens, "")


def _lex(data: str, tokens: list[RawToken], keywords: dict[str, int]) -> None:
    pos = 0
    while True:
        left = data.find("{{", pos)
        text_end = left if left >= 0 else len(data)
        after = left + 2
        trims = left >= 0 and data[after : after + 1] == "-" and data[after + 1 : after + 2] in _SPACE_SET
        if trims:
            after += 2
            text_end = pos + len(data[pos:text_end].rstrip(_SPACE))
        if text_end > pos:
            tokens.append((TEXT, pos, text_end))
        if left < 0:
            tokens.append((EOF, len(data), len(data)))
            return
        if data.startswith("/*", after):
            pos = _comment(data, tokens, left, after)
        else:
            tokens.append((LEFT, left, after))
            pos = _action(data, tokens, after, keywords)


_SPACE_SET = frozenset(_SPACE)


def _comment(data: str, tokens: list[RawToken], left: int, start: int) -> int:
    """Append the comment action at `left`, whose text begins at `start`; return where text goes on."""
    close = data.find("*/", start + 2)
    if close < 0:
        raise LexError("unclosed comment", start, len(data))
    end = close + 2
    if data[end : end + 1] in _SPACE_SET and data.startswith("-}}", end + 1):
        tokens.append((COMMENT, left, end + 4))
        return _skip_blanks(data, end + 4)
    if not data.startswith("}}", end):
        raise LexError("comment ends before closing delimiter", start, end)
    tokens.append((COMMENT, left, end + 2))
    return end + 2


def _skip_blanks(data: str, pos: int) -> int:
    match = _BLANKS.match(data, pos)
    assert match is not None  # the pattern matches the empty string
    return match.end()


def _action(data: str, tokens: list[RawToken], pos: int, keywords: dict[str, int]) -> int:
    """Append the tokens of the action whose inside begins at `pos`; return where text goes on."""
    match_token = _TOKEN.match
    append = tokens.append
    depth = 0
    # A trim marker's own space is no space before another one: {{- -}} holds a lone minus.
    match = None if data.startswith("-}}", pos) else match_token(data, pos)
    while True:
        if match is None:
            token = _unusual(data, pos)
            append(token)
            pos = token[2]
        else:
            kind = match.lastindex
            assert kind is not None  # every alternative is a group
            end = match.end()
            start = match.start(kind)
            if kind == WORD:
                append((keywords.get(data[start:end], IDENTIFIER), start, end))
            elif kind == RIGHT:
                trims = end - start == 3
                if depth:
                    raise LexError("unclosed left paren", start - trims, end)
                append((RIGHT, start - trims, end))
                return _skip_blanks(data, end) if trims else end
            else:
                if kind == LEFT_PAREN:
                    depth += 1
                elif kind == RIGHT_PAREN:
                    depth -= 1
                    if depth < 0:
                        raise LexError("unexpected right paren", start, end)
                append((kind, start, end))
            pos = end
        match = match_token(data, pos)


def _unusual(data: str, pos: int) -> RawToken:
    """The token at `pos` that the pattern does not take: other numbers and letters; raises LexError where none is."""
    start = _skip_blanks(data, pos)
    char = data[start : start + 1]
    if char == "":
        raise LexError("unclosed action", start, start)
    if char == ":":
        raise LexError("expected :=", start, start + 1)
    if char in _UNTERMINATED:
        raise LexError(_UNTERMINATED[char], start, start + 1)
    if char in "+-0123456789" or (char == "." and data[start + 1 : start + 2] in _NUMBER_AFTER_DOT):
        return _number(data, start)
    if char == "$" or char == ".":
        return _word(data, start, start + 1, VARIABLE if char == "$" else FIELD)
    rune, length = _rune(data, start)
    if is_alphanumeric(rune):
        return _word(data, start, start, IDENTIFIER)
    raise LexError(f"unrecognized character in action: {describe_char(rune)}", start, start + length)


_UNTERMINATED = {
    '"': "unterminated quoted string",
    "`": "unterminated raw quoted string",
    "'": "unterminated character constant",
}
_NUMBER_AFTER_DOT = frozenset(["", *"0123456789"])


def _number(data: str, start: int) -> RawToken:
    match = _NUMBER.match(data, start)
    assert match is not None  # the pattern matches the empty string
    end = match.end()
    _no_word_at(data, start, end)
    if data[end : end + 1] not in ("+", "-"):
        return NUMBER, start, end
    match = _NUMBER.match(data, end)
    assert match is not None
    end = match.end()
    _no_word_at(data, start, end)
    if data[end - 1] != "i":
        raise LexError(f"bad number syntax: {quote(text_of(data[start:end]))}", start, end)
    return COMPLEX, start, end


def _no_word_at(data: str, start: int, end: int) -> None:
    rune, length = _rune(data, end)
    if rune and is_alphanumeric(rune):
        end += length
        raise LexError(f"bad number syntax: {quote(text_of(data[start:end]))}", start, end)


def _word(data: str, start: int, letters: int, kind: int) -> RawToken:
    """An identifier, field or variable with letters beyond ASCII, or one that ends where it must not."""
    match = _WORD_BYTES.match(data, letters)
    assert match is not None  # the pattern matches the empty string
    end = letters
    for rune in text_of(match[0]):
        if not is_alphanumeric(rune):
            break
        end += len(rune.encode("utf-8", "surrogateescape"))
    rune, length = _rune(data, end)
    if rune and rune not in " \t\r\n.,|:()" and not data.startswith("}}", end):
        raise LexError(f"bad character {describe_char(rune)}", start, end + length)
    return kind, start, end


def _rune(data: str, pos: int) -> tuple[str, int]:
    """The character at `pos` and its length in bytes; ("", 0) at the end."""
    rune = text_of(data[pos : pos + 4])[:1] if data[pos : pos + 1] >= "\x80" else data[pos : pos + 1]
    return rune, len(rune.encode("utf-8", "surrogateescape"))


def gaps(lexed: Lexed) -> Iterator[Token]:
    """The tokens with the white space between them, so that they join to the source; EOF is left out.

    Of a source with a fault, the rest from the fault on is one ERROR token (from the delimiter on, in a comment).
    """
    pos = 0
    inside = False
    for kind, start, end in lexed.tokens:
        if kind == ERROR:
            start = start if inside else pos
            end = len(lexed.data)
        if start > pos:
            yield Token(TokenKind.SPACE if inside else TokenKind.TRIMMED, pos, start)
        if kind != EOF:
            yield Token(_KINDS[kind - 1], start, end)
        inside = (inside or kind == LEFT) and kind != RIGHT
        pos = end
