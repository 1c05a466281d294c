"""How a Go chat template is laid out: its loops over the messages, what each branch asks for and what it prints."""

from __future__ import annotations

import re
from collections.abc import Sequence

from templatefix.gotemplate.nodes import (
    ActionNode,
    BoolNode,
    BranchNode,
    ChainNode,
    CommandNode,
    CommentNode,
    DefineNode,
    DotNode,
    FieldNode,
    IdentifierNode,
    IfNode,
    ListNode,
    Node,
    NumberNode,
    PipeNode,
    RangeNode,
    TemplateNode,
    TextNode,
    VariableNode,
    WithNode,
)
from templatefix.gotemplate.parser import Tree
from templatefix.gotemplate.visitor import walk
from templatefix.rewrite.operands import asked_roles, call_of, conjuncts, path_of, single, single_value, without_decl
from templatefix.rewrite.skeleton import Skeleton

MESSAGE_FIELDS = frozenset({"Content", "Thinking", "ToolCalls", "Images"})
_MARK = re.compile(r"<[^<>\s]{1,60}>|\[[^\[\]]{1,60}\]")


class Layout(Skeleton):
    """Reads one parsed template."""

    def __init__(self, tree: Tree) -> None:
        super().__init__(tree)
        self._of_loops = {id(n.pipe) for n in self.nodes if isinstance(n, RangeNode)}
        self._setters = {id(n.pipe): n for n in self.nodes if isinstance(n, ActionNode)}
        self.loops = [n for n in self.nodes if isinstance(n, RangeNode) and self.is_messages(single(n.pipe))]
        self._loop_ids = {id(loop) for loop in self.loops}

    def loop_of(self, node: Node) -> RangeNode | None:
        """The loop over the messages that a node stands in (the innermost)."""
        for owner, arm in self.ancestors(node):
            if isinstance(owner, RangeNode) and id(owner) in self._loop_ids and arm is owner.list:
                return owner
        return None

    def called_at(self, node: Node) -> list[Node]:
        """Where a node is printed: itself, or the calls of the named template that it stands in."""
        found: list[Node] = []
        seen: set[str] = set()
        waiting = [node]
        while waiting:
            place = waiting.pop(0)
            name = next((owner.name for owner, _ in self.ancestors(place) if isinstance(owner, DefineNode)), None)
            if name is None or self.loop_of(place) is not None:
                found.append(place)
            elif name not in seen:
                seen.add(name)
                waiting += [call for call in self.nodes if isinstance(call, TemplateNode) and call.name == name]
        return found

    # What expressions name

    def _resolves(self, node: Node | None, name: str) -> bool:
        if node is None:
            return False
        path = path_of(node)
        if path and path[-1] == name and len(path) == 1:
            return True
        if isinstance(node, VariableNode) and len(node.ident) == 1 and node.ident[0] != "$":
            pipes = self.variables.get(node.ident[0], [])
            return bool(pipes) and all(
                not self._is_loop_variable(p) and self._resolves_directly(single_value(p), name) for p in pipes
            )
        return False

    @staticmethod
    def _resolves_directly(node: Node | None, name: str) -> bool:
        return node is not None and path_of(node) == (name,)

    def _is_loop_variable(self, pipe: PipeNode) -> bool:
        return id(pipe) in self._of_loops

    def is_messages(self, node: Node | None) -> bool:
        """Whether an operand is the list of messages."""
        return self._resolves(node, "Messages")

    def is_tools(self, node: Node | None) -> bool:
        """Whether an operand is the list of tools."""
        return self._resolves(node, "Tools")

    def is_system(self, node: Node | None) -> bool:
        """Whether an operand is the joined system text."""
        return self._resolves(node, "System")

    def names(self, node: Node, what: str) -> bool:
        """Whether an expression or any node below names `Tools`, `System` or `Messages`."""
        return any(
            (isinstance(n, (FieldNode, VariableNode)) and self._resolves(n, what))
            or (isinstance(n, (FieldNode, VariableNode)) and what in path_of(n)[:1])
            for n in walk(node)
        )

    # What branches print

    def prints_tools(self, node: Node) -> bool:
        """Whether tool definitions are printed by a node or below it."""
        for each in walk(node):
            if isinstance(each, ActionNode) and not each.pipe.decl and self.names(each.pipe, "Tools"):
                return True
            if isinstance(each, (RangeNode, WithNode)) and self.names(each.pipe, "Tools") and self._prints(each.list):
                return True
            if isinstance(each, TemplateNode) and self.calls_tools(each):
                return True
        return False

    def calls_tools(self, node: TemplateNode) -> bool:
        """Whether a named template that is called prints tool definitions."""
        if node.pipe is not None and self.names(node.pipe, "Tools"):
            return True
        body = self.tree.templates.get(node.name)
        return body is not None and any(
            isinstance(each, (ActionNode, RangeNode)) and self.names(each.pipe, "Tools") for each in walk(body)
        )

    @staticmethod
    def _prints(nodes: ListNode) -> bool:
        return any(
            isinstance(each, (ActionNode, TemplateNode)) and not getattr(each.pipe, "decl", ()) for each in walk(nodes)
        )

    def prints_system(self, node: Node) -> bool:
        """Whether the joined system text is printed by a node or below it."""
        return any(isinstance(n, ActionNode) and not n.pipe.decl and self._names_system(n) for n in walk(node))

    def _names_system(self, node: ActionNode) -> bool:
        if self.names(node.pipe, "System"):
            return True
        if not any(isinstance(each, DotNode) for each in walk(node.pipe)):
            return False
        for owner, arm in self.ancestors(node):
            if isinstance(owner, (RangeNode, WithNode)) and arm is owner.list:
                return isinstance(owner, WithNode) and self.is_system(single_value(owner.pipe))
        return False

    def prints_message(self, node: Node) -> bool:
        """Whether text, thinking or calls of a message are printed by a node or below it."""
        for each in walk(node):
            if isinstance(each, (FieldNode, VariableNode, ChainNode)):
                path = path_of(each)
                if path and path[-1] in MESSAGE_FIELDS and not self._only_asked(each, node):
                    return True
        return False

    def _only_asked(self, field: Node, within: Node) -> bool:
        """Whether a field stands in conditions only."""
        return any(isinstance(n, IfNode) and n.pipe.span.contains(field.span) for n in walk(within))

    # Dependence on the end of the conversation

    def moving(self, node: Node, depth: int = 0) -> bool:
        """Whether an expression asks for what follows: a length, an element or a slice of the messages."""
        if depth > 8:
            return True
        for each in walk(node):
            if isinstance(each, CommandNode) and len(each.args) > 1 and isinstance(each.args[0], IdentifierNode):
                if each.args[0].ident in ("and", "or", "not"):
                    continue
                if any(self.is_messages(single(arg)) for arg in each.args[1:]):
                    return True
            if isinstance(each, VariableNode) and each.ident[0] != "$" and self._moving_variable(each, depth):
                return True
        return False

    def _moving_variable(self, use: VariableNode, depth: int) -> bool:
        for pipe in self.variables.get(use.ident[0], []):
            if any(variable.span == use.span for variable in pipe.decl) or self._is_loop_variable(pipe):
                continue
            if self.moving(without_decl(pipe), depth + 1):
                return True
            if self._set_by_looking_ahead(pipe, depth):
                return True
            if pipe.is_assign and self._set_by_finished_loop(pipe, use):
                return True
        return False

    def _set_by_looking_ahead(self, pipe: PipeNode, depth: int) -> bool:
        """Whether an assignment stands in a loop over what follows, or under a condition that asks for it."""
        setter = self._setters.get(id(pipe))
        if setter is None or not pipe.is_assign:
            return False
        return any(
            isinstance(owner, BranchNode) and self.moving(without_decl(owner.pipe), depth + 1)
            for owner, _ in self.ancestors(setter)
        )

    def _set_by_finished_loop(self, pipe: PipeNode, use: VariableNode) -> bool:
        setter = self._setters.get(id(pipe))
        loop = self.loop_of(setter) if setter is not None else None
        return loop is not None and not loop.span.contains(use.span) and not self._set_once(setter, use.ident[0])

    def _set_once(self, setter: Node | None, name: str) -> bool:
        """Whether an assignment happens only while the variable has its first value."""
        if setter is None:
            return False
        for owner, arm in self.ancestors(setter):
            if isinstance(owner, IfNode) and arm is owner.list:
                for conjunct in conjuncts(owner.pipe):
                    call = call_of(conjunct)
                    if call and call[0] in ("lt", "eq", "not") and any(path_of(arg) == (name,) for arg in call[1]):
                        return True
        return False

    def moving_parts(self, pipe: PipeNode) -> list[Node]:
        """The parts of a condition that ask for what follows, as large as they can be without anything else in them."""
        if not self.moving(pipe):
            return []
        call = call_of(pipe)
        if call is None or call[0] not in ("and", "or", "not"):
            return self._whole(pipe)
        args = call[1]
        inner = [arg for arg in args if self.moving(arg)]
        if len(inner) == len(args) and all(self._is_pure(arg) for arg in args):
            return [pipe]
        return [part for arg in inner for part in (self.moving_parts(arg) if isinstance(arg, PipeNode) else [arg])]

    def _is_pure(self, node: Node) -> bool:
        """Whether a part asks for nothing but what follows."""
        call = call_of(node)
        if call is None or call[0] not in ("and", "or", "not"):
            return self.moving(node) and not self._names_data(node)
        return all(self._is_pure(arg) for arg in call[1])

    def _names_data(self, node: Node) -> bool:
        return self.names(node, "Tools") or self.names(node, "System")

    def _whole(self, pipe: PipeNode) -> list[Node]:
        """A condition that is no conjunction, or the moving operands of it where it names tools or system text."""
        if not self._names_data(pipe):
            return [pipe]
        parts: list[Node] = []
        for command in pipe.cmds:
            for arg in command.args:
                if isinstance(arg, PipeNode):
                    parts += self.moving_parts(arg)
                elif self.moving(arg):
                    parts.append(arg)
        return parts

    # Conditions

    def truth(self, node: Node, tools: bool, depth: int = 0) -> bool | None:
        """Whether a condition holds with or without tools; None where that depends on more."""
        operand = single(node) if isinstance(node, PipeNode) and not node.decl else node
        if operand is not None and not isinstance(operand, PipeNode):
            if isinstance(operand, BoolNode):
                return operand.value
            if self.is_tools(operand):
                return tools
            return self._truth_of_variable(operand, tools, depth)
        call = call_of(node)
        if call is None:
            return None
        name, args = call
        if name in ("and", "or"):
            values = [self.truth(arg, tools, depth) for arg in args]
            decides = name == "or"
            if decides in values:
                return decides
            return None if None in values else not decides
        if name == "not" and len(args) == 1:
            value = self.truth(args[0], tools, depth)
            return None if value is None else not value
        return self._truth_of_length(name, args, tools)

    def _truth_of_variable(self, node: Node, tools: bool, depth: int) -> bool | None:
        if not isinstance(node, VariableNode) or len(node.ident) != 1 or depth > 8:
            return None
        pipes = self.variables.get(node.ident[0], [])
        if len(pipes) != 1 or self._is_loop_variable(pipes[0]):
            return None
        return self.truth(without_decl(pipes[0]), tools, depth + 1)

    def _truth_of_length(self, name: str, args: Sequence[Node], tools: bool) -> bool | None:
        """Of `gt (len .Tools) 0` and its like."""
        if len(args) != 2 or not isinstance(args[1], NumberNode) or args[1].int_value != 0:
            return None
        length = call_of(args[0])
        if length is None or length[0] != "len" or not self.is_tools(single(length[1][0]) or length[1][0]):
            return None
        return {"gt": tools, "ne": tools, "eq": not tools, "le": not tools, "ge": True, "lt": False}.get(name)

    def requires_tools(self, pipe: Node) -> bool:
        """Whether a condition can only hold when tools are given."""
        return self.truth(pipe, False) is False

    def arm_requires_tools(self, branch: BranchNode, arm: ListNode) -> bool:
        """Whether an arm of a branch is taken with tools only."""
        return self.truth(branch.pipe, False) is (arm is not branch.list)

    def asks_only_tools(self, pipe: PipeNode) -> bool:
        """Whether a condition is nothing but whether there are tools."""
        return self.truth(pipe, False) is False and self.truth(pipe, True) is True

    def roles(self, node: Node) -> set[str] | None:
        """The roles of messages that an arm serves, by the comparisons around it; None: not known."""
        for owner, arm in self.ancestors(node):
            if isinstance(owner, IfNode) and arm is owner.list:
                found = {s for part in conjuncts(owner.pipe) for s in asked_roles(part)}
                if found:
                    return found
            if isinstance(owner, RangeNode) and id(owner) in self._loop_ids:
                return None
        return None

    def asks_user(self, branch: IfNode) -> bool:
        """Whether a branch serves user messages."""
        return any("user" in asked_roles(part) for part in conjuncts(branch.pipe))

    def loop_of_pipe(self, pipe: PipeNode) -> RangeNode | None:
        """The loop over the messages in whose body (or head) a pipeline stands."""
        found = [loop for loop in self.loops if loop.span.contains(pipe.span)]
        return found[-1] if found else None


def is_blank(node: Node) -> bool:
    """Whether a node prints nothing, or nothing but white space."""
    if isinstance(node, TextNode):
        return not node.text.strip()
    return isinstance(node, (CommentNode, DefineNode)) or (isinstance(node, ActionNode) and bool(node.pipe.decl))


def is_block(text: str) -> bool:
    """Whether a text brings its own frame of marks, as `[AVAILABLE_TOOLS] … [/AVAILABLE_TOOLS]` does."""
    stripped = text.strip()
    start = _MARK.match(stripped)
    return start is not None and stripped[-1:] in ">]"
