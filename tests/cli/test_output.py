"""Where output goes: files, links, pipes, full disks and streams that are closed."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from templatefix.cli.output import CliError, save

COMMAND = [sys.executable, "-c", "from templatefix.cli.main import main; main()"]
STABLE = str(Path(__file__).resolve().parents[2] / "modelfiles" / "stable.Modelfile")
posix = pytest.mark.skipif(os.name == "nt", reason="streams and devices of POSIX")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with nothing in it."""
    folder = tmp_path / "place"
    folder.mkdir()
    return folder


def test_a_link_stays_and_what_it_points_to_is_written(place: Path) -> None:
    real, link = place / "real", place / "link"
    real.write_bytes(b"old")
    link.symlink_to("real")
    save(str(link), b"new")
    assert (link.is_symlink(), real.read_bytes()) == (True, b"new")
    assert sorted(path.name for path in place.iterdir()) == ["link", "real"]


@posix
def test_a_pipe_is_written_to_and_not_replaced(place: Path) -> None:
    pipe = place / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()
    save(str(pipe), b"all of it")
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    reader.join(10)
    assert read == [b"all of it"]


@pytest.mark.parametrize("file", ["", "~nobody-of-that-name/x", "a\0b", "no-such-folder/x"])
def test_names_that_cannot_be_written(place: Path, monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    monkeypatch.chdir(place)
    with pytest.raises(CliError):
        save(file, b"x")
    assert list(place.iterdir()) == []


def test_a_folder_is_not_written_over(place: Path) -> None:
    (place / "folder").mkdir()
    with pytest.raises(CliError, match="cannot be written: "):
        save(str(place / "folder"), b"x")
    assert [path.name for path in place.iterdir()] == ["folder"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
@pytest.mark.parametrize("args", [("check", STABLE), ("explain", "TF101"), ("--help",), ("--version",)])
def test_a_full_disk_is_one_sentence(args: tuple[str, ...]) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*COMMAND, *args], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "templatefix: the output cannot be written: No space left on device\n"


@posix
@pytest.mark.parametrize(
    ("closed", "args", "code", "out", "err"),
    [
        (1, ("explain", "TF101"), 2, "", "templatefix: standard output is closed\n"),
        (0, ("check", "-"), 2, "-: not evaluated\n", "templatefix: standard input is empty\n"),
        (0, ("render", "--batch"), 0, "", ""),
        (2, ("explain", "TF000"), 2, "", ""),
    ],
)
def test_a_closed_stream_is_no_fault(closed: int, args: tuple[str, ...], code: int, out: str, err: str) -> None:
    done = subprocess.run(
        [*COMMAND, *args], capture_output=True, text=True, check=False, preexec_fn=lambda: os.close(closed)
    )
    assert (done.returncode, done.stdout) == (code, out)
    assert "fault" not in done.stderr
    assert done.stderr.startswith(err)
