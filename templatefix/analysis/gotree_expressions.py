"""Evaluate the expressions of a Go template on abstract values."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from templatefix.analysis import gotree_functions
from templatefix.analysis.gotree_values import Assumptions, Frame, Value, constant, field, message, unknown
from templatefix.gotemplate.nodes import (
    BoolNode,
    ChainNode,
    CommandNode,
    DotNode,
    FieldNode,
    IdentifierNode,
    NilNode,
    Node,
    NumberNode,
    PipeNode,
    StringNode,
    VariableNode,
)


@dataclass(frozen=True, slots=True)
class Scope:
    """Dot, and where the state keeps each variable that can be seen."""

    dot: Value
    slots: dict[str, Hashable]

    def child(self) -> Scope:
        """A scope whose new variables are not seen outside."""
        return Scope(self.dot, dict(self.slots))

    def at(self, dot: Value) -> Scope:
        """The same variables with another dot."""
        return Scope(dot, self.slots)


class Evaluator:
    """Evaluates expressions; notes in `raw`, by the id of each node, what its value was ever made of."""

    def __init__(
        self, assumptions: Assumptions, raw: dict[int, int], state: dict[Hashable, Value], ids: dict[Hashable, int]
    ) -> None:
        self.assumptions = assumptions
        self.ids = ids
        self.raw = raw
        self.state = state

    def pipe(self, pipe: PipeNode, scope: Scope, frame: Frame | None) -> Value:
        """The value of a pipeline; its variables are set."""
        value = self.range_pipe(pipe, scope, frame)
        if pipe.decl and isinstance(value.key, tuple) and value.key[0] in ("call", "method"):
            # A variable that is built up in many steps must not have a key as long as they are.
            value = replace(value, key=(value.key[0], self.ids.setdefault(value.key, len(self.ids))))
        for variable in pipe.decl:
            name = variable.ident[0]
            if pipe.is_assign:
                slot = scope.slots.get(name, name)
            else:
                slot = (name, id(variable))
                scope.slots[name] = slot
            self.state[slot] = value
        return value

    def range_pipe(self, pipe: PipeNode, scope: Scope, frame: Frame | None) -> Value:
        """The value of a pipeline, its variables left alone."""
        value: Value | None = None
        for command in pipe.cmds:
            value = self._command(command, value, scope, frame)
        return self._note(pipe, value if value is not None else constant(None))

    def _note(self, node: Node, value: Value) -> Value:
        self.raw[id(node)] = self.raw.get(id(node), 0) | value.raw
        return value

    def _command(self, command: CommandNode, final: Value | None, scope: Scope, frame: Frame | None) -> Value:
        head, *rest = command.args
        if isinstance(head, IdentifierNode):
            values = [self._operand(node, scope, frame) for node in rest]
            if final is not None:
                values.append(final)
            value = gotree_functions.call(head.ident, values, frame, self._first_message)
            # Arguments that `and` and `or` pass over count for what the call is made of.
            raw = value.raw
            for argument in values:
                raw |= argument.raw
            value = value if raw == value.raw else replace(value, raw=raw)
        else:
            value = self._operand(head, scope, frame)
            if rest or final is not None:
                arguments = [self._operand(node, scope, frame) for node in rest] + ([final] if final else [])
                value = _method(value, arguments)
        return self._note(command, value)

    def _operand(self, node: Node, scope: Scope, frame: Frame | None) -> Value:
        if isinstance(node, PipeNode):
            return self.pipe(node, scope, frame)
        return self._note(node, self._leaf(node, scope, frame))

    def _leaf(self, node: Node, scope: Scope, frame: Frame | None) -> Value:
        if isinstance(node, FieldNode):
            return self._fields(scope.dot, node.ident)
        if isinstance(node, VariableNode):
            value = self.state.get(scope.slots.get(node.ident[0], node.ident[0]), constant(None))
            return self._fields(value, node.ident[1:])
        if isinstance(node, ChainNode):
            return self._fields(self._operand(node.node, scope, frame), node.field)
        if isinstance(node, DotNode):
            return scope.dot
        if isinstance(node, StringNode):
            return constant(node.value)
        if isinstance(node, BoolNode):
            return constant(node.value)
        if isinstance(node, NumberNode):
            return constant(node.int_value if node.int_value is not None else node.float_value)
        if isinstance(node, IdentifierNode):
            return gotree_functions.call(node.ident, [], frame, self._first_message)
        if isinstance(node, NilNode):
            return constant(None)
        return unknown(("node", id(node)))

    def _fields(self, value: Value, names: Sequence[str]) -> Value:
        for name in names:
            value = field(value, name, self.assumptions)
        return value

    def _first_message(self) -> Value:
        return message("first message", "user" if self.assumptions.system is False else "system")


def _method(target: Value, arguments: Sequence[Value]) -> Value:
    flags, raw = target.flags, target.raw
    for value in arguments:
        flags |= value.flags
        raw |= value.raw
    return unknown(("method", target.key, tuple([value.key for value in arguments])), flags, None, "other", raw)
