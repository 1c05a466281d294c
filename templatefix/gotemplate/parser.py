"""From tokens to a tree, as Go's parser builds it: it accepts and refuses what Go does, with Go's sentences.

Nothing here recurses, so nesting costs no stack: open blocks wait in a list of frames, open parentheses in a list of
pipelines.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import NoReturn

from templatefix.gotemplate import lexer as lx
from templatefix.gotemplate import nodes as n
from templatefix.gotemplate.errors import ParseError
from templatefix.gotemplate.lexer import RawToken, text_of
from templatefix.gotemplate.numbers import NumberError, parse_char, parse_complex, parse_number
from templatefix.gotemplate.source import Source, Span
from templatefix.gotemplate.strings import QuoteError, quote, unquote

_COMPARISONS = frozenset(("eq", "ge", "gt", "le", "lt", "ne"))
_PRINTERS = frozenset(("html", "js", "print", "printf", "println", "urlquery"))
BUILTINS = frozenset(("and", "call", "index", "len", "not", "or", "slice")) | _COMPARISONS | _PRINTERS
MAX_BLOCKS = 20_000  # blocks open at once, each link of an else-if chain counted; Go has no limit of its own
MAX_PARENS = 10_000  # Go's limit

_QUOTED = frozenset((lx.STRING, lx.RAW_STRING))
_NUMERIC = frozenset((lx.NUMBER, lx.CHAR_CONSTANT, lx.COMPLEX))
_WORDS = frozenset((lx.FIELD, lx.VARIABLE, lx.DOT, lx.IDENTIFIER, lx.BOOL, lx.NIL))
_TERMS = _QUOTED | _NUMERIC | _WORDS | {lx.LEFT_PAREN}
_CLOSING = frozenset((lx.RIGHT, lx.RIGHT_PAREN))
_BRACKETED = frozenset((lx.NIL, lx.DOT, *range(lx.BLOCK, lx.WITH + 1)))  # printed <so> in Go's sentences
_CONTEXTS = {lx.IF: "if", lx.RANGE: "range", lx.WITH: "with", lx.DEFINE: "define clause", lx.BLOCK: "block clause"}
_BRANCHES: dict[int, type[n.BranchNode]] = {lx.IF: n.IfNode, lx.RANGE: n.RangeNode, lx.WITH: n.WithNode}
_NOT_EXECUTABLE = (n.BoolNode, n.DotNode, n.NilNode, n.NumberNode, n.StringNode)
_GO_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))


class Tree:
    """A parsed template.

    `root` is the top-level list; definitions and blocks stand in it where they are written. `templates` maps each
    name to the body that Go would execute by it; the name of the source itself is what executing the template runs
    (the root, unless the template defines its own name and is else empty). `depth` is how deep blocks and
    parentheses nest at most.
    """

    def __init__(
        self, source: Source, root: n.ListNode, templates: Mapping[str, n.ListNode], depth: int, lexed: lx.Lexed
    ) -> None:
        self.source = source
        self.root = root
        self.templates = templates
        self.depth = depth
        self._lexed = lexed

    @cached_property
    def tokens(self) -> tuple[lx.Token, ...]:
        """All tokens, white space included; they join to the source byte for byte."""
        return tuple(lx.gaps(self._lexed))


def parse(source: Source | str, functions: Collection[str] = BUILTINS) -> Tree:
    """Parse a template whose functions have the given names. Raises ParseError."""
    if isinstance(source, str):
        source = Source(source)
    return _Parser(source, functions).parse()


class _Scope:
    """What Go keeps for each template body: the variables in sight, and where it stands."""

    __slots__ = ("action", "counts", "names", "ranges")

    def __init__(self) -> None:
        self.names = ["$"]
        self.counts = {"$": 1}
        self.ranges = 0  # open range bodies
        self.action = -1  # the offset of the action that is being read, as far as Go remembers it

    def declare(self, name: str) -> None:
        self.names.append(name)
        self.counts[name] = self.counts.get(name, 0) + 1

    def forget(self, count: int) -> None:
        """Drop all variables but the first `count`."""
        while len(self.names) > count:
            self.counts[self.names.pop()] -= 1


_NOWHERE = Span(0, 0)


@dataclass(slots=True)
class _Frame:
    """An open list of nodes, and the block that it belongs to (kind EOF: the whole template)."""

    kind: int
    start: int  # where the list begins
    pos: int
    nodes: list[n.Node] = field(default_factory=list)
    name: str = ""
    open: Span = _NOWHERE
    node_pos: int = 0
    pipe: n.PipeNode | None = None
    right: RawToken = (0, 0, 0)  # the end of the opening action
    variables: int = 0  # in sight when the block began
    outer: _Scope | None = None  # the scope around a definition or block
    body: n.ListNode | None = None  # set when the else list has begun
    else_node: n.ElseNode | None = None
    chained: bool = False


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


class _Parser:
    def __init__(self, source: Source, functions: Collection[str]) -> None:
        self.source = source
        self.functions = functions
        shadowed = [word for word in ("break", "continue") if word in functions]
        keywords = {word: kind for word, kind in lx.KEYWORDS.items() if word not in shadowed}
        self.lexed = lx.lex(source, keywords)
        self.data = self.lexed.data
        self.tokens = self.lexed.tokens
        self.at = 0  # index of the next token
        self.peeked = 0  # index of the furthest token that looking for a declaration has read
        self.scope = _Scope()
        self.frames: list[_Frame] = []
        self.templates: dict[str, n.ListNode] = {}
        self.depth = 0

    # Errors

    def _fail(self, message: str, token: RawToken, blamed: RawToken | None = None) -> NoReturn:
        """Raise Go's sentence; its line is that of `token`, the last one that Go has read by then."""
        line = self.data.count("\n", 0, _go_start(token)) + 1
        _, start, end = blamed or token
        raise ParseError(f"template: {self.source.name}:{line}: {message}", self.source, Span(start, end))

    def _unexpected(self, token: RawToken, context: str) -> NoReturn:
        if token[0] != lx.ERROR:
            self._fail(f"unexpected {self._item(token)} in {context}", token)
        extra = ""
        if self.scope.action >= 0:
            line = self.data.count("\n", 0, self.scope.action) + 1
            if line != self.data.count("\n", 0, token[1]) + 1:
                verb = "" if self.lexed.error.endswith(" action") else " in action"
                extra = f"{verb} started at {self.source.name}:{line}"
        self._fail(self.lexed.error + extra, token)

    def _item(self, token: RawToken) -> str:
        """A token as Go's sentences show it."""
        kind, start, end = token
        if kind == lx.EOF:
            return "EOF"
        value = text_of(self.data[_go_start(token) : end])
        if kind in _BRACKETED:
            return f"<{value}>"
        long = end - start > 10 and kind != lx.RIGHT
        return f"{quote(value[:10])}..." if long else quote(value)

    # Lists and blocks

    def parse(self) -> Tree:
        """The whole template."""
        self._open_list(_Frame(lx.EOF, 0, 0))
        tokens = self.tokens
        while True:
            token = tokens[self.at]
            kind = token[0]
            if kind == lx.LEFT:
                self._action(token)
            elif kind == lx.TEXT:
                self._text(token)
            elif kind == lx.COMMENT:
                self._comment(token)
            elif kind != lx.EOF:
                self._unexpected(token, "input")
            elif len(self.frames) > 1:
                self._fail("unexpected EOF", token)
            else:
                return self._tree(token)

    def _tree(self, eof: RawToken) -> Tree:
        root = self._close_list(self.frames.pop(), eof[1])
        self._associate(self.source.name, root, eof)
        return Tree(self.source, root, MappingProxyType(self.templates), self.depth, self.lexed)

    def _associate(self, name: str, body: n.ListNode, token: RawToken) -> None:
        """Give a body its name; an empty one yields to another, two that are not empty collide."""
        known = self.templates.get(name)
        if known is None or _is_empty(known):
            self.templates[name] = body
        elif not _is_empty(body):
            self._fail(f"template: multiple definition of template {quote(name)}", token)

    def _open_list(self, frame: _Frame) -> None:
        index = self.at
        while self.tokens[index][0] == lx.COMMENT:
            index += 1
        frame.pos = self.tokens[index][1]
        self.frames.append(frame)
        if len(self.frames) - 1 > self.depth:
            self.depth = len(self.frames) - 1
            if self.depth > MAX_BLOCKS:
                self._fail(f"blocks nested deeper than {MAX_BLOCKS}", frame.right)

    def _close_list(self, frame: _Frame, end: int) -> n.ListNode:
        return n.ListNode(Span(frame.start, end), frame.pos, tuple(frame.nodes))

    def _text(self, token: RawToken) -> None:
        _, start, end = token
        index = self.at
        raw_start = self.tokens[index - 1][2] if index else 0
        raw_end = self.tokens[index + 1][1]
        if self.tokens[index + 1][0] == lx.ERROR:
            raw_end = end
        text = text_of(self.data[start:end])
        self.frames[-1].nodes.append(n.TextNode(Span(start, end), start, text, Span(raw_start, raw_end)))
        self.at = index + 1

    def _comment(self, token: RawToken) -> None:
        _, start, end = token
        begin = self.data.index("/*", start)
        close = self.data.rindex("*/", start, end) + 2
        self.frames[-1].nodes.append(n.CommentNode(Span(start, end), begin, text_of(self.data[begin:close])))
        self.at += 1

    def _action(self, left: RawToken) -> None:
        kind = self.tokens[self.at + 1][0]
        if kind == lx.DEFINE and len(self.frames) == 1:
            self._define(left)
            return
        self.scope.action = left[1]
        if kind in _BRANCHES:
            self.at += 2
            self._branch(kind, left)
        elif kind == lx.END:
            self._end(left)
        elif kind == lx.ELSE:
            self._else(left)
        elif kind == lx.BLOCK:
            self._block(left)
        else:
            self.frames[-1].nodes.append(self._simple_action(kind, left))
            self.scope.action = -1

    def _simple_action(self, kind: int, left: RawToken) -> n.Node:
        """An action that opens and closes nothing."""
        if kind in (lx.BREAK, lx.CONTINUE):
            return self._jump(kind, left)
        if kind == lx.TEMPLATE:
            return self._template(left)
        self.at += 1
        pos = self.tokens[self.at][1]
        pipe = self._pipeline("command")
        return n.ActionNode(self._since(left), pos, pipe)

    def _since(self, left: RawToken) -> Span:
        """The action from `left` to the token before the next one."""
        return Span(left[1], self.tokens[self.at - 1][2])

    def _expect_right(self, index: int, context: str) -> RawToken:
        """Go on behind the end of an action, which is due at `index`."""
        token = self.tokens[index]
        if token[0] != lx.RIGHT:
            self._unexpected(token, context)
        self.at = index + 1
        return token

    def _jump(self, kind: int, left: RawToken) -> n.Node:
        word = "{{break}}" if kind == lx.BREAK else "{{continue}}"
        pos = self.tokens[self.at + 1][1]
        right = self._expect_right(self.at + 2, word)
        if self.scope.ranges == 0:
            self._fail(f"{word} outside {{{{range}}}}", right)
        span = self._since(left)
        return n.BreakNode(span, pos) if kind == lx.BREAK else n.ContinueNode(span, pos)

    def _name(self, index: int, context: str) -> str:
        """The name of a template, which is due at `index`; goes on behind it."""
        token = self.tokens[index]
        if token[0] not in _QUOTED:
            self._unexpected(token, context)
        self.at = index + 1
        return self._unquoted(token)

    def _template(self, left: RawToken) -> n.TemplateNode:
        context = "template clause"
        pos = self.tokens[self.at + 2][1]
        name = self._name(self.at + 2, context)
        pipe = None
        if self.tokens[self.at][0] == lx.RIGHT:
            self.at += 1
        else:
            pipe = self._pipeline(context)
        return n.TemplateNode(self._since(left), pos, name, pipe)

    def _define(self, left: RawToken) -> None:
        outer, self.scope = self.scope, _Scope()
        pos = self.tokens[self.at + 2][1]
        name = self._name(self.at + 2, "define clause")
        right = self._expect_right(self.at, "define clause")
        frame = _Frame(lx.DEFINE, right[2], 0, name=name, open=self._since(left), node_pos=pos, right=right)
        frame.outer = outer
        self._open_list(frame)

    def _block(self, left: RawToken) -> None:
        pos = self.tokens[self.at + 2][1]
        name = self._name(self.at + 2, "block clause")
        pipe = self._pipeline("block clause")
        right = self.tokens[self.at - 1]
        frame = _Frame(lx.BLOCK, right[2], 0, name=name, open=self._since(left), node_pos=pos, right=right, pipe=pipe)
        frame.outer, self.scope = self.scope, _Scope()
        self._open_list(frame)

    def _branch(self, kind: int, left: RawToken, chained: bool = False) -> None:
        """`if`, `range` or `with`, whose keyword is past."""
        variables = len(self.scope.names)
        pipe = self._pipeline(_CONTEXTS[kind])
        if kind == lx.RANGE:
            self.scope.ranges += 1
        right = self.tokens[self.at - 1]
        frame = _Frame(kind, right[2], 0, open=self._since(left), node_pos=pipe.pos, right=right, pipe=pipe)
        frame.variables = variables
        frame.chained = chained
        self._open_list(frame)

    def _else(self, left: RawToken) -> None:
        follower = self.tokens[self.at + 2]
        is_chain = follower[0] in (lx.IF, lx.WITH)
        if is_chain:
            self.at += 2
        else:
            self._expect_right(self.at + 2, "else")
        frame = self.frames[-1]
        self._refuse_else(frame, follower)
        self.scope.action = -1
        frame.body = self._close_list(frame, left[1])
        frame.nodes = []
        if frame.kind == lx.RANGE:
            self.scope.ranges -= 1
        if is_chain and follower[0] == frame.kind:
            frame.pos = follower[1]
            self.at += 1
            self._branch(frame.kind, left, chained=True)
            frame.else_node = n.ElseNode(self.frames[-1].open, follower[1])
        elif is_chain:
            self._unexpected(follower, "input")
        else:
            frame.else_node = n.ElseNode(self._since(left), _go_start(follower))
            frame.start = follower[2]
            self.frames.pop()
            self._open_list(frame)

    def _refuse_else(self, frame: _Frame, token: RawToken) -> None:
        """Raise Go's error if the open block takes no `else` (any more)."""
        if frame.kind == lx.EOF:
            self._fail("unexpected {{else}}", token)
        if frame.kind in (lx.DEFINE, lx.BLOCK):
            # Of a block, Go names the line in which the opening action ends.
            last = frame.right if frame.kind == lx.BLOCK else token
            self._fail(f"unexpected {{{{else}}}} in {_CONTEXTS[frame.kind]}", last, token)
        if frame.body is not None:
            self._fail("expected end; found {{else}}", token)

    def _end(self, left: RawToken) -> None:
        right = self._expect_right(self.at + 2, "end")
        frame = self.frames.pop()
        if frame.kind == lx.EOF:
            self._fail("unexpected {{end}}", right)
        end = n.EndNode(Span(left[1], right[2]), _go_start(right))
        if frame.outer is not None:
            node = self._close_definition(frame, end, right)
        else:
            node = self._close_branch(frame, end)
            while frame.chained:
                frame = self.frames.pop()
                frame.nodes = [node]
                frame.start = node.span.start
                node = self._close_branch(frame, end)
        self.frames[-1].nodes.append(node)
        self.scope.action = -1

    def _close_definition(self, frame: _Frame, end: n.EndNode, right: RawToken) -> n.Node:
        body = self._close_list(frame, end.span.start)
        self._associate(frame.name, body, right)
        assert frame.outer is not None  # every definition has a scope around it
        self.scope = frame.outer
        span = Span(frame.open.start, end.span.end)
        if frame.pipe is None:
            return n.DefineNode(span, frame.node_pos, frame.name, frame.open, body, end)
        return n.BlockNode(span, frame.node_pos, frame.name, frame.open, frame.pipe, body, end)

    def _close_branch(self, frame: _Frame, end: n.EndNode) -> n.BranchNode:
        last = self._close_list(frame, end.span.start)
        body, other = (last, None) if frame.body is None else (frame.body, last)
        if frame.kind == lx.RANGE and other is None:
            self.scope.ranges -= 1
        self.scope.forget(frame.variables)
        span = Span(frame.open.start, end.span.start if frame.chained else end.span.end)
        assert frame.pipe is not None  # every branch has a pipeline
        make = _BRANCHES[frame.kind]
        return make(span, frame.node_pos, frame.open, frame.pipe, body, frame.else_node, other, end, frame.chained)

    # Pipelines

    def _pipeline(self, context: str) -> n.PipeNode:
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
                    self._fail("max expression depth exceeded", token)
                self.depth = max(self.depth, len(self.frames) - 1 + len(outer))
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
                self._unexpected(token, pipe.context)
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
                self.peeked = self.at + 1
                return
            self.at += 2
            name = text_of(self.data[start:end])
            pipe.decl.append(n.VariableNode(Span(start, end), start, (name,)))
            self.scope.declare(name)
            if is_last:
                pipe.is_assign = follower[0] == lx.ASSIGN
                return
            if pipe.context != "range" or len(pipe.decl) > 1:
                self._fail(f"too many declarations in {pipe.context}", follower)
            if tokens[self.at][0] != lx.VARIABLE and tokens[self.at][0] not in _CLOSING:
                self._fail("range can only initialize variables", tokens[self.at])

    def _after_operand(self, pipe: _Pipe) -> None:
        """See whether the command goes on; close it if not."""
        token = self.tokens[self.at]
        kind = token[0]
        if kind == lx.PIPE:
            self.at += 1
        elif kind not in _CLOSING:
            if kind not in _TERMS or token[1] == self.tokens[self.at - 1][2]:
                self._unexpected(token, "operand")
            return
        args = pipe.args
        start = args[0].span.start
        pipe.cmds.append(n.CommandNode(Span(start, args[-1].span.end), start, tuple(args)))
        pipe.args = []

    def _close_pipe(self, pipe: _Pipe, token: RawToken, in_parens: bool) -> n.PipeNode:
        if not pipe.cmds:
            self._fail(f"missing value for {pipe.context}", token)
        for stage, command in enumerate(pipe.cmds[1:], 2):
            if isinstance(command.args[0], _NOT_EXECUTABLE):
                self._fail(f"non executable command in pipeline stage {stage}", token)
        end = token[2] if in_parens else self.tokens[self.at - 2][2]
        return n.PipeNode(Span(pipe.start, end), pipe.pos, tuple(pipe.decl), pipe.is_assign, tuple(pipe.cmds))

    # Operands

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
                self._fail(f"function {quote(text)} not defined", token)
            return n.IdentifierNode(span, start, text)
        if kind in _QUOTED:
            return n.StringNode(span, start, text, self._unquoted(token))
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
                self._fail(f"undefined variable {quote(name)}", self.tokens[max(self.at - 1, self.peeked)], token)
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
            self._fail(f"unexpected . after term {quote(text)}", last, (lx.FIELD, self.tokens[first][1], end))
        return n.ChainNode(Span(node.span.start, end), self.tokens[first][1], node, tuple(names))

    def _number(self, token: RawToken, text: str) -> n.NumberNode:
        kind, start, end = token
        read = parse_char if kind == lx.CHAR_CONSTANT else parse_complex if kind == lx.COMPLEX else parse_number
        try:
            value = read(text)
        except (NumberError, QuoteError) as error:
            self._fail(str(error), token)
        return n.NumberNode(Span(start, end), start, text, *value, kind == lx.CHAR_CONSTANT)

    def _unquoted(self, token: RawToken) -> str:
        try:
            return unquote(text_of(self.data[token[1] : token[2]]))
        except QuoteError as error:
            self._fail(str(error), token)


def _go_start(token: RawToken) -> int:
    """Where Go's token starts: behind the trim marker of a right delimiter."""
    return token[2] - 2 if token[0] == lx.RIGHT else token[1]


def _is_empty(body: n.ListNode) -> bool:
    """Whether a body holds nothing but space, comments and definitions."""
    return all(
        isinstance(node, (n.CommentNode, n.DefineNode))
        or (isinstance(node, n.TextNode) and not node.text.strip(_GO_SPACE))
        for node in body.nodes
    )
