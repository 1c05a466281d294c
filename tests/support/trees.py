"""What the parser makes of a template, in the shape in which tests/go answers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from templatefix.chat.go import OLLAMA_FUNCTIONS
from templatefix.gotemplate import nodes as n
from templatefix.gotemplate.errors import ParseError
from templatefix.gotemplate.parser import BUILTINS, Tree, parse
from templatefix.gotemplate.printer import go_string
from templatefix.gotemplate.visitor import children

FUNCTIONS: Final = frozenset((*BUILTINS, *OLLAMA_FUNCTIONS))
_STRAY: Final = re.compile("[\udc80-\udcff]")


def parsed(template: str) -> dict[str, Any]:
    """The answer to the oracle's op `parse`."""
    try:
        tree = parse(template, FUNCTIONS)
    except ParseError as error:
        return {"ok": False, "stage": "parse", "error": error.message}
    templates = {_plain(name): _plain(go_string(body)) for name, body in tree.templates.items()}
    return {"ok": True, "nodes": list(_nodes(tree)), "templates": templates}


def _nodes(tree: Tree) -> Iterator[dict[str, Any]]:
    """The nodes that Go has, in its order."""
    stack: list[n.Node] = [tree.templates[tree.source.name]]
    while stack:
        node = stack.pop()
        name = "TemplateNode" if isinstance(node, n.BlockNode) else type(node).__name__
        yield {"type": name, "pos": node.pos, "string": _plain(go_string(node))}
        below = (node.pipe,) if isinstance(node, n.BlockNode) else children(node)
        stack += [child for child in reversed(below) if not isinstance(child, _OURS)]


_OURS = (n.CommentNode, n.DefineNode, n.ElseNode, n.EndNode)  # Go's trees do without


def _plain(text: str) -> str:
    """The text as Go's JSON holds it: each byte that is not UTF-8 as U+FFFD."""
    return _STRAY.sub("\ufffd", text)
