"""Markdown that holds whatever it is given, and reports made of Jinja templates, the user's own too."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any


class ReportTemplateError(Exception):
    """A template for reports that cannot be used; one sentence with its file and line."""


def fenced(text: str, language: str = "") -> str:
    """A block of code, behind a fence that is longer than any in the text."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{_printable(text).rstrip(chr(10))}\n{fence}"


def code(text: str) -> str:
    """A piece of code within a line."""
    text = _printable(" ".join(text.split()))
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * (longest + 1) if longest else "`"
    return f"{fence} {text} {fence}" if text.startswith("`") or text.endswith("`") else f"{fence}{text}{fence}"


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table; columns of figures stand right."""
    cells = [[_cell(value) for value in row] for row in rows]
    rules = ["---:" if rows and all(_is_figure(row[i]) for row in cells) else "---" for i in range(len(head))]
    return "\n".join("| " + " | ".join(row) + " |" for row in [list(map(_cell, head)), rules, *cells])


def _cell(value: object) -> str:
    return " ".join(str(value).split()).replace("|", "\\|")


def _is_figure(text: str) -> bool:
    return re.fullmatch(r"[\d.,%/ –-]*|none|once", text) is not None


def _printable(text: str) -> str:
    """The text without what a terminal would act on, and with U+FFFD for bytes that were not UTF-8."""
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return "".join(char if char.isprintable() or char in "\n\t" else "\N{REPLACEMENT CHARACTER}" for char in text)


def render_report(text: str, name: str, values: Mapping[str, Any]) -> str:
    """A report made of a Jinja template's text; filters: `fenced`, `code`. Raises ReportTemplateError."""
    from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError
    from jinja2.sandbox import SandboxedEnvironment

    pages = SandboxedEnvironment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    pages.filters |= {"fenced": fenced, "code": code}
    pages.globals["table"] = table
    try:
        made = pages.from_string(text).render(**values)
    except TemplateSyntaxError as error:
        raise ReportTemplateError(f"{name}, line {error.lineno}: {error.message}") from error
    except (TemplateError, TypeError, ValueError, AttributeError) as error:
        raise ReportTemplateError(f"{name} cannot be filled in: {error}") from error
    return re.sub(r"\n{3,}", "\n\n", made).strip("\n") + "\n"


def shipped(name: str) -> str:
    """The text of a template that comes with the project."""
    from importlib.resources import files

    return files("templatefix.report").joinpath(name).read_text(encoding="utf-8")
