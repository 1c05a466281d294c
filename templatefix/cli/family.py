"""A model whose Jinja text is in force on an Ollama server, for the commands that make or measure its replacement."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, cast

from templatefix.cli.inputs import chat_template_of

if TYPE_CHECKING:
    from templatefix.chat.jinja import JinjaChatTemplate
    from templatefix.rewrite.result import PatchResult
    from templatefix.servers.targets import Target


def in_force(found: Target) -> Target | None:
    """The target with the Jinja text that its server makes prompts with; None where it does not."""
    if found.shown is None or not found.shown.renders_jinja:
        return None  # without loading what reads Jinja
    from templatefix.servers.replacement import in_force

    return in_force(found)


def replaced(
    found: Target, select: Collection[str], ignore: Collection[str], keep_thinking: bool = False
) -> PatchResult:
    """What becomes of a model whose Jinja text is in force."""
    from templatefix.servers.replacement import replaced

    target = in_force(found)
    assert target is not None
    return replaced(cast("JinjaChatTemplate", chat_template_of(target)), found.reason, select, ignore, keep_thinking)


def parser_of(result: PatchResult) -> str:
    """The PARSER that a tag needs beside the template; empty: none."""
    from templatefix.servers.replacement import parser_of

    return parser_of(result)
