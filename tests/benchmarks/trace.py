"""How fast logs are read, and in how much memory.

    python tests/benchmarks/trace.py [--megabytes 200] [--log FILE]

Without a log of your own it writes one as a server of 2026 does in debug mode: for each request some forty lines, of
which ten tell something. The aims: 50 MB a second, and 200 MB of memory for a gigabyte.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

from templatefix.trace.explain import explain
from templatefix.trace.logfile import read_logs

SLOT = "slot {name}: id  0 | task {task} | "
LOADED = "llama_model_loader: - kv  {n:3}:                 general.some.key.of.its.metadata str              = value\n"


def a_request(task: int) -> str:
    """The lines of one request; its prompt goes on from the one before, of about 8,000 tokens."""
    size = 8000 + task % 500
    update = SLOT.format(name="  operator()", task=task)
    timing = SLOT.format(name="print_timing", task=task)
    debug = (
        f'time=2026-03-01T09:00:{task % 60:02}.123Z level=DEBUG source=sched.go:489 msg="context for request finished" '
        'runner.name=registry.ollama.ai/library/agent:latest runner.size="5.4 GiB" runner.parallel=1 '
        "runner.model=/models/blobs/sha256-0000000000000000000000000000000000000000000000000000000000000000\n"
    )
    progress = [
        f"{timing}prompt processing, n_tokens = {n * 512}, progress = 0.{n}, t = 0.{n} s\n" for n in range(1, 5)
    ]
    generated = [f"{timing}n_decoded = {n * 32}, tg = 31.20 t/s\n" for n in range(20)]
    return "".join(
        [
            debug * 4,
            f"slot get_availabl: id  0 | task -1 |  - checking sim = 0.97 ({size - 90}/{size}) > 0.100\n",
            "slot get_availabl: id  0 | task -1 | selected slot by LCP similarity, f_sim_best = 0.970\n",
            f"{update}new prompt, n_ctx_slot = 16384, n_keep = 0, task.n_tokens = {size}\n",
            f"{update}cached n_tokens = {size - 90}, memory_seq_rm [{size - 90}, end)\n",
            *progress,
            f"{timing}prompt eval time =     390.10 ms /    90 tokens (    4.33 ms per token)\n",
            *generated,
            f"{SLOT.format(name='     release', task=task)}stop processing: n_tokens = {size + 640}, truncated = 0\n",
            "srv  update_slots: all slots are idle\n",
            '[GIN] 2026/03/01 - 09:00:00 | 200 |  1.536318s |       127.0.0.1 | POST     "/api/chat"\n',
        ]
    )


def write_log(path: Path, megabytes: int) -> None:
    """A log of about that size."""
    left, task = megabytes * 1_000_000, 0
    with path.open("w") as file:
        file.writelines(LOADED.format(n=n) for n in range(200))
        while left > 0:
            task += 1
            left -= file.write(a_request(task))


def main() -> None:
    """Write, read, tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--log", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = given.log or Path(folder) / "server.log"
        if given.log is None:
            write_log(path, given.megabytes)
        size = path.stat().st_size / 1e6
        start = time.perf_counter()
        (log,) = read_logs([path])
        read = time.perf_counter() - start
        print(f"read:    {size:.0f} MB, {len(log.items)} items, {size / read:.0f} MB/s, {_memory()} MB of memory")
        del log
        start = time.perf_counter()
        session = explain([path])
        explained = time.perf_counter() - start
        print(f"explain: {len(session.requests)} requests, {size / explained:.0f} MB/s, {_memory()} MB of memory")


def _memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    main()
