"""The command as a whole: help, usage errors, exit codes, pipes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.interrupts import heed_interrupts

import templatefix.cli.main as cli
from templatefix import __version__
from templatefix.cli import render

COMMAND = [sys.executable, "-c", "from templatefix.cli.main import main; main()"]


def test_help_lists_every_command(templatefix: Any) -> None:
    done = templatefix("--help")
    assert done.code == 0
    listed = [line.split()[0] for line in done.out.partition("Commands:\n")[2].splitlines()]
    assert listed == list(cli.COMMANDS)
    assert templatefix().out == templatefix("-h").out == done.out


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_command_has_a_help_page(templatefix: Any, command: str) -> None:
    done = templatefix(command, "--help")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"Usage: templatefix {command} ")
    assert all(len(line) <= 80 for line in done.out.splitlines())


def test_version(templatefix: Any) -> None:
    assert templatefix("--version").out == f"templatefix {__version__}\n"


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("zzz",), "No such command 'zzz'; see: templatefix --help"),
        (("--loud",), "No such option: --loud; see: templatefix --help"),
        (("render", "--loud"), "No such option: --loud; see: templatefix render --help"),
        (("check",), "a TARGET is wanted; see --help"),
    ],
)
def test_bad_usage_is_one_sentence(templatefix: Any, args: tuple[str, ...], sentence: str) -> None:
    done = templatefix(*args)
    assert (done.code, done.out, done.err) == (2, "", f"templatefix: {sentence}\n")


def _raise(error: BaseException) -> Any:
    def command(*_args: Any) -> int:
        raise error

    return command


def test_no_traceback_reaches_anyone(templatefix: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render, "_batch", _raise(ZeroDivisionError("by nothing")))
    done = templatefix("render", "--batch")
    assert done.code == 2
    assert done.err == (
        "templatefix: a fault in templatefix itself, please report it: ZeroDivisionError: by nothing "
        "(TEMPLATEFIX_TRACEBACK=1 shows where)\n"
    )
    monkeypatch.setenv("TEMPLATEFIX_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        templatefix("render", "--batch")


@pytest.mark.skipif(os.name == "nt", reason="signals and pipes of POSIX")
def test_an_interrupt_is_130_without_a_word() -> None:
    process = subprocess.Popen(
        [*COMMAND, "render", "--batch"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=heed_interrupts,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b'{"id":1,"template":"a"}\n')
    process.stdin.flush()
    assert process.stdout.readline() == b'{"id":1,"ok":true,"output":"a"}\n'  # answered before more input comes
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, b"")


@pytest.mark.skipif(os.name == "nt", reason="signals and pipes of POSIX")
def test_a_reader_that_goes_away_is_no_fault() -> None:
    row = b'{"id":1,"template":"' + b"x" * 1000 + b'"}\n'
    process = subprocess.Popen(
        [*COMMAND, "render", "--batch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.close()
    _, err = process.communicate(row * 3000, timeout=60)
    assert (process.returncode, err) == (141, b"")


def test_help_imports_little() -> None:
    """What is imported before a command is called is what every start pays for."""
    shown = subprocess.run(
        [sys.executable, "-X", "importtime", *COMMAND[1:], "--help"], capture_output=True, text=True, check=True
    )
    loaded = {line.rpartition("|")[2].strip() for line in shown.stderr.splitlines() if line.startswith("import time")}
    heavy = {"rich", "requests", "ollama", "httpx", "xllamacpp", "numpy", "jinja2", "deepdiff", "pydantic", "asyncio"}
    assert "typer" in loaded
    assert not heavy & loaded
    assert not {name for name in loaded if name.startswith(("templatefix.analysis", "templatefix.servers"))}


def test_a_check_imports_no_network(tmp_path: Path) -> None:
    (tmp_path / "a.tmpl").write_text("{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}")
    shown = subprocess.run(
        [sys.executable, "-X", "importtime", *COMMAND[1:], "check", str(tmp_path / "a.tmpl")],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {line.rpartition("|")[2].strip() for line in shown.stderr.splitlines() if line.startswith("import time")}
    assert "templatefix.analysis.analyse" in loaded
    assert not {"rich", "requests", "ollama", "httpx", "xllamacpp", "numpy", "jinja2", "deepdiff"} & loaded


@pytest.mark.skipif(os.name == "nt", reason="pseudo-terminals of POSIX")
@pytest.mark.parametrize(("settings", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_colours_are_for_terminals(tmp_path: Path, settings: dict[str, str], coloured: bool) -> None:
    (tmp_path / "a.tmpl").write_text("{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}")
    ours, theirs = os.openpty()
    environment = {**os.environ, "TERM": "xterm", **settings}
    subprocess.run([*COMMAND, "check", str(tmp_path / "a.tmpl")], stdout=theirs, env=environment, check=True)
    os.close(theirs)
    shown = os.read(ours, 65536)
    os.close(ours)
    assert b"stable" in shown
    assert (b"\x1b[" in shown) is coloured
