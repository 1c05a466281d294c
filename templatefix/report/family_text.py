"""A Go template in the place of a Jinja text, for people: what it mends, what differs, what was shown."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from templatefix.report.style import PLAIN, Style
from templatefix.report.width import wrapped
from templatefix.rewrite.family import Replacement

_MEANING = {
    "parses": "Go's parser accepts it, and every name in it has a value",
    "derived_unchanged": "the server sees all capabilities that it saw, and a round trip of calls",
    "prefix_stable": "every tool loop only grows, with thinking in the history as well",
    "no_tools_identical": "without tools every prompt is the same to the byte",
    "tools_once": "the tool definitions stand in each prompt once",
    "messages_kept": "every message's text and every argument of a call is there, in order",
    "conserved": "all words that go or come stand in the change above",
    "idempotent": "there is nothing in it to patch",
}


def family_text(target: str, result: Replacement, style: Style = PLAIN) -> str:
    """The result for one target."""
    codes = ", ".join(result.applied)
    gone = f"{codes} {'is' if len(result.applied) == 1 else 'are'} gone" if codes else "past thoughts reach the model"
    lines = [style.bold(style.good(f"{target}: {gone}, by a Go TEMPLATE of the family {result.family}"))]
    beside = f", with PARSER {result.parser} to read its calls" if result.parser else ""
    alike = result.proof.results()["no_tools_identical"]
    lines += wrapped(
        "Ollama takes no Jinja text from a client, so this is no variant of the one in the weights but another "
        f"template of the family, which wins over it on the server{beside}. The model is told of its tools in other "
        "words"
        + (". " if alike else ", and prompts without tools may differ as well. ")
        + "Whether it works as well with it is for ab --live to measure."
        + (" Thinking stays in the history where it was." if "TF203" in result.applied else ""),
        "  ",
    )
    if result.before != result.after:
        lines += ["", "the first prompt with tools, by the Jinja text and by the new template:"]
        lines += _prompts(result, style)
    lines += ["", *_proof(result, style)]
    for finding in result.remaining:
        lines += wrapped(f"left as it is: {finding.code} {finding.severity}: {finding.message}", "  ")
    return "\n".join(lines) + "\n"


def next_steps(model: str, tag: str) -> str:
    """What to do with a tag that was made, and what to know of it."""
    return (
        f"\nwhat it gains is measured by: templatefix ab {model} {tag}\n"
        f"whether the model works as well with it: templatefix ab {model} {tag} --live\n"
        "both share one engine: while it runs for the new tag, Ollama may refuse tools for the old one "
        f"(ollama stop {tag} ends it)\n"
    )


def _prompts(result: Replacement, style: Style) -> Iterator[str]:
    before, after = result.before.split("\n"), result.after.split("\n")
    for number, line in enumerate(difflib.unified_diff(before, after, "before", "after", lineterm="")):
        if number < 2:
            yield style.bold(line)
        elif line.startswith("@@"):
            yield style.faint(line)
        else:
            yield style.good(line) if line.startswith("+") else style.bad(line) if line.startswith("-") else line


def _proof(result: Replacement, style: Style) -> Iterator[str]:
    yield style.faint(f"{'proof':<20}{'':<8}{'renders':>7}")
    for name, check in result.proof.checks.items():
        said = style.good("holds  ") if check.holds else style.faint("differs")
        yield f"{name:<20}{said} {check.renders:>7}  {_MEANING[name] if check.holds else check.reason}"
