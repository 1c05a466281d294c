"""What became of a template, for the terminal: the diff, the proof, and what went or stays."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from templatefix.report.style import PLAIN, Style
from templatefix.report.width import wrapped
from templatefix.rewrite.proof import NAMES
from templatefix.rewrite.result import PatchResult

_PLACES = {"system": "in the system block", "first-user": "in the first user message"}
_OTHER = {"system": "first-user", "first-user": "system"}
_MEANING = {
    "parses": "accepted, and uses the same names",
    "derived_unchanged": "what the server derives from it is as before",
    "no_tools_identical": "without tools every prompt is the same to the byte",
    "prefix_stable": "every tool loop only grows",
    "tools_once": "the tools stand in each prompt once, always the same",
    "messages_kept": "every message's text is still there, in order",
    "conserved": "nothing else went or came on the first request",
    "idempotent": "patching it again changes nothing",
}


def patch_text(target: str, result: PatchResult, diff: str, style: Style = PLAIN) -> str:
    """The result for one target; `diff` is that of the file as it came."""
    if not result.changed:
        return "\n".join(_unchanged(target, result, style)) + "\n"
    lines = [style.bold(style.good(f"{target}: {_mended(result)}")), *_instead(result), "", *_diff(diff, style), ""]
    lines += _proof(result, style)
    for name, texts in (("dropped", result.dropped_text), ("added", result.added_text)):
        lines.append("")
        lines += [f"{name} text:", *_quoted(texts)] if texts else [f"{name} text: none"]
    lines += _left(result, style)
    return "\n".join(lines) + "\n"


def file_diff(name: str, before: bytes, after: bytes) -> str:
    """The change of a file as a unified diff, with the file's own lines; what is not UTF-8 is shown as U+FFFD."""
    old, new = (data.decode("utf-8", "replace").splitlines(keepends=True) for data in (before, after))
    lines = difflib.unified_diff(old, new, f"a/{name}", f"b/{name}")
    return "".join([line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines])


def _mended(result: PatchResult) -> str:
    codes = ", ".join(result.applied)
    gone = f"{codes} {'is' if len(result.applied) == 1 else 'are'} gone" if codes else "changed"
    moved = any(code.startswith("TF1") for code in result.applied)
    return f"{gone}, tools stand {_PLACES[result.placement]}" if moved else gone


def _instead(result: PatchResult) -> Iterator[str]:
    if result.instead is not None:
        yield from wrapped(f"not {_PLACES[_OTHER[result.placement]]}: {result.instead}", "  ", "    ")


def _unchanged(target: str, result: PatchResult, style: Style) -> Iterator[str]:
    if not result.refused:
        judged = (
            "every tool loop only grows already" if result.tools else "judged on chats, every prompt only grows already"
        )
        yield style.good(f"{target}: nothing to do, {judged}")
    else:
        yield style.bold(style.bad(f"{target}: refused, nothing was changed"))
        yield from _refusals(result)
    yield from _left(result, style)


def _refusals(result: PatchResult) -> Iterator[str]:
    for refusal in result.refused:
        yield from wrapped(f"{refusal.code}: {refusal.reason}" if refusal.code else refusal.reason, "  ", "    ")


def _diff(diff: str, style: Style) -> Iterator[str]:
    for line in diff.split("\n")[: -1 if diff.endswith("\n") else None]:
        if line.startswith(("---", "+++")):
            yield style.bold(line)
        elif line.startswith("@@"):
            yield style.faint(line)
        else:
            yield style.good(line) if line.startswith("+") else style.bad(line) if line.startswith("-") else line


def _proof(result: PatchResult, style: Style) -> Iterator[str]:
    holds, renders = result.proof.results(), result.proof.renders()
    yield style.faint(f"{'proof':<20}{'':<5}{'renders':>7}")
    for name in NAMES:
        said = style.good("holds") if holds[name] else style.bad("fails")
        meaning = _MEANING[name]
        if name == "no_tools_identical" and result.apart is not None:
            meaning = f"without tools every prompt is the same, {result.apart} apart"
        yield f"{name:<20}{said}{renders[name]:>7}  {meaning}"


def _left(result: PatchResult, style: Style) -> Iterator[str]:
    if result.changed and result.refused:
        yield ""
        yield "not mended:"
        yield from _refusals(result)
    if result.remaining and not (result.refused and not result.changed):
        yield ""
        yield "left as it is:"
        for finding in result.remaining:
            yield from wrapped(f"{finding.code} {finding.severity}: {finding.message}", "  ", "    ")
    if result.notes:
        yield ""
        for note in result.notes:
            yield from wrapped(f"note: {note}", "")


def _quoted(texts: tuple[str, ...]) -> Iterator[str]:
    for text in texts:
        for line in text.splitlines() or [""]:
            yield f"  | {line}"
