"""How Go prints nodes, which is what its execution errors quote."""

from __future__ import annotations

from collections.abc import Iterator

from templatefix.gotemplate import nodes as n
from templatefix.gotemplate.source import Source
from templatefix.gotemplate.strconv import quote


def go_string(node: n.Node) -> str:
    """Go's `Node.String()`. Never recurses, however deep the tree."""
    parts: list[str] = []
    stack: list[n.Node | str] = [node]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            parts.append(item)
        else:
            stack.extend(reversed(list(_pieces(item))))
    return "".join(parts)


def error_context(source: Source, node: n.Node) -> tuple[str, str]:
    """Where Go says a node is, `name:line:column` (the column in bytes, from 0), and the node as Go prints it."""
    before = source.data[: node.pos]
    line = before.count(b"\n") + 1
    column = node.pos - (before.rfind(b"\n") + 1)
    return f"{source.name}:{line}:{column}", go_string(node)


def _pieces(node: n.Node) -> Iterator[n.Node | str]:
    """What a node prints, in order: texts, and nodes that are yet to be printed."""
    if isinstance(node, n.ListNode):
        # Go's tree holds neither comments nor definitions.
        yield from (item for item in node.nodes if not isinstance(item, (n.CommentNode, n.DefineNode)))
    elif isinstance(node, n.ActionNode):
        yield from ("{{", node.pipe, "}}")
    elif isinstance(node, n.PipeNode):
        yield from _pipe(node)
    elif isinstance(node, n.CommandNode):
        for index, arg in enumerate(node.args):
            yield " " if index else ""
            yield from _operand(arg)
    elif isinstance(node, n.ChainNode):
        yield from _operand(node.node)
        yield "".join(f".{name}" for name in node.field)
    elif isinstance(node, n.BranchNode):
        yield from _branch(node)
    elif isinstance(node, (n.TemplateNode, n.BlockNode)):
        yield f"{{{{template {quote(node.name)}"
        if node.pipe is not None:
            yield from (" ", node.pipe)
        yield "}}"
    else:
        yield _leaf(node)


def _pipe(node: n.PipeNode) -> Iterator[n.Node | str]:
    if node.decl:
        yield ", ".join(".".join(variable.ident) for variable in node.decl)
        yield " = " if node.is_assign else " := "
    for index, command in enumerate(node.cmds):
        yield " | " if index else ""
        yield command


def _operand(node: n.Node) -> Iterator[n.Node | str]:
    if isinstance(node, n.PipeNode):
        yield from ("(", node, ")")
    else:
        yield node


def _branch(node: n.BranchNode) -> Iterator[n.Node | str]:
    keyword = "if" if isinstance(node, n.IfNode) else "range" if isinstance(node, n.RangeNode) else "with"
    yield from (f"{{{{{keyword} ", node.pipe, "}}", node.list)
    if node.else_list is not None:
        yield from ("{{else}}", node.else_list)
    yield "{{end}}"


def _leaf(node: n.Node) -> str:
    if isinstance(node, (n.TextNode, n.NumberNode)):
        return node.text
    if isinstance(node, n.StringNode):
        return node.quoted
    if isinstance(node, n.FieldNode):
        return "".join(f".{name}" for name in node.ident)
    if isinstance(node, n.VariableNode):
        return ".".join(node.ident)
    if isinstance(node, n.IdentifierNode):
        return node.ident
    if isinstance(node, n.BoolNode):
        return "true" if node.value else "false"
    if isinstance(node, n.CommentNode):
        return f"{{{{{node.text}}}}}"
    if isinstance(node, n.DefineNode):
        return f"{{{{define {quote(node.name)}}}}}"
    return _FIXED[type(node)]


_FIXED: dict[type[n.Node], str] = {
    n.NilNode: "nil",
    n.DotNode: ".",
    n.BreakNode: "{{break}}",
    n.ContinueNode: "{{continue}}",
    n.ElseNode: "{{else}}",
    n.EndNode: "{{end}}",
}
