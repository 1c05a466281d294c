"""The costs of templates that are not stable, beside what a session shows of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from templatefix.analysis.analyse import Analysis
from templatefix.analysis.findings import Finding
from templatefix.chat.jinja import JinjaChatTemplate
from templatefix.servers.families import BuiltIn, NoFamily, family_of
from templatefix.trace import settings
from templatefix.trace.cost import Cost
from templatefix.trace.patient import ModelSeen, ServerSeen
from templatefix.trace.session import Session
from templatefix.trace.session_costs import could_be_cached


def with_templates(costs: Sequence[Cost], server: ServerSeen, session: Session | None) -> list[Cost]:
    """The costs with those of a server's templates.

    What no recording explains is taken for theirs; where no session says, it is what the loops of `check` read again.
    """
    kept = list(costs)
    for model in sorted(server.models, key=lambda model: not model.loaded):  # what is in memory lost it sooner
        analysis = model.analysis
        if analysis is None or analysis.verdict == "stable" or model.not_in_force:
            continue
        said = f"the template of {model.name} is {analysis.verdict}"
        said += f": {analysis.reason}" if analysis.reason else ""
        errors = tuple(f"{one.code} {one.name}: {one.message}" for one in _errors(analysis))
        setting = _setting(server, model, analysis)
        found = next((cost for cost in kept if _may_be(cost, model, server)), None)
        if found is None:
            share = None if session is not None and _seen_in(session, model) else _share(analysis)
            said += "; the share is that of check's own loops" if share is not None else "; no request here shows it"
            kept.append(Cost("template", None, share, said, errors[:3], setting, model=model.name))
            continue
        front = "prompts change in front of what is new, most likely since " if found.kind == "unknown" else ""
        message = f"{front}{said}" if front else f"{found.message}: {said}"
        evidence = (*found.evidence, *errors[:3])
        share = found.share
        if share is None and found.tokens and session is not None:
            share = found.tokens / max(1, could_be_cached(session))
        kept[kept.index(found)] = replace(
            found, kind="template", message=message, share=share, evidence=evidence, setting=setting, model=model.name
        )
    return kept


def _errors(analysis: Analysis) -> list[Finding]:
    return [one for one in analysis.findings if one.severity == "error"]


def _setting(server: ServerSeen, model: ModelSeen, analysis: Analysis) -> str:
    """The command that mends a template; an Ollama's Jinja text is not mended, but gives way to a Go template."""
    errors = _errors(analysis)
    codes, fixable = {one.code for one in errors}, not errors or any(one.fixable for one in errors)
    template = model.known.template if model.known is not None else None
    if server.kind == "ollama" and isinstance(template, JinjaChatTemplate):
        fixable = True
        try:
            family_of(template)
        except NoFamily as error:
            return settings.weights(model.name, codes, isinstance(error, BuiltIn))
    return settings.template(server.kind, server.target(model), codes, fixable)


def _may_be(cost: Cost, model: ModelSeen, server: ServerSeen) -> bool:
    """Whether a cost can be that of a model's template, and is not yet laid to another."""
    return cost.kind in ("template", "unknown") and (server.only is model or cost.model in ("", *model.names))


def _seen_in(session: Session, model: ModelSeen) -> bool:
    """Whether a session goes on with this model, so that its template had the chance to lose something."""
    return model.known is not None and any(
        one.exchange.model in (None, *model.names)
        and (one.before is not None or 2 * one.cached_tokens > one.prompt_tokens)
        for one in session.requests
    )


def _share(analysis: Analysis) -> float:
    """Of the prompts that go on from another in the core loops, how much is read again."""
    lost = whole = 0
    for run in analysis.core:
        for index in range(1, len(run.steps)):
            whole += run.steps[index].prompt_bytes
            lost += max(0, run.needed(index - 1) - run.steps[index].kept_bytes)
    return lost / whole if whole else 0.0
