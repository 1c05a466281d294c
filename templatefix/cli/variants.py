"""`templatefix variants`: the tags that were made here."""

from __future__ import annotations

import shlex
from functools import cache
from typing import TYPE_CHECKING

from templatefix.cli.inputs import known
from templatefix.cli.options import Format
from templatefix.cli.output import CliError, progress_line, say, say_json

if TYPE_CHECKING:
    from templatefix.servers.variants import Variant


def run(form: Format = "text") -> int:
    """List the tags made here: their base, whether it has changed since, whether they are in force."""
    from templatefix.servers.errors import ServerError
    from templatefix.servers.ollama import OllamaClient
    from templatefix.servers.variants import variants

    known("--format", form, ("text", "json"))
    show = progress_line()
    found: list[Variant] = []
    try:
        for one in variants(OllamaClient(), mend):
            found.append(one)
            show(f"{len(found)} variants")
    except ServerError as error:
        raise CliError(str(error)) from error
    finally:
        show("")
    if form == "json":
        say_json({"version": 1, "variants": [_json(one) for one in found]})
    elif not found:
        say("no tag on the server was made here")
    for one in found if form == "text" else ():
        say(f"{one.name}: of {one.base}, {_state(one)}")
    return 0


@cache
def mend(template: str) -> str:
    """The template that a variant of this one would have; the same where there is none."""
    from templatefix.chat.go import GoChatTemplate
    from templatefix.chat.rendering import RenderError
    from templatefix.rewrite.patch import patch
    from templatefix.servers.shown import is_jinja

    try:
        if is_jinja(template):
            from templatefix.servers.replacement import template_for

            return template_for(template)
        return patch(GoChatTemplate(template)).template
    except RenderError:
        return template


def _state(one: Variant) -> str:
    force = f"not in force ({one.not_in_force})" if one.not_in_force else "in force"
    if one.state == "current":
        return f"as its base is now, {force}"
    again = f"; made anew with: templatefix patch {shlex.quote(one.base)} --tag {shlex.quote(one.name)} --force"
    return f"{one.why}, {force}{again if one.state == 'changed' else ''}"


def _json(one: Variant) -> dict[str, object]:
    from dataclasses import asdict

    values = asdict(one)
    reason = values.pop("not_in_force")
    return {**values, "in_force": not reason, "reason": reason or None}
