"""Repairs of a Jinja template's data, proved apart: what follows takes the repaired template for the original."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from templatefix.chat.jinja import JinjaChatTemplate
from templatefix.chat.rendering import RenderError, Rendering
from templatefix.chat.request import Request
from templatefix.gotemplate.edits import Edit, apply_edits
from templatefix.rewrite.proof import Baseline, Check
from templatefix.rewrite.traits import derived_traits

_BETTER: Final = ("supports tools", "supports tool calls", "supports parallel tool calls", "supports object arguments")


@dataclass(frozen=True)
class JinjaRepair:
    """A repaired template, and what shows that the rest is as it was."""

    template: JinjaChatTemplate
    check: Check


def edited(template: JinjaChatTemplate, edits: Sequence[Edit]) -> JinjaChatTemplate | None:
    """The template with edits made; None where it is none."""
    try:
        return template.with_text(apply_edits(template.source, edits))
    except (ValueError, RenderError):
        return None


def rendered(base: Baseline, template: JinjaChatTemplate, request: Request) -> Rendering | None:
    """What a template makes of a request, paid from the budget of `base`; None where it fails."""
    found = base.render(template, request)
    return found if isinstance(found, Rendering) else None


def traits_lost(before: JinjaChatTemplate, after: JinjaChatTemplate) -> str:
    """What a server no longer finds out about a template as it did; with more of the tools it may see more."""
    told = derived_traits(after)
    for name, value in derived_traits(before).items():
        if told.get(name) != value and not (name in _BETTER and told.get(name) is True):
            return f"the {name} was {value!r} and is {told.get(name)!r}"
    return ""
