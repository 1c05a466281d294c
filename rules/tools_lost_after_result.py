"""TF102."""

from __future__ import annotations

from collections.abc import Iterator

from templatefix.analysis.evidence import Evidence
from templatefix.analysis.findings import Finding
from templatefix.analysis.reading import TOOLS
from templatefix.analysis.rule import Rule
from templatefix.chat.request import Request
from templatefix.gotemplate.source import Span

_OTHER_NAMES = ("available_tools", "custom_tools", "functions", "tools_list")


class ToolsLostAfterResult(Rule):
    """TF102 tools-lost-after-result

    What it does
        Finds prompts that end with a tool's result and hold no tool definitions, though the request has tools.

    Why it is bad
        While it reads the result the model does not know its tools: it cannot make the second call of a job, or makes
        one up. And the prompt before, which had the definitions, is of no use to the cache.

    Example
        {{- range $i, $_ := .Messages }}
        {{- if and (eq .Role "user") $.Tools (eq (len (slice $.Messages $i)) 1) }}<tools>{{ $.Tools }}</tools>{{ end }}
        <{{ .Role }}>{{ .Content }}</{{ .Role }}>
        {{- end }}

    Use instead
        {{- if .Tools }}<tools>{{ .Tools }}</tools>{{ end }}
        {{- range .Messages }}
        <{{ .Role }}>{{ .Content }}</{{ .Role }}>
        {{- end }}

    Fix safety
        The same edit as for TF101: the definitions get a place that does not depend on the last message. A template
        that never prints definitions is reported here too; what it should print nobody but its author can tell.
    """

    CODE = "TF102"
    NAME = "tools-lost-after-result"
    SEVERITY = "error"
    FIXABLE = True
    REFERENCES = (
        "HKUDS/nanobot#4867 — behind a tool result the definitions are gone",
        "ollama/ollama#13334 — where the last two messages are looked at, the tools last one step longer and then go",
    )
    VALID = (
        "{{ json .Tools }}{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}",
        # The tools move (TF101), but are never gone.
        '{{ $at := -1 }}{{ range $i, $m := .Messages }}{{ if eq .Role "user" }}{{ $at = $i }}{{ end }}{{ end }}'
        "{{ range $i, $m := .Messages }}<{{ .Role }}>{{ if eq $i $at }}{{ $.Tools }}{{ end }}{{ .Content }}{{ end }}",
    )
    INVALID = (
        "{{ range $i, $m := .Messages }}<{{ .Role }}>"
        '{{ if and (eq .Role "user") (eq 1 (len (slice $.Messages $i))) }}{{ $.Tools }}{{ end }}'
        "{{ .Content }}{{ end }}",
        "{{ if .Tools }}You have tools.{{ end }}{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}",
        # The first message is not the user's where there is a system message.
        '{{ range $i, $m := .Messages }}<{{ .Role }}>{{ if and (eq .Role "user") (eq $i 0) }}{{ $.Tools }}{{ end }}'
        "{{ .Content }}{{ end }}",
        "{{ if .System }}<s>{{ .System }}{{ else if .Tools }}<s>{{ .Tools }}{{ end }}"
        "{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}",
    )

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """Find a step behind a tool result without definitions, be they in its loop, in another one or nowhere."""
        never = not any(step.tools for run in evidence.core for step in run.steps)
        for run, step in evidence.lacking():
            shown = next((each.index for each in run.steps if each.tools), None)
            if shown is not None:
                change = evidence.moved_tools
                span = evidence.place(change) if change is not None else evidence.tools_span(run, shown)
                message = (
                    "Behind a tool result the prompt holds no tool definitions: the model does not know its tools."
                )
                yield self.finding(evidence, message, span, run, step, error=True)
                return
            if never and not any(each.error for each in evidence.core):
                message = "The template asks for tools but prints no definitions: the model never learns of them."
                message += _elsewhere(evidence)
                yield self.finding(evidence, message, _first_mention(evidence), run, step, error=True, fixable=False)
                return
        if never or any(each.error for each in evidence.core):
            return
        for run, step in evidence.lacking():
            # Without a system message that is TF103.
            if not any(each.tools for each in run.steps) and _has_system(run.steps[step].request):
                message = (
                    "This conversation never shows the tool definitions, though others do: the model does not know its "
                    "tools."
                )
                shown_at = next((each, found.index) for each in evidence.core for found in each.steps if found.tools)
                span = evidence.tools_span(*shown_at)
                yield self.finding(evidence, message, span, run, step, error=True, fixable=False)
                return


def _has_system(request: Request) -> bool:
    return any(message.get("role") == "system" for message in request.messages)


def _elsewhere(evidence: Evidence) -> str:
    """Where a Jinja template looks for its tools, if not where the server puts them; else nothing."""
    template = evidence.template
    if template.kind != "jinja":
        return ""
    from templatefix.analysis.jinja_mentions import tools_of_messages  # with jinja2, which Go templates do without
    from templatefix.chat.jinja import JinjaChatTemplate

    if not isinstance(template, JinjaChatTemplate):
        return ""
    if found := tools_of_messages(template):
        return f" It looks for them in `{found}`; the server hands them over as `tools`, beside the messages."
    others = sorted(name for name in template.switches if name in _OTHER_NAMES)
    return f" It prints the variable `{others[0]}`; the server hands them over as `tools`." if others else ""


def _first_mention(evidence: Evidence) -> Span:
    site = evidence.reading.first_on(TOOLS) if evidence.reading is not None else None
    return site.open if site is not None else Span(0, 0)
