"""A family's own marks, read off the turns that a template prints."""

from __future__ import annotations

from templatefix.gotemplate.nodes import ActionNode, IfNode, Node, RangeNode, TextNode
from templatefix.rewrite.layout import Layout
from templatefix.rewrite.operands import path_of, single


class Markup:
    """Reads the marks around the messages of one template."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    def marks(self, loop: RangeNode) -> tuple[str, str] | None:
        """What opens and closes a user's turn, with the role put right."""
        content = self.content(loop, "user", None)
        if content is None:
            return None
        head = self.text_before(content, None)
        tail = self.text_after(content)
        if not tail.strip() or ("user" not in head and "{role}" not in head):
            return None
        return head.replace("{role}", "system").replace("user", "system"), tail

    def content(self, loop: RangeNode, role: str, within: IfNode | None) -> ActionNode | None:
        """The action that prints the text of a role's messages without tools; one inside a branch if there is one."""
        found = []
        for node in self.layout.nodes:
            if not isinstance(node, ActionNode) or self.layout.loop_of(node) is not loop:
                continue
            operand = single(node.pipe)
            if operand is None or path_of(operand)[-1:] != ("Content",):
                continue
            roles = self.layout.roles(node)
            if (roles is None or role in roles) and not self._with_tools(node):
                found.append(node)
        inside = [node for node in found if within is not None and within.span.contains(node.span)]
        return next(iter([*inside, *found]), None)

    def _with_tools(self, node: Node) -> bool:
        return any(
            isinstance(o, IfNode) and self.layout.arm_requires_tools(o, arm) for o, arm in self.layout.ancestors(node)
        )

    def text_before(self, content: Node, arm: IfNode | None) -> str:
        """The text of a turn in front of its message, `{role}` where the role is printed."""
        parts: list[str] = []
        node: Node = content
        while True:
            place = self.layout.place(node)
            for before in reversed(place.list.nodes[: place.index]):
                if isinstance(before, TextNode):
                    parts.append(before.text)
                elif isinstance(before, ActionNode) and not before.pipe.decl:
                    operand = single(before.pipe)
                    parts.append("{role}" if operand is not None and path_of(operand)[-1:] == ("Role",) else "")
            owner = place.owner
            if not isinstance(owner, IfNode):
                break
            if owner is arm or self.layout.asks_user(owner):
                break
            node = owner
        return "".join(reversed(parts))

    def text_after(self, content: Node, skip: Node | None = None) -> str:
        """The text right behind a node, or behind the branch that ends with it."""
        node = content
        for _ in range(3):
            place = self.layout.place(node)
            text = ""
            for after in place.list.nodes[place.index + 1 :]:
                if after is not skip and isinstance(after, TextNode):
                    text += after.text
                elif text.strip():
                    break
            if text.strip():
                return text
            owner = place.owner
            if not isinstance(owner, IfNode):
                return ""
            node = owner
        return ""
