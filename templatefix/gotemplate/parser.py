"""From tokens to a tree, as Go's parser builds it: it accepts and refuses what Go does, with Go's sentences.

Nothing here recurses, so nesting costs no stack: open blocks wait in a list of frames.
"""

from __future__ import annotations

import gc
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

from templatefix.gotemplate import lexer as lx
from templatefix.gotemplate import nodes as n
from templatefix.gotemplate.lexer import RawToken, text_of
from templatefix.gotemplate.pipelines import QUOTED, PipelineReader, Scope, go_start
from templatefix.gotemplate.source import Source, Span
from templatefix.gotemplate.strconv import quote

_COMPARISONS = frozenset(("eq", "ge", "gt", "le", "lt", "ne"))
_PRINTERS = frozenset(("html", "js", "print", "printf", "println", "urlquery"))
BUILTINS = frozenset(("and", "call", "index", "len", "not", "or", "slice")) | _COMPARISONS | _PRINTERS
MAX_BLOCKS = 20_000  # blocks open at once, each link of an else-if chain counted; Go has no limit of its own

_LONG = 100_000  # characters
_CONTEXTS = {lx.IF: "if", lx.RANGE: "range", lx.WITH: "with", lx.DEFINE: "define clause", lx.BLOCK: "block clause"}
_BRANCHES: dict[int, type[n.BranchNode]] = {lx.IF: n.IfNode, lx.RANGE: n.RangeNode, lx.WITH: n.WithNode}
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
    with _no_collection(len(source.text)):
        return _Parser(source, functions).parse()


@contextmanager
def _no_collection(size: int) -> Iterator[None]:
    """Hold the garbage collector back while a long text is parsed.

    A parser makes objects and no garbage; walking the growing tree again and again would double the time.
    """
    pause = size > _LONG and gc.isenabled()
    if pause:
        gc.disable()
    try:
        yield
    finally:
        if pause:
            gc.enable()


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
    outer: Scope | None = None  # the scope around a definition or block
    body: n.ListNode | None = None  # set when the else list has begun
    else_node: n.ElseNode | None = None
    chained: bool = False


class _Parser(PipelineReader):
    """The parser of one source."""

    def __init__(self, source: Source, functions: Collection[str]) -> None:
        super().__init__(source, functions)
        self.frames: list[_Frame] = []
        self.templates: dict[str, n.ListNode] = {}

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
                self.unexpected(token, "input")
            elif len(self.frames) > 1:
                self.fail("unexpected EOF", token)
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
            self.fail(f"template: multiple definition of template {quote(name)}", token)

    def _open_list(self, frame: _Frame) -> None:
        index = self.at
        while self.tokens[index][0] == lx.COMMENT:
            index += 1
        frame.pos = self.tokens[index][1]
        self.frames.append(frame)
        self.blocks = len(self.frames) - 1
        self.depth = max(self.depth, self.blocks)
        if self.blocks > MAX_BLOCKS:
            self.fail(f"blocks nested deeper than {MAX_BLOCKS}", frame.right)

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
        pipe = self.pipeline("command")
        return n.ActionNode(self._since(left), pos, pipe)

    def _since(self, left: RawToken) -> Span:
        """The action from `left` to the token before the next one."""
        return Span(left[1], self.tokens[self.at - 1][2])

    def _expect_right(self, index: int, context: str) -> RawToken:
        """Go on behind the end of an action, which is due at `index`."""
        token = self.tokens[index]
        if token[0] != lx.RIGHT:
            self.unexpected(token, context)
        self.at = index + 1
        return token

    def _jump(self, kind: int, left: RawToken) -> n.Node:
        word = "{{break}}" if kind == lx.BREAK else "{{continue}}"
        pos = self.tokens[self.at + 1][1]
        right = self._expect_right(self.at + 2, word)
        if self.scope.ranges == 0:
            self.fail(f"{word} outside {{{{range}}}}", right)
        span = self._since(left)
        return n.BreakNode(span, pos) if kind == lx.BREAK else n.ContinueNode(span, pos)

    def _name(self, index: int, context: str) -> str:
        """The name of a template, which is due at `index`; goes on behind it."""
        token = self.tokens[index]
        if token[0] not in QUOTED:
            self.unexpected(token, context)
        self.at = index + 1
        return self.unquoted(token)

    def _template(self, left: RawToken) -> n.TemplateNode:
        context = "template clause"
        pos = self.tokens[self.at + 2][1]
        name = self._name(self.at + 2, context)
        pipe = None
        if self.tokens[self.at][0] == lx.RIGHT:
            self.at += 1
        else:
            pipe = self.pipeline(context)
        return n.TemplateNode(self._since(left), pos, name, pipe)

    def _define(self, left: RawToken) -> None:
        outer, self.scope = self.scope, Scope()
        pos = self.tokens[self.at + 2][1]
        name = self._name(self.at + 2, "define clause")
        right = self._expect_right(self.at, "define clause")
        frame = _Frame(lx.DEFINE, right[2], 0, name=name, open=self._since(left), node_pos=pos, right=right)
        frame.outer = outer
        self._open_list(frame)

    def _block(self, left: RawToken) -> None:
        pos = self.tokens[self.at + 2][1]
        name = self._name(self.at + 2, "block clause")
        pipe = self.pipeline("block clause")
        right = self.tokens[self.at - 1]
        frame = _Frame(lx.BLOCK, right[2], 0, name=name, open=self._since(left), node_pos=pos, right=right, pipe=pipe)
        frame.outer, self.scope = self.scope, Scope()
        self._open_list(frame)

    def _branch(self, kind: int, left: RawToken, chained: bool = False) -> None:
        """`if`, `range` or `with`, whose keyword is past."""
        variables = len(self.scope.names)
        pipe = self.pipeline(_CONTEXTS[kind])
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
            self.unexpected(follower, "input")
        else:
            frame.else_node = n.ElseNode(self._since(left), go_start(follower))
            frame.start = follower[2]
            self.frames.pop()
            self._open_list(frame)

    def _refuse_else(self, frame: _Frame, token: RawToken) -> None:
        """Raise Go's error if the open block takes no `else` (any more)."""
        if frame.kind == lx.EOF:
            self.fail("unexpected {{else}}", token)
        if frame.kind in (lx.DEFINE, lx.BLOCK):
            # Of a block, Go names the line in which the opening action ends.
            last = frame.right if frame.kind == lx.BLOCK else token
            self.fail(f"unexpected {{{{else}}}} in {_CONTEXTS[frame.kind]}", last, token)
        if frame.body is not None:
            self.fail("expected end; found {{else}}", token)

    def _end(self, left: RawToken) -> None:
        right = self._expect_right(self.at + 2, "end")
        frame = self.frames.pop()
        if frame.kind == lx.EOF:
            self.fail("unexpected {{end}}", right)
        end = n.EndNode(Span(left[1], right[2]), go_start(right))
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
        self.blocks = len(self.frames) - 1
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


def _is_empty(body: n.ListNode) -> bool:
    """Whether a body holds nothing but space, comments and definitions."""
    return all(
        isinstance(node, (n.CommentNode, n.DefineNode))
        or (isinstance(node, n.TextNode) and not node.text.strip(_GO_SPACE))
        for node in body.nodes
    )
