"""Self-contained HTML pages from the templates in this folder."""

from __future__ import annotations

from typing import Any


def html_page(template: str, /, **values: Any) -> str:
    """The page that a template of this folder makes of the values; they are escaped, and a missing one is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    pages = Environment(
        loader=PackageLoader("templatefix.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return pages.get_template(template).render(**values)
