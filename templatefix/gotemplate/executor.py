"""Executes parsed templates: each tree is compiled once to closures that append pieces.

A piece is `(node, scope, text)`: the node that printed it, the scope of the dot it was printed under (see
`values.Composite`) and the text. Errors are Go's own sentences.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from templatefix.gotemplate.deep import run_deep
from templatefix.gotemplate.functions import BUILTINS, Function
from templatefix.gotemplate.nodes import ListNode
from templatefix.gotemplate.parser import Tree
from templatefix.gotemplate.runtime import (
    DEFAULT_LIMITS,
    MAX_TEMPLATE_DEPTH,
    TEXT,
    Context,
    Limits,
    RawPiece,
    State,
    limit_error,
)
from templatefix.gotemplate.statements import Body, Statements
from templatefix.gotemplate.values import INVALID

__all__ = ["Executor", "Limits", "RawPiece"]


class Executor:
    """A tree compiled for execution.

    `functions` are the functions that the tree was parsed with, Go's built-in ones apart. `root` and `templates`
    stand in for the tree's own where a caller has changed them. A key that a map lacks gives the zero value of its type
    (Go's option missingkey=zero, which Ollama sets), or with `missing_is_zero` false no value at all (Go's default).
    """

    def __init__(
        self,
        tree: Tree,
        functions: Mapping[str, Function] | None = None,
        *,
        root: ListNode | None = None,
        templates: Mapping[str, ListNode] | None = None,
        missing_is_zero: bool = True,
    ) -> None:
        self.tree = tree
        self.functions: dict[str, Function] = {**BUILTINS, **(functions or {})}
        self.custom = frozenset(functions or ())
        self.missing_is_zero = missing_is_zero
        self.steps = 0  # that all executions so far took
        own = tree.source.name
        named = dict(tree.templates if templates is None else templates)
        named[own] = root or named.get(own, tree.root)
        self.bodies: dict[str, Body] = {name: Body() for name in named}
        self.main = self.bodies[own]
        run_deep(tree.depth, lambda: self._compile(named))

    def _compile(self, named: Mapping[str, ListNode]) -> None:
        for name, root in named.items():
            context = Context(self.tree.source, name, self.functions, self.custom, self.missing_is_zero)
            Statements(context, self.bodies).fill(self.bodies[name], root)

    def execute(self, data: Any, limits: Limits | None = None) -> list[RawPiece]:
        """Execute with `data` as dot and `$`; raises ExecError.

        Executing twice gives the same pieces, so an execution that needs a deeper stack is simply begun anew.
        """
        limits = limits or DEFAULT_LIMITS
        try:
            return run_deep(self.tree.depth, lambda: self._attempt(data, limits))
        except RecursionError:
            return run_deep(8 * MAX_TEMPLATE_DEPTH, lambda: self._attempt(data, limits))

    def _attempt(self, data: Any, limits: Limits) -> list[RawPiece]:
        root = INVALID if data is None else data
        state = State(root, limits, self.main.slots)
        try:
            self.main.run(state, root)
        finally:
            self.steps += limits.steps - state.steps
        if sum(map(len, map(TEXT, state.out))) > limits.output:
            raise limit_error(f"output longer than {limits.output} characters", self.tree.source)
        return state.out
