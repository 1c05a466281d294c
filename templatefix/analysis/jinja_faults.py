"""What makes a Jinja template fail, read from where it stops."""

from __future__ import annotations

import re
from typing import Final

from jinja2 import nodes

from templatefix.analysis.jinjatree_blocks import Blocks
from templatefix.chat.jinja import JinjaChatTemplate
from templatefix.chat.rendering import RenderError

_RAISED: Final = "Jinja Exception: "
_MISSING: Final = re.compile(r"Callee is not a function: got Undefined \(hint: '(\w+)'\)")


def refuses_several_calls(template: JinjaChatTemplate, error: RenderError) -> bool:
    """Whether a template stopped itself because an assistant turn holds more than one call."""
    if error.span is None or not error.message.startswith(_RAISED):
        return False
    around = Blocks(template.layout, template.tree).around(error.span)
    branches = [block.node for block in around if isinstance(block.node, nodes.If)]
    if not branches:
        return False
    inner = branches[-1]
    # The arms before have been turned down: what they ask decides, too.
    first = next(index for index, each in enumerate(branches) if each is inner or inner in each.elif_)
    return any(_counts_calls(branch.test) for branch in branches[first:])


def _counts_calls(test: nodes.Node) -> bool:
    """Whether a condition compares how many calls there are."""
    compared = [test] if isinstance(test, nodes.Compare) else list(test.find_all(nodes.Compare))
    sides = [side for each in compared for side in (each.expr, *[operand.expr for operand in each.ops])]
    return any(
        isinstance(side, nodes.Filter) and side.name in ("length", "count") and _is_calls(side.node) for side in sides
    )


def _is_calls(node: nodes.Node | None) -> bool:
    while isinstance(node, nodes.Filter):
        node = node.node
    if isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const):
        return bool(node.arg.value == "tool_calls")
    return (isinstance(node, nodes.Getattr) and node.attr == "tool_calls") or (
        isinstance(node, nodes.Name) and node.name == "tool_calls"
    )


def why_it_fails(error: RenderError) -> str:
    """Why a failure cannot be mended, as the end of a sentence."""
    if error.message.startswith(_RAISED):
        said = error.message.removeprefix(_RAISED)
        return f"the template itself stops here ({said}), and what it should print instead only its maker can tell"
    if found := _MISSING.search(error.message):
        return f"the template calls `{found.group(1)}` of something that llama-server does not give it"
    return f"execution fails, and no repair of it is known: {error.message}"
