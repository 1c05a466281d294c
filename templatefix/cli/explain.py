"""`templatefix explain`: the page of a rule."""

from __future__ import annotations

from typing import Annotated

import typer

from templatefix.cli.inputs import rules_of
from templatefix.cli.options import Rules
from templatefix.cli.output import CliError, say


def run(
    code: Annotated[str, typer.Argument(metavar="CODE", help="A rule's code or name, such as TF101.")],
    rules: Rules = None,
) -> int:
    """Print a rule's page: what it finds, why it matters, how it is mended."""
    from templatefix.analysis.registry import find_rule, page

    known = rules_of(rules)
    rule = find_rule(code, known)
    if rule is None:
        raise CliError(f"there is no rule {code}; there are {', '.join(rule.CODE for rule in known)}")
    say(page(rule))
    return 0
