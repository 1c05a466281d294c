"""A diagnosis for other programs.

What was not seen is null, or an empty list; more keys may come. The values below stand for their types.

    {"version": 1,
     "healthy": true,
     "server": {"kind": "ollama", "url": "…", "version": "…", "slots": 1, "router": false,
                "models": [{"name": "…", "loaded": true, "context": 0, "memory": "swa", "template": "go",
                            "verdict": "stable", "findings": ["TF101"], "not_in_force": "…", "failure": "…"}]},
     "setup": {"slots": 1, "context": 0, "prompt_cache": true, "checkpoints": 0, "window": 0, "full_window": false,
               "recurrent": false, "saved": 0, "restored": 0, "dropped": 0, "router": false,
               "starts": [{"source": "…", "line": 1, "weights": "…", "context": 0, "again": false, "gone": "expired"}]},
     "figures": {"requests": 0, "conversations": 0, "prompt_tokens": 0, "fresh_tokens": 0, "tokens_per_second": 0.0},
     "prompt": {"request": 0, "prompt_tokens": 0, "parts": {"system": 0, "tools": 0, "history": 0, "tail": 0},
                "goes_on": 0, "changed": {"system": 0, "tools": 0, "history": 0},
                "median_fresh": 0, "median_changed": 0, "fresh_seconds": 0.0},
     "costs": [{"kind": "slots", "tokens": 0, "share": 0.0, "seconds": 0.0, "much": false, "message": "…",
                "evidence": ["…"], "setting": "…"}],
     "missing": ["…"],
     "unread": [{"source": "…", "line": 0, "reason": "…", "count": 1}]}

`healthy` is null where nothing was seen that could tell, and false where a cost is `much`: then the exit code is 1.
`setup` is the engine's by the log. `costs` come in their order, those without a share last; their kinds are template,
client, cache-off, slots, memory, context-size, keep-alive, models, restart, truncated, context-full, thinking, server
and unknown. `share` is that of the prompts that could have come from the cache in part.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from templatefix.trace.cost import Cost
from templatefix.trace.diagnosis import Diagnosis
from templatefix.trace.patient import ModelSeen


def doctor_json(found: Diagnosis) -> dict[str, Any]:
    """The diagnosis, in the shape above."""
    server, makeup, session = found.server, found.makeup, found.session
    return {
        "version": 1,
        "healthy": None if found.blind else not found.ill,
        "server": None
        if server is None
        else {
            "kind": server.kind,
            "url": server.url,
            "version": server.version,
            "slots": server.slots,
            "router": server.router,
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
        "memory": model.memory,
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
        "much": cost.much,
        "message": cost.message,
        "evidence": list(cost.evidence),
        "setting": cost.setting,
    }
