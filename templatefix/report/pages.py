"""The pages of rules in the forms that other programs show."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass

from templatefix.analysis.registry import page
from templatefix.analysis.rule import Rule

_CODE = ("Example", "Use instead")  # sections whose text is a template


@dataclass(frozen=True, slots=True)
class RulePage:
    """A rule's page, taken apart: `sections` are pairs of a title and its text, the indent taken away."""

    text: str  # as `explain` prints it
    sections: tuple[tuple[str, str], ...]

    def section(self, title: str) -> str:
        """The text of a section in one line; empty if there is none."""
        return " ".join(" ".join(text for name, text in self.sections if name == title).split())

    @property
    def summary(self) -> str:
        """What the rule finds, in one sentence."""
        whole = self.section("What it does") or " ".join(self.text.split())
        return re.split(r"(?<=\.) ", whole, maxsplit=1)[0]

    @property
    def markdown(self) -> str:
        """The sections under headings, templates as code."""
        parts = []
        for title, text in self.sections:
            body = f"```\n{text}\n```" if title in _CODE else text
            parts.append(f"**{title}**\n\n{body}" if title else body)
        return "\n\n".join(parts)


def page_of(rule: Rule) -> RulePage:
    """Take a rule's page apart: titles stand at the margin, their text below them, indented."""
    text = page(rule)
    sections: list[tuple[str, str]] = []
    for block in re.split(r"\n(?=\S)", text.partition("\n")[2].strip("\n")):
        title, _, body = block.partition("\n")
        indented = body.startswith((" ", "\t"))
        sections.append((title.strip(), textwrap.dedent(body).strip("\n")) if indented else ("", block.strip()))
    return RulePage(text, tuple(section for section in sections if any(section)))
