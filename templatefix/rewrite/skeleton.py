"""How the nodes of a template stand in each other: places, branches around them, variables and their names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from templatefix.gotemplate.nodes import (
    BlockNode,
    BranchNode,
    DefineNode,
    ListNode,
    Node,
    PipeNode,
    RangeNode,
    VariableNode,
    WithNode,
)
from templatefix.gotemplate.parser import Tree
from templatefix.gotemplate.source import Span
from templatefix.gotemplate.visitor import walk


@dataclass(frozen=True, slots=True)
class Place:
    """Where a node stands."""

    owner: Node | None  # the branch (or define) whose arm holds it; None at the top
    list: ListNode
    index: int


def arms(node: Node) -> tuple[ListNode, ...]:
    """The lists of nodes right inside a node."""
    if isinstance(node, BranchNode):
        return (node.list,) if node.else_list is None else (node.list, node.else_list)
    if isinstance(node, (DefineNode, BlockNode)):
        return (node.list,)
    return ()


class Skeleton:
    """Knows where each node of one parsed template stands."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.source = tree.source
        self._places: dict[int, Place] = {}
        self._index(tree.root, None)
        self.nodes = list(walk(tree.root))
        self.variables = self._aliases()

    def _index(self, top: ListNode, owner: Node | None) -> None:
        stack: list[tuple[ListNode, Node | None]] = [(top, owner)]
        while stack:
            nodes, holder = stack.pop()
            for index, node in enumerate(nodes.nodes):
                self._places[id(node)] = Place(holder, nodes, index)
                stack.extend((arm, node) for arm in arms(node))

    def _aliases(self) -> dict[str, list[PipeNode]]:
        """The pipelines assigned to each variable, those of range and with included."""
        found: dict[str, list[PipeNode]] = {}
        for node in self.nodes:
            if isinstance(node, PipeNode):
                for variable in node.decl:
                    found.setdefault(variable.ident[0], []).append(node)
        return found

    def place(self, node: Node) -> Place:
        """Where a node stands that is an element of a list."""
        return self._places[id(node)]

    def ancestors(self, node: Node) -> Iterator[tuple[Node, ListNode]]:
        """The branches around a node, innermost first, each with the arm that leads to it."""
        place = self._places.get(id(node))
        while place is not None and place.owner is not None:
            yield place.owner, place.list
            place = self._places.get(id(place.owner))

    def at(self, span: Span) -> Node | None:
        """The listed node (text, action, branch) that has a span or holds it most narrowly."""
        best: Node | None = None
        for node in self.nodes:
            if (
                id(node) in self._places
                and node.span.contains(span)
                and (best is None or len(node.span) <= len(best.span))
            ):
                best = node
        return best

    def exclusive(self, left: Node, right: Node) -> bool:
        """Whether two nodes stand in different arms of one branch."""
        of_left = {id(owner): arm for owner, arm in self.ancestors(left)}
        return any(id(o) in of_left and of_left[id(o)] is not arm for o, arm in self.ancestors(right))

    def dot_is_root(self, node: Node) -> bool:
        """Whether dot is the request's data where a node stands."""
        return not any(
            isinstance(owner, (RangeNode, WithNode, DefineNode, BlockNode)) and arm is owner.list
            for owner, arm in self.ancestors(node)
        )

    def in_define(self, node: Node) -> bool:
        """Whether a node belongs to a named template."""
        return any(isinstance(owner, (DefineNode, BlockNode)) for owner, _ in self.ancestors(node))

    def fresh(self, name: str) -> str:
        """A variable name that the template does not use."""
        used = {variable.ident[0] for variable in self.nodes if isinstance(variable, VariableNode)}
        candidate, number = name, 2
        while candidate in used:
            candidate, number = f"{name}{number}", number + 1
        return candidate

    def free_variables(self, nodes: Sequence[Node]) -> set[str]:
        """The variables that nodes use and do not declare, `$` apart."""
        used: set[str] = set()
        declared: set[str] = set()
        for top in nodes:
            for node in walk(top):
                if isinstance(node, PipeNode) and not node.is_assign:
                    declared |= {variable.ident[0] for variable in node.decl}
                elif isinstance(node, VariableNode):
                    used.add(node.ident[0])
        return used - declared - {"$"}
