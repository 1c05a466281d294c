"""`templatefix check`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.ollama_server import OllamaServer

SAMPLES = Path(__file__).resolve().parents[2] / "modelfiles"
MOVING = (
    "<system>{{ .System }}{{ range $i, $m := .Messages }}\n"
    "{{ if and $.Tools (eq (len (slice $.Messages $i)) 1) }}{{ $.Tools }}{{ end }}"
    '{{ if ne .Role "system" }}<{{ .Role }}>{{ .Content }}{{ end }}'
    "{{ range .ToolCalls }}{{ .Function.Name }}{{ .Function.Arguments }}{{ end }}{{ end }}"
)
CHAT = "{{ range .Messages }}<{{ .Role }}>{{ .Content }}\n{{ end }}"


def results(outcome: Any) -> list[dict[str, Any]]:
    made = json.loads(outcome.out)
    assert made["version"] == 1
    found: list[dict[str, Any]] = made["results"]
    return found


def codes(result: dict[str, Any]) -> set[str]:
    return {finding["code"] for finding in result["findings"]}


def test_the_samples(templatefix: Any) -> None:
    names = ("llama31-like", "mistral-like", "stable")
    done = templatefix("check", "--format", "json", *(str(SAMPLES / f"{name}.Modelfile") for name in names))
    assert (done.code, done.err) == (1, "")
    llama, mistral, stable = results(done)
    assert [found["verdict"] for found in (llama, mistral, stable)] == ["unstable", "unstable", "stable"]
    assert {"TF101", "TF102", "TF202"} <= codes(llama)
    assert {"TF101", "TF201"} <= codes(mistral)
    assert not [found for found in stable["findings"] if found["severity"] == "error"]


def test_places_are_those_of_the_modelfile(templatefix: Any) -> None:
    path = SAMPLES / "llama31-like.Modelfile"
    (result,) = results(templatefix("check", "--format", "json", "--select", "TF101", str(path)))
    (finding,) = result["findings"]
    data = path.read_bytes()
    assert data[finding["start"]["offset"] : finding["end"]["offset"]] == b"{{- if and $.Tools $last }}"
    assert path.read_text().splitlines()[finding["start"]["line"] - 1].startswith("{{- if and $.Tools $last }}")
    assert finding["start"]["column"] == 1


def test_a_stable_template_in_a_line(templatefix: Any, alone: Path) -> None:
    (alone / "chat.tmpl").write_text(CHAT)
    done = templatefix("check", "chat.tmpl", "--select", "TF1")
    assert (done.code, done.err) == (0, "")
    assert done.out == "chat.tmpl: stable, nothing found\n  the template has no tools: judged on chats\n"


def test_standard_input(templatefix: Any) -> None:
    assert templatefix("check", "-", "--select", "TF1", stdin=CHAT.encode()).out.startswith("standard input: stable")


def test_the_loop_of_a_finding_is_shown(templatefix: Any, alone: Path) -> None:
    (alone / "moving.tmpl").write_text(MOVING)
    done = templatefix("check", "moving.tmpl", "--select", "TF101")
    assert done.code == 1
    lines = done.out.splitlines()
    assert lines[0].startswith("moving.tmpl:2:")
    assert lines[0].endswith(": error TF101 tools-follow-last-message")
    assert "  step  after  prompt                               bytes          kept tools" in lines
    assert "  fix   templatefix patch moving.tmpl" in lines
    assert lines[-1] == "moving.tmpl: unstable, 1 error; patch mends 1 of 1"
    assert max(map(len, lines)) <= 80


def test_select_ignore_and_fail_on(templatefix: Any, alone: Path) -> None:
    (alone / "moving.tmpl").write_text(MOVING)

    def found(*args: str) -> tuple[int, set[str]]:
        done = templatefix("check", "moving.tmpl", "--format", "json", *args)
        return done.code, codes(results(done)[0])

    code, every = found()
    assert code == 1
    assert {"TF101", "TF205"} <= every
    assert found("--ignore", "TF101,TF102", "--ignore", "tf2")[1] == every - {"TF101", "TF102"} - {
        code for code in every if code.startswith("TF2")
    }
    assert found("--select", "TF205") == (0, {"TF205"})
    assert found("--select", "TF205", "--fail-on", "warning") == (1, {"TF205"})


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{{ if }}", "bad.tmpl:1:7: template: :1: missing value for if"),
        (b"", "bad.tmpl is empty"),
        (b" \n", "bad.tmpl is empty"),
        (b"\x00\x01\x02{{ .Prompt }}", "bad.tmpl is not text: it has NUL bytes"),
    ],
)
def test_what_cannot_be_checked_is_said_and_stops_nothing(
    templatefix: Any, alone: Path, content: bytes, said: str
) -> None:
    (alone / "bad.tmpl").write_bytes(content)
    (alone / "good.tmpl").write_text(CHAT)
    done = templatefix("check", "bad.tmpl", "none.tmpl", "good.tmpl", "--format", "json")
    assert done.code == 2
    assert [result["verdict"] for result in results(done)] == ["not-evaluated", "not-evaluated", "stable"]
    assert results(done)[0]["reason"] == said
    lines = [line for line in done.err.splitlines() if line.startswith("templatefix: ")]
    assert lines == [f"templatefix: {said}", "templatefix: there is no file none.tmpl"]


def test_several_targets_end_with_a_table(templatefix: Any, alone: Path) -> None:
    (alone / "moving.tmpl").write_text(MOVING)
    (alone / "chat.tmpl").write_text(CHAT)
    done = templatefix("check", "chat.tmpl", "moving.tmpl", "none.tmpl", "--select", "TF1")
    assert done.code == 2
    rows = [line.split() for line in done.out.partition("verdict       ")[2].splitlines()[1:4]]
    assert [(row[0], row[-1]) for row in rows] == [
        ("unstable", "moving.tmpl"),
        ("not-evaluated", "none.tmpl"),
        ("stable", "chat.tmpl"),
    ]
    assert "3 targets: 1 unstable, 1 not-evaluated, 1 stable." in done.out


@pytest.mark.parametrize(
    ("template", "verdict", "reason"),
    [
        ("{{ .Prompt }}", "stable", "a legacy template never sees tools: judged on chats"),
        ("{{ .System }} {{ .Prompt }}", "stable", "a legacy template never sees tools: judged on chats"),
        ("{{ range .Messages }}{{ .Nope }}{{ end }}", "not-evaluated", None),
        ("\ufeff" + CHAT, "stable", None),
        (CHAT.replace("\n", "\r\n"), "stable", None),
    ],
)
def test_odd_templates_get_their_own_verdict(
    templatefix: Any, alone: Path, template: str, verdict: str, reason: str | None
) -> None:
    (alone / "odd.tmpl").write_bytes(template.encode())
    (result,) = results(templatefix("check", "odd.tmpl", "--format", "json"))
    assert result["verdict"] == verdict
    if reason is not None:
        assert result["reason"] == reason


def test_no_server_is_said(templatefix: Any) -> None:
    done = templatefix("check", "llama3.1:8b")
    assert done.code == 2
    assert done.err.startswith("templatefix: llama3.1:8b: no Ollama server answers at http://127.0.0.1:9")
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("--format", "xml"), "--format takes text, json, sarif, junit or github, not xml"),
        (("--fail-on", "panic"), "--fail-on takes error, warning or info, not panic"),
        (("--select", "101"), "101 is no rule code; they look like TF101"),
        (("--rules", "nowhere"), "nowhere: no such folder of rules"),
    ],
)
def test_bad_usage(templatefix: Any, alone: Path, args: tuple[str, ...], sentence: str) -> None:
    (alone / "chat.tmpl").write_text(CHAT)
    done = templatefix("check", "chat.tmpl", *args)
    assert (done.code, done.out, done.err) == (2, "", f"templatefix: {sentence}\n")


RULE = '''
from templatefix.analysis.rule import Rule


class NoPirates(Rule):
    """OWN1 no-pirates

    Pirates do not belong into prompts.
    """

    CODE = "OWN1"
    NAME = "no-pirates"
    SEVERITY = "warning"
    FIXABLE = False
    VALID = ()
    INVALID = ()

    def check(self, evidence):
        span = evidence.template.tree.root.span
        if "pirate" in evidence.template.source.text:
            yield self.finding(evidence, "There is a pirate.", span, evidence.core[0], 0)
'''


def test_rules_of_ones_own(templatefix: Any, alone: Path) -> None:
    (alone / "rules").mkdir()
    (alone / "rules" / "pirates.py").write_text(RULE)
    (alone / "chat.tmpl").write_text("You are a pirate." + CHAT)
    done = templatefix("check", "chat.tmpl", "--rules", "rules", "--select", "OWN1", "--fail-on", "warning")
    assert done.code == 1
    assert "warning OWN1 no-pirates\n  There is a pirate.\n" in done.out
    assert templatefix("explain", "no-pirates", "--rules", "rules").out == (
        "OWN1 no-pirates\n\nPirates do not belong into prompts.\n"
    )


def test_a_model_on_a_server(templatefix: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with OllamaServer(tmp_path / "store").running() as server:
        monkeypatch.setenv("OLLAMA_HOST", server.url)
        server.store.add("owl:1", MOVING)
        done = templatefix("check", "owl:1", "owl:2", "--format", "json", "--select", "TF101")
    assert done.code == 2
    found, missing = results(done)
    assert (found["verdict"], codes(found)) == ("unstable", {"TF101"})
    assert missing["verdict"] == "not-evaluated"
    assert done.err == f"templatefix: owl:2: there is no model owl:2 on {server.url}, and there is no such file\n"
