"""What Ollama derives from a Go template's tree: the names it uses, capabilities, tags around thinking and tool calls.

Each is a property that a rewritten template must keep (facts read in Ollama's source as of 2026-08-21).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from templatefix.gotemplate.nodes import (
    ActionNode,
    BlockNode,
    BranchNode,
    CommentNode,
    DefineNode,
    FieldNode,
    IfNode,
    ListNode,
    Node,
    PipeNode,
    RangeNode,
    TemplateNode,
    TextNode,
    VariableNode,
    WithNode,
)
from templatefix.gotemplate.parser import Tree

_RESULT_MARKS = ('eq .Role "tool"', "tool_response", "TOOL_RESULTS")
_SPACE = " \t\n\v\f\r\x85\xa0"  # what Go's TrimSpace takes, of the characters that occur in templates


@dataclass(frozen=True, slots=True)
class Derived:
    """What Ollama knows of a template without rendering it."""

    vars: tuple[str, ...]  # names used, in lower case, sorted
    capabilities: tuple[str, ...]
    tool_tag: str  # where the model's output is read as a tool call from
    think_open: str
    think_close: str
    response_appended: bool  # Ollama adds `{{ .Response }}`, since the template has neither that nor `.Messages`
    round_trip: bool  # takes tools, prints calls and results


class UndefinedTemplate(Exception):
    """A `{{ template }}` without a pipeline, which Ollama refuses."""


def derive(tree: Tree) -> Derived:
    """Derive all; raises UndefinedTemplate."""
    names = _names(tree)
    response_appended = not names & {"messages", "response"}
    if response_appended:
        names.add("response")
    think_open, think_close = _think_tags(tree.root, "thinking" in names)
    capabilities = ["completion"]
    capabilities += ["tools"] if "tools" in names else []
    capabilities += ["insert"] if "suffix" in names else []
    capabilities += ["thinking"] if think_open and think_close else []
    text = tree.source.text
    return Derived(
        vars=tuple(sorted(names)),
        capabilities=tuple(capabilities),
        tool_tag=_tool_tag(tree.root),
        think_open=think_open,
        think_close=think_close,
        response_appended=response_appended,
        round_trip={"tools", "toolcalls"} <= names and any(mark in text for mark in _RESULT_MARKS),
    )


def _go_nodes(node: ListNode) -> list[Node]:
    # The nodes that Go's own tree has: comments and definitions are not among them.
    return [n for n in node.nodes if not isinstance(n, (CommentNode, DefineNode))]


# -- names


def _names(tree: Tree) -> set[str]:
    names: set[str] = set()
    for root in {id(r): r for r in (tree.root, *tree.templates.values())}.values():
        _collect_names(root, names)
    return names


def _collect_names(root: Node, names: set[str]) -> None:
    rest: list[Node] = [root]
    while rest:
        node = rest.pop()
        if isinstance(node, TextNode):
            continue
        if isinstance(node, (FieldNode, VariableNode)):
            names.update([name.lower() for name in node.ident])
        elif isinstance(node, PipeNode):
            for command in node.cmds:
                rest += command.args
        elif isinstance(node, ActionNode):
            rest.append(node.pipe)
        elif isinstance(node, ListNode):
            rest += _go_nodes(node)
        elif isinstance(node, BranchNode):
            rest += [part for part in (node.pipe, node.list, node.else_list) if part is not None]
        elif isinstance(node, (TemplateNode, BlockNode)):
            if node.pipe is None:
                raise UndefinedTemplate("undefined template specified")
            rest.append(node.pipe)


# -- tags around thinking


def _think_tags(root: ListNode, names_thinking: bool) -> tuple[str, str]:
    """The first and last text of the list that holds `.Thinking` in a range over `.Messages`; the last list wins."""
    opening = closing = ""
    if not names_thinking:
        return opening, closing
    for field, around in _fields(root, None, None):
        if field.ident[0] != "Thinking":
            continue
        inner_range, holder = around
        if inner_range is None or holder is None or not _pipe_uses(inner_range.pipe, "Messages"):
            continue
        nodes = _go_nodes(holder)
        if isinstance(nodes[0], TextNode):
            opening = nodes[0].text.strip(_SPACE)
        if isinstance(nodes[-1], TextNode):
            closing = nodes[-1].text.strip(_SPACE)
    return opening, closing


def _fields(
    root: Node, inner_range: RangeNode | None, holder: ListNode | None
) -> Iterator[tuple[FieldNode, tuple[RangeNode | None, ListNode | None]]]:
    """Every field in the order of the text, with the innermost range and list around it."""
    rest: list[tuple[Node, RangeNode | None, ListNode | None]] = [(root, inner_range, holder)]
    while rest:
        node, around, within = rest.pop()
        if isinstance(node, FieldNode):
            yield node, (around, within)
        elif isinstance(node, ListNode):
            rest.extend((child, around, node) for child in reversed(_go_nodes(node)))
        elif isinstance(node, BranchNode):
            nearest = node if isinstance(node, RangeNode) else around
            parts = [part for part in (node.pipe, node.list, node.else_list) if part is not None]
            rest.extend((part, nearest, within) for part in reversed(parts))
        elif isinstance(node, (ActionNode, TemplateNode, BlockNode)):
            if node.pipe is not None:
                rest.append((node.pipe, around, within))
        elif isinstance(node, PipeNode):
            args = [arg for command in node.cmds for arg in command.args]
            rest.extend((arg, around, within) for arg in reversed(args))


def _pipe_uses(pipe: PipeNode, name: str) -> bool:
    return any(field.ident[0] == name for field, _ in _fields(pipe, None, None))


# -- the tag in front of tool calls


def _tool_tag(root: ListNode) -> str:
    node = _tool_call_node(root)
    text = _first_text(node.list) if node is not None else None
    if text is None:
        return "{"
    return text.text.replace("\r\n", "\n").partition("{")[0].strip(_SPACE) or "{"


def _tool_call_node(root: ListNode) -> IfNode | None:
    """The first `if` whose pipeline names `.ToolCalls` as an operand of its own."""
    rest: list[Node] = [root]
    while rest:
        node = rest.pop()
        if isinstance(node, ListNode):
            rest.extend(reversed(_go_nodes(node)))
        elif isinstance(node, BranchNode):
            if isinstance(node, IfNode) and _names_tool_calls(node.pipe):
                return node
            if node.else_list is not None:
                rest.append(node.else_list)
            rest.append(node.list)
    return None


def _names_tool_calls(pipe: PipeNode) -> bool:
    return any(isinstance(arg, FieldNode) and "ToolCalls" in arg.ident for command in pipe.cmds for arg in command.args)


def _first_text(root: ListNode) -> TextNode | None:
    """The first text that is not blank, unless something is printed before it."""
    for node in _go_nodes(root):
        if isinstance(node, TextNode):
            if node.text.strip(_SPACE):
                return node
        elif isinstance(node, (IfNode, RangeNode, WithNode)):
            found = _first_text(node.list)
            if found is None and node.else_list is not None:
                found = _first_text(node.else_list)
            return found
        elif isinstance(node, ActionNode):
            return None
    return None
