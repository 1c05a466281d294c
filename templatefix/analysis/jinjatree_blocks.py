"""The statements of a Jinja template that hold others, with their places: jinja2's nodes do not know where they end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from jinja2 import nodes

from templatefix.chat.jinja_layout import Layout
from templatefix.gotemplate.source import Span

_SPACE = ("whitespace", "linecontrol")
_HOLDERS = ("if", "for", "macro", "call", "filter", "with", "generation")


@dataclass(frozen=True, slots=True)
class Block:
    """A branch or a loop: from its opening tag to its end."""

    span: Span
    open: Span
    node: nodes.If | nodes.For

    @property
    def condition(self) -> nodes.Node:
        """What decides."""
        return self.node.test if isinstance(self.node, nodes.If) else self.node.iter


class Blocks:
    """A template's tree with the places of its branches and loops."""

    def __init__(self, layout: Layout, tree: nodes.Template) -> None:
        self.layout = layout
        self.tree = tree
        self._ends = dict(self._pairs())  # of a tag, by where it starts: where its block ends
        self._spans: dict[int, Span] = {}
        self._uses: dict[int, tuple[list[str], list[tuple[str, str]]]] = {}
        self.branches: dict[int, Block] = {}  # by the id of the node
        for node in self.walk((nodes.If, nodes.For)):
            opened = self._trimmed(layout.tag(node.lineno))
            self.branches[id(node)] = Block(self.span(node), opened, node)  # type: ignore[arg-type]

    def _pairs(self) -> Iterator[tuple[int, int]]:
        # An arm of a branch ends where the branch does.
        open_tags: list[list[int]] = []
        for name, span, assigns in self._tags():
            if name in _HOLDERS or (name == "set" and not assigns):
                open_tags.append([span.start])
            elif name in ("elif", "else") and open_tags:
                open_tags[-1].append(span.start)
            elif name.startswith("end") and open_tags:
                for start in open_tags.pop():
                    yield start, self._trimmed(span).end

    def _tags(self) -> Iterator[tuple[str, Span, bool]]:
        """Each statement: its name, its place, and whether it assigns."""
        start, name, assigns, depth = -1, "", False, 0
        for token in self.layout.tokens:
            if token.kind == "block_begin":
                start, name, assigns, depth = token.start, "", False, 0
            elif token.kind == "block_end" and start >= 0:
                yield name, self.layout.span(start, token.end), assigns
                start = -1
            elif start >= 0 and token.kind not in _SPACE:
                name = name or token.text
                if token.kind == "operator":
                    depth += (token.text in "([{") - (token.text in ")]}")
                    assigns = assigns or (token.text == "=" and not depth)

    def _trimmed(self, span: Span) -> Span:
        # The white space that a tag strips behind it is part of jinja2's token, but not of the tag.
        data = self.layout.source.data[span.start : span.end]
        return Span(span.start, span.start + len(data.rstrip()))

    def walk(self, kinds: type[nodes.Node] | tuple[type[nodes.Node], ...]) -> Iterator[nodes.Node]:
        """All nodes of some kinds in the order of the source, however deep they are."""
        stack: list[nodes.Node] = [self.tree]
        while stack:
            node = stack.pop()
            if isinstance(node, kinds):
                yield node
            stack += reversed(list(node.iter_child_nodes()))

    def tag(self, at: int) -> Span:
        """The tag or text around a character."""
        found = self._spans.get(at)
        if found is None:
            found = self._spans[at] = self.layout.tag(at)
        return found

    def span(self, node: nodes.Node) -> Span:
        """From the tag that a block or an arm of a branch begins with to its end."""
        opened = self.tag(node.lineno)
        return Span(opened.start, max(opened.end, self._ends.get(opened.start, opened.end)))

    def uses(self, macro: nodes.Node) -> tuple[list[str], list[tuple[str, str]]]:
        """The variables that a macro reads, and the members of namespaces that it sets."""
        found = self._uses.get(id(macro))
        if found is None:
            names = sorted({each.name for each in macro.find_all(nodes.Name) if each.ctx == "load"})
            targets = sorted({(each.name, each.attr) for each in macro.find_all(nodes.NSRef)})
            found = self._uses[id(macro)] = (names, targets)
        return found

    @staticmethod
    def passed_on(macro: nodes.Node) -> set[str]:
        """The variables that a macro reads for more than a member of them."""
        holders = {id(each.node) for each in macro.find_all(nodes.Getattr)}
        names = macro.find_all(nodes.Name)
        return {each.name for each in names if each.ctx == "load" and id(each) not in holders}

    @staticmethod
    def appends(macro: nodes.Node) -> bool:
        """Whether a macro may append to a list."""
        return any(each.attr == "append" for each in macro.find_all(nodes.Getattr))

    @cached_property
    def _around(self) -> dict[int, tuple[int, ...]]:
        """The branches around each tag and text, by where it starts; around a macro those around its one call."""
        found: dict[int, tuple[int, ...]] = {}
        calls: dict[str, list[tuple[int, ...]]] = {}
        macros: list[tuple[nodes.Macro, tuple[int, ...]]] = []
        stack: list[tuple[nodes.Node, tuple[int, ...]]] = [(self.tree, ())]
        while stack or macros:
            if not stack:
                macro, via = macros.pop()
                whence = calls.get(macro.name, [])
                around = whence[0] if len(whence) == 1 else via
                stack += [(each, around) for each in macro.body]
                continue
            node, via = stack.pop()
            if isinstance(node, nodes.Macro):
                macros.append((node, via))
                continue
            if isinstance(node, nodes.Call) and isinstance(node.node, nodes.Name):
                calls.setdefault(node.node.name, []).append(via)
            if not isinstance(node, (nodes.Template, nodes.Output)) and node.lineno is not None:
                found.setdefault(self.layout.tag(node.lineno).start, via)
            if isinstance(node, nodes.TemplateData):
                found.setdefault(self.layout.span(node.lineno, node.lineno).start, via)
            stack += reversed([(child, inner) for child, inner in self._children(node, via)])
        return found

    def _children(self, node: nodes.Node, via: tuple[int, ...]) -> Iterator[tuple[nodes.Node, tuple[int, ...]]]:
        if isinstance(node, nodes.If):
            own = (*via, id(node))
            yield node.test, via
            yield from ((each, own) for each in node.body)
            for other in node.elif_:
                yield other.test, own
                own = (*own, id(other))
                yield from ((each, own) for each in other.body)
            yield from ((each, own) for each in node.else_)
        elif isinstance(node, nodes.For):
            own = (*via, id(node))
            yield node.iter, via
            yield from ((each, own) for each in (node.target, *node.body, *node.else_))
        else:
            yield from ((each, via) for each in node.iter_child_nodes())

    def around(self, span: Span) -> tuple[Block, ...]:
        """The branches and loops around what prints a span, outermost first."""
        found = self._around.get(span.start)
        if found is None:
            found = self._around.get(self._tag_start(span.start), ())
        return tuple([self.branches[each] for each in found])

    def _tag_start(self, byte: int) -> int:
        source = self.layout.source
        return self.layout.tag(source.char_index(byte)).start
