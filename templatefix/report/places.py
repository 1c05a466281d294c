"""Where findings stand, as the readers of CI servers want to have it."""

from __future__ import annotations

import os
from pathlib import Path

from templatefix.gotemplate.source import Position, Span
from templatefix.report.checked import Checked

_BOM = "\ufeff"


def relative_path(checked: Checked, root: Path) -> str | None:
    """The path of a target's file from `root`, with slashes; absolute where it lies elsewhere, None without a file."""
    if checked.path is None:
        return None
    path = Path(os.path.abspath(checked.path))
    try:
        return path.relative_to(os.path.abspath(root)).as_posix()
    except ValueError:
        return path.as_posix()


def region(checked: Checked, span: Span) -> tuple[Position, Position]:
    """The start and the end of a span of the template in its file; a mark that opens the file is no column."""
    marked = checked.file is not None and checked.file.text.startswith(_BOM)
    return _place(checked, span.start, marked), _place(checked, span.end, marked)


def _place(checked: Checked, offset: int, marked: bool) -> Position:
    place = checked.place(offset)
    return Position(place.line, max(1, place.column - (marked and place.line == 1)), place.offset)


def said(checked: Checked) -> str:
    """Why a target was not evaluated."""
    return checked.reason or "not evaluated"
