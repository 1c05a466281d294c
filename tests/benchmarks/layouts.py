"""Stock template and variant on every scenario and kind of memory, as a table; and how long that takes.

    python tests/benchmarks/layouts.py [--size 8000] [--attention full ...] FILE...

The limit: 60 s of two cores for both arms on all scenarios with one kind of memory.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from itertools import groupby
from pathlib import Path

from templatefix.chat.go import GoChatTemplate
from templatefix.lab.ab import Arm, run_ab
from templatefix.lab.embedded import embedded_engine
from templatefix.lab.figures import ArmFigures
from templatefix.lab.scenario_file import load, shipped_names
from templatefix.rewrite.patch import patch
from templatefix.servers.targets import resolve

SAMPLES = Path(__file__).resolve().parents[2] / "modelfiles"


def arms_of(path: Path) -> list[Arm]:
    """The template of a file and its variant."""
    stock = GoChatTemplate(resolve(str(path)).source)
    result = patch(stock)
    assert result.changed, result.refused
    variant = GoChatTemplate(result.template)
    return [Arm("stock", stock, stock.as_served), Arm("variant", variant, variant.as_served)]


def rates(arm: ArmFigures) -> dict[str, str]:
    """Warm hit rate and tokens read, of each scenario."""
    found = {}
    for name, rows in groupby(arm.requests, key=lambda row: row.scenario):
        one = ArmFigures(arm.name, tuple(rows))
        fresh = sum(row.fresh_tokens for row in one.warm) / len(one.warm)
        found[name] = f"{min(one.warm_hit_rate * 100, 99.99):.2f} % ({fresh:.0f})"
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--size", type=int, default=8000)
    options.add_argument("--attention", nargs="*", default=["full", "swa", "recurrent"])
    options.add_argument("files", nargs="*", type=Path)
    wish = options.parse_args()
    names = shipped_names()
    loops = [load(name).sized(wish.size).loop() for name in names]
    print(f"| layout | memory | arm | {' | '.join(names)} |\n|{' --- |' * (3 + len(names))}", flush=True)
    for path in wish.files or sorted(SAMPLES.glob("*-like.Modelfile")):
        arms = arms_of(path)
        for attention in wish.attention:
            with tempfile.TemporaryDirectory() as folder:
                started = time.perf_counter()
                engine = embedded_engine(arms, loops, None, Path(folder), attention)
                result = run_ab(engine, arms, loops)
                seconds = time.perf_counter() - started
            assert result.valid, result.invalid_reasons
            over = max(row.fresh_tokens - row.new_tokens for row in result.arms[1].warm)
            for arm in result.arms:
                row = rates(arm)
                print(
                    f"| {path.stem} | {attention} | {arm.name} | {' | '.join(row[name] for name in names)} |",
                    flush=True,
                )
            print(
                f"<!-- {engine.tokenizer}, {seconds:.0f} s, variant reads at most {over} beyond what is new -->",
                flush=True,
            )


if __name__ == "__main__":
    main()
