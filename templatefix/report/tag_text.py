"""What became of a tag on a server, in a few lines."""

from __future__ import annotations

from templatefix.servers.tags import TagReport

_UNITS = ("B", "kB", "MB", "GB", "TB")


def tag_text(base: str, report: TagReport) -> str:
    """The tag, what it shares with its base, and what was compared."""
    if report.outcome == "exists":
        lines = [f"{report.name}: there already, with this very template"]
    else:
        lines = [
            f"{report.name}: made, digest {report.digest[:19]}",
            f"  {size(report.shared_bytes)} shared with {base}, {size(report.added_bytes)} added",
        ]
        if report.renders:
            lines.append(f"  {report.renders} prompts of the server compared with ours: the same")
    lines += [f"  {note}" for note in report.notes]
    return "\n".join(lines) + "\n"


def size(count: int) -> str:
    """A number of bytes for people."""
    value, unit = float(count), 0
    while value >= 1000 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{count} B" if unit == 0 else f"{value:.1f} {_UNITS[unit]}"
