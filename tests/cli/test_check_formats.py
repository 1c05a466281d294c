"""`templatefix check --format` for the readers of CI servers, on templates as they come."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as xml

import pytest
from support.ollama_server import OllamaServer
from support.sarif import faults

SAMPLES = Path(__file__).resolve().parents[2] / "modelfiles"
CHAT = "{{ range .Messages }}<{{ .Role }}>{{ .Content }}\n{{ end }}"


@pytest.fixture
def mixed(alone: Path) -> list[str]:
    """Arguments: a Modelfile that moves its tools, one template that is stable, and two that say nothing."""
    (alone / "sub").mkdir()
    (alone / "sub" / "moving.Modelfile").write_bytes((SAMPLES / "llama31-like.Modelfile").read_bytes())
    (alone / "chat.tmpl").write_text(CHAT)
    (alone / "bad.tmpl").write_text("one\n{{ if }}")
    return ["check", "sub/moving.Modelfile", "chat.tmpl", "bad.tmpl", "gone.tmpl"]


def test_sarif(templatefix: Any, mixed: list[str]) -> None:
    done = templatefix(*mixed, "--format", "sarif")
    assert done.code == 2
    made = json.loads(done.out)
    assert faults(made) == []
    (run,) = made["runs"]
    moved = next(result for result in run["results"] if result["ruleId"] == "TF101")
    place = moved["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "sub/moving.Modelfile"
    line = (SAMPLES / "llama31-like.Modelfile").read_text().splitlines()[place["region"]["startLine"] - 1]
    assert line.startswith(place["region"]["snippet"]["text"]) is True
    assert [artifact["properties"]["verdict"] for artifact in run["artifacts"]] == [
        "unstable",
        "stable",
        "not-evaluated",
        "not-evaluated",
    ]
    notes = run["invocations"][0]["toolExecutionNotifications"]
    assert [note["message"]["text"] for note in notes] == [
        "bad.tmpl:2:7: template: :2: missing value for if",
        "there is no file gone.tmpl",
    ]
    assert notes[0]["locations"][0]["physicalLocation"]["region"]["startLine"] == 2


def test_junit(templatefix: Any, mixed: list[str]) -> None:
    done = templatefix(*mixed, "--format", "junit", "--select", "TF1,TF205", "--fail-on", "warning")
    assert done.code == 2
    root = xml.fromstring(done.data)
    assert [suite.get("name") for suite in root] == mixed[1:]
    cases = [case.get("name", "").split()[0] for case in root[0].iter("testcase")]
    assert cases == ["TF101", "TF102", "TF103", "TF104", "TF105", "TF205"]
    failed = [case.get("name", "").split()[0] for case in root[0].iter("testcase") if case.find("failure") is not None]
    assert failed == ["TF101", "TF102", "TF205"]
    assert root.get("errors") == "2"


def test_github(templatefix: Any, mixed: list[str], alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_WORKSPACE", str(alone.parent))
    done = templatefix(*mixed, "--format", "github", "--select", "TF101")
    assert done.code == 2
    assert done.out.splitlines() == [
        "::error file=work/sub/moving.Modelfile,line=16,endLine=16,col=1,endColumn=28,"
        "title=TF101 tools-follow-last-message::The tool definitions follow the last user message: "
        "each turn moves or drops them, and the rest is read anew.",
        "checked sub/moving.Modelfile: unstable",
        "checked chat.tmpl: stable",
        "::error file=work/bad.tmpl,line=2,endLine=2,col=7,endColumn=9,title=not evaluated%3A bad.tmpl::"
        "bad.tmpl:2:7: template: :2: missing value for if",
        "checked bad.tmpl: not-evaluated",
        "::error title=not evaluated%3A gone.tmpl::there is no file gone.tmpl",
        "checked gone.tmpl: not-evaluated",
    ]


def test_sarif_of_a_model_carries_its_template(
    templatefix: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with OllamaServer(tmp_path / "store").running() as server:
        monkeypatch.setenv("OLLAMA_HOST", server.url)
        server.store.add("owl:1", CHAT)
        done = templatefix("check", "owl:1", "--format", "sarif")
    (artifact,) = json.loads(done.out)["runs"][0]["artifacts"]
    assert artifact["location"] == {"uri": "templatefix:owl:1"}
    assert artifact["contents"] == {"text": CHAT}


def test_sarif_of_the_corpus(templatefix: Any, corpus: dict[str, dict[str, Any]], alone: Path) -> None:
    names = [name for name, row in corpus.items() if row["tools"]][::9]
    for number, name in enumerate(names):
        (alone / f"{number}.tmpl").write_text(corpus[name]["template"], newline="")
    done = templatefix("check", *[f"{number}.tmpl" for number in range(len(names))], "--format", "sarif")
    made = json.loads(done.out)
    assert faults(made) == []
    assert len(made["runs"][0]["artifacts"]) == len(names)
    assert len(made["runs"][0]["results"]) > len(names)
