"""What of a Jinja template depends on messages that come later, found by reading its tree."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from jinja2 import nodes

from templatefix.analysis.jinjatree_blocks import Block, Blocks
from templatefix.analysis.jinjatree_flow import Flow
from templatefix.analysis.jinjatree_loops import Record
from templatefix.analysis.jinjatree_values import Assumptions, Item, walk
from templatefix.analysis.reading import TAIL, Place, Site, TooComplex
from templatefix.chat.jinja import JinjaChatTemplate
from templatefix.gotemplate.source import Span

_FEW, _MANY = 4, 400  # messages
_COUNTS = 12


@dataclass(frozen=True)
class JinjaReading:
    """A tree read on abstract conversations."""

    blocks: Blocks
    record: Record
    printed: tuple[tuple[Item, ...], ...] = field(default=())  # by the runs with and without a system message

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """What can render differently when messages are added, in the order of the source; no inner ones."""
        found: list[Place] = []
        for place in sorted(self.record.places, key=lambda p: (p.span.start, -p.span.end, p.kind)):
            if not any(outer.span.contains(place.span) for outer in found if outer.span != place.span):
                found.append(place)
        return tuple(found)

    def _raw(self, node: nodes.Node) -> int:
        return self.record.raw.get(id(node), 0)

    def via(self, span: Span) -> tuple[Block, ...]:
        """The branches and loops around a node, outermost first."""
        return self.blocks.around(span)

    def conditions(self, span: Span, without: int = 0) -> tuple[Block, ...]:
        """The branches around a node that are no loops, outermost first; not those made of one of `without`."""
        found = [block for block in self.via(span) if isinstance(block.node, nodes.If)]
        return tuple([block for block in found if not self._raw(block.condition) & without])

    def loops(self, span: Span) -> tuple[Block, ...]:
        """The loops around a node, outermost first."""
        return tuple([block for block in self.via(span) if isinstance(block.node, nodes.For)])

    def gate(self, span: Span) -> Block | None:
        """The outermost branch around a node that can take another arm when messages are added."""
        return next((block for block in self.via(span) if id(block.node) in self.record.flips), None)

    def condition_on(self, span: Span, what: int) -> Block | None:
        """The outermost condition around a node that is made of one of `what`."""
        return next((block for block in self.conditions(span) if self._raw(block.condition) & what), None)

    def first_on(self, what: int) -> Site | None:
        """The first tag that prints, or branch that decides by, one of `what`."""
        for node in self.blocks.walk((nodes.Output, nodes.If, nodes.For)):
            if isinstance(node, nodes.Output):
                shown = next((each for each in node.nodes if self._raw(each) & what), None)
                if shown is not None:
                    tag = self.blocks.layout.tag(shown.lineno)
                    return Site(tag, tag)
            elif self._raw(self.blocks.branches[id(node)].condition) & what:
                return Site(self.blocks.branches[id(node)].span, self.blocks.branches[id(node)].open)
        return None

    @cached_property
    def conversation(self) -> Span | None:
        """The opening tag of the last loop that prints the messages."""
        loops = {block.span: block.open for block in self.blocks.branches.values()}
        found = [loops[item.span] for items in self.printed[:1] for item in walk(items) if item.kind == "messages"]
        return found[-1] if found else None

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Numbers of messages at which a condition may turn: integers that something of the tail is compared with."""
        found: set[int] = set()
        for node in self.blocks.walk(nodes.Compare):
            assert isinstance(node, nodes.Compare)
            sides = [node.expr, *[operand.expr for operand in node.ops]]
            if any(self._raw(side) & TAIL for side in sides):
                found.update(
                    each.value
                    for side in sides
                    for each in (side, *side.find_all(nodes.Const))
                    if isinstance(each, nodes.Const) and isinstance(each.value, int) and _FEW < each.value <= _MANY
                )
        return tuple(sorted(found))[-_COUNTS:]


def read_jinja(template: JinjaChatTemplate, thoughts: bool = False, tools: bool = True) -> JinjaReading:
    """Read a template; `thoughts` if earlier turns may hold thinking, `tools` if they are given. Raises TooComplex."""
    blocks = Blocks(template.layout, template.tree)
    record = Record()
    printed = []
    for assumptions in assumed(template, thoughts, tools):
        try:
            printed.append(Flow(blocks, assumptions, record).run())
        except RecursionError:
            raise TooComplex from None
    return JinjaReading(blocks, record, tuple(printed))


def assumed(template: JinjaChatTemplate, thoughts: bool, tools: bool) -> tuple[Assumptions, ...]:
    """What is taken for granted: conversations with and without a system message."""
    caps = template.caps
    joined = not caps.supports_system_role
    think = True if template.thinks_by_default else None
    return tuple(
        Assumptions(
            system=system,
            given=template.variables,
            tools=tools,
            thoughts=thoughts,
            think=think,
            texts=caps.supports_string_content,
            joined=joined and system,
            answered=template.answers_calls,
            channels=template.channels,
        )
        for system in (True, False)
    )
