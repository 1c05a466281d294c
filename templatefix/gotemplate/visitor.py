"""Walking a tree without recursion."""

from __future__ import annotations

from collections.abc import Iterator

from templatefix.gotemplate import nodes as n


def children(node: n.Node) -> tuple[n.Node, ...]:
    """The nodes directly below a node, in the order of the source.

    The action `{{ else if x }}` is found once: as the else node of the outer branch, before the chained inner one.
    The shared `{{ end }}` of a chain belongs to the outermost branch.
    """
    if isinstance(node, n.ListNode):
        return node.nodes
    if isinstance(node, n.PipeNode):
        return (*node.decl, *node.cmds)
    if isinstance(node, n.CommandNode):
        return node.args
    if isinstance(node, n.ActionNode):
        return (node.pipe,)
    if isinstance(node, n.BranchNode):
        other = (node.else_node, node.else_list) if node.else_node and node.else_list else ()
        return (node.pipe, node.list, *other, *(() if node.chained else (node.end,)))
    if isinstance(node, n.ChainNode):
        return (node.node,)
    if isinstance(node, n.TemplateNode):
        return () if node.pipe is None else (node.pipe,)
    if isinstance(node, n.BlockNode):
        return (node.pipe, node.list, node.end)
    if isinstance(node, n.DefineNode):
        return (node.list, node.end)
    return ()


def walk(node: n.Node) -> Iterator[n.Node]:
    """The node and all below it, each before its children."""
    stack = [node]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(children(node)))
