"""Compiles pipelines to closures that give a value.

Go keeps track of the node it is "at" and names it in errors. Here that node is found when a template is compiled
(`last_at`), except behind `and` and `or`, which stop early: those leave it in the state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from templatefix.gotemplate import calls
from templatefix.gotemplate.fields import dot_itself, field_reader, follow, refused_call
from templatefix.gotemplate.functions import BUILTINS, Function
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
from templatefix.gotemplate.printer import go_string
from templatefix.gotemplate.runtime import DYNAMIC, UNSET, At, Context, Expression, State
from templatefix.gotemplate.values import BOXED, INVALID, holds_any

# Functions that never return a nil interface.
_NEVER_NIL: Final = frozenset(BUILTINS) - {"and", "call", "index", "or"}

_PLAIN_OPERANDS: Final = (FieldNode, NumberNode, VariableNode)  # they can be evaluated twice


class Expressions:
    """Compiles the pipelines of one template. Variables are resolved here, by the scopes that Go would have then.

    What a range goes through may be held as `interface {}`, which Go then names instead of the value's own type. So the
    state keeps in a slot what was ranged over: `ranged_dot` for dot (0: dot is no element), `ranged` by the slot of a
    variable.
    """

    def __init__(self, context: Context) -> None:
        self.context = context
        self.scopes: list[tuple[str, int]] = [("$", 0)]
        self.slots = 0
        self.ranged_dot = 0
        self.ranged: dict[int, int] = {}
        self._dots_boxed: dict[int, Expression] = {}

    def new_slot(self) -> int:
        """Another place in the state."""
        self.slots += 1
        return self.slots

    def _declare(self, name: str) -> int:
        slot = self.new_slot()
        self.scopes.append((name, slot))
        return slot

    def slot_of(self, name: str) -> int | None:
        """Where the state keeps the variable that a name means here; None for one that Go will not find.

        Its parser lets a variable of an arm pass in the else arm, where it is not there when that is executed.
        """
        for known, slot in reversed(self.scopes):
            if known == name:
                return slot
        return None

    def pipe(self, node: PipeNode) -> Expression:
        """A pipeline; a nil interface comes out as INVALID."""
        evaluate = self.open_pipe(node)
        last = node.cmds[-1].args[0]
        never_nil = isinstance(last, IdentifierNode) and last.ident in _NEVER_NIL - self.context.custom
        return evaluate if node.decl or never_nil else _unwrapped(evaluate)

    def open_pipe(self, node: PipeNode) -> Expression:
        """A pipeline with its declarations, for those to whom a nil interface is as good as INVALID."""
        evaluate = self._command(node.cmds[0], None)
        for command in node.cmds[1:]:
            evaluate = self._command(command, _unwrapped(evaluate))
        if not node.decl:
            return evaluate
        slots = []
        for name in [variable.ident[0] for variable in node.decl]:
            slot = self.slot_of(name) if node.is_assign else self._declare(name)
            if slot is None:
                return self.context.failing(last_at(node), f"undefined variable: {name}", evaluate)
            slots.append(slot)
        return _storing(evaluate, tuple(slots), self.ranged)

    def _command(self, node: CommandNode, final: Expression | None) -> Expression:
        first = node.args[0]
        if isinstance(first, IdentifierNode):
            return self._function(first, node, node.args[1:], final)
        args = len(node.args) - 1 + (final is not None)
        if isinstance(first, (FieldNode, ChainNode)) or (isinstance(first, VariableNode) and len(first.ident) > 1):
            return self._chain(first, args, final)
        if args:
            return self.context.failing(first, f"can't give argument to non-function {go_string(first)}", final)
        if isinstance(first, PipeNode):
            return self.pipe(first)
        if isinstance(first, NilNode):
            return self.context.failing(first, "nil is not a command")
        return self._operand(first)

    def _operand(self, node: Node) -> Expression:
        """A constant, dot, a variable, a field or a pipeline in parentheses."""
        if isinstance(node, DotNode):
            return dot_itself
        if isinstance(node, (BoolNode, StringNode)):
            return _constant(node.value)
        if isinstance(node, NumberNode):
            return self._number(node)
        if isinstance(node, PipeNode):
            return self.pipe(node)
        if isinstance(node, VariableNode) and len(node.ident) == 1:
            return self._variable(node)
        assert isinstance(node, (FieldNode, ChainNode, VariableNode)), node
        return self._chain(node, 0, None)

    def _number(self, node: NumberNode) -> Expression:
        text = node.text
        if node.complex_value is not None:
            return _constant(node.complex_value)
        hexadecimal = text[:2].lower() == "0x" and len(text) > 2 and "p" not in text and "P" not in text
        if node.float_value is not None and not hexadecimal and not node.is_char and any(c in text for c in ".eEpP"):
            return _constant(node.float_value)
        if node.int_value is not None:
            return _constant(node.int_value)
        if node.uint_value is not None:
            return self.context.failing(node, f"{text} overflows int")
        return _constant(INVALID)

    def _variable(self, node: VariableNode) -> Expression:
        """The variable itself, without the fields that may follow it."""
        slot = self.slot_of(node.ident[0])
        if slot is None:
            return self.context.failing(node, f"undefined variable: {node.ident[0]}")

        def read(state: State, dot: Any) -> Any:
            value = state.variables[slot]
            if value is UNSET:
                raise self.context.error(state, node, f"undefined variable: {node.ident[0]}")
            return value

        return read

    def _chain(self, node: FieldNode | ChainNode | VariableNode, args: int, final: Expression | None) -> Expression:
        if isinstance(node, ChainNode) and isinstance(node.node, NilNode):
            message = f"indirection through explicit nil in {go_string(node)}"
            return self.context.failing(node, message, final)
        receiver, boxed, names, at = self._path(node)
        if not args:
            return field_reader(self.context, receiver, boxed, names, at)
        return refused_call(self.context, receiver, boxed, names, at, args, final)

    def _path(self, node: FieldNode | ChainNode | VariableNode) -> tuple[Expression, Expression, tuple[str, ...], At]:
        """What fields are read from, whether that is held in an interface, the fields, and where Go then is."""
        if isinstance(node, FieldNode):
            return dot_itself, self._is_dot_boxed(), node.ident, node
        if isinstance(node, VariableNode):
            variable = VariableNode(node.span, node.pos, node.ident[:1])
            return self._variable(node), self._is_boxed(variable), node.ident[1:], node
        return self._argument(node.node, "value"), _constant(False), node.field, last_at(node.node)

    def _is_boxed(self, node: Node) -> Expression:
        """Whether an operand's value is held in an `interface {}`."""
        if isinstance(node, VariableNode) and len(node.ident) == 1:
            slot = self.slot_of(node.ident[0])
            ranged = self.ranged
            return lambda state, dot: slot in ranged and holds_any(state.variables[ranged[slot]])
        if isinstance(node, DotNode):
            return self._is_dot_boxed()
        if not isinstance(node, (FieldNode, ChainNode, VariableNode)):
            return _constant(False)
        receiver, boxed, names, at = self._path(node)

        def is_boxed(state: State, dot: Any) -> Any:
            return holds_any(follow(self.context, state, receiver(state, dot), names[:-1], at, boxed(state, dot)))

        return is_boxed

    def _is_dot_boxed(self) -> Expression:
        place = self.ranged_dot
        if place not in self._dots_boxed:
            self._dots_boxed[place] = (
                (lambda state, dot: holds_any(state.variables[place])) if place else _constant(False)
            )
        return self._dots_boxed[place]

    def _bound(self, node: Node, evaluate: Expression) -> Expression:
        """An index of `slice`, which Go does not take out of its interface (and so refuses)."""
        if isinstance(node, (NumberNode, PipeNode)):
            return evaluate
        boxed = self._is_boxed(node)

        def run_bound(state: State, dot: Any) -> Any:
            value = evaluate(state, dot)
            return BOXED if value is not INVALID and boxed(state, dot) else value

        return run_bound

    def _function(
        self, node: IdentifierNode, call: Node, args: tuple[Node, ...], final: Expression | None
    ) -> Expression:
        name = node.ident
        function = self.context.functions.get(name)
        if function is None:
            return self.context.failing(node, f'"{name}" is not a defined function', final)
        message = _wrong_count(name, function, len(args), final is not None)
        if message:
            return self.context.failing(node, message, final)
        builtin = self.context.is_builtin(name)
        operands = [self._argument(arg, _param(function, place)) for place, arg in enumerate(args)]
        if builtin and name in ("and", "or"):
            steps = list(zip(operands, map(last_at, args), strict=True))
            return calls.short_circuit(name == "or", steps, final, node)
        if builtin and name == "slice":
            operands[1:] = map(self._bound, args[1:], operands[1:])
        found = operands
        if final is not None:
            # What is piped comes first and is converted last: the call finds all operands evaluated.
            found = [calls.recalled(place) for place in range(len(args))]
            last = calls.recalled(len(args)) if args else final
            at = last_at(args[-1]) if args else node
            found.append(calls.converted(self.context, last, _param(function, len(args)), at))
        if builtin and name == "eq" and len(args) == 2 and final is None and isinstance(args[1], StringNode):
            return calls.equals_text(self.context, operands[0], args[1].value, call)
        if builtin and name == "call":
            found = [_constant(go_string(args[0]) if args else None), *found]
        invoke = calls.invocation(self.context, name, function, call, tuple(found))
        if builtin and name == "len" and final is None and (sliced := self._sliced(args[0])) is not None:
            return calls.length_behind(self._argument(sliced[0], "value"), self._sliced_from(sliced[1]), invoke)
        return calls.piped(invoke, operands, final) if args and final is not None else invoke

    def _sliced(self, node: Node) -> tuple[Node, Node] | None:
        """What `(slice x i)` slices, and from where; None for anything else."""
        if not isinstance(node, PipeNode) or node.decl or len(node.cmds) != 1 or len(node.cmds[0].args) != 3:
            return None
        name, item, index = node.cmds[0].args
        if not isinstance(name, IdentifierNode) or name.ident != "slice" or not self.context.is_builtin("slice"):
            return None
        return (item, index) if all(isinstance(part, _PLAIN_OPERANDS) for part in (item, index)) else None

    def _sliced_from(self, node: Node) -> Expression:
        return self._bound(node, self._argument(node, "value"))

    def _argument(self, node: Node, param: str) -> Expression:
        """An argument, converted to the type of its parameter as Go does."""
        if isinstance(node, NilNode):
            if param == "string":
                return self.context.failing(node, "cannot assign nil to string")
            return _constant(INVALID if param == "value" else None)
        if isinstance(node, IdentifierNode):
            evaluate = self._function(node, node, (), None)
        elif param == "string" and isinstance(node, (BoolNode, NumberNode)):
            return self.context.failing(node, f"expected string; found {go_string(node)}")
        else:
            evaluate = self._operand(node)
        return calls.converted(self.context, evaluate, param, last_at(node))


def _wrong_count(name: str, function: Function, args: int, piped: bool) -> str:
    """Go's sentence where a function is given too few or too many arguments, else nothing."""
    least = len(function.params) - function.variadic
    if function.variadic:
        return f"wrong number of args for {name}: want at least {least} got {args}" if args + piped < least else ""
    return f"wrong number of args for {name}: want {least} got {args + piped}" if args + piped != least else ""


def _param(function: Function, place: int) -> str:
    return function.params[min(place, len(function.params) - 1)]


def _constant(value: Any) -> Expression:
    def constant(state: State, dot: Any) -> Any:
        return value

    return constant


def _unwrapped(evaluate: Expression) -> Expression:
    def unwrap(state: State, dot: Any) -> Any:
        value = evaluate(state, dot)
        return INVALID if value is None else value

    return unwrap


def _storing(evaluate: Expression, slots: tuple[int, ...], ranged: Mapping[int, int]) -> Expression:
    if len(slots) == 1:
        (only,) = slots

        def store_one(state: State, dot: Any) -> Any:
            value = evaluate(state, dot)
            if value is None:
                value = INVALID
            state.variables[only] = value
            if only in ranged:
                state.variables[ranged[only]] = None
            return value

        return store_one

    def store(state: State, dot: Any) -> Any:
        value = evaluate(state, dot)
        if value is None:
            value = INVALID
        for slot in slots:
            state.variables[slot] = value
            if slot in ranged:
                state.variables[ranged[slot]] = None
        return value

    return store


def last_at(node: Node) -> At:
    """The node that Go is at once it has evaluated an operand."""
    while True:
        if isinstance(node, PipeNode):
            node = node.cmds[-1]
        elif isinstance(node, ChainNode):
            node = node.node
        elif isinstance(node, CommandNode):
            first = node.args[0]
            if not isinstance(first, IdentifierNode):
                node = first
            elif len(node.args) == 1:
                return first
            elif first.ident in ("and", "or"):
                return DYNAMIC
            else:
                node = node.args[-1]
        else:
            return node
