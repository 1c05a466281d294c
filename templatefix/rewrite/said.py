"""What of a Go template depends on what a message says: its text, its calls, anything but its role and place."""

from __future__ import annotations

from collections.abc import Iterator

from templatefix.gotemplate.nodes import (
    ActionNode,
    BranchNode,
    ChainNode,
    FieldNode,
    IfNode,
    ListNode,
    Node,
    RangeNode,
    StringNode,
    TemplateNode,
    VariableNode,
    WithNode,
)
from templatefix.gotemplate.visitor import walk
from templatefix.rewrite.decisions import GO_FIELDS, Decision, all_of, any_of, negated, of_roles
from templatefix.rewrite.layout import Layout
from templatefix.rewrite.operands import asked_roles, call_of, conjuncts, path_of, single, without_decl

Roles = frozenset[str] | None
_USER = frozenset({"user"})  # the message that tools stand with, unless a condition asks for another
_DEPTH = 8


class Said:
    """Reads one laid out template."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._variables: dict[str, bool] = {}

    def names(self, node: Node) -> bool:
        """Whether an expression names what a message says."""
        return any(
            bool(GO_FIELDS.intersection(path_of(each)))
            or (isinstance(each, VariableNode) and each.ident[0] != "$" and self._variable(each.ident[0]))
            for each in walk(node)
            if isinstance(each, (FieldNode, VariableNode, ChainNode))
        )

    def _variable(self, name: str) -> bool:
        """Whether a variable is made of what a message says, or set where that decides."""
        if name not in self._variables:
            self._variables[name] = False  # what depends on itself depends on nothing more
            # What a loop or a branch declares is known in it alone, where the loop or branch itself is looked at.
            setters = {id(node.pipe): node for node in self.layout.nodes if isinstance(node, ActionNode)}
            self._variables[name] = any(
                self.names(without_decl(pipe)) or (pipe.is_assign and self._decides(setters[id(pipe)]) is not None)
                for pipe in self.layout.variables.get(name, [])
                if id(pipe) in setters
            )
        return self._variables[name]

    # Conditions

    def decision(self, node: Node, roles: Roles = _USER, depth: int = 0) -> Decision:
        """What is known of a condition with tools and with a message of some roles."""
        truth = self.layout.truth(node, True)
        if truth is not None:
            return Decision.of(truth)
        call = call_of(node)
        if call is not None and call[0] in ("and", "or", "not"):
            parts = [self.decision(arg, roles, depth) for arg in call[1]]
            return {"and": all_of, "or": any_of}[call[0]](parts) if call[0] != "not" else negated(parts[0])
        if call is not None and call[0] in ("eq", "ne") and any(path_of(arg)[-1:] == ("Role",) for arg in call[1]):
            found = of_roles(roles, [arg.value for arg in call[1] if isinstance(arg, StringNode)])
            return negated(found) if call[0] == "ne" else found
        operand = single(node)
        if isinstance(operand, VariableNode) and len(operand.ident) == 1 and depth < _DEPTH:
            pipes = self.layout.variables.get(operand.ident[0], [])
            if len(pipes) == 1 and not any(isinstance(n, RangeNode) and n.pipe is pipes[0] for n in self.layout.nodes):
                return self.decision(without_decl(pipes[0]), roles, depth + 1)
        return Decision.SAID if self.names(node) else Decision.OPEN

    # Where tools stand

    def deciding(self, node: Node) -> BranchNode | None:
        """The branch that takes tools away from a node by what a message says, if any."""
        around = [self._decides(place, both=True) for place in dict.fromkeys((node, *self.layout.called_at(node)))]
        return next((branch for branch in around if branch is not None), None)

    def _decides(self, node: Node, *, both: bool = False) -> BranchNode | None:
        roles: Roles = _USER
        for owner, arm in reversed(list(self.layout.ancestors(node))):
            if isinstance(owner, RangeNode):
                roles = _USER
                if self.names(without_decl(owner.pipe)):
                    return owner
            elif isinstance(owner, (IfNode, WithNode)):
                if arm is owner.list:
                    asked = frozenset(role for part in conjuncts(owner.pipe) for role in asked_roles(part))
                    roles = asked or roles
                elif self.decision(owner.pipe, roles) is Decision.YES:
                    roles = None  # this is for others
                if self.decision(owner.pipe, roles) is Decision.SAID and not (both and self._in_all_arms(owner)):
                    return owner
        return None

    def _in_all_arms(self, branch: BranchNode) -> bool:
        return all(arm is not None and self._always(arm) for arm in (branch.list, branch.else_list))

    def _always(self, nodes: ListNode) -> bool:
        return any(self._prints(node) for node in nodes.nodes)

    def _prints(self, node: Node) -> bool:
        """Whether a node prints the tools whatever a message says."""
        if isinstance(node, (IfNode, WithNode)):
            known = self.decision(node.pipe, None)
            arm = {Decision.YES: node.list, Decision.NO: node.else_list}.get(known)
            return self._always(arm) if arm is not None else self._in_all_arms(node)
        return isinstance(node, (ActionNode, RangeNode, TemplateNode)) and self.layout.prints_tools(node)

    def parts(self, branch: BranchNode) -> Iterator[Node]:
        """The conjuncts of a condition that depend on what a message says; the whole of it where it has none."""
        call = call_of(branch.pipe)
        if call is not None and call[0] == "and":
            yield from [arg for arg in call[1] if self.decision(arg) is Decision.SAID]
        elif isinstance(branch, IfNode) and self.decision(branch.pipe) is Decision.SAID:
            yield branch.pipe
