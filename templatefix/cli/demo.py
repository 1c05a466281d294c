"""`templatefix demo`: the whole story on a sample, without a server."""

from __future__ import annotations

import dataclasses
from importlib import resources
from typing import TYPE_CHECKING

from templatefix.cli import check, patch
from templatefix.cli.experiment import experiment, on_embedded
from templatefix.cli.inputs import resolved, template_of
from templatefix.cli.output import CliError, colours, write

if TYPE_CHECKING:
    from templatefix.servers.targets import Target

SAMPLE = "llama31-like.Modelfile"


def run() -> int:
    """Show on a sample what is wrong, the change, its proof, and both templates on an engine."""
    from templatefix.analysis.analyse import analyse
    from templatefix.chat.go import GoChatTemplate
    from templatefix.lab.ab import Arm
    from templatefix.report.ab_text import ab_text
    from templatefix.rewrite.patch import patch as patched

    sample = _sample()
    template = template_of(sample)
    _headline(f"1. What is wrong: templatefix check {SAMPLE}")
    check.show(check.look(sample, lambda one, serving: analyse(one, serving=serving)))
    _headline(f"2. The change and its proof: templatefix patch {SAMPLE}")
    result = patched(template)
    patch.show(sample, result)
    if not result.changed:
        raise CliError("the sample could not be patched, which is a fault in templatefix itself; please report it")
    _headline(f"3. Both on an engine: templatefix ab {SAMPLE}")
    arms = [Arm("stock", template), Arm("patched", GoChatTemplate(result.template))]
    write(ab_text(on_embedded(arms, experiment())))
    return 0


def _sample() -> Target:
    """The sample that is shipped, under its own name."""
    with resources.as_file(resources.files("templatefix.modelfiles") / SAMPLE) as path:
        return dataclasses.replace(resolved(str(path), "modelfile"), name=SAMPLE)


def _headline(text: str) -> None:
    from templatefix.report.style import Style

    style = Style(colours())
    write(f"\n{style.bold(text)}\n{style.faint('=' * len(text))}\n\n")
