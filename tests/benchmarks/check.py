"""`templatefix check` of one file and of the corpus: wall time with start included, and peak memory.

    python tests/benchmarks/check.py [--runs 5] [--files N] [--jinja]

Needs the shared material.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support import shared as material


def measured(command: list[str]) -> tuple[float, float, bytes]:
    """Wall seconds, peak resident memory in MiB, and the output of a command."""
    with tempfile.TemporaryFile() as sink:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=sink)
        _, _, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = 0  # waited for already
        sink.seek(0)
        return seconds, usage.ru_maxrss / 1024, sink.read()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--runs", type=int, default=5)
    options.add_argument("--files", type=int, default=None, help="of the corpus; all by default")
    options.add_argument("--jinja", action="store_true", help="the corpus of Jinja templates")
    given = options.parse_args()
    corpus = list((material.jinja_corpus() if given.jinja else material.corpus()).values())
    ending = ".jinja" if given.jinja else ".gotmpl"
    script = str(Path(sysconfig.get_path("scripts")) / "templatefix")
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for number, row in enumerate(corpus[: given.files]):
            file = Path(folder) / f"{number:03d}{ending}"
            file.write_text(row["template"], encoding="utf-8", newline="")
            files.append(str(file))
        tools = [row["tools"] for row in corpus].index(True)
        for title, command in {
            "--help": [script, "--help"],
            "check of one file": [script, "check", files[min(tools, len(files) - 1)]],
            f"check of {len(files)} files": [script, "check", "--format", "json", *files],
        }.items():
            runs = [measured(command) for _ in range(given.runs)]
            seconds = statistics.median([run[0] for run in runs])
            print(f"{title:20} median {seconds:.3f} s, peak {max(run[1] for run in runs):.0f} MiB")
        results = json.loads(runs[-1][2])["results"]
        verdicts = [result["verdict"] for result in results]
        print({verdict: verdicts.count(verdict) for verdict in sorted(set(verdicts))})


if __name__ == "__main__":
    main()
