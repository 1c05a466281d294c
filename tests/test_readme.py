"""The README keeps its word: its commands exist, its links lead somewhere, and CI runs its test command."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from templatefix.analysis.registry import shipped_rules
from templatefix.cli.main import COMMANDS, run

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```\w*\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
LINES = [line for block in BLOCKS for line in block.splitlines()]
INLINE = re.findall(
    r"`([^`\n]+(?:\n[^`\n]+)?)`", re.sub(r"^```\w*\n.*?^```", "", README, flags=re.MULTILINE | re.DOTALL)
)


def called(line: str) -> list[str]:
    """The words of a templatefix command in a line, without its comment."""
    words = shlex.split(line, comments=True)
    return words[words.index("templatefix") + 1 :] if "templatefix" in words else []


COMMAND_LINES = [line for line in LINES if re.match(r"templatefix ", line)]


@pytest.mark.parametrize("line", COMMAND_LINES)
def test_commands_exist(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = called(line)[0]
    assert command in COMMANDS
    assert run([command, "--help"]) == 0
    assert f"templatefix {command}" in capsys.readouterr().out


def test_the_four_commands_that_people_use() -> None:
    assert [called(line)[0] for line in COMMAND_LINES[:4]] == ["check", "patch", "ab", "explain"]


def test_options_exist(capsys: pytest.CaptureFixture[str]) -> None:
    for text in [*INLINE, *(shlex.join(called(line)) for line in COMMAND_LINES)]:
        words = text.split()
        if words[0] in COMMANDS and any(word.startswith("-") for word in words):
            assert run([words[0], "--help"]) == 0
            shown = capsys.readouterr().out
            for word in words[1:]:
                assert not word.startswith("-") or word in re.findall(r"-[-\w]+", shown), text


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)]+)\)", README):
        assert (ROOT / target).exists(), target


def test_rules_are_listed_as_they_are() -> None:
    listed = re.findall(r"\[(TF\d+)\]\(rules/(\w+)\.py\) ([\w-]+)", README)
    shipped = [(rule.CODE, type(rule).__module__.rpartition(".")[2], rule.NAME) for rule in shipped_rules()]
    assert sorted(listed) == shipped


def test_ci_runs_the_test_command() -> None:
    install, test = next(block for block in BLOCKS if "pytest" in block).splitlines()
    assert install.endswith(".venv/bin/templatefix demo")
    script = (ROOT / ".ci" / "run").read_text()
    assert script.splitlines()[-1] == test.replace(".venv/", '"$venv/', 1).replace("python", 'python"', 1)
    wanted: Any = re.search(r"pip install (\S+ \S+)", install)
    assert wanted[1] in script


def test_hooks_for_pre_commit() -> None:
    hooks = {hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
    assert set(hooks) == set(re.findall(r"`(templatefix-\w+)`", README))
    for hook in hooks.values():
        program, command = hook["entry"].split()
        assert (program, command in COMMANDS, hook["language"]) == ("templatefix", True, "python")
    files = re.compile(hooks["templatefix-check"]["files"])
    names = ("Modelfile", "a/Modelfile.fixed", "b.Modelfile", "c.gotmpl", "Modelfiles.md", "d.py", "xModelfile")
    assert [bool(files.search(name)) for name in names] == [True, True, True, True, False, False, False]


def test_the_workflow_runs_a_command() -> None:
    (workflow,) = [yaml.safe_load(block) for block in BLOCKS if "runs-on" in block]
    (job,) = workflow["jobs"].values()
    command = called(job["steps"][-1]["run"])
    assert command[0] in COMMANDS
