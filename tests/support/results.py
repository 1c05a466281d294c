"""Results of checks, made up."""

from __future__ import annotations

from pathlib import Path

from templatefix.analysis.analyse import Analysis
from templatefix.analysis.findings import Cost, Finding, Severity, Verdict
from templatefix.analysis.loops import Loop, assistant, requests_of, user
from templatefix.analysis.stability import run_loop
from templatefix.chat.go import GoChatTemplate
from templatefix.gotemplate.source import Source, Span
from templatefix.report.checked import Checked

TEXT = "Hello.\n{{ range .Messages }}<{{ .Role }}>{{ .Content }}\n{{ end }}"
CHAT = Loop("chat", requests_of([user("one"), assistant("two"), user("three")], ()), True)


def finding(severity: Severity, code: str = "TF901", fixable: bool = True, at: int = 28, size: int = 11) -> Finding:
    """A finding in TEXT, by default at the role; errors have a loop and a cost."""
    cost = Cost(16, 44, 1, 2) if severity == "error" else None
    loop = "chat" if severity == "error" else None
    span = Span(at, at + size)
    return Finding(code, "made-up", severity, "It moves.", span, loop, 1 if loop else None, fixable, cost)


def checked(
    verdict: Verdict,
    *findings: Finding,
    reason: str | None = None,
    notes: tuple[str, ...] = (),
    target: str = "chat.tmpl",
    path: Path | None = None,
    text: str = TEXT,
) -> Checked:
    """A result with these findings; its loop is CHAT, rendered with TEXT."""
    template = GoChatTemplate(TEXT)
    run = run_loop(template, CHAT, template.as_served)
    analysis = Analysis(verdict, reason, findings, (run,), notes)
    source = Source(text)
    return Checked(target, "go", text, source, source.position, analysis, path=path)
