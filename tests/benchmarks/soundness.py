"""How often random core loops move a template that is called stable, and a table of the corpus's verdicts.

    python tests/benchmarks/soundness.py [--kind go] [--loops 1000] [--seed 1] [--processes 2]

Needs the shared material. Prints the verdicts (of Go templates by class), what is accused although no loop shows it,
and each stable template that a loop moves; ends with 1 if there is any.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support import shared as material

from templatefix.analysis.analyse import analyse
from templatefix.analysis.evidence import Evidence
from templatefix.analysis.sampling import chat_of, samples
from templatefix.analysis.stability import run_loop
from templatefix.chat.go import GoChatTemplate
from templatefix.chat.jinja import JinjaChatTemplate
from templatefix.chat.rendering import RenderError


def tried(job: tuple[str, str, int, int]) -> tuple[str, str, tuple[str, ...], list[str], int]:
    """A template's verdict, disagreements, the loops that show a stable one to move, and how many were tried."""
    key, text, seed, count = job
    template = GoChatTemplate(text)
    found = analyse(template)
    moved: list[str] = []
    renders = 0
    if found.verdict == "stable" and not template.legacy:
        for loop in samples(seed, count):
            run = run_loop(template, loop, template.as_served)
            renders += len(run.steps)
            if run.lost or run.error is not None or not all(step.tools for step in run.steps):
                moved.append(loop.name)
    return key, found.verdict, found.disagreement, moved, renders


def tried_jinja(job: tuple[str, str, int, int]) -> tuple[str, str, tuple[str, ...], list[str], int]:
    """The same for a Jinja template; loops without thinking and with it."""
    key, text, seed, count = job
    try:
        evidence = Evidence(JinjaChatTemplate(text, bos="<|im_start|>", eos="<|im_end|>"))
    except RenderError as error:
        return key, "not-evaluated", (str(error),), [], 0
    found = analyse(evidence.template)
    moved: list[str] = []
    renders = 0
    clean = evidence.reading is not None and not evidence.reading.places
    if found.verdict == "stable" or clean:
        loops = samples(seed, count, evidence.thinks)
        for loop in loops if evidence.takes_tools else map(chat_of, loops):
            run = evidence.run(loop)
            renders += len(run.steps)
            if run.beyond:
                evidence = Evidence(evidence.template)  # what one analysis may cost is spent
                run = evidence.run(loop)
            if run.lost:
                moved.append(loop.name)
    return key, found.verdict, found.disagreement, moved, renders


def main() -> int:
    """Try all tool templates of the corpus."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--kind", choices=("go", "jinja"), default="go")
    options.add_argument("--loops", type=int, default=1000)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--processes", type=int, default=2)
    chosen = options.parse_args()
    jinja = chosen.kind == "jinja"
    corpus = material.jinja_corpus() if jinja else material.corpus()
    rows = {key: row for key, row in corpus.items() if jinja or row.get("class")}
    jobs = [(key, row["template"], chosen.seed, chosen.loops) for key, row in rows.items()]
    table: Counter[tuple[str, str]] = Counter()
    wrong = 0
    renders = 0
    start = time.perf_counter()
    with multiprocessing.Pool(chosen.processes) as pool:
        for key, verdict, disagreement, moved, count in pool.imap_unordered(tried_jinja if jinja else tried, jobs):
            table["jinja" if jinja else f"class {rows[key]['class']}", verdict] += 1
            renders += count
            for sentence in disagreement:
                print(f"{key}: {sentence}")
            if moved:
                wrong += 1
                print(f"{key}: called stable, moved by {len(moved)} loops, first {moved[0]}")
    for (group, verdict), number in sorted(table.items()):
        print(f"{group}  {verdict:<14} {number:>4}")
    print(f"{renders} renders of {chosen.loops} loops a template in {time.perf_counter() - start:.0f} s; {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
