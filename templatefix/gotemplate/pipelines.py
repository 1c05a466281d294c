"""Reading pipelines: declarations, commands, operands, and what Go says where there are none.

Nothing here recurses: open parentheses wait in a list.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NoReturn

from templatefix.gotemplate import lexer as lx
from templatefix.gotemplate import nodes as n
from templatefix.gotemplate.errors import ParseError
from templatefix.gotemplate.lexer import RawToken, text_of
from templatefix.gotemplate.numbers import NumberError, parse_char, parse_complex, parse_number
from templatefix.gotemplate.source import Source, Span
from templatefix.gotemplate.strconv import quote
from templatefix.gotemplate.strings import QuoteError, unquote

MAX_PARENS = 10_000  # Go's limit
QUOTED = frozenset((lx.STRING, lx.RAW_STRING))

_NUMERIC = frozenset((lx.NUMBER, lx.CHAR_CONSTANT, lx.COMPLEX))
_WORDS = frozenset((lx.FIELD, lx.VARIABLE, lx.DOT, lx.IDENTIFIER, lx.BOOL, lx.NIL))
_TERMS = QUOTED | _NUMERIC | _WORDS | {lx.LEFT_PAREN}
_CLOSING = frozenset((lx.RIGHT, lx.RIGHT_PAREN))
_BRACKETED = frozenset((lx.NIL, lx.DOT, *range(lx.BLOCK, lx.WITH + 1)))  # printed <so> in Go's sentences
_NOT_EXECUTABLE = (n.BoolNode, n.DotNode, n.NilNode, n.NumberNode, n.StringNode)


class Scope:
    """What Go keeps for each template body: the variables in sight, and where it stands."""

    __slots__ = ("action", "counts", "names", "ranges")

    def __init__(self) -> None:
        self.names = ["$"]
        self.counts = {"$": 1}
        self.ranges = 0  # open range bodies
        self.action = -1  # the offset of the action that is being read, as far as Go remembers it

    def declare(self, name: str) -> None:
        """Put a variable in sight."""
        self.names.append(name)
        self.counts[name] = self.counts.get(name, 0) + 1

    def forget(self, count: int) -> None:
        """Drop all variables but the first `count`."""
        while len(self.names) > count:
            self.counts[self.names.pop()] -= 1


class _Pipe:
    """A pipeline that is being read."""

    __slots__ = ("args", "cmds", "context", "decl", "is_assign", "pos", "start")

    def __init__(self, context: str, start: int, pos: int) -> None:
        self.context = context
        self.start = start
        self.pos = pos
        self.decl: list[n.VariableNode] = []
        self.is_assign = False
        self.cmds: list[n.CommandNode] = []
        self.args: list[n.Node] = []


class PipelineReader:
    """A reader of tokens with a place, and the pipelines that start there."""

    def __init__(self, source: Source, functions: Collection[str]) -> None:
        self.source = source
        self.functions = functions
        shadowed = [word for word in ("break", "continue") if word in functions]
        keywords = {word: kind for word, kind in lx.KEYWORDS.items() if word not in shadowed}
        self.lexed = lx.lex(source, keywords)
        self.data = self.lexed.data
        self.tokens = self.lexed.tokens
        self.at = 0  # index of the next token
        self.scope = Scope()
        self.blocks = 0  # open now
        self.depth = 0  # of blocks and parentheses, at most
        self._peeked = 0  # index of the furthest token that looking for a declaration has read

    def fail(self, message: str, token: RawToken, blamed: RawToken | None = None) -> NoReturn:
        """Raise Go's sentence; its line is that of `token`, the last one that Go has read by then."""
        line = self.data.count("\n", 0, go_start(token)) + 1
        _, start, end = blamed or token
        raise ParseError(f"template: {self.source.name}:{line}: {message}", self.source, Span(start, end))

    def unexpected(self, token: RawToken, context: str) -> NoReturn:
        """Refuse a token: by the lexer's reason where it is a fault, else as out of place."""
        if token[0] != lx.ERROR:
            self.fail(f"unexpected {self._item(token)} in {context}", token)
        extra = ""
        if self.scope.action >= 0:
            line = self.data.count("\n", 0, self.scope.action) + 1
            if line != self.data.count("\n", 0, token[1]) + 1:
                verb = "" if self.lexed.error.endswith(" action") else " in action"
                extra = f"{verb} started at {self.source.name}:{line}"
        self.fail(self.lexed.error + extra, token)

    def _item(self, token: RawToken) -> str:
        """A token as Go's sentences show it."""
        kind, start, end = token
        if kind == lx.EOF:
            return "EOF"
        value = text_of(self.data[go_start(token) : end])
        if kind in _BRACKETED:
            return f"<{value}>"
        long = end - start > 10 and kind != lx.RIGHT
        return f"{quote(value[:10])}..." if long else quote(value)

    def pipeline(self, context: str) -> n.PipeNode:
        """A pipeline up to and with the end of the action."""
        tokens = self.tokens
        pipe = self._open_pipe(context, tokens[self.at][1])
        outer: list[_Pipe] = []
        while True:
            token = tokens[self.at]
            kind = token[0]
            if kind == lx.LEFT_PAREN:
                outer.append(pipe)
                if len(outer) > MAX_PARENS:
                    self.fail("max expression depth exceeded", token)
                self.depth = max(self.depth, self.blocks + len(outer))
                self.at += 1
                pipe = self._open_pipe("parenthesized pipeline", token[1])
                continue
            if kind in _TERMS:
                self.at += 1
                node = self._term(token)
            elif kind == (lx.RIGHT_PAREN if outer else lx.RIGHT):
                self.at += 1
                node = self._close_pipe(pipe, token, bool(outer))
                if not outer:
                    return node
                pipe = outer.pop()
            else:
                self.unexpected(token, pipe.context)
            if tokens[self.at][0] == lx.FIELD and tokens[self.at][1] == tokens[self.at - 1][2]:
                node = self._chain(node)
            pipe.args.append(node)
            self._after_operand(pipe)

    def _open_pipe(self, context: str, start: int) -> _Pipe:
        first = self.tokens[self.at]
        pipe = _Pipe(context, start, first[1])
        if first[0] == lx.VARIABLE:
            self._declarations(pipe)
        return pipe

    def _declarations(self, pipe: _Pipe) -> None:
        """Read `$x :=`, `$x =` or `$x, $y :=`, if they are there."""
        tokens = self.tokens
        while tokens[self.at][0] == lx.VARIABLE:
            _, start, end = tokens[self.at]
            follower = tokens[self.at + 1]
            is_last = follower[0] in (lx.DECLARE, lx.ASSIGN)
            if not is_last and not (follower[0] == lx.CHAR and self.data[follower[1]] == ","):
                self._peeked = self.at + 1
                return
            self.at += 2
            name = text_of(self.data[start:end])
            pipe.decl.append(n.VariableNode(Span(start, end), start, (name,)))
            self.scope.declare(name)
            if is_last:
                pipe.is_assign = follower[0] == lx.ASSIGN
                return
            if pipe.context != "range" or len(pipe.decl) > 1:
                self.fail(f"too many declarations in {pipe.context}", follower)
            if tokens[self.at][0] != lx.VARIABLE and tokens[self.at][0] not in _CLOSING:
                self.fail("range can only initialize variables", tokens[self.at])

    def _after_operand(self, pipe: _Pipe) -> None:
        """See whether the command goes on; close it if not."""
        token = self.tokens[self.at]
        kind = token[0]
        if kind == lx.PIPE:
            self.at += 1
        elif kind not in _CLOSING:
            if kind not in _TERMS or token[1] == self.tokens[self.at - 1][2]:
                self.unexpected(token, "operand")
            return
        args = pipe.args
        start = args[0].span.start
        pipe.cmds.append(n.CommandNode(Span(start, args[-1].span.end), start, tuple(args)))
        pipe.args = []

    def _close_pipe(self, pipe: _Pipe, token: RawToken, in_parens: bool) -> n.PipeNode:
        if not pipe.cmds:
            self.fail(f"missing value for {pipe.context}", token)
        for stage, command in enumerate(pipe.cmds[1:], 2):
            if isinstance(command.args[0], _NOT_EXECUTABLE):
                self.fail(f"non executable command in pipeline stage {stage}", token)
        end = token[2] if in_parens else self.tokens[self.at - 2][2]
        return n.PipeNode(Span(pipe.start, end), pipe.pos, tuple(pipe.decl), pipe.is_assign, tuple(pipe.cmds))

    def _term(self, token: RawToken) -> n.Node:
        """The operand that one token makes; fields and variables take the fields that follow with them."""
        kind, start, end = token
        if kind == lx.FIELD or kind == lx.VARIABLE:
            return self._path(token)
        span = Span(start, end)
        if kind == lx.DOT:
            return n.DotNode(span, start)
        text = text_of(self.data[start:end])
        if kind == lx.IDENTIFIER:
            if text not in self.functions:
                self.fail(f"function {quote(text)} not defined", token)
            return n.IdentifierNode(span, start, text)
        if kind in QUOTED:
            return n.StringNode(span, start, text, self.unquoted(token))
        if kind == lx.BOOL:
            return n.BoolNode(span, start, text == "true")
        if kind == lx.NIL:
            return n.NilNode(span, start)
        return self._number(token, text)

    def _path(self, token: RawToken) -> n.Node:
        kind, start, end = token
        if kind == lx.VARIABLE:
            name = text_of(self.data[start:end])
            if not self.scope.counts.get(name):
                self.fail(f"undefined variable {quote(name)}", self.tokens[max(self.at - 1, self._peeked)], token)
        else:
            name = text_of(self.data[start + 1 : end])
        tokens = self.tokens
        pos = start
        names = [name]
        while tokens[self.at][0] == lx.FIELD and tokens[self.at][1] == end:
            _, more, end = tokens[self.at]
            if pos == start:
                pos = more  # Go gives a longer path the position of its second part
            names.append(text_of(self.data[more + 1 : end]))
            self.at += 1
        make = n.VariableNode if kind == lx.VARIABLE else n.FieldNode
        return make(Span(start, end), pos, tuple(names))

    def _chain(self, node: n.Node) -> n.ChainNode:
        """The operand with the fields that follow it without a space."""
        first = self.at
        names: list[str] = []
        end = node.span.end
        while self.tokens[self.at][0] == lx.FIELD and self.tokens[self.at][1] == end:
            _, start, end = self.tokens[self.at]
            names.append(text_of(self.data[start + 1 : end]))
            self.at += 1
        if isinstance(node, _NOT_EXECUTABLE):
            text = text_of(self.data[node.span.start : node.span.end])
            follower = self.tokens[self.at]
            last = follower if follower[1] == end else (lx.SPACE, end, follower[1])
            self.fail(f"unexpected . after term {quote(text)}", last, (lx.FIELD, self.tokens[first][1], end))
        return n.ChainNode(Span(node.span.start, end), self.tokens[first][1], node, tuple(names))

    def _number(self, token: RawToken, text: str) -> n.NumberNode:
        kind, start, end = token
        read = parse_char if kind == lx.CHAR_CONSTANT else parse_complex if kind == lx.COMPLEX else parse_number
        try:
            value = read(text)
        except (NumberError, QuoteError) as error:
            self.fail(str(error), token)
        return n.NumberNode(Span(start, end), start, text, *value, kind == lx.CHAR_CONSTANT)

    def unquoted(self, token: RawToken) -> str:
        """The value of a string constant."""
        try:
            return unquote(text_of(self.data[token[1] : token[2]]))
        except QuoteError as error:
            self.fail(str(error), token)


def go_start(token: RawToken) -> int:
    """Where Go's token starts: behind the trim marker of a right delimiter."""
    return token[2] - 2 if token[0] == lx.RIGHT else token[1]
