"""Which kind of memory a model has, by its metadata: it decides what a changed prompt costs beyond the change.

Where every token stands by itself, the cache is good up to the first difference. A sliding window forgets what it has
left behind, and one state for all that was read cannot be wound back: there, everything is read again unless the
engine has a copy of its memory (a checkpoint) from before the difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from templatefix.servers.standin import Attention

# Architectures of llama.cpp with a state in some layers or in all; their number grows, so keys are looked at as well.
_RECURRENT = (
    *("mamba", "mamba2", "jamba", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7", "plamo2", "falcon-h1", "granitehybrid"),
    *("nemotron_h", "nemotron_h_moe", "lfm2", "lfm2moe", "qwen3next", "qwen35", "qwen35moe", "kimi-linear"),
)
_STATE_KEYS = (".ssm.state_size", ".ssm.conv_kernel", ".wkv.head_size", ".shortconv.l_cache")
# Architectures that carry a window in their metadata while llama.cpp lets every layer see all.
_WINDOW_UNUSED = ("llama", "mistral3", "qwen2", "qwen2moe", "qwen2vl", "qwen3", "qwen3moe")


def attention_of(metadata: Mapping[str, Any]) -> Attention | None:
    """The kind of memory, from a GGUF header or the `model_info` of a server's answer; None where that does not say."""
    name = metadata.get("general.architecture")
    if not isinstance(name, str) or not name:
        return None
    if name in _RECURRENT or any(_positive(metadata.get(name + key)) for key in _STATE_KEYS):
        return "recurrent"
    if name not in _WINDOW_UNUSED and _positive(metadata.get(f"{name}.attention.sliding_window")):
        return "swa"
    return "full"


def _positive(value: Any) -> bool:
    """Whether a number, or one of a layer's list of numbers, is above zero."""
    if isinstance(value, list):
        return any(_positive(item) for item in value)
    return isinstance(value, int) and value > 0
