"""Compiles lists, actions, branches and template calls to closures that append pieces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from templatefix.gotemplate.expressions import Expressions, last_at
from templatefix.gotemplate.formatting import AddressPrinted, format_value
from templatefix.gotemplate.nodes import (
    ActionNode,
    BlockNode,
    BranchNode,
    BreakNode,
    CommentNode,
    ContinueNode,
    DefineNode,
    IfNode,
    ListNode,
    Node,
    RangeNode,
    TemplateNode,
    TextNode,
)
from templatefix.gotemplate.operands import sorted_items
from templatefix.gotemplate.runtime import MAX_TEMPLATE_DEPTH, UNSET, At, Context, Expression, State, Statement
from templatefix.gotemplate.values import (
    INVALID,
    Composite,
    Map,
    Slice,
    TracedStr,
    TypedInt,
    is_true,
    kind_of,
    pointed_to,
)


class Body:
    """A compiled template: its statement, how many variables it needs besides `$`, and what one call costs."""

    __slots__ = ("run", "slots", "weight")

    def __init__(self) -> None:
        self.run: Statement = _nothing
        self.slots = 0
        self.weight = 1


class _Break(Exception):
    pass


class _Continue(Exception):
    pass


def _nothing(state: State, dot: Any) -> None:
    return None


class Statements:
    """Compiles one template; `bodies` are those of all templates, which may be filled later."""

    def __init__(self, context: Context, bodies: Mapping[str, Body]) -> None:
        self.context = context
        self.bodies = bodies
        self.expressions = Expressions(context)

    def fill(self, body: Body, root: ListNode) -> None:
        """Compile a template into its body."""
        body.run = self._list(root)
        body.slots = self.expressions.slots
        body.weight = _weight(root)

    def _list(self, node: ListNode) -> Statement:
        pairs = [(n, s) for n, s in zip(node.nodes, map(self._statement, node.nodes), strict=True) if s is not _nothing]
        if not pairs:
            return _nothing
        if len(pairs) == 1:
            return pairs[0][1]
        # Text is printed by the list itself: every statement leaves the scope as it found it.
        steps = tuple([(n, n.text, s) if isinstance(n, TextNode) else (None, "", s) for n, s in pairs])

        def run_list(state: State, dot: Any) -> None:
            emit, scope = state.emit, state.scope
            for node, text, step in steps:
                if node is None:
                    step(state, dot)
                else:
                    emit((node, scope, text))

        return run_list

    def _statement(self, node: Node) -> Statement:
        if isinstance(node, TextNode):
            return self._text(node)
        if isinstance(node, ActionNode):
            return self._action(node)
        if isinstance(node, BranchNode):
            return self._branch(node)
        if isinstance(node, (TemplateNode, BlockNode)):
            return self._call_template(node)
        if isinstance(node, BreakNode):
            return _raiser(_Break)
        if isinstance(node, ContinueNode):
            return _raiser(_Continue)
        assert isinstance(node, (CommentNode, DefineNode)), node
        return _nothing

    def _text(self, node: TextNode) -> Statement:
        text = node.text

        def run_text(state: State, dot: Any) -> None:
            state.emit((node, state.scope, text))

        return run_text

    def _action(self, node: ActionNode) -> Statement:
        evaluate = self.expressions.open_pipe(node.pipe)
        if node.pipe.decl:

            def run_declaration(state: State, dot: Any) -> None:
                evaluate(state, dot)

            return run_declaration

        def run_action(state: State, dot: Any) -> None:
            value = evaluate(state, dot)
            if value.__class__ is not TracedStr and value.__class__ is not str:
                value = self.context.printed(state, node, value)
            state.emit((node, state.scope, value))

        return run_action

    def _branch(self, node: BranchNode) -> Statement:
        mark = len(self.expressions.scopes)
        if isinstance(node, RangeNode):
            statement = self._range(node)
        else:
            condition = self.expressions.open_pipe(node.pipe)
            body_mark = len(self.expressions.scopes)
            outer_dot = self.expressions.ranged_dot
            if not isinstance(node, IfNode):
                self.expressions.ranged_dot = 0
            body = self._list(node.list)
            self.expressions.ranged_dot = outer_dot
            del self.expressions.scopes[body_mark:]
            otherwise = self._list(node.else_list) if node.else_list is not None else _nothing
            statement = (
                _if_statement(condition, body, otherwise)
                if isinstance(node, IfNode)
                else _with_statement(condition, body, otherwise)
            )
        del self.expressions.scopes[mark:]
        return statement

    def _range(self, node: RangeNode) -> Statement:
        decl = node.pipe.decl
        evaluate = self.expressions.open_pipe(node.pipe)
        if node.pipe.is_assign:
            slots = [self.expressions.slot_of(variable.ident[0]) or 0 for variable in decl]
        else:
            slots = [slot for _, slot in self.expressions.scopes[len(self.expressions.scopes) - len(decl) :]]
        element_slot = slots[-1] if slots else 0
        index_slot = slots[0] if len(slots) == 2 else 0
        ranged_element = self._ranged_slot(element_slot) if slots else 0
        mark = len(self.expressions.scopes)
        outer_dot = self.expressions.ranged_dot
        ranged_dot = self.expressions.ranged_dot = self.expressions.new_slot()
        body = self._list(node.list)
        self.expressions.ranged_dot = outer_dot
        del self.expressions.scopes[mark:]
        otherwise = self._list(node.else_list) if node.else_list is not None else _nothing
        weight = 1 + _weight(node.list)
        at = last_at(node.pipe)
        jumps = _has_jump(node.list)

        def run_range(state: State, dot: Any) -> None:
            value = evaluate(state, dot)
            pairs = self._pairs(state, value, at, two=index_slot > 0)
            variables = state.variables
            variables[ranged_dot] = value
            outer = state.scope
            empty = True
            for index, element in pairs:
                empty = False
                self.context.spend(state, weight)
                if element_slot:
                    if index_slot:
                        variables[index_slot] = index
                    variables[element_slot] = element
                    variables[ranged_element] = value
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

    def _ranged_slot(self, slot: int) -> int:
        """The place of what a variable ranges over, beside the variable's own (see Expressions)."""
        ranged = self.expressions.ranged
        if slot not in ranged:
            ranged[slot] = self.expressions.new_slot()
        return ranged[slot]

    def _pairs(self, state: State, value: Any, at: At, two: bool) -> Iterable[tuple[Any, Any]]:
        """What `range` goes through: pairs of index or key, and element."""
        if isinstance(value, Slice):
            return enumerate(value.items)
        if isinstance(value, Map) and value.type.kind == "map":
            return sorted_items(value)
        if value is INVALID or value is None:
            return ()
        if kind_of(value) in ("int", "uint"):
            if two:
                message = f"can't use {format_value(value)} to iterate over more than one variable"
                raise self.context.error(state, at, message)
            return _numbers(value)
        try:
            shown = format_value(pointed_to(value))
        except AddressPrinted:
            shown = "an address"
        raise self.context.error(state, at, f"range can't iterate over {shown}")

    def _call_template(self, node: TemplateNode | BlockNode) -> Statement:
        name, pipe = node.name, node.pipe
        evaluate = self.expressions.pipe(pipe) if pipe is not None else None
        if pipe is not None:
            del self.expressions.scopes[len(self.expressions.scopes) - len(pipe.decl) :]
        body = self.bodies.get(name)

        def run_template(state: State, dot: Any) -> None:
            if body is None:
                raise self.context.error(state, node, f'template "{name}" not defined')
            if state.depth == MAX_TEMPLATE_DEPTH:
                raise self.context.error(state, node, f"exceeded maximum template depth ({MAX_TEMPLATE_DEPTH})")
            value = evaluate(state, dot) if evaluate is not None else INVALID
            self.context.spend(state, body.weight)
            variables, scope = state.variables, state.scope
            state.variables = [value] + [UNSET] * body.slots
            if isinstance(value, Composite) and value.scope is not None:
                state.scope = value.scope
            state.depth += 1
            body.run(state, value)
            state.depth -= 1
            state.variables = variables
            state.scope = scope

        return run_template


def _numbers(value: int) -> Iterable[tuple[None, int]]:
    if isinstance(value, TypedInt):
        type_ = value.type
        return ((None, TypedInt(number, type_)) for number in range(value))
    return ((None, number) for number in range(value))


def _raiser(kind: type[Exception]) -> Statement:
    def run_jump(state: State, dot: Any) -> None:
        raise kind

    return run_jump


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
