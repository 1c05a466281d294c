"""`templatefix patch`: files, Modelfiles, and tags on the test server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.ollama_server import OllamaServer

from templatefix.chat.go import GoChatTemplate
from templatefix.report.tag_text import size

SAMPLES = Path(__file__).resolve().parents[2] / "modelfiles"
MOVING = (
    "{{ if or .System .Tools }}<sys>{{ .System }}</sys>{{ end }}\n"
    '{{- range $i, $m := .Messages }}{{ $last := eq (len (slice $.Messages $i)) 1 }}{{ if eq .Role "user" }}<you>'
    "{{ if and $.Tools $last }}Tools: {{ $.Tools }}\n{{ end }}{{ .Content }}</you>\n"
    '{{- else if eq .Role "assistant" }}<me>{{ .Content }}'
    '{{ range .ToolCalls }}<call>{"name": "{{ .Function.Name }}", "parameters": {{ .Function.Arguments }}}</call>'
    "{{ end }}</me>\n"
    '{{- else if eq .Role "tool" }}<out>{{ .Content }}</out>{{ end }}\n{{- end }}<me>'
)
SETTLED = (
    "{{ if or .System .Tools }}<sys>{{ .System }}{{ if .Tools }}{{ .Tools }}{{ end }}</sys>{{ end }}"
    '{{ range .Messages }}{{ if eq .Role "user" }}<you>{{ .Content }}</you>'
    '{{ else if eq .Role "assistant" }}<me>{{ .Content }}'
    '{{ range .ToolCalls }}<call>{"name": "{{ .Function.Name }}", "parameters": {{ .Function.Arguments }}}</call>'
    '{{ end }}</me>{{ else if eq .Role "tool" }}<out>{{ .Content }}</out>{{ end }}{{ end }}<me>'
)
STUCK = "{{ range $i, $_ := .Messages }}{{ if eq (len (slice $.Messages $i)) 1 }}!{{ end }}{{ .Content }}{{ end }}"


def patched(outcome: Any) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(outcome.out)
    assert made["version"] == 1
    return made


def test_a_modelfile_keeps_every_other_byte(templatefix: Any, alone: Path) -> None:
    before = (SAMPLES / "llama31-like.Modelfile").read_bytes()
    (alone / "Modelfile").write_bytes(before)
    done = templatefix("patch", "Modelfile", "-o", "Modelfile.fixed")
    assert (done.code, done.err) == (0, "")
    after = (alone / "Modelfile.fixed").read_bytes()
    head, tail = before.split(b'"""')[0::2]
    assert after.split(b'"""')[0::2] == [head, tail]
    assert (alone / "Modelfile").read_bytes() == before
    checked = json.loads(templatefix("check", "Modelfile.fixed", "--format", "json").out)["results"][0]
    assert checked["verdict"] == "stable"
    again = templatefix("patch", "Modelfile.fixed", "-o", "again")
    assert again.code == 0
    assert again.out.startswith("Modelfile.fixed: nothing to do, every tool loop only grows already\n")
    assert not (alone / "again").exists()


def test_what_is_shown(templatefix: Any, alone: Path) -> None:
    (alone / "moving.tmpl").write_text(MOVING)
    done = templatefix("patch", "moving.tmpl")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0].startswith("moving.tmpl: TF101, TF102")
    assert lines[0].endswith(" are gone, tools stand in the system block")
    assert lines[2:4] == ["--- a/moving.tmpl", "+++ b/moving.tmpl"]
    start = lines.index("proof                    renders")
    table = [line.split()[:2] for line in lines[start + 1 : start + 9]]
    assert table == [
        ["parses", "holds"],
        ["derived_unchanged", "holds"],
        ["no_tools_identical", "holds"],
        ["prefix_stable", "holds"],
        ["tools_once", "holds"],
        ["messages_kept", "holds"],
        ["conserved", "holds"],
        ["idempotent", "holds"],
    ]
    assert "added text: none" in lines
    assert lines[-1] == "nothing was written (-o FILE writes it)"
    assert [path.name for path in alone.iterdir()] == ["moving.tmpl"]


def test_json(templatefix: Any, alone: Path) -> None:
    (alone / "moving.tmpl").write_text(MOVING)
    made = patched(templatefix("patch", "moving.tmpl", "--format", "json"))
    keys = "version target changed applied refused placement proof proof_renders remaining notes dropped_text"
    assert list(made) == [*keys.split(), "added_text", "template", "diff", "tag"]
    assert (made["target"], made["changed"], made["refused"], made["tag"]) == ("moving.tmpl", True, [], None)
    assert {"TF101", "TF102"} <= set(made["applied"])
    assert set(made["proof"].values()) == {True}
    assert min(made["proof_renders"].values()) >= 1
    assert GoChatTemplate(made["template"]).uses_tools
    assert "\n-" in made["diff"]
    assert "\n+" in made["diff"]


def test_to_standard_output_goes_the_variant_alone(templatefix: Any) -> None:
    done = templatefix("patch", "-", "-o", "-", stdin=MOVING.encode())
    assert done.code == 0
    assert done.out == patched(templatefix("patch", "-", "--format", "json", stdin=MOVING.encode()))["template"]
    assert done.err.startswith("standard input: TF101")


def test_the_first_user_message(templatefix: Any, alone: Path) -> None:
    (alone / "moving.tmpl").write_text(MOVING)
    done = templatefix("patch", "moving.tmpl", "--placement", "first-user", "--format", "json")
    assert (done.code, patched(done)["placement"]) == (0, "first-user")


def test_a_dry_run_writes_nothing(templatefix: Any, alone: Path) -> None:
    (alone / "moving.tmpl").write_text(MOVING)
    done = templatefix("patch", "moving.tmpl", "-o", "out.tmpl", "--dry-run")
    assert done.code == 0
    assert done.out.endswith("\nnothing was written (-o FILE writes it)\n")
    assert not (alone / "out.tmpl").exists()


def test_a_refusal_says_why_and_writes_nothing(templatefix: Any, alone: Path) -> None:
    (alone / "stuck.tmpl").write_text(STUCK)
    done = templatefix("patch", "stuck.tmpl", "-o", "out.tmpl")
    assert done.code == 1
    first, second = done.out.splitlines()[:2]
    assert first == "stuck.tmpl: refused, nothing was changed"
    assert second.startswith("  TF202: the template has no tools, ")
    assert not (alone / "out.tmpl").exists()
    made = patched(templatefix("patch", "stuck.tmpl", "--format", "json"))
    assert (made["changed"], made["template"], made["diff"]) == (False, STUCK, "")
    assert made["refused"]


def test_rules_left_out_leave_it_as_it_is(templatefix: Any, alone: Path) -> None:
    (alone / "moving.tmpl").write_text(MOVING)
    done = templatefix("patch", "moving.tmpl", "--ignore", "TF102", "--format", "json")
    assert (done.code, patched(done)["changed"]) == (1, False)


def test_a_renderer_in_a_modelfile_is_refused(templatefix: Any, alone: Path) -> None:
    (alone / "Modelfile").write_text(f'FROM owl\nRENDERER qwen3\nTEMPLATE """{MOVING}"""\n')
    done = templatefix("patch", "Modelfile", "-o", "out")
    assert (done.code, done.err) == (1, "")
    assert done.out == (
        "Modelfile: refused, nothing was changed\n"
        "  TF401: Modelfile has RENDERER qwen3: the server would ignore its TEMPLATE\n"
    )
    assert not (alone / "out").exists()


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("moving.tmpl", "--placement", "last"), "--placement takes system or first-user, not last"),
        (("moving.tmpl", "--tag", "owl:2"), "--tag is for models on a server, and moving.tmpl is none"),
        (("moving.tmpl", "-o", "none/out"), "none/out cannot be written: No such file or directory"),
        (("none.tmpl",), "there is no file none.tmpl"),
        (("moving.tmpl", "--select", "TF1O1"), "TF1O1 is no rule code; they look like TF101"),
    ],
)
def test_bad_usage(templatefix: Any, alone: Path, args: tuple[str, ...], sentence: str) -> None:
    (alone / "moving.tmpl").write_text(MOVING)
    done = templatefix("patch", *args)
    assert (done.code, done.err) == (2, f"templatefix: {sentence}\n")


@pytest.mark.parametrize("option", ["--select", "--ignore"])
def test_codes_that_no_rule_has(templatefix: Any, alone: Path, option: str) -> None:
    (alone / "moving.tmpl").write_text(MOVING)
    done = templatefix("patch", "moving.tmpl", option, "TF999")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("templatefix: there is no rule TF999; there are TF101, ")


def test_written_files_are_whole_and_keep_their_mode(templatefix: Any, alone: Path) -> None:
    (alone / "moving.tmpl").write_text(MOVING)
    (alone / "moving.tmpl").chmod(0o640)
    assert templatefix("patch", "moving.tmpl", "-o", "moving.tmpl").code == 0
    assert (alone / "moving.tmpl").stat().st_mode & 0o777 == 0o640
    assert (alone / "moving.tmpl").read_text() != MOVING
    assert [path.name for path in alone.iterdir()] == ["moving.tmpl"]


# -- models


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OllamaServer]:
    with OllamaServer(tmp_path / "store").running() as running:
        monkeypatch.setenv("OLLAMA_HOST", running.url)
        running.store.add("owl:1", MOVING)
        yield running


TAG = "owl:1-prefix-stable"


def test_a_tag_is_made_and_compared(templatefix: Any, server: OllamaServer) -> None:
    done = templatefix("patch", "owl:1")
    assert (done.code, done.err) == (0, "")
    *_, name, sizes, compared = done.out.splitlines()[-3:]
    assert name.startswith(f"{TAG}: made, digest ")
    assert " shared with owl:1, " in sizes
    assert compared == "  5 prompts of the server compared with ours: the same"
    assert server.store.read(TAG) is not None
    again = patched(templatefix("patch", "owl:1", "--format", "json"))
    assert again["tag"]["name"] == TAG
    assert len(server.asked("/api/create")) == 1
    assert templatefix("check", TAG, "--select", "TF1").code == 0


def test_the_json_of_a_tag(templatefix: Any, server: OllamaServer) -> None:
    made = patched(templatefix("patch", "owl:1", "--tag", "owl:mine", "--format", "json"))
    assert list(made["tag"]) == ["name", "digest", "shared_bytes", "added_bytes"]
    assert made["tag"]["name"] == "owl:mine"
    assert made["tag"]["added_bytes"] >= len(made["template"])
    assert server.store.read("owl:mine") is not None


def test_a_dry_run_asks_nothing_of_the_server_but_the_template(templatefix: Any, server: OllamaServer) -> None:
    assert templatefix("patch", "owl:1", "--dry-run").code == 0
    assert {path for _, path, _ in server.requests} == {"/api/show"}


def test_a_file_of_a_model_is_written_instead_of_a_tag(templatefix: Any, server: OllamaServer, alone: Path) -> None:
    assert templatefix("patch", "owl:1", "-o", "owl.tmpl").code == 0
    assert (alone / "owl.tmpl").read_text() != MOVING
    assert server.store.read(TAG) is None
    assert templatefix("patch", "owl:1", "-o", "owl.tmpl", "--tag", TAG).code == 0
    assert server.store.read(TAG) is not None


def test_another_tag_of_that_name_is_kept(templatefix: Any, server: OllamaServer) -> None:
    server.store.add(TAG, SETTLED)
    done = templatefix("patch", "owl:1")
    assert done.code == 1
    assert done.err.startswith(f"templatefix: {TAG} is there already, ")
    assert done.err.endswith("; --force replaces it, --tag gives another name\n")
    unasked = templatefix("patch", "owl:1", "--force")
    assert unasked.code == 2
    assert unasked.err.endswith("Replace it? Without a terminal to ask on, that needs --yes\n")
    assert server.asked("/api/create") == []
    assert templatefix("patch", "owl:1", "--force", "--yes").code == 0
    assert len(server.asked("/api/create")) == 1


def test_a_stable_model_needs_no_tag(templatefix: Any, server: OllamaServer) -> None:
    server.store.add("owl:2", SETTLED)
    done = templatefix("patch", "owl:2")
    assert (done.code, done.out.splitlines()[0]) == (0, "owl:2: nothing to do, every tool loop only grows already")
    assert server.asked("/api/create") == []


def test_a_server_that_renders_otherwise_gets_its_tag_removed(templatefix: Any, server: OllamaServer) -> None:
    server.faults.render = lambda text: text + "!"
    done = templatefix("patch", "owl:1")
    assert done.code == 1
    assert done.err.startswith("templatefix: ")
    assert done.err.endswith(f"{TAG} was removed again\n")
    assert server.store.read(TAG) is None


def test_a_create_that_fails_is_said(templatefix: Any, server: OllamaServer) -> None:
    server.faults.create_error = "no space left on device"
    done = templatefix("patch", "owl:1", "--format", "json")
    assert done.code == 2
    assert "no space left on device" in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (4_920_000_000, "4.9 GB"), (5e15, "5000.0 TB")]
)
def test_sizes(count: int, said: str) -> None:
    assert size(count) == said
