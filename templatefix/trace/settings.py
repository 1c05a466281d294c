"""What to change on a server, or in a client, for each cause."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping

from templatefix.servers.log_setup import Setup
from templatefix.servers.standin import Attention
from templatefix.trace.lost import Lost
from templatefix.trace.patient import ServerKind

_CLIENT: Mapping[str, str] = {
    "time": "in the client: keep the time out of what is sent again; put it into the newest message, or leave it out",
    "tools-absent": "in the client: send the same tools with every request of a conversation",
    "tools-added": "in the client: send the same tools with every request of a conversation",
    "tools": "in the client: send the same tools with every request of a conversation",
    "tools-order": "in the client: send the tools in one order",
    "dropped": "in the client: let the history grow, and when it must be cut, cut much at once; or give more context",
    "reply": "in the client: send an answer back as it came, with its thinking and calls",
    "think": "in the client: keep `think` the same throughout a conversation",
}
_HISTORY = "in the client: send the history again as it was sent before"


UNKNOWN = "look closer: `templatefix trace explain` with a recording, the log and the template of the same time"


def slots(setup: Setup, kind: ServerKind, conversations: int) -> str:
    """More slots, or the memory of former prompts."""
    if kind == "ollama":
        back = "LLAMA_ARG_CACHE_RAM in the server's environment above 0; or " if setup.prompt_cache is False else ""
        return f"{back}OLLAMA_NUM_PARALLEL={max(2, min(conversations, 4))}, or run the other job on another model"
    more = f"-np {max(2, (setup.slots or 1) + 1)} (with -c raised alike)"
    if setup.prompt_cache is False:
        return f"--cache-ram 8192, which brings former prompts back; or {more}"
    return f"{more}; or a larger --cache-ram, if former prompts did not come back from it"


def memory(setup: Setup, kind: ServerKind, attention: Attention | None, changed: bool) -> str:
    """A memory that can be wound back further; what changes the prompt comes first, where it is known to change."""
    first = "send prompts that only grow (`templatefix check`, `templatefix patch`); " if changed else ""
    recurrent = setup.recurrent or attention == "recurrent"
    if kind == "ollama":
        # The engine reads these variables, which Ollama hands on.
        if not recurrent:
            return first + "LLAMA_ARG_SWA_FULL=1 in the server's environment, which keeps the whole window"
        more = "LLAMA_ARG_CTX_CHECKPOINTS with more, LLAMA_ARG_CHECKPOINT_MIN_SPACING_NT with fewer tokens"
        return f"{first}in the server's environment {more}"
    if setup.checkpoints == 0:
        points = "--ctx-checkpoints 32 (copies of the memory, which are switched off)"
    else:
        points = "--ctx-checkpoints with more copies of the memory, and --checkpoint-min-step with a smaller step"
    return first + (points if recurrent else f"--swa-full; or {points}")


def cache(asked: bool) -> str:
    """The cache switched on."""
    return "in the client: leave out cache_prompt: false" if asked else "start the server without --no-cache-prompt"


def client(lost: Lost) -> str:
    """What the client should do."""
    if any(lost.evidence("time_stamp")):
        return _CLIENT["time"]
    return _CLIENT.get(next(lost.evidence("kind"), ""), _HISTORY)


def restart(lost: Lost, kind: ServerKind) -> str:
    """What keeps an engine running."""
    asked = [request.exchange.context for request, _ in lost.requests]
    sizes = sorted({size for size in (*asked, *(start.context for start in lost.starts)) if size})
    if lost.kind == "keep-alive":
        zero = any(request.exchange.keep_alive == 0 for request, _ in lost.requests)
        if zero or any(start.gone == "dismissed" for start in lost.starts):
            return "in the client: leave out keep_alive 0, which unloads the model behind each request"
        return "keep_alive in the requests, or OLLAMA_KEEP_ALIVE, longer than an agent pauses (-1: for ever)"
    if lost.kind == "models":
        more = "OLLAMA_MAX_LOADED_MODELS" if kind == "ollama" else "--models-max"
        return f"a larger {more}, and memory for all models; else one model for all of an agent's work"
    if lost.kind == "context-size":
        largest = f" (the largest was {sizes[-1]})" if sizes else ""
        return f"the same num_ctx in every request{largest}, or none, with OLLAMA_CONTEXT_LENGTH on the server"
    return (
        "let no client unload the model (keep_alive 0), and keep the engine running"
        if kind == "ollama"
        else ("keep the server running between turns")
    )


def context(kind: ServerKind, longest: int) -> str:
    """Room for the longest prompt and an answer."""
    size = 4096
    while size < longest * 1.25:
        size *= 2
    if kind == "ollama":
        return (
            f"num_ctx of {size} or more in requests or Modelfile, or OLLAMA_CONTEXT_LENGTH={size}; or a shorter history"
        )
    return f"-c with {size} or more for each slot; or a shorter history"


def thinking(kind: ServerKind) -> str:
    """Where an answer goes."""
    return "`think`: false in the requests" if kind == "ollama" else "--reasoning off, or a client that reads both"


def template(kind: ServerKind, target: str, codes: Collection[str] = (), fixable: bool = True) -> str:
    """The template's cure, by the rules that it breaks; `target` is its name for `patch`, empty where none is known."""
    if not fixable:
        return f"`templatefix explain {min(codes)}` says what can be done; no patch mends that"
    if kind == "ollama":
        return f"`templatefix patch {target or 'MODEL'}`, and use the tag that it makes"
    keep = " --keep-thinking" if "TF203" in codes else ""
    if not target:
        return f"`templatefix patch{keep}` of the template, and --chat-template-file with the result"
    return f"`templatefix patch{keep} -o FILE {shlex.quote(target)}`, and --chat-template-file FILE for the server"


def weights(model: str, codes: Collection[str], built_in: bool) -> str:
    """What is left for an Ollama's Jinja text that no Go template can replace: another server, or other weights."""
    if built_in or set(codes) == {"TF203"}:  # an Ollama shows past thoughts to no Jinja text
        return template("llama-server", model, codes).replace("for the server", "for a llama-server instead")
    return "`templatefix patch --gguf OUT` on its GGUF file, and a model made FROM OUT"
