"""A stand-in with a vocabulary of 128,000 tokens, and an A/B of two templates at 8,000 tokens on it.

    python tests/benchmarks/ab.py [--runs 3]

Takes Llama 3's tokenizer where `llama-models` is installed, else a made-up one of that size for the stand-in and the
byte-level one for the A/B. The limits: 3 s and 25 MB for the stand-in, 15 s and 500 MB for the A/B on two cores.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

from templatefix.chat.go import GoChatTemplate
from templatefix.lab.ab import Arm, run_ab
from templatefix.lab.embedded import embedded_engine
from templatefix.lab.scenario_file import seed_loop
from templatefix.report.ab_text import ab_text
from templatefix.servers.standin import make_standin
from templatefix.servers.tokenizer import Donor, from_package, from_show

TURN = (
    "<|start_header_id|>{{ .Role }}<|end_header_id|>\n\n"
    "{{ .Content }}{{ range .ToolCalls }}{{ .Function }}{{ end }}<|eot_id|>"
)
TAIL = "<|start_header_id|>assistant<|end_header_id|>\n\n"
TOOLS = "{{ range $.Tools }}{{ . }}\n{{ end }}"
FIXED = TOOLS + "{{ range .Messages }}" + TURN + "{{ end }}" + TAIL
LAST_USER = "{{ if and (eq (len (slice $.Messages $i)) 1) (eq .Role `user`) }}" + TOOLS + "{{ end }}"
MOVING = "{{ range $i, $_ := .Messages }}" + LAST_USER + TURN + "{{ end }}" + TAIL
SIZE = 128_256


def large_donor() -> Donor:
    """Llama 3's tokenizer, or one of its size with words that no prompt has."""
    made = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "llama-bpe",
        "tokenizer.ggml.tokens": [f"word{index:06d}" for index in range(SIZE)],
        "tokenizer.ggml.token_type": [1] * SIZE,
        "tokenizer.ggml.merges": [f"{index:06d} {index:06d}" for index in range(280_147)],
    }
    return from_package() or from_show({"model_info": made}, "a made-up vocabulary")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--runs", type=int, default=3)
    runs = options.parse_args().runs
    arms = [Arm("moving", GoChatTemplate(MOVING)), Arm("fixed", GoChatTemplate(FIXED))]
    loops = [seed_loop().loop()]
    for run in range(runs):
        with tempfile.TemporaryDirectory() as folder:
            started = time.perf_counter()
            standin = make_standin(large_donor(), ["[INST]"], Path(folder))
            size = standin.path.stat().st_size / 1e6
            print(f"stand-in, {standin.tokenizer}: {time.perf_counter() - started:.2f} s, {size:.1f} MB")
            started, burned = time.perf_counter(), time.process_time()
            result = run_ab(embedded_engine(arms, loops, folder=Path(folder)), arms, loops)
            seconds, burned = time.perf_counter() - started, time.process_time() - burned
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # of the process so far
            print(f"A/B, stand-in included: {seconds:.2f} s ({burned:.2f} s of processor), peak {peak:.0f} MiB")
        if run == runs - 1:
            print(ab_text(result))


if __name__ == "__main__":
    main()
