"""Changes that a model may not have been trained for, made only when they are asked for by code.

Each holds only when tools are given, so that conversations without tools stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from templatefix.chat.go import GoChatTemplate
from templatefix.chat.rendering import RenderError, Rendering
from templatefix.chat.request import Request
from templatefix.gotemplate.edits import Edit
from templatefix.gotemplate.nodes import ActionNode, IfNode, Node, RangeNode, StringNode, TextNode
from templatefix.gotemplate.visitor import walk
from templatefix.rewrite.conditions import Conditions
from templatefix.rewrite.layout import Layout
from templatefix.rewrite.operands import call_of, path_of, single
from templatefix.rewrite.proof import Baseline, Check
from templatefix.rewrite.repairs import Repair, applied
from templatefix.rewrite.surgery import Surgeon
from templatefix.rewrite.traits import derived_traits
from templatefix.rewrite.words import words_of

RESULTS, LOST, PARALLEL = "TF302", "TF303", "TF304"
_ROLES = frozenset({"system", "user", "assistant", "tool"})  # that messages come with


def adapt(base: Baseline, code: str) -> Repair | str:
    """Change what a code complains of; a sentence where that cannot be done."""
    template = base.template
    assert isinstance(template, GoChatTemplate)
    layout = Layout(template.tree)
    make, concerned, obstacle = {
        RESULTS: (_results, _has_results, "no arm prints results under another role"),
        LOST: (_both, _has_both, "text and calls stand in no simple choice between the two"),
        PARALLEL: (_commas, _has_parallel, "no list of calls was found"),
    }[code]
    reason = obstacle
    for edits in make(layout):
        adapted = applied(template, edits)
        if adapted is None:
            continue
        check = _only_more(base, adapted, concerned)
        if check.holds:
            return Repair(adapted, len(edits), check)
        reason = check.reason or obstacle
    return reason


# TF302: results under a role that never comes


def _results(layout: Layout) -> Iterator[list[Edit]]:
    conditions = Conditions(layout, Surgeon(layout.tree))
    found: list[tuple[bool, list[Edit]]] = []
    for node in layout.nodes:
        if not isinstance(node, IfNode) or layout.loop_of(node) is None or not layout.prints_message(node):
            continue
        for part, asked, role in _comparisons(node.pipe):
            if "assistant" in asked or "call" in asked:
                continue  # what the model says, not what it is told
            # Written the other way round: what a server derives from the usual spelling must not change.
            either = f'or {conditions.text(part)} (and $.Tools (eq "tool" {role}))'
            found.append(("tool" not in asked, [conditions.put(node.pipe, part, either)]))
    yield from [edits for _, edits in sorted(found, key=lambda pair: pair[0])]


def _comparisons(part: Node) -> Iterator[tuple[Node, str, str]]:
    """The comparisons with a role that never comes: the part, that role, and how the message's role is named."""
    call = call_of(part)
    if call is None:
        return
    name, args = call
    if name == "eq" and len(args) == 2:
        texts = [arg.value for arg in args if isinstance(arg, StringNode)]
        roles = [arg for arg in args if path_of(arg)[-1:] == ("Role",)]
        if len(texts) == 1 and len(roles) == 1 and texts[0] not in _ROLES:
            path = ".".join(path_of(roles[0]))
            yield part, texts[0], path if path.startswith("$") else f".{path}"
    elif name in ("or", "and"):
        for arg in args:
            yield from _comparisons(arg)


def _has_results(request: Request) -> bool:
    return any(message.get("role") == "tool" for message in request.messages)


# TF303: text or calls


def _both(layout: Layout) -> Iterator[list[Edit]]:
    surgeon = Surgeon(layout.tree)
    for node in layout.nodes:
        if not isinstance(node, IfNode) or layout.loop_of(node) is None or node.else_list is None:
            continue
        asked = path_of(single(node.pipe) or node.pipe)[-1:]
        if asked == ("Content",):
            yield from _calls_as_well(layout, surgeon, node)
        elif asked == ("ToolCalls",):
            yield from _text_as_well(layout, surgeon, node)


def _calls_as_well(layout: Layout, surgeon: Surgeon, node: IfNode) -> Iterator[list[Edit]]:
    """`{{ if .Content }} … {{ else if .ToolCalls }} … {{ end }}`: two branches, one behind the other."""
    other = node.else_list.nodes[0] if node.else_list is not None and node.else_list.nodes else None
    if not isinstance(other, IfNode) or not other.chained or other.else_list is not None:
        return
    content, calls = layout.source.slice(node.pipe.span), layout.source.slice(other.pipe.span)
    left = "{{- " if surgeon.trims_left(other.open) else "{{ "
    right = " -}}" if surgeon.trims_right(other.open) else " }}"
    text = f"{left}end }}}}{{{{ if and {calls} (or $.Tools (not {content})){right}"
    yield [Edit(other.open, text)]


def _text_as_well(layout: Layout, surgeon: Surgeon, node: IfNode) -> Iterator[list[Edit]]:
    """`{{ if .ToolCalls }} … {{ else }} … {{ .Content }} … {{ end }}`: the text in front of the calls."""
    assert node.else_list is not None
    nodes = node.else_list.nodes
    at = next((i for i, each in enumerate(nodes) if _prints_content(each)), None)
    if at is None or not all(isinstance(each, TextNode) for each in nodes[:at]):
        return
    printed = nodes[at]
    assert isinstance(printed, ActionNode)
    content = layout.source.slice(printed.pipe.span)
    text = surgeon.text_of(nodes[0].span.start, printed.span.end)
    yield surgeon.insert(node.open.end, f"{{{{ if and $.Tools {content} }}}}{text}{{{{ end }}}}")


def _prints_content(node: Node) -> bool:
    return isinstance(node, ActionNode) and path_of(single(node.pipe) or node.pipe)[-1:] == ("Content",)


def _has_both(request: Request) -> bool:
    return any(message.get("tool_calls") and message.get("content") for message in request.messages)


# TF304: calls without a comma


def _commas(layout: Layout) -> Iterator[list[Edit]]:
    conditions = Conditions(layout, Surgeon(layout.tree))
    for node in layout.nodes:
        if not isinstance(node, RangeNode) or not _lists_calls(node) or not _in_brackets(layout, node):
            continue
        index = conditions.index_of(node)
        first = node.list.nodes[0] if node.list.nodes else None
        blank = isinstance(first, TextNode) and first.text[:1].isspace()
        comma = f"{{{{ if and $.Tools {index.name} }}}}{',' if blank else ', '}{{{{ end }}}}"
        yield [*index.edits, *conditions.surgeon.insert(node.open.end, comma)]


def _lists_calls(node: RangeNode) -> bool:
    return any(path_of(each)[-1:] == ("ToolCalls",) for each in walk(node.pipe))


def _in_brackets(layout: Layout, node: RangeNode) -> bool:
    place = layout.place(node)
    before = place.list.nodes[place.index - 1] if place.index else None
    return isinstance(before, TextNode) and before.text.rstrip().endswith("[")


def _has_parallel(request: Request) -> bool:
    return any(len(message.get("tool_calls") or ()) > 1 for message in request.messages)


# What shows that the rest is as it was


def _only_more(base: Baseline, adapted: GoChatTemplate, concerned: Callable[[Request], bool]) -> Check:
    """Whether only prompts of requests that are concerned change, and lose no datum of a message."""
    traits = derived_traits(adapted)
    for name, value in base.traits.items():
        if traits.get(name) != value:
            return Check(False, 1, f"the {name} was {value!r} and would be {traits.get(name)!r}")
    renders, changed = 0, False
    for request, before in base.rendered:
        renders += 1
        after = base.render(adapted, request)
        if isinstance(after, RenderError):
            return Check(False, renders, f"a request that rendered before fails: {after}")
        if before.data == after.data:
            continue
        if not request.tools or not concerned(request):
            return Check(False, renders, "a prompt that is not concerned changes")
        if not _holds_all(before, after):
            return Check(False, renders, "a message's text would be lost")
        changed = True
    return Check(changed, renders, None if changed else "no prompt changes")


def _holds_all(before: Rendering, after: Rendering) -> bool:
    rest: Iterator[str] = iter([word.text for word in words_of(after) if word.is_message])
    return all(text in rest for text in [word.text for word in words_of(before) if word.is_message])
