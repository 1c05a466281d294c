"""Executes parsed templates: each tree is compiled once to closures that append pieces.

A piece is `(node, scope, text)`: the node that printed it, the scope of the dot it was printed under (see
`values.Composite`) and the text. Errors are Go's own sentences.

Go keeps track of the node it is "at" and names it in errors. Here that node is found when a template is compiled,
except behind `and` and `or`, which stop early: those leave it in the state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from templatefix.gotemplate.deep import run_deep
from templatefix.gotemplate.errors import ExecError
from templatefix.gotemplate.formatting import AddressPrinted, format_value
from templatefix.gotemplate.functions import BUILTINS, CallError, Function, go_eq
from templatefix.gotemplate.nodes import (
    ActionNode,
    BlockNode,
    BoolNode,
    BranchNode,
    BreakNode,
    ChainNode,
    CommandNode,
    CommentNode,
    ContinueNode,
    DefineNode,
    DotNode,
    FieldNode,
    IdentifierNode,
    IfNode,
    ListNode,
    NilNode,
    Node,
    NumberNode,
    PipeNode,
    RangeNode,
    StringNode,
    TemplateNode,
    TextNode,
    VariableNode,
)
from templatefix.gotemplate.parser import Tree
from templatefix.gotemplate.printer import error_context, go_string
from templatefix.gotemplate.values import (
    INVALID,
    Composite,
    Map,
    Nil,
    Slice,
    Struct,
    TracedStr,
    is_true,
    kind_of,
    origin_of,
    type_of,
    zero_value,
)

RawPiece: TypeAlias = tuple[Node, Any, str]
Expression: TypeAlias = Callable[["State", Any], Any]
Statement: TypeAlias = Callable[["State", Any], None]

MAX_TEMPLATE_DEPTH: Final = 100_000  # Go's own limit for nested template calls


@dataclass(frozen=True, slots=True)
class Limits:
    """What one execution may cost."""

    steps: int = 20_000_000  # nodes executed in loops and called templates
    output: int = 64 * 1024 * 1024  # characters


DEFAULT_LIMITS: Final = Limits()


class _Unset:
    __slots__ = ()


class _Break(Exception):
    pass


class _Continue(Exception):
    pass


# Pairs of types that compare as Python's own.
_PLAIN_PAIRS: Final = frozenset({(TracedStr, str), (str, TracedStr), (str, str), (TracedStr, TracedStr), (int, int)})

# Functions that never return a nil interface.
_NEVER_NIL: Final = frozenset(BUILTINS) - {"and", "call", "index", "or"}

_UNSET: Final = _Unset()
_NO_FINAL: Final = _Unset()
_DYNAMIC: Final = _Unset()  # the node Go is at is in the state
_At: TypeAlias = "Node | _Unset"


class State:
    """What an execution carries along."""

    __slots__ = ("at", "depth", "emit", "limits", "made", "out", "scope", "steps", "variables")

    def __init__(self, root: Any, limits: Limits, slots: int) -> None:
        self.out: list[RawPiece] = []
        self.emit = self.out.append
        self.variables: list[Any] = [root] + [_UNSET] * slots
        self.scope: Any = root.scope if isinstance(root, Composite) else None
        self.depth = 0
        self.steps = limits.steps
        self.made = 0
        self.limits = limits
        self.at: Node | None = None


class _Body:
    """A compiled template: its statement, and how many variables it needs besides `$`."""

    __slots__ = ("run", "slots", "weight")

    def __init__(self) -> None:
        self.run: Statement = _nothing
        self.slots = 0
        self.weight = 1


def _nothing(state: State, dot: Any) -> None:
    return None


class Executor:
    """A tree compiled for execution.

    `functions` are the functions that the tree was parsed with, Go's built-in ones apart. `root` and `templates`
    stand in for the tree's own where a caller has changed them.
    """

    def __init__(
        self,
        tree: Tree,
        functions: Mapping[str, Function] | None = None,
        *,
        root: ListNode | None = None,
        templates: Mapping[str, ListNode] | None = None,
    ) -> None:
        self.tree = tree
        self.functions: dict[str, Function] = {**BUILTINS, **(functions or {})}
        self.custom = frozenset(functions or ())
        own = tree.source.name
        named = dict(tree.templates if templates is None else templates)
        named[own] = root or named.get(own, tree.root)
        self.bodies: dict[str, _Body] = {name: _Body() for name in named}
        self.main = self.bodies[own]
        run_deep(tree.depth, lambda: self._compile(named))

    def _compile(self, named: Mapping[str, ListNode]) -> None:
        for name, root in named.items():
            _Compiler(self, name).fill(self.bodies[name], root)

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
        state = State(data, limits, self.main.slots)
        self.main.run(state, data)
        if sum([len(text) for _, _, text in state.out]) > limits.output:
            raise self.limit_error(f"output longer than {limits.output} characters")
        return state.out

    def limit_error(self, what: str) -> ExecError:
        """The error for an execution that goes beyond a limit."""
        return ExecError(f"template: {what}", self.tree.source, self.tree.root.span)


class _Compiler:
    """Compiles the body of one template; `name` is Go's name of it."""

    def __init__(self, executor: Executor, name: str) -> None:
        self.executor = executor
        self.source = executor.tree.source
        self.name = name
        self.scopes: list[tuple[str, int]] = [("$", 0)]
        self.slots = 0

    # -- errors

    def error(self, state: State, at: _At, message: str) -> ExecError:
        node = state.at if isinstance(at, _Unset) else at
        assert node is not None
        location, context = error_context(self.source, node)
        quoted = self.name.replace("\\", "\\\\").replace('"', '\\"')
        text = f'template: {location}: executing "{quoted}" at <{context}>: {message}'
        return ExecError(text, self.source, node.span)

    def spend(self, state: State, steps: int) -> None:
        state.steps -= steps
        if state.steps < 0:
            raise self.executor.limit_error(f"more than {state.limits.steps} steps")

    def account(self, state: State, text: str) -> str:
        state.made += len(text)
        if state.made > state.limits.output:
            raise self.executor.limit_error(f"output longer than {state.limits.output} characters")
        return text

    # -- variables: resolved by scope when compiled, as Go's own stack does when executed

    def declare(self, name: str) -> int:
        self.slots += 1
        self.scopes.append((name, self.slots))
        return self.slots

    def slot_of(self, name: str) -> int:
        for known, slot in reversed(self.scopes):
            if known == name:
                return slot
        raise AssertionError(f"the parser let an undefined variable pass: {name}")

    # -- statements

    def fill(self, body: _Body, root: ListNode) -> None:
        body.run = self.list(root)
        body.slots = self.slots
        body.weight = _weight(root)

    def list(self, node: ListNode) -> Statement:
        pairs = [(n, s) for n, s in zip(node.nodes, map(self.statement, node.nodes), strict=True) if s is not _nothing]
        if not pairs:
            return _nothing
        statements = [s for _, s in pairs]
        if len(statements) == 1:
            return statements[0]
        # Text is printed by the list itself: every statement leaves the scope as it found it.
        node_of_text = [n if isinstance(n, TextNode) else None for n, _ in pairs]
        steps = tuple(zip(node_of_text, statements, strict=True))

        def run_list(state: State, dot: Any) -> None:
            emit, scope = state.emit, state.scope
            for text, step in steps:
                if text is None:
                    step(state, dot)
                else:
                    emit((text, scope, text.text))

        return run_list

    def statement(self, node: Node) -> Statement:
        if isinstance(node, TextNode):
            return self.text(node)
        if isinstance(node, ActionNode):
            return self.action(node)
        if isinstance(node, BranchNode):
            return self.branch(node)
        if isinstance(node, TemplateNode):
            return self.call_template(node, node.name, node.pipe)
        if isinstance(node, BlockNode):
            return self.call_template(node, node.name, node.pipe)
        if isinstance(node, BreakNode):
            return _raiser(_Break)
        if isinstance(node, ContinueNode):
            return _raiser(_Continue)
        assert isinstance(node, (CommentNode, DefineNode)), node
        return _nothing

    def text(self, node: TextNode) -> Statement:
        text = node.text

        def run_text(state: State, dot: Any) -> None:
            state.emit((node, state.scope, text))

        return run_text

    def action(self, node: ActionNode) -> Statement:
        evaluate = self.open_pipe(node.pipe)
        if node.pipe.decl:

            def run_declaration(state: State, dot: Any) -> None:
                evaluate(state, dot)

            return run_declaration

        def run_action(state: State, dot: Any) -> None:
            value = evaluate(state, dot)
            if value.__class__ is not TracedStr and value.__class__ is not str:
                value = self.printed(state, node, value)
            state.emit((node, state.scope, value))

        return run_action

    def printed(self, state: State, node: Node, value: Any) -> str:
        if value is INVALID or value is None:
            return "<no value>"
        try:
            text = self.account(state, format_value(value))
        except AddressPrinted:
            message = f"prints the address of a {type_of(value).name}, which is another one every time"
            raise self.error(state, node, message) from None
        origin = origin_of(value)
        return text if origin is None else TracedStr(text, origin)

    def branch(self, node: BranchNode) -> Statement:
        mark = len(self.scopes)
        if isinstance(node, RangeNode):
            statement = self.range(node)
        else:
            condition = self.open_pipe(node.pipe)
            body_mark = len(self.scopes)
            body = self.list(node.list)
            del self.scopes[body_mark:]
            otherwise = self.list(node.else_list) if node.else_list is not None else _nothing
            statement = (
                _if_statement(condition, body, otherwise)
                if isinstance(node, IfNode)
                else _with_statement(condition, body, otherwise)
            )
        del self.scopes[mark:]
        return statement

    def range(self, node: RangeNode) -> Statement:
        decl = node.pipe.decl
        evaluate = self.open_pipe(node.pipe)
        slots = [self.slot_of(variable.ident[0]) for variable in decl]
        mark = len(self.scopes)
        body = self.list(node.list)
        del self.scopes[mark:]
        otherwise = self.list(node.else_list) if node.else_list is not None else _nothing
        weight = 1 + _weight(node.list)
        at = _last_at(node.pipe)
        element_slot = slots[-1] if slots else 0
        index_slot = slots[0] if len(slots) == 2 else 0
        jumps = _has_jump(node.list)

        def run_range(state: State, dot: Any) -> None:
            value = evaluate(state, dot)
            pairs = self.pairs(state, value, at, two=index_slot > 0)
            variables = state.variables
            outer = state.scope
            empty = True
            for index, element in pairs:
                empty = False
                self.spend(state, weight)
                if element_slot:
                    variables[element_slot] = element
                    if index_slot:
                        variables[index_slot] = index
                if isinstance(element, Composite) and element.scope is not None:
                    state.scope = element.scope
                if not jumps:
                    body(state, element)
                    state.scope = outer
                    continue
                try:
                    body(state, element)
                except _Continue:
                    pass
                except _Break:
                    break
                finally:
                    state.scope = outer
            if empty:
                otherwise(state, dot)

        return run_range

    def pairs(self, state: State, value: Any, at: _At, two: bool) -> Any:
        """What `range` goes through: pairs of index or key, and element."""
        if isinstance(value, Slice):
            return enumerate(value.items)
        if isinstance(value, Map):
            try:
                return sorted(value.fields.items())
            except TypeError:
                return list(value.fields.items())
        if value is INVALID or value is None:
            return ()
        if kind_of(value) in ("int", "uint"):
            if two:
                raise self.error(state, at, f"can't use {value} to iterate over more than one variable")
            make = int if type_of(value).kind == "int" and value.__class__ is int else _same_type(value)
            return ((None, make(number)) for number in range(value))
        raise self.error(state, at, f"range can't iterate over {self.shown(value)}")

    def shown(self, value: Any) -> str:
        try:
            return format_value(value)
        except AddressPrinted:
            return "?"

    def call_template(self, node: TemplateNode | BlockNode, name: str, pipe: PipeNode | None) -> Statement:
        evaluate = self.pipe(pipe) if pipe is not None else None
        if pipe is not None:
            del self.scopes[len(self.scopes) - len(pipe.decl) :]
        body = self.executor.bodies.get(name)

        def run_template(state: State, dot: Any) -> None:
            if body is None:
                raise self.error(state, node, f'template "{name}" not defined')
            if state.depth == MAX_TEMPLATE_DEPTH:
                raise self.error(state, node, f"exceeded maximum template depth ({MAX_TEMPLATE_DEPTH})")
            value = evaluate(state, dot) if evaluate is not None else INVALID
            self.spend(state, body.weight)
            variables, scope = state.variables, state.scope
            state.variables = [value] + [_UNSET] * body.slots
            if isinstance(value, Composite) and value.scope is not None:
                state.scope = value.scope
            state.depth += 1
            body.run(state, value)
            state.depth -= 1
            state.variables = variables
            state.scope = scope

        return run_template

    # -- pipelines

    def pipe(self, node: PipeNode) -> Expression:
        """A pipeline; a nil interface comes out as INVALID."""
        evaluate = self.open_pipe(node)
        last = node.cmds[-1].args[0]
        never_nil = isinstance(last, IdentifierNode) and last.ident in _NEVER_NIL - self.executor.custom
        return evaluate if node.decl or never_nil else _unwrapped(evaluate)

    def open_pipe(self, node: PipeNode) -> Expression:
        """A pipeline with its declarations, for those to whom a nil interface is as good as INVALID."""
        evaluate = self.command(node.cmds[0], None)
        for command in node.cmds[1:]:
            evaluate = self.command(command, _unwrapped(evaluate))
        if not node.decl:
            return evaluate
        if node.is_assign:
            slots = [self.slot_of(variable.ident[0]) for variable in node.decl]
        else:
            slots = [self.declare(variable.ident[0]) for variable in node.decl]
        return _storing(evaluate, tuple(slots))

    def command(self, node: CommandNode, final: Expression | None) -> Expression:
        first = node.args[0]
        if isinstance(first, IdentifierNode):
            return self.function(first, node, node.args[1:], final)
        has_args = len(node.args) > 1 or final is not None
        if isinstance(first, (FieldNode, ChainNode)) or (isinstance(first, VariableNode) and len(first.ident) > 1):
            return self.chain(first, has_args, final)
        if has_args:
            return self.failing(first, f"can't give argument to non-function {go_string(first)}", final)
        if isinstance(first, PipeNode):
            return self.pipe(first)
        if isinstance(first, NilNode):
            return self.failing(first, "nil is not a command", None)
        return self.operand(first)

    def failing(self, node: Node, message: str, before: Expression | None) -> Expression:
        def fail(state: State, dot: Any) -> Any:
            if before is not None:
                before(state, dot)
            raise self.error(state, node, message)

        return fail

    def operand(self, node: Node) -> Expression:
        """A constant, dot, a variable, a field or a pipeline in parentheses."""
        if isinstance(node, DotNode):
            return _dot
        if isinstance(node, (BoolNode, StringNode)):
            return _constant(node.value)
        if isinstance(node, NumberNode):
            return self.number(node)
        if isinstance(node, PipeNode):
            return self.pipe(node)
        if isinstance(node, VariableNode) and len(node.ident) == 1:
            return self.variable(node)
        assert isinstance(node, (FieldNode, ChainNode, VariableNode)), node
        return self.chain(node, False, None)

    def number(self, node: NumberNode) -> Expression:
        text = node.text
        if node.complex_value is not None and node.float_value is None and node.int_value is None:
            return _constant(node.complex_value)
        hexadecimal = text[:2].lower() == "0x" and len(text) > 2 and "p" not in text and "P" not in text
        if node.float_value is not None and not hexadecimal and not node.is_char and any(c in text for c in ".eEpP"):
            return _constant(node.float_value)
        if node.int_value is not None:
            return _constant(node.int_value)
        if node.uint_value is not None:
            return self.failing(node, f"{text} overflows int", None)
        return _constant(INVALID)

    def variable(self, node: VariableNode) -> Expression:
        slot = self.slot_of(node.ident[0])

        def read(state: State, dot: Any) -> Any:
            value = state.variables[slot]
            if value is _UNSET:
                raise self.error(state, node, f"undefined variable: {node.ident[0]}")
            return value

        return read

    # -- fields

    def chain(self, node: FieldNode | ChainNode | VariableNode, has_args: bool, final: Expression | None) -> Expression:
        at: _At = node
        if isinstance(node, FieldNode):
            receiver, names = _dot, node.ident
        elif isinstance(node, VariableNode):
            receiver, names = self.variable(VariableNode(node.span, node.pos, node.ident[:1])), node.ident[1:]
        else:
            if isinstance(node.node, NilNode):
                return self.failing(node, f"indirection through explicit nil in {go_string(node)}", final)
            receiver, names = self.argument(node.node, "any"), node.field
            at = _last_at(node.node)
        if has_args:
            return self.fields_with_arguments(receiver, names, at, final)
        if receiver is _dot and len(names) == 1:
            return self.field_of_dot(names[0], at)
        if len(names) == 1:
            return self.one_field(receiver, names[0], at)

        def read_fields(state: State, dot: Any) -> Any:
            value = first = receiver(state, dot)
            try:
                for name in names:
                    value = value.fields[name]
            except (AttributeError, KeyError):
                return self.fields(state, first, names, at)
            return value

        return read_fields

    def field_of_dot(self, name: str, at: _At) -> Expression:
        names = (name,)

        def read_field_of_dot(state: State, dot: Any) -> Any:
            try:
                return dot.fields[name]
            except (AttributeError, KeyError):
                return self.fields(state, dot, names, at)

        return read_field_of_dot

    def one_field(self, receiver: Expression, name: str, at: _At) -> Expression:
        names = (name,)

        def read_field(state: State, dot: Any) -> Any:
            value = receiver(state, dot)
            try:
                return value.fields[name]
            except (AttributeError, KeyError):
                return self.fields(state, value, names, at)

        return read_field

    def fields_with_arguments(
        self, receiver: Expression, names: tuple[str, ...], at: _At, final: Expression | None
    ) -> Expression:
        def fail(state: State, dot: Any) -> Any:
            if final is not None:
                final(state, dot)
            holder = self.fields(state, receiver(state, dot), names[:-1], at)
            if holder is INVALID:
                return INVALID
            type_ = type_of(holder)
            name = names[-1]
            if name in type_.methods or (name == "String" and type_.stringer):
                raise self.error(state, at, f"wrong number of args for {name}: want 0 got 1")
            if isinstance(holder, Map) and type_.key is not None and type_.key.kind == "string":
                raise self.error(state, at, f"{name} is not a method but has arguments")
            if isinstance(holder, Struct) and name in type_.field_names:
                raise self.error(state, at, f"{name} has arguments but cannot be invoked as function")
            return self.fields(state, holder, (name,), at)

        return fail

    def fields(self, state: State, value: Any, names: tuple[str, ...], at: _At) -> Any:
        """A chain of fields, slowly, with Go's errors."""
        interface = False
        for name in names:
            holder = value
            value = self.field(state, holder, name, at, interface)
            type_ = type_of(holder)
            interface = isinstance(holder, Map) and type_.elem is not None and type_.elem.kind == "interface"
        return value

    def field(self, state: State, holder: Any, name: str, at: _At, interface: bool) -> Any:
        if holder is INVALID:
            return INVALID
        if holder is None:
            raise self.error(state, at, f"nil pointer evaluating interface {{}}.{name}")
        type_ = type_of(holder)
        if name in type_.methods and not isinstance(holder, Nil):
            return type_.methods[name](holder)
        if name == "String" and type_.stringer and not isinstance(holder, Nil):
            return self.printed(state, state.at if isinstance(at, _Unset) else at, holder)  # type: ignore[arg-type]
        if isinstance(holder, Struct) and name in holder.fields:
            return holder.fields[name]
        if isinstance(holder, Map) and type_.key is not None and type_.key.kind == "string":
            if name in holder.fields:
                return holder.fields[name]
            assert type_.elem is not None
            return zero_value(type_.elem)
        if isinstance(holder, Nil) and name in type_.field_names:
            raise self.error(state, at, f"nil pointer evaluating {type_.name}.{name}")
        shown = "interface {}" if interface else type_.name
        raise self.error(state, at, f"can't evaluate field {name} in type {shown}")

    # -- functions

    def function(
        self, node: IdentifierNode, call: Node, args: tuple[Node, ...], final: Expression | None
    ) -> Expression:
        name = node.ident
        function = self.executor.functions.get(name)
        if function is None:
            return self.failing(node, f'"{name}" is not a defined function', None)
        count = len(args) + (final is not None)
        least = len(function.params) - function.variadic
        if function.variadic and count < least:
            message = f"wrong number of args for {name}: want at least {least} got {len(args)}"
            return self.failing(node, message, final)
        if not function.variadic and count != least:
            return self.failing(node, f"wrong number of args for {name}: want {least} got {count}", final)
        evaluators = [self.argument(arg, _param(function, place)) for place, arg in enumerate(args)]
        if final is not None:
            at: _At = _last_at(args[-1]) if args else node
            evaluators.append(self.checked(final, _param(function, len(args)), at))
        if name in ("and", "or") and name not in self.executor.custom:
            return self.short_circuit(name == "or", evaluators, [_last_at(a) for a in args] + [node])
        if name == "eq" and name not in self.executor.custom and len(args) == 2 and isinstance(args[1], StringNode):
            return self.equals_text(evaluators[0], args[1].value, call)
        if name == "call" and name not in self.executor.custom:
            shown = go_string(args[0]) if args else "<reflect.Value Value>"
            evaluators.insert(0, _constant(shown))
        return self.invocation(name, function, call, tuple(evaluators))

    def invocation(self, name: str, function: Function, call: Node, evaluators: tuple[Expression, ...]) -> Expression:
        invoke = function.call

        def fail(state: State, error: CallError) -> ExecError:
            return self.error(state, call, f"error calling {name}: {error}")

        if len(evaluators) == 2 and not function.prints:
            left, right = evaluators
            is_eq = name == "eq" and name not in self.executor.custom

            def call_two(state: State, dot: Any) -> Any:
                one, two = left(state, dot), right(state, dot)
                if is_eq and (one.__class__, two.__class__) in _PLAIN_PAIRS:
                    return one == two
                try:
                    return invoke(one, two)
                except CallError as error:
                    raise fail(state, error) from None

            return call_two

        if len(evaluators) == 1 and not function.prints:
            (only,) = evaluators

            def call_one(state: State, dot: Any) -> Any:
                try:
                    return invoke(only(state, dot))
                except CallError as error:
                    raise fail(state, error) from None

            return call_one

        def call_any(state: State, dot: Any) -> Any:
            values = [evaluate(state, dot) for evaluate in evaluators]
            try:
                result = invoke(*values)
            except CallError as error:
                raise fail(state, error) from None
            except AddressPrinted:
                message = f"error calling {name}: prints an address, which is another one every time"
                raise self.error(state, call, message) from None
            if function.prints:
                self.account(state, result)
                for value in values:
                    origin = origin_of(value)
                    if origin is not None:
                        return TracedStr(result, origin)
            return result

        return call_any

    def equals_text(self, left: Expression, text: str, call: Node) -> Expression:
        """`eq x "text"`, by far the most frequent call."""

        def run_equals_text(state: State, dot: Any) -> bool:
            value = left(state, dot)
            if value.__class__ is TracedStr:
                return bool(value == text)
            try:
                return go_eq(value, text)
            except CallError as error:
                raise self.error(state, call, f"error calling eq: {error}") from None

        return run_equals_text

    def short_circuit(self, stop_at: bool, evaluators: list[Expression], places: list[_At]) -> Expression:
        steps = tuple(zip(evaluators, places, strict=False))

        def run_and_or(state: State, dot: Any) -> Any:
            value: Any = INVALID
            for evaluate, place in steps:
                value = evaluate(state, dot)
                if not isinstance(place, _Unset):
                    state.at = place
                if is_true(value) is stop_at:
                    break
            return value

        return run_and_or

    def argument(self, node: Node, param: str) -> Expression:
        """An argument, converted to the type of its parameter as Go does."""
        if isinstance(node, NilNode):
            if param == "string":
                return self.failing(node, "cannot assign nil to string", None)
            return _constant(INVALID if param == "value" else None)
        if isinstance(node, IdentifierNode):
            evaluate = self.function(node, node, (), None)
        elif param == "string" and isinstance(node, (BoolNode, NumberNode)):
            return self.failing(node, f"expected string; found {go_string(node)}", None)
        else:
            evaluate = self.operand(node)
        return self.checked(evaluate, param, _last_at(node))

    def checked(self, evaluate: Expression, param: str, at: _At) -> Expression:
        if param == "value":
            return evaluate
        if param == "any":

            def as_interface(state: State, dot: Any) -> Any:
                value = evaluate(state, dot)
                return None if value is INVALID else value

            return as_interface

        def as_string(state: State, dot: Any) -> Any:
            value = evaluate(state, dot)
            if isinstance(value, str):
                return value
            if value is INVALID:
                raise self.error(state, at, "invalid value; expected string")
            raise self.error(state, at, f"wrong type for value; expected string; got {type_of(value).name}")

        return as_string


def _param(function: Function, place: int) -> str:
    return function.params[min(place, len(function.params) - 1)]


def _dot(state: State, dot: Any) -> Any:
    return dot


def _constant(value: Any) -> Expression:
    def constant(state: State, dot: Any) -> Any:
        return value

    return constant


def _same_type(value: Any) -> Callable[[int], Any]:
    return lambda number: type(value)(number, value.type)


def _raiser(kind: type[Exception]) -> Statement:
    def run_jump(state: State, dot: Any) -> None:
        raise kind

    return run_jump


def _unwrapped(evaluate: Expression) -> Expression:
    def unwrap(state: State, dot: Any) -> Any:
        value = evaluate(state, dot)
        return INVALID if value is None else value

    return unwrap


def _storing(evaluate: Expression, slots: tuple[int, ...]) -> Expression:
    def store(state: State, dot: Any) -> Any:
        value = evaluate(state, dot)
        if value is None:
            value = INVALID
        for slot in slots:
            state.variables[slot] = value
        return value

    return store


def _if_statement(condition: Expression, body: Statement, otherwise: Statement) -> Statement:
    def run_if(state: State, dot: Any) -> None:
        value = condition(state, dot)
        kind = value.__class__
        if value if kind is bool or kind is TracedStr else is_true(value):
            body(state, dot)
        else:
            otherwise(state, dot)

    return run_if


def _with_statement(condition: Expression, body: Statement, otherwise: Statement) -> Statement:
    def run_with(state: State, dot: Any) -> None:
        value = condition(state, dot)
        if not is_true(value):
            otherwise(state, dot)
            return
        scope = state.scope
        if isinstance(value, Composite) and value.scope is not None:
            state.scope = value.scope
        body(state, value)
        state.scope = scope

    return run_with


def _last_at(node: Node) -> _At:
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
                return _DYNAMIC
            else:
                node = node.args[-1]
        else:
            return node


def _weight(node: Node) -> int:
    """How many nodes a body holds, as a measure of what executing it costs."""
    total, rest = 0, [node]
    while rest:
        item = rest.pop()
        total += 1
        if isinstance(item, ListNode):
            rest.extend(item.nodes)
        elif isinstance(item, BranchNode) and not isinstance(item, RangeNode):
            rest.append(item.list)
            if item.else_list is not None:
                rest.append(item.else_list)
    return total


def _has_jump(node: ListNode) -> bool:
    rest: list[Node] = [node]
    while rest:
        item = rest.pop()
        if isinstance(item, (BreakNode, ContinueNode)):
            return True
        if isinstance(item, ListNode):
            rest.extend(item.nodes)
        elif isinstance(item, BranchNode):
            if not isinstance(item, RangeNode):
                rest.append(item.list)
            if item.else_list is not None:
                rest.append(item.else_list)
    return False
