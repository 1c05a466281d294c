"""How many of the unstable Jinja templates of the corpus become stable with a whole proof; a few minutes.

    python tests/benchmarks/jinja_variants.py [--server-bin LLAMA_SERVER]

The limit: nine of ten of those that no switch of their own makes stable. With a program, how many of the prompts of the
variant's loops are equal to that program's own.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from templatefix.analysis.analyse import analyse
from templatefix.analysis.evidence import Evidence
from templatefix.analysis.loops import chat_loops, core_loops, thinking_loop
from templatefix.chat.jinja import JinjaChatTemplate
from templatefix.chat.rendering import RenderError
from templatefix.rewrite.jinja_patch import patch_jinja
from templatefix.rewrite.result import PatchResult
from templatefix.servers.applied import NotAsProved, check_applied

CORPUS = Path(__file__).resolve().parents[2].parent / "shared" / "corpus" / "jinja_templates.jsonl"
JUDGES = ("granite3-guardian", "shieldgemma")  # they judge the last exchange, and nothing else is in their prompt


def _unstable() -> dict[str, JinjaChatTemplate]:
    found = {}
    for row in map(json.loads, CORPUS.read_text().splitlines()):
        try:
            template = JinjaChatTemplate(row["template"], bos="<|im_start|>", eos="<|im_end|>")
        except RenderError:
            continue
        if not any(judge in row["id"] for judge in JUDGES) and analyse(template).verdict == "unstable":
            found[row["id"]] = template
    return found


def _patched(template: JinjaChatTemplate) -> tuple[str, PatchResult]:
    """The variant with what had to be asked for: nothing, where that is enough."""
    result = patch_jinja(template)
    if not result.changed and "TF201" in result.refused[0].reason:
        return "--select TF201", patch_jinja(template, select=("TF201",))
    if not result.changed:
        return "--keep-thinking", patch_jinja(template, keep_thinking=True)
    return "", result


def _compared(program: Path | None, template: JinjaChatTemplate, result: PatchResult) -> str:
    if program is None or not result.changed:
        return ""
    loops = [*(core_loops() if result.tools else ()), *chat_loops(), thinking_loop()]
    try:
        made = check_applied(program, template.with_text(result.template), template, loops)
    except NotAsProved as error:
        return str(error)
    return f"{made.prompts} prompts equal, {made.refused} refused"


def main() -> int:
    """Print a line a template; exit code 1 below the limit."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--server-bin", type=Path, metavar="LLAMA_SERVER")
    program = options.parse_args().server_bin
    unstable = {name: template for name, template in _unstable().items() if not Evidence(template).thinking_switch}
    done = 0
    for name, template in unstable.items():
        option, result = _patched(template)
        done += result.proof.holds
        codes, same = ", ".join(result.applied), _compared(program, template, result)
        print(f"{name:<50} {option or '-':<16} {result.proof.holds!s:<6} {codes:<28} {same}", flush=True)
    print(f"{done} of {len(unstable)}")
    return int(done < 0.9 * len(unstable))


if __name__ == "__main__":
    sys.exit(main())
