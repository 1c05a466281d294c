"""The templates of a session's models, and what in them broke a prompt: the node and the rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from templatefix.analysis.analyse import analyse
from templatefix.analysis.changes import Change, changes
from templatefix.analysis.evidence import Evidence
from templatefix.analysis.findings import Finding
from templatefix.analysis.loops import Loop
from templatefix.analysis.stability import run_loop
from templatefix.chat.go import GoChatTemplate
from templatefix.chat.jinja import JinjaChatTemplate
from templatefix.chat.ollama_jinja import OllamaJinjaTemplate
from templatefix.chat.rendering import ChatTemplate, RenderError, Rendering
from templatefix.chat.request import Request, RequestError
from templatefix.servers.families import capabilities_of
from templatefix.trace.exchange import TemplateSeen


@dataclass
class KnownTemplate:
    """A template with what its server makes of requests before it sees them."""

    name: str
    template: ChatTemplate
    served: Callable[[Request], Request]

    def render(self, request: Request) -> Rendering | None:
        """The prompt; None where the template fails on it."""
        try:
            return self.template.render(self.served(request))
        except (RenderError, RequestError):
            return None

    @cached_property
    def _evidence(self) -> Evidence:
        return Evidence(self.template)

    @cached_property
    def _findings(self) -> tuple[Finding, ...]:
        return analyse(self.template).findings

    def blame(self, before: Request, after: Request) -> dict[str, Any]:
        """The node that made two prompts differ although the second request only goes on from the first, and its rule.

        Keys are there as far as they are known: `line`, `column`, `node`, `code`, `name`, `finding`.
        """
        run = run_loop(self.template, Loop("recorded", (before, after), False), self.served)
        thoughts = any(message.get("thinking") for message in after.messages)
        reading = self._evidence.reading_thoughts if thoughts else self._evidence.reading
        found = list(changes(run, reading)) if len(run.steps) == 2 else []
        if not found:
            return self._moved(after)
        change = next((change for change in found if change.tools), found[0])
        place = self._evidence.place(change)
        position = self.template.source.position(place.start)
        told: dict[str, Any] = {"template": self.name, "line": position.line, "column": position.column}
        told["node"] = self.template.source.slice(place)[:200]
        finding = self._finding(change, place.start)
        if finding is not None:
            told |= {"code": finding.code, "name": finding.name, "finding": finding.message}
        return told

    def _moved(self, after: Request) -> dict[str, Any]:
        """Where the prompt kept all of the one before and tools came behind it: the finding about tools."""
        finding = next((one for one in self._findings if after.tools and one.code in ("TF101", "TF102")), None)
        if finding is None:
            return {"template": self.name}
        position = self.template.source.position(finding.span.start)
        told = {"template": self.name, "line": position.line, "column": position.column}
        told["node"] = self.template.source.slice(finding.span)[:200]
        return {**told, "code": finding.code, "name": finding.name, "finding": finding.message}

    def _finding(self, change: Change, place: int) -> Finding | None:
        within = [one for one in self._findings if one.span.start <= place < max(one.span.end, one.span.start + 1)]
        within.sort(key=lambda one: one.span.end - one.span.start)
        if change.tools:
            # The same branch can decide about more than tools.
            return next((one for one in (*within, *self._findings) if one.code in ("TF101", "TF102", "TF104")), None)
        return within[0] if within else None


def known_templates(
    seen: Mapping[str, TemplateSeen], given: Mapping[str | None, KnownTemplate]
) -> Callable[[str | None], KnownTemplate | None]:
    """What to look a model's template up with: those given go before those in the recording; None is for any model."""
    made: dict[str, KnownTemplate | None] = {}

    def find(model: str | None) -> KnownTemplate | None:
        if model in given:
            return given[model]
        if None in given:
            return given[None]
        if model is None or model not in seen:
            return None
        if model not in made:
            made[model] = _made(seen[model])
        return made[model]

    return find


def _made(seen: TemplateSeen) -> KnownTemplate | None:
    try:
        if seen.kind == "jinja":
            made = _jinja(seen)
            return KnownTemplate(seen.model, made, made.as_served)
        template = GoChatTemplate(seen.text)
    except RenderError:
        return None
    return KnownTemplate(seen.model, template, template.as_served)


def _jinja(seen: TemplateSeen) -> JinjaChatTemplate:
    if not seen.of_ollama:
        return JinjaChatTemplate(seen.text)
    return OllamaJinjaTemplate(seen.text, thinks="thinking" in capabilities_of(seen.text))
