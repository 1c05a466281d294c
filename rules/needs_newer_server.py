"""TF402."""

from __future__ import annotations

from collections.abc import Iterator

from templatefix.analysis.evidence import Evidence
from templatefix.analysis.findings import Finding
from templatefix.analysis.older import Lack, lacks, without_field
from templatefix.analysis.rule import Rule
from templatefix.analysis.stability import LoopRun
from templatefix.chat.go import GoChatTemplate
from templatefix.chat.serving import Serving, version_text
from templatefix.gotemplate.source import Span


class NeedsNewerServer(Rule):
    """TF402 needs-newer-server

    What it does
        Finds a function or a field that the server's version does not know yet, such as `currentDate` before 0.11.0
        or `.Thinking` before 0.9.0.

    Why it is bad
        An unknown function is refused when the template is parsed: the model does not run at all. An unknown field of
        a message, a call or a tool fails only when it is evaluated, often at the second message of a conversation.

    Example
        {{- range .Messages }}<{{ .Role }}>{{ if .Thinking }}({{ .Thinking }}){{ end }}{{ .Content }}{{ end }}

    Use instead
        {{- range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}

    Fix safety
        Nothing is changed: update the server. A build without a version counts as new.
    """

    CODE = "TF402"
    NAME = "needs-newer-server"
    SEVERITY = "error"
    FIXABLE = False
    REFERENCES = (
        "ollama/ollama#11681 — `currentDate` on a server that does not know it",
        "ollama/ollama#10891 — `.Thinking` on a server whose messages have no such field",
    )
    EXAMPLES_ON = Serving(version=(0, 8, 0))
    VALID = ("{{ json .Tools }}{{ .Think }}{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}",)
    INVALID = (
        "{{ currentDate }}{{ json .Tools }}{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}",
        "{{ json .Tools }}{{ range $i, $m := .Messages }}<{{ $m.Role }}>{{ $m.Content }}"
        '{{ if eq $m.Role "tool" }}{{ $m.ToolName }}{{ end }}{{ end }}',
    )

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """Run the template as the older server would, a name at a time."""
        version = evidence.serving.version
        template = evidence.template
        if version is None or not isinstance(template, GoChatTemplate):
            return
        for lack in lacks(template, version):
            needs = f"needs Ollama {version_text(lack.since)}; the server is {version_text(version)}"
            if lack.function:
                said = f"The function `{lack.name}` {needs} and refuses the template."
                yield self.finding(evidence, said, lack.spans[0], evidence.core[0], 0)
                continue
            failure = _failure(evidence, template, lack)
            if failure is not None:
                run, span = failure
                step = len(run.steps)
                said = f"The field `{lack.name}` {needs} and fails at step {step} of the loop {run.loop.name}."
                yield self.finding(evidence, said, span, run, step)


def _failure(evidence: Evidence, template: GoChatTemplate, lack: Lack) -> tuple[LoopRun, Span] | None:
    """The first loop that evaluates a field, run without it, and where the field stands."""
    lacking = without_field(template, lack)
    for run in (*evidence.core, *evidence.others):
        there = evidence.run_other(lacking, run.loop)
        if there.error is not None and run.error is None and not there.beyond:
            return there, lack.spans[0]
    return None
