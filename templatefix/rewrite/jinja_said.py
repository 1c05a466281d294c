"""What of a Jinja template depends on what a message says: its text, its calls, anything but its role and place.

Conditions are read by jinja2 from their text; where they stand comes from the template's tags.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Final

from jinja2 import TemplateSyntaxError, nodes

from templatefix.chat.jinja_language import JinjaLanguage
from templatefix.gotemplate.source import Source, Span
from templatefix.rewrite.decisions import JINJA_FIELDS, Decision, all_of, any_of, negated, of_roles
from templatefix.rewrite.jinja_tags import Arm, Branch, JinjaTags, Tag

Roles = Mapping[str, frozenset[str] | None]  # of a message, by what it is called; None: any
_USER: Final = frozenset({"user"})  # the message that tools stand with, unless a condition asks for another
_DEPTH: Final = 8
_OF_TOOLS: Final = {"defined": True, "iterable": True, "sequence": True}  # of a list; other tests do not hold


class JinjaSaid:
    """Reads the tags of one template."""

    def __init__(self, tags: JinjaTags) -> None:
        self.tags = tags
        self._read: dict[str, nodes.Expr | None] = {}
        self._known: dict[str, bool] = {}

    def expression(self, text: str) -> nodes.Expr | None:
        """An expression as a tree; None where the text is none."""
        if text not in self._read:
            try:
                (output,) = JinjaLanguage().read(Source(f"{{{{ {text} }}}}")).body
                self._read[text] = output.nodes[0] if isinstance(output, nodes.Output) else None
            except (TemplateSyntaxError, ValueError):
                self._read[text] = None
        return self._read[text]

    # Names

    @cached_property
    def _values(self) -> dict[str, list[tuple[str | None, Tag]]]:
        """By variable, or member of a namespace: the expressions it is set to (None: a block), each with its tag."""
        found: dict[str, list[tuple[str | None, Tag]]] = {}
        for tag in self.tags.tags:
            if tag.name not in ("set", "for"):
                continue
            texts = [token.text for token in tag.tokens]
            at = next((i for i, text in enumerate(texts) if text == ("=" if tag.name == "set" else "in")), None)
            value = None if at is None else self.tags.text(tag.tokens[at + 1 :])
            for name in "".join(texts[:at]).strip("()").split(","):
                found.setdefault(name, []).append((value, tag))
        return found

    def _variable(self, name: str) -> bool:
        """Whether a variable is made of what a message says, or set where that decides."""
        if name not in self._known:
            self._known[name] = False  # what depends on itself depends on nothing more
            self._known[name] = any(
                self._value(value, tag) or (tag.name == "set" and self._decides(tag.span.start) is not None)
                for value, tag in self._values.get(name, [])
            )
        return self._known[name]

    def _only_value(self, name: str) -> tuple[str | None, Tag | None]:
        values = self._values.get(name, [])
        return values[0] if len(values) == 1 and values[0][1].name == "set" else (None, None)

    def _value(self, value: str | None, tag: Tag) -> bool:
        if value is None:
            return True  # a block prints anything
        if tag.name == "for":
            iterable, _, test = value.partition(" if ")
            return self._list(self.expression(iterable)) or bool(test and self.names(self.expression(test)))
        return self.names(self.expression(value))

    def _list(self, node: nodes.Node | None, depth: int = 0) -> bool:
        """Whether what messages say decides which of them a list holds; whether its head is cut does not count."""
        if isinstance(node, nodes.CondExpr) and node.expr2 is not None:
            return self._list(node.expr1, depth) or self._list(node.expr2, depth)
        if isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Slice):
            return self._list(node.node, depth)
        if isinstance(node, nodes.Name) and node.name in self._values and depth < _DEPTH:
            return any(
                value is None or self._list(self.expression(value), depth + 1)
                for value, tag in self._values[node.name]
                if tag.name == "set"
            )
        return self.names(node)

    def names(self, expression: nodes.Node | None) -> bool:
        """Whether an expression names what a message says."""
        if expression is None:
            return True
        return any(self._said(each) for each in _all(expression))

    def _said(self, node: nodes.Node) -> bool:
        if isinstance(node, (nodes.Getattr, nodes.Getitem)):
            own = f"{node.node.name}.{_member(node)}" if isinstance(node.node, nodes.Name) else ""
            if own in self._values:
                return self._variable(own)
            return _member(node) in JINJA_FIELDS and not self._of_tools(node)
        if isinstance(node, nodes.Filter):
            return any(isinstance(each, nodes.Const) and each.value in JINJA_FIELDS for each in _arguments(node))
        if isinstance(node, nodes.Compare):
            asks_for = isinstance(node.expr, nodes.Const) and node.expr.value in JINJA_FIELDS
            return (asks_for and node.ops[0].op in ("in", "notin")) or self._compares_messages(node)
        return isinstance(node, nodes.Name) and self._variable(node.name)

    def _of_tools(self, node: nodes.Node) -> bool:
        while isinstance(node, (nodes.Getattr, nodes.Getitem)):
            node = node.node
        if not isinstance(node, nodes.Name):
            return False
        return node.name == "tools" or any(value == "tools" for value, _ in self._values.get(node.name, []))

    def _compares_messages(self, node: nodes.Compare) -> bool:
        """Whether whole messages are compared: two of them may say the same."""
        sides = [node.expr, *[operand.expr for operand in node.ops]]
        loops = {loop.target for loop in self.tags.loops}
        return node.ops[0].op in ("eq", "ne") and all(
            (isinstance(side, nodes.Name) and side.name in loops)
            or (isinstance(side, (nodes.Getitem, nodes.Filter)) and not isinstance(_member(side), str))
            for side in sides
        )

    # Conditions

    def decision(self, node: nodes.Node | None, roles: Roles | None = None, depth: int = 0) -> Decision:
        """What is known of a condition with tools and with messages of some roles."""
        if isinstance(node, (nodes.And, nodes.Or)):
            parts = [self.decision(part, roles, depth) for part in _parts(node)]
            return all_of(parts) if isinstance(node, nodes.And) else any_of(parts)
        if isinstance(node, nodes.Not):
            return negated(self.decision(node.node, roles, depth))
        if isinstance(node, nodes.Const):
            return Decision.of(node.value)
        for known in (self._on_tools(node), self._on_role(node, roles or {})):
            if known is not None:
                return known
        if isinstance(node, nodes.Name) and depth < _DEPTH:
            value, tag = self._only_value(node.name)
            if value is not None and tag is not None and self._decides(tag.span.start) is None:
                return self.decision(self.expression(value), roles, depth + 1)
        return Decision.SAID if self.names(node) else Decision.OPEN

    def _on_tools(self, node: nodes.Node | None) -> Decision | None:
        """Of `tools`, `tools is defined`, `tools | length > 0` and their like."""
        if _is_tools(node):
            return Decision.YES
        if isinstance(node, nodes.Test) and _is_tools(node.node):
            return Decision.of(_OF_TOOLS.get(node.name, False))
        side = node.expr if isinstance(node, nodes.Compare) else node
        if isinstance(side, nodes.Filter) and side.name in ("length", "count") and _is_tools(side.node):
            if side is node:
                return Decision.YES
            assert isinstance(node, nodes.Compare)
            op, other = node.ops[0].op, node.ops[0].expr
            if len(node.ops) == 1 and isinstance(other, nodes.Const) and other.value == 0:
                return Decision.of(op in ("gt", "ne", "gteq"))
        if isinstance(node, nodes.Compare) and _is_tools(node.expr) and isinstance(node.ops[0].expr, nodes.Const):
            return Decision.of(node.ops[0].op == "ne") if node.ops[0].expr.value is None else None
        return None

    def _on_role(self, node: nodes.Node | None, roles: Roles) -> Decision | None:
        asked = self._asked_role(node)
        if asked is None:
            return None
        whose, wanted, op = asked
        default = _USER if any(loop.target == whose for loop in self.tags.loops) else None
        known = of_roles(roles.get(whose, default), wanted)
        return negated(known) if op in ("ne", "notin") else known

    def _asked_role(self, node: nodes.Node | None) -> tuple[str, frozenset[str], str] | None:
        """Of a comparison of a role: whose it is, with which it is compared, and how."""
        if not isinstance(node, nodes.Compare) or len(node.ops) != 1:
            return None
        op, other = node.ops[0].op, node.ops[0].expr
        whose = self._role_of(node.expr)
        if whose is None or op not in ("eq", "ne", "in", "notin"):
            return None
        consts = other.items if isinstance(other, (nodes.List, nodes.Tuple)) else [other]
        texts = [each.value for each in consts if isinstance(each, nodes.Const) and isinstance(each.value, str)]
        return (whose, frozenset(texts), op) if len(texts) == len(consts) else None

    def _role_of(self, node: nodes.Node) -> str | None:
        if isinstance(node, (nodes.Getattr, nodes.Getitem)) and _member(node) == "role":
            return node.node.name if isinstance(node.node, nodes.Name) else repr(node.node)
        if isinstance(node, nodes.Name):
            value = self._only_value(node.name)[0]
            expression = None if value is None else self.expression(value)
            return None if expression is None or isinstance(expression, nodes.Name) else self._role_of(expression)
        return None

    def _roles(self, node: nodes.Node | None) -> dict[str, frozenset[str]]:
        """The roles that a condition asks for where it holds."""
        if isinstance(node, (nodes.And, nodes.Or)):
            parts = [self._roles(part) for part in _parts(node)]
            if isinstance(node, nodes.And):
                return {name: roles for part in parts for name, roles in part.items()}
            names = [name for name in parts[0] if all(name in part for part in parts)]
            return {name: frozenset().union(*[part[name] for part in parts]) for name in names}
        asked = self._asked_role(node)
        return {asked[0]: asked[1]} if asked is not None and asked[2] in ("eq", "in") else {}

    # Where tools stand

    def deciding(self, span: Span) -> Span | None:
        """The opening tag of the branch that takes tools away from a place by what a message says, if any."""
        return next((tag for at in self._called_at(span.start) if (tag := self._decides(at, both=True))), None)

    def _called_at(self, offset: int) -> Iterator[int]:
        """A place, and those where the macro is called that it stands in."""
        yield offset
        opened: list[Tag] = []
        for tag in self.tags.tags:
            if tag.span.start > offset:
                break
            if tag.name == "macro":
                opened.append(tag)
            elif tag.name == "endmacro" and opened:
                opened.pop()
        for macro in opened:
            for token, behind in zip(self.tags.layout.tokens, self.tags.layout.tokens[1:], strict=False):
                if token.kind == "name" and token.text == macro.tokens[0].text and behind.text == "(":
                    at = self.tags.layout.span(token.start, token.end).start
                    if not macro.span.contains(Span(at, at)):
                        yield at

    def _decides(self, offset: int, *, both: bool = False) -> Span | None:
        roles: dict[str, frozenset[str] | None] = {}
        for branch in reversed(self.tags.around(offset)):
            here = branch.arm_at(offset)
            for arm in branch.arms:
                condition = self._condition(arm)
                if arm is here:
                    roles.update(self._roles(condition))
                elif self.decision(condition, roles) is Decision.YES:
                    roles.update(dict.fromkeys(self._roles(condition)))  # this is for others
                said = arm.tag.tokens and self.decision(condition, roles) is Decision.SAID
                if said and not (both and self._in_all_arms(branch)):
                    return arm.tag.span
                if arm is here:
                    break
        for loop in self.tags.loops_around(offset):
            if self._value(self.tags.text(loop.tag.tokens).split(" in ", 1)[-1], loop.tag):
                return loop.tag.span
        return None

    def _condition(self, arm: Arm) -> nodes.Expr | None:
        return self.expression(self.tags.text(arm.tag.tokens)) if arm.tag.tokens else None

    def _in_all_arms(self, branch: Branch) -> bool:
        return not branch.arms[-1].tag.tokens and all(self._always(arm.body) for arm in branch.arms)

    def _always(self, span: Span) -> bool:
        """Whether tools are printed in a part of the template whatever a message says."""
        inner = [b for b in self.tags.branches if span.contains(b.span)]
        outer = [b for b in inner if not any(o is not b and o.span.contains(b.span) for o in inner)]
        for token, behind in zip(self.tags.layout.tokens, self.tags.layout.tokens[1:], strict=False):
            if token.kind == "name" and token.text == "tools" and behind.kind != "block_end":
                at = self.tags.layout.span(token.start, token.end)
                if span.contains(at) and not any(branch.span.contains(at) for branch in outer):
                    return True
        return any(self._always_of(branch) for branch in outer)

    def _always_of(self, branch: Branch) -> bool:
        for arm in branch.arms:
            known = self.decision(self._condition(arm)) if arm.tag.tokens else Decision.YES
            if known is Decision.YES:
                return self._always(arm.body)
            if known is not Decision.NO and not self._always(arm.body):
                return False
        return False


def _all(node: nodes.Node) -> Iterator[nodes.Node]:
    waiting = [node]
    while waiting:
        yield (each := waiting.pop())
        waiting += each.iter_child_nodes()


def _parts(node: nodes.And | nodes.Or) -> list[nodes.Expr]:
    """What is joined: `a and b and c` is a tree that is deep on its left."""
    kind, parts = type(node), [node.right]
    left = node.left
    while isinstance(left, kind):
        parts.append(left.right)
        left = left.left
    return [left, *reversed(parts)]


def _member(node: nodes.Node) -> object:
    """The name or number that a member is asked for by."""
    if isinstance(node, nodes.Getattr):
        return node.attr
    return node.arg.value if isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const) else None


def _arguments(node: nodes.Filter) -> list[nodes.Expr]:
    return [*(node.args or []), *[keyword.value for keyword in node.kwargs or []]]


def _is_tools(node: nodes.Node | None) -> bool:
    return isinstance(node, nodes.Name) and node.name == "tools"
