"""TF305."""

from __future__ import annotations

from collections.abc import Iterator

from templatefix.analysis.evidence import Evidence
from templatefix.analysis.findings import Finding
from templatefix.analysis.rule import Rule
from templatefix.chat.rendering import RenderError
from templatefix.gotemplate.source import Span

_WRONG_FIELD = "can't evaluate field"  # in Go's sentence


class FailsWithTools(Rule):
    """TF305 fails-with-tools

    What it does
        Finds templates whose execution fails as soon as tools are given, called or answered.

    Why it is bad
        The server answers with an error (500) and the engine's sentence, in the middle of a job. Without tools nobody
        notices.

    Example
        {{- with .Tools }}{{ range .Tools }}{{ . }}{{ end }}{{ end }}
        {{- range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}

    Use instead
        {{- with .Tools }}{{ range . }}{{ . }}{{ end }}{{ end }}
        {{- range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}

    Fix safety
        A field that is asked of the wrong value is asked of the right one: of dot inside `with`, of `$` inside
        `range`. Requests that rendered before render the same. A Jinja template that stops at several calls in a turn
        prints each as if it had a turn of its own. Applied unless ignored; what has no such repair is refused.
    """

    CODE = "TF305"
    NAME = "fails-with-tools"
    SEVERITY = "error"
    FIXABLE = True
    VALID = (
        "{{ with .Tools }}{{ range . }}{{ . }}{{ end }}{{ end }}"
        "{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}",
    )
    INVALID = (
        "{{ with .Tools }}{{ range .Tools }}{{ . }}{{ end }}{{ end }}"
        "{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}",
        "{{ json .Tools }}{{ range .Messages }}<{{ .Role }}>{{ .Content }}"
        "{{ range .ToolCalls }}{{ .Name }}{{ end }}{{ end }}",
        '{{ json .Tools }}{{ range .Messages }}{{ if eq .Role "tool" }}{{ .Name }}{{ end }}{{ .Content }}{{ end }}',
    )

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """Find where core loops fail; each place once."""
        if not evidence.takes_tools:
            return
        seen: set[Span] = set()
        for run in evidence.core:
            if run.error is None or run.beyond:
                continue
            span = run.error.span or Span(0, 0)
            if span not in seen:
                seen.add(span)
                message = run.error.message
                yield self.finding(
                    evidence,
                    f"Rendering fails: {message}",
                    span,
                    run,
                    len(run.steps),
                    error=True,
                    fixable=_WRONG_FIELD in message or _stops_at_calls(evidence, run.error),
                )


def _stops_at_calls(evidence: Evidence, error: RenderError) -> bool:
    if evidence.template.kind != "jinja":
        return False
    from templatefix.analysis.jinja_faults import refuses_several_calls  # with jinja2, which Go templates do without
    from templatefix.chat.jinja import JinjaChatTemplate

    return isinstance(evidence.template, JinjaChatTemplate) and refuses_several_calls(evidence.template, error)
