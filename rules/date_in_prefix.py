"""TF204."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from dataclasses import replace

from templatefix.analysis.evidence import Evidence
from templatefix.analysis.findings import Cost, Finding
from templatefix.analysis.metering import Metered
from templatefix.analysis.rule import Rule
from templatefix.analysis.stability import common_prefix
from templatefix.chat.rendering import DatedTemplate, RenderError

_CLOCK = re.compile(r"Date|date|strftime")
_DAY = datetime.date(2024, 2, 28)


class DateInPrefix(Rule):
    """TF204 date-in-prefix

    What it does
        Finds a date in front of the messages that the template takes from the server's clock.

    Why it is bad
        At midnight every prompt changes near its head, and all caches are lost at once. That is once a day: a note,
        not a fault.

    Example
        <system>Today is {{ currentDate }}. {{ .System }}</system>
        {{- range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}

    Use instead
        <system>{{ .System }}</system>
        {{- range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}

    Fix safety
        Nothing is changed: the model would no longer know the day. A client that needs it can say it in a message.
    """

    CODE = "TF204"
    NAME = "date-in-prefix"
    SEVERITY = "info"
    FIXABLE = False
    VALID = ("{{ .System }}{{ json .Tools }}{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}",)
    INVALID = (
        "It is {{ currentDate }}.{{ json .Tools }}{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}",
        '{{ $day := printf "%s" yesterdayDate }}{{ range .Messages }}{{ $day }}{{ .Content }}{{ end }}'
        "{{ json .Tools }}",
    )

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """Render the first request of each core loop on two days."""
        template = evidence.template
        if not isinstance(template, DatedTemplate) or not _CLOCK.search(template.source.text):
            return
        days = [Metered(template.on_day(_DAY + datetime.timedelta(days=days)), evidence.budget) for days in (0, 2)]
        for run in evidence.core:
            if not run.steps:
                continue
            try:
                today, tomorrow = (day.render(run.steps[0].request) for day in days)
            except RenderError:
                continue
            kept = common_prefix(today.data, tomorrow.data)
            if kept >= min(run.needed(0), len(today.data)):
                continue
            total = 0
            for piece in today.pieces:
                total += len(piece.text.encode("utf-8", "surrogateescape"))
                if total > kept:
                    message = "The prompt changes with the day from here on: at midnight its cache is lost."
                    found = self.finding(evidence, message, piece.span, run, 0)
                    yield replace(found, cost=Cost(kept, len(today.data), 0, 1))
                    return
