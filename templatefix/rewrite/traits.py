"""What a server derives from a template's tree, whatever the language: it must survive a rewrite."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Final, cast

from templatefix.chat.go import GoChatTemplate
from templatefix.chat.rendering import ChatTemplate, RenderError
from templatefix.chat.request import Request
from templatefix.gotemplate.nodes import IfNode, TextNode
from templatefix.gotemplate.visitor import walk
from templatefix.rewrite.operands import path_of

if TYPE_CHECKING:
    from templatefix.chat.jinja import JinjaChatTemplate

KEEPS: Final = "supports preserve reasoning"  # what a variant that keeps thinking is meant to change


def names_used(template: ChatTemplate) -> frozenset[str]:
    """The names of data that a template uses, its own variables apart."""
    if template.kind != "go":
        from jinja2.meta import find_undeclared_variables

        from templatefix.chat.jinja_language import JinjaLanguage

        # jinja2 optimizes the tree that it looks through, in place; the template's own stays as it was written.
        return frozenset(find_undeclared_variables(JinjaLanguage().read(template.source)))
    return frozenset(name for name in cast(GoChatTemplate, template).derived.vars if not name.startswith("$"))


def derived_traits(template: ChatTemplate) -> Mapping[str, object]:
    """Everything else that a server reads from the tree, by name."""
    if template.kind != "go":
        return _tried(cast("JinjaChatTemplate", template))
    go = cast(GoChatTemplate, template)
    derived = go.derived
    return {
        "capabilities": derived.capabilities,
        "tool-call tag": derived.tool_tag,
        "text of the first if over the calls": _first_text_of_calls(go),
        "opening think tag": derived.think_open,
        "closing think tag": derived.think_close,
        "round trip": derived.round_trip,
        "legacy mode": go.legacy,
    }


def _tried(template: JinjaChatTemplate) -> Mapping[str, object]:
    """What llama-server finds out by trying a template, found out anew whatever a server said of it before."""
    fresh = template.untold()
    try:
        told = {name.replace("_", " "): value for name, value in asdict(fresh.caps).items()}
    except RenderError as error:  # beyond limits
        return {"refusal at the start": str(error)}
    return {**told, "default for thinking": fresh.thinks_by_default, "refusal at the start": str(fresh.refusal or "")}


def _first_text_of_calls(template: GoChatTemplate) -> str | None:
    """The first text in the first `if` that asks for a message's calls: the tag is read from it."""
    for node in walk(template.tree.root):
        if isinstance(node, IfNode) and any(path_of(each)[-1:] == ("ToolCalls",) for each in walk(node.pipe)):
            texts = [each.text for each in walk(node.list) if isinstance(each, TextNode) and each.text.strip()]
            return texts[0] if texts else None
    return None


def server_of(template: ChatTemplate) -> Callable[[Request], Request]:
    """How a server shapes a request for a template: thinking on by default where there are think tags."""
    return cast("GoChatTemplate | JinjaChatTemplate", template).as_served


def thinks(template: ChatTemplate) -> bool:
    """Whether a template has think tags."""
    if template.kind != "go":
        return cast("JinjaChatTemplate", template).thinks_by_default
    return cast(GoChatTemplate, template).has_think_tags
