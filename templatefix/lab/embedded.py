"""The embedded engine for an A/B: whose tokenizer, which tokens are special, which kind of memory, whose weights."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from templatefix.analysis.loops import Loop
from templatefix.lab.ab import WARM_UP, Arm
from templatefix.lab.chat import Chat, RenderedChat
from templatefix.servers.embedded import EmbeddedEngine
from templatefix.servers.gguf import read_metadata
from templatefix.servers.memory import attention_of
from templatefix.servers.standin import Attention, Standin, make_standin
from templatefix.servers.tokenizer import Donor, byte_level, from_package, markers_in
from templatefix.servers.tokenizer_mistral import from_mistral_common

_LLAMA3 = "<|start_header_id|>"


def embedded_engine(
    arms: Sequence[Arm],
    loops: Sequence[Loop],
    donor: Donor | None = None,
    folder: Path | None = None,
    attention: Attention = "full",
    checkpoints: int | None = None,
) -> EmbeddedEngine:
    """An engine on the stand-in for these arms; raises what making it raises."""
    return EmbeddedEngine(standin_for(arms, loops, donor, folder, attention), checkpoints=checkpoints)


def standin_for(
    arms: Sequence[Arm],
    loops: Sequence[Loop],
    donor: Donor | None = None,
    folder: Path | None = None,
    attention: Attention = "full",
) -> Standin:
    """A stand-in model for these arms; every special token that a template names is one token.

    Without a donor, a Llama 3 template takes the tokenizer of an installed `llama-models`, one of Mistral's that of an
    installed `mistral-common`, any other a byte-level one that has learned the words of the loops. Raises what making
    the stand-in raises.
    """
    texts = [arm.template.source.text for arm in arms]
    markers = [marker for text in texts for marker in markers_in(text)]
    if donor is None:
        donor = from_package() if _LLAMA3 in markers else from_mistral_common(texts[0])
    return make_standin(donor or byte_level(_sample(texts, loops)), markers, folder, attention)


def weights_engine(path: Path, checkpoints: int | None = None) -> EmbeddedEngine:
    """An engine on real weights, a GGUF file; raises GgufError, OSError."""
    metadata = read_metadata(path, lambda key: not key.startswith("tokenizer."))
    standin = Standin(path, path.name, attention_of(metadata) or "full")
    return EmbeddedEngine(standin, os.cpu_count() or 1, checkpoints)


def embedded_chats(engine: EmbeddedEngine, room: int) -> Callable[[Arm], AbstractContextManager[Chat]]:
    """Sessions for live runs, with room for so many bytes of prompt and reply."""

    @contextmanager
    def begin(arm: Arm) -> Iterator[Chat]:
        with engine.session(room) as session:
            session.evaluate(WARM_UP, cold=True)
            yield RenderedChat(session, arm)

    return begin


def room_for(arms: Sequence[Arm], loops: Sequence[Loop], tokens: int) -> int:
    """Bytes that the longest scripted prompt takes, with replies of so many tokens instead of the scripted ones."""
    sizes = [len(WARM_UP)]
    for arm in arms:
        for loop in loops:
            request = loop.requests[-1]
            size = len(json.dumps([list(request.messages), list(request.tools)], ensure_ascii=False).encode())
            sizes.append(size + len(arm.template.source.data) + (len(loop.requests) + 4) * tokens * 4)
    return max(sizes)


def _sample(texts: Sequence[str], loops: Sequence[Loop]) -> str:
    """The words that prompts will be made of."""
    last = [loop.requests[-1] for loop in loops if loop.requests]
    parts = [json.dumps([list(request.messages), list(request.tools)], ensure_ascii=False) for request in last]
    return "\n".join([*sorted(texts), *parts])
