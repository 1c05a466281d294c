"""Where Jinja templates come from: GGUF headers, Hugging Face's JSON, a running llama-server."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from templatefix.chat.jinja_values import Caps
from templatefix.servers.gguf import GgufError, read_metadata

if TYPE_CHECKING:
    from templatefix.servers.ollama import OllamaClient
    from templatefix.servers.shown import Shown
    from templatefix.servers.standin import Attention

KEY: Final = "tokenizer.chat_template"
SPLIT: Final = ("split.no", "split.count")  # which part of how many a GGUF file is
_NOT_FOUND: Final = 404
FOR_TOOLS: Final = "tool_use"  # the one of several named templates that a server takes for requests with tools


class JinjaSourceError(ValueError):
    """A place without a Jinja template; one sentence."""


@dataclass(frozen=True, slots=True)
class JinjaSource:
    """A Jinja template with what its place tells about its use."""

    text: str
    bos: str = ""
    eos: str = ""
    caps: Caps | None = None  # None: to be found out
    memory: Attention | None = None
    ends: tuple[bool, bool] = (False, False)  # whether the vocabulary puts its tokens around a text by itself


def from_gguf(path: Path, name: str) -> JinjaSource:
    """Read the header of a GGUF file; raises JinjaSourceError."""
    from templatefix.servers.memory import attention_of  # with the stand-ins, which templates in files do without

    found = _header(path, name)
    text = found.get(f"{KEY}.{FOR_TOOLS}") or found.get(KEY)
    if not isinstance(text, str) or not text.strip():
        raise JinjaSourceError(f"{name} {_without(found)}")
    tokens = found.get("tokenizer.ggml.tokens") or []

    def token(key: str) -> str:
        number = found.get(f"tokenizer.ggml.{key}_token_id")
        return str(tokens[number]) if isinstance(number, int) and 0 <= number < len(tokens) else ""

    return JinjaSource(text, token("bos"), token("eos"), None, attention_of(found))


def _header(path: Path, name: str) -> Mapping[str, Any]:
    """What a GGUF file says of its templates, their tokens and its memory; raises JinjaSourceError."""
    wanted = (
        "general.architecture",
        "tokenizer.ggml.tokens",
        "tokenizer.ggml.bos_token_id",
        "tokenizer.ggml.eos_token_id",
        *SPLIT,
    )
    hints = (".attention.sliding_window", ".ssm.", ".wkv.", ".shortconv.")
    try:
        return read_metadata(
            path, lambda key: key in wanted or key.startswith(KEY) or any(hint in key for hint in hints)
        )
    except GgufError as error:
        raise JinjaSourceError(str(error).rstrip(".")) from error
    except ValueError:  # an empty file cannot be mapped
        raise JinjaSourceError(f"The header of {name} is cut short") from None
    except OSError as error:
        raise JinjaSourceError(f"{name} cannot be read: {error.strerror or error}") from error


def _without(found: Mapping[str, Any]) -> str:
    """What a header without a template is to be said of."""
    number, count = (found.get(key) for key in SPLIT)
    if isinstance(number, int) and isinstance(count, int) and number > 0:
        return f"is part {number + 1} of {count} of a model; its chat template stands in the first part"
    names = [key.removeprefix(f"{KEY}.") for key in found if key.startswith(f"{KEY}.")]
    return f"has no chat template but those named {', '.join(names)}" if names else "has no chat template"


def from_shown(client: OllamaClient, shown: Shown) -> JinjaSource:
    """The Jinja text that an Ollama server shows for a model; raises ServerError.

    The vocabulary, which is long, is asked for only where the text names a token of it.
    """
    from templatefix.servers.memory import attention_of

    text, memory = shown.template, attention_of(shown.model_info)
    if "bos_token" not in text and "eos_token" not in text:
        return JinjaSource(text, memory=memory)
    told = client.show(shown.name, verbose=True).model_info
    return JinjaSource(text, *_of_vocabulary(told), memory=memory, ends=_ends(told))


def _of_vocabulary(told: Mapping[str, Any]) -> tuple[str, str]:
    """The tokens that begin and end a text, of a GGUF's metadata; those of SentencePiece where it does not say."""
    tokens, usual = told.get("tokenizer.ggml.tokens") or [], told.get("tokenizer.ggml.model") == "llama"

    def token(key: str, default: int) -> str:
        number = told.get(f"tokenizer.ggml.{key}_token_id", default if usual else None)
        return str(tokens[number]) if isinstance(number, int) and 0 <= number < len(tokens) else ""

    return token("bos", 1), token("eos", 2)


# Kinds of vocabularies, by `tokenizer.ggml.pre`, that llama.cpp begins a text for where their metadata do not say.
_BEGUN: Final = ("llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "tekken")


def _ends(told: Mapping[str, Any]) -> tuple[bool, bool]:
    by_itself = told.get("tokenizer.ggml.model") == "llama" or told.get("tokenizer.ggml.pre") in _BEGUN
    begins, ends = (told.get(f"tokenizer.ggml.add_{key}_token") for key in ("bos", "eos"))
    return by_itself if begins is None else bool(begins), bool(ends)


def from_config(data: bytes, name: str) -> JinjaSource:
    """Read Hugging Face's `tokenizer_config.json` or `chat_template.json`; raises JinjaSourceError."""
    try:
        config = json.loads(data)
    except (ValueError, RecursionError):
        raise JinjaSourceError(f"{name} is not JSON") from None
    if not isinstance(config, dict):
        raise JinjaSourceError(f"{name} has no chat_template")
    text = config.get("chat_template")
    if isinstance(text, list):
        named = {row.get("name"): row.get("template") for row in text if isinstance(row, dict)}
        text = named.get(FOR_TOOLS) or named.get("default")
    if not isinstance(text, str) or not text.strip():
        raise JinjaSourceError(f"{name} has no chat_template")
    return JinjaSource(text, *_tokens(config))


def beside(path: Path, text: str) -> JinjaSource:
    """A template in a file of its own; its tokens stand in the `tokenizer_config.json` beside it, if there is one."""
    try:
        config = json.loads((path.parent / "tokenizer_config.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return JinjaSource(text)
    return JinjaSource(text, *_tokens(config)) if isinstance(config, dict) else JinjaSource(text)


def _tokens(config: Mapping[str, Any]) -> tuple[str, str]:
    def token(key: str) -> str:
        value = config.get(key)
        value = value.get("content") if isinstance(value, dict) else value
        return value if isinstance(value, str) else ""

    return token("bos_token"), token("eos_token")


def from_server(url: str) -> JinjaSource:
    """Ask a llama-server for its properties; of a router those of the model that the URL names as `?model=NAME`.

    Raises ServerError, and JinjaSourceError where they have no template.
    """
    from urllib.parse import unquote

    from templatefix.servers.errors import ServerRefused
    from templatefix.servers.llama_server import LlamaServer  # with all that speaks HTTP, which files do without

    base, _, name = url.partition("?model=")
    server = LlamaServer(base)
    try:
        props = server.props(unquote(name))
    except ServerRefused as error:
        if name or error.status != _NOT_FOUND:
            raise
        raise JinjaSourceError(f"{url} has no /props, where a llama-server shows its template") from error
    if props.get("role") == "router":
        models = server.models()
        said = f"{url} is a router, which has no template of its own"
        named = f"; name one of its models, as in {base}?model={models[0]} ({', '.join(models)})" if models else ""
        raise JinjaSourceError(said + named)
    return from_props(props, url)


def from_props(props: Mapping[str, Any], name: str) -> JinjaSource:
    """Read a llama-server's properties; raises JinjaSourceError where they have no template."""
    text = props.get("chat_template_tool_use") or props.get("chat_template")
    if not isinstance(text, str) or not text.strip():
        raise JinjaSourceError(f"{name} shows no chat template")
    caps = props.get("chat_template_caps")
    return JinjaSource(
        text,
        str(props.get("bos_token") or ""),
        str(props.get("eos_token") or ""),
        Caps.from_props(caps) if isinstance(caps, dict) else None,
        _memory(props.get("model_path")),
    )


def _memory(path: Any) -> Attention | None:
    # Where the server's model is on this machine, its header tells, also where it carries no template.
    from templatefix.servers.memory import attention_of

    if not isinstance(path, str) or not Path(path).is_file():
        return None
    try:
        return attention_of(_header(Path(path), path))
    except JinjaSourceError:
        return None
