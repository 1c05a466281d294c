"""A diagnosis for other programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from templatefix.trace.cost import Cost
from templatefix.trace.diagnosis import Diagnosis
from templatefix.trace.patient import ModelSeen


def doctor_json(found: Diagnosis) -> dict[str, Any]:
    """The diagnosis; what was not seen is null."""
    server, makeup, session = found.server, found.makeup, found.session
    return {
        "version": 1,
        "server": None
        if server is None
        else {
            "kind": server.kind,
            "url": server.url,
            "version": server.version,
            "slots": server.slots,
            "models": [_model(model) for model in server.models],
        },
        "setup": asdict(found.setup),
        "figures": asdict(found.figures),
        "prompt": None
        if makeup is None
        else {**asdict(makeup), "fresh_seconds": found.figures.seconds(makeup.median_fresh)},
        "costs": [_cost(cost) for cost in found.costs],
        "missing": list(found.missing),
        "unread": [
            {"source": one.source, "line": one.line, "reason": one.reason, "count": one.count}
            for one in (session.unread if session is not None else ())
        ],
    }


def _model(model: ModelSeen) -> dict[str, Any]:
    analysis = model.analysis
    return {
        "name": model.name,
        "loaded": model.loaded,
        "context": model.context,
        "template": model.known.template.kind if model.known is not None else None,
        "verdict": analysis.verdict if analysis is not None else "not-evaluated",
        "findings": [one.code for one in analysis.findings] if analysis is not None else [],
        "not_in_force": model.not_in_force or None,
        "failure": model.failure or None,
    }


def _cost(cost: Cost) -> dict[str, Any]:
    return {
        "kind": cost.kind,
        "tokens": cost.tokens,
        "share": cost.share,
        "seconds": cost.seconds,
        "message": cost.message,
        "evidence": list(cost.evidence),
        "setting": cost.setting,
    }
