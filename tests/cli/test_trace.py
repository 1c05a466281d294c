"""The command `trace`, as people call it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from support.interrupts import heed_interrupts

SYSTEM = {"role": "system", "content": "You look after a garden. " * 80}


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    rows = [
        ([SYSTEM, {"role": "user", "content": "It is 12:01. What grows?"}], 0, 500),
        (
            [
                SYSTEM,
                {"role": "user", "content": "It is 12:04. What grows?"},
                {"role": "assistant", "content": "Roses, and \x1b[31mtulips</script><b>."},
                {"role": "user", "content": "It is 12:04. What else?"},
            ],
            470,
            90,
        ),
    ]
    path = tmp_path / "trace.jsonl"
    lines = [
        {
            "path": "/api/chat",
            "time": f"2026-11-29T12:0{index}:00Z",
            "request": {"model": "<garden>", "messages": messages},
            "answer": [{"timings": {"cache_n": cached, "prompt_n": fresh}}],
        }
        for index, (messages, cached, fresh) in enumerate(rows)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + "{broken\n")
    return path


def test_explain_as_text(templatefix: Any, recording: Path) -> None:
    done = templatefix("trace", "explain", str(recording))
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[1].split()[:5] == ["0", "0", "-", "0", "/"]
    assert "     - client: " in lines[3]
    assert "         was: It is 12:01. What grows?" in lines
    assert "         now: It is 12:04. What grows?" in lines
    assert done.out.replace("\n    ", " ").endswith(f"{recording}:3: a line that is not JSON\n")
    assert max(map(len, lines[2:])) <= 80


def test_explain_as_json(templatefix: Any, recording: Path) -> None:
    done = templatefix("trace", "explain", str(recording), "--format", "json")
    value = json.loads(done.out)
    assert value["version"] == 1
    assert value["sources"] == [str(recording)]
    first, second = value["requests"]
    assert {key: first[key] for key in ("index", "time", "model", "slot", "conversation")} == {
        "index": 0,
        "time": "2026-11-29T12:00:00Z",
        "model": "<garden>",
        "slot": None,
        "conversation": 0,
    }
    assert (second["prompt_tokens"], second["cached_tokens"], second["fresh_tokens"]) == (560, 470, 90)
    assert [part["role"] for part in second["parts"]] == ["system", "user", "assistant", "user", "tail"]
    assert first["parts"][0]["sha256"] == second["parts"][0]["sha256"]
    assert first["parts"][1]["sha256"] != second["parts"][1]["sha256"]
    (loss,) = second["losses"]
    assert loss["layer"] == "client"
    assert value["totals"]["client"] == loss["tokens"] > 0
    assert list(value["totals"]) == ["client", "template", "server", "engine", "unknown"]
    assert value["unread"][0]["line"] == 3


def test_explain_as_a_page(templatefix: Any, recording: Path, tmp_path: Path) -> None:
    done = templatefix("trace", "explain", str(recording), "--format", "html", "-o", str(tmp_path / "page.html"))
    assert (done.code, done.out) == (0, "")
    page = (tmp_path / "page.html").read_text()
    assert "<b>client</b>" in page
    assert "&lt;garden&gt;" in page
    assert "<garden>" not in page
    assert "<script" not in page
    assert "http" not in page.replace('<html lang="en">', "")


def test_the_template_can_be_given(templatefix: Any, recording: Path, tmp_path: Path) -> None:
    template = tmp_path / "x.tmpl"
    template.write_text("{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}<me>")
    done = templatefix("trace", "explain", str(recording), "--template", f"<garden>={template}", "--format", "json")
    assert json.loads(done.out)["missing"] == []
    assert templatefix("trace", "explain", str(recording), "--template", str(template)).code == 0


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("explain", "nothing-there"), "there is no file nothing-there"),
        (("explain", __file__), "is neither a recording, nor JSON lines of requests, nor a log that is known"),
        (("explain", __file__, "--format", "pdf"), "--format takes text, json or html, not pdf"),
        (("record", "--listen", "127.0.0.1:none"), "--listen takes HOST:PORT, not 127.0.0.1:none"),
        (("record", "--upstream", "ftp://x"), "--upstream: OLLAMA_HOST has the scheme 'ftp'"),
        ((), "Missing command"),
    ],
)
def test_failures_are_one_sentence(templatefix: Any, tmp_path: Path, args: tuple[str, ...], sentence: str) -> None:
    done = templatefix("trace", *args)
    assert (done.code, done.out) == (2, "")
    assert sentence in done.err
    assert done.err.count("\n") == 1


def test_a_session_is_sent_again(templatefix: Any, recording: Path, tmp_path: Path) -> None:
    template = tmp_path / "x.tmpl"
    template.write_text("{{ range .Messages }}<|{{ .Role }}|>{{ .Content }}{{ end }}<|assistant|>")
    done = templatefix("ab", str(template), str(template), "--from-trace", str(recording), "--format", "json")
    value = json.loads(done.out)
    assert (done.code, value["verdict"]) == (0, "same")
    assert [row["scenario"] for row in value["arms"][0]["requests"]] == ["conversation 0"] * 2


def test_a_session_and_a_scenario_do_not_go_together(templatefix: Any, recording: Path) -> None:
    done = templatefix("ab", "x", "y", "--from-trace", str(recording), "--scenario", "seed-loop")
    assert done.code == 2
    assert "--from-trace sends what was recorded" in done.err


def test_record_ends_with_an_interrupt(tmp_path: Path) -> None:
    out = tmp_path / "trace.jsonl"
    command = [sys.executable, "-c", "from templatefix.cli.main import main; main()"]
    options = ["--listen", "127.0.0.1:0", "--upstream", "http://127.0.0.1:9", "-o", str(out)]
    environment = {**os.environ, "NO_PROXY": "*", "no_proxy": "*"}
    with subprocess.Popen(
        [*command, "trace", "record", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        preexec_fn=heed_interrupts,
    ) as process:
        assert process.stdout is not None
        said = process.stdout.readline().decode()
        assert " passes on to http://127.0.0.1:9 and records to " in said
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
                said.split()[0] + "/api/version", timeout=10
            )
        assert refused.value.code == 502
        refused.value.close()
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=20)
    assert (process.returncode, error.decode()) == (0, f"0 requests are in {out}\n")
    assert out.stat().st_mode & 0o777 == 0o600
