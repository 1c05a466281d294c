"""The embedded engine for an A/B: whose tokenizer, and which tokens are special."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from templatefix.analysis.loops import Loop
from templatefix.lab.ab import Arm
from templatefix.servers.embedded import EmbeddedEngine
from templatefix.servers.standin import make_standin
from templatefix.servers.tokenizer import Donor, byte_level, from_package, markers_in

_LLAMA3 = "<|start_header_id|>"


def embedded_engine(
    arms: Sequence[Arm], loops: Sequence[Loop], donor: Donor | None = None, folder: Path | None = None
) -> EmbeddedEngine:
    """An engine on a stand-in for these arms; every special token that a template names is one token.

    Without a donor, a Llama 3 template takes the tokenizer of an installed `llama-models`, any other a byte-level one
    that has learned the words of the loops. Raises what making the stand-in raises.
    """
    texts = [arm.template.source.text for arm in arms]
    markers = [marker for text in texts for marker in markers_in(text)]
    if donor is None and _LLAMA3 in markers:
        donor = from_package()
    return EmbeddedEngine(make_standin(donor or byte_level(_sample(texts, loops)), markers, folder))


def _sample(texts: Sequence[str], loops: Sequence[Loop]) -> str:
    """The words that prompts will be made of."""
    last = [loop.requests[-1] for loop in loops if loop.requests]
    parts = [json.dumps([list(request.messages), list(request.tools)], ensure_ascii=False) for request in last]
    return "\n".join([*sorted(texts), *parts])
