"""Where a Jinja template looks for its tools."""

from __future__ import annotations

from jinja2 import nodes

from templatefix.chat.jinja import JinjaChatTemplate


def tools_of_messages(template: JinjaChatTemplate) -> str | None:
    """The first place where a template asks a message for its tools, as it would be written; None if nowhere."""
    held = _messages(template.tree)
    for node in template.tree.find_all((nodes.Getattr, nodes.Getitem)):
        assert isinstance(node, (nodes.Getattr, nodes.Getitem))
        name = node.attr if isinstance(node, nodes.Getattr) else _constant(node.arg)
        if name == "tools" and _base(node.node) in held:
            return _written(node)
    return None


def _messages(tree: nodes.Template) -> set[str]:
    """The variables that hold messages: `messages`, what is taken out of it, and what loops over it."""
    held = {"messages"}
    for node in tree.find_all((nodes.For, nodes.Assign)):
        assert isinstance(node, (nodes.For, nodes.Assign))
        value = node.iter if isinstance(node, nodes.For) else node.node
        if isinstance(node.target, nodes.Name) and _base(value) in held:
            held.add(node.target.name)
    return held


def _base(node: nodes.Node | None) -> str | None:
    """The variable that items, or all of them, are taken from."""
    while isinstance(node, (nodes.Getitem, nodes.Filter)):
        node = node.node
    return node.name if isinstance(node, nodes.Name) else None


def _constant(node: nodes.Node) -> object:
    return node.value if isinstance(node, nodes.Const) else None


def _written(node: nodes.Node | None) -> str:
    if isinstance(node, nodes.Getattr):
        return f"{_written(node.node)}.{node.attr}"
    if isinstance(node, nodes.Getitem):
        return (
            f"{_written(node.node)}[{_constant(node.arg)!r}]"
            if _constant(node.arg) is not None
            else f"{_written(node.node)}[…]"
        )
    if isinstance(node, nodes.Filter):
        return f"({_written(node.node)} | {node.name})"
    return node.name if isinstance(node, nodes.Name) else "…"
