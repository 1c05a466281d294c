"""Lock files, and what `watch` says of them: files, a server, a store, a registry; CI formats."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from support.ollama_server import OllamaServer
from support.registry_server import RegistryServer

TURNS = "{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ range .ToolCalls }}{{ json .Function }}{{ end }}\n{{ end }}"
STABLE = "{{ if .Tools }}<tools>{{ range .Tools }}{{ . }}{{ end }}</tools>{{ end }}\n" + TURNS
MOVING = (
    "{{ range $i, $m := .Messages }}<{{ .Role }}>"
    "{{ if and $.Tools (eq (len (slice $.Messages $i)) 1) }}{{ $.Tools }}{{ end }}{{ .Content }}"
    "{{ range .ToolCalls }}{{ json .Function }}{{ end }}\n{{ end }}"
)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OllamaServer]:
    with OllamaServer(tmp_path / "store").running() as running:
        monkeypatch.setenv("OLLAMA_HOST", running.url)
        running.store.add("owl:1", STABLE, system="The secret of the owl.")
        yield running


def push(server: OllamaServer, registry: RegistryServer, name: str, template: str) -> None:
    server.store.add(name, template)
    model = server.store.read(name)
    assert model is not None
    registry.take(server.store, model)


def locked(templatefix: Any, text: str = STABLE, name: str = "t.gotmpl") -> dict[str, Any]:
    Path(name).write_text(text)
    done = templatefix("lock", name)
    assert (done.code, done.err) == (0, "")
    entry: dict[str, Any] = json.loads(Path("templatefix.lock").read_text())["targets"][name]
    return entry


def test_a_lock_file_is_stable_and_holds_the_text(templatefix: Any) -> None:
    entry = locked(templatefix, MOVING)
    assert "".join(entry["text"]) == MOVING
    assert (entry["source"], entry["kind"], entry["verdict"], entry["manifest"]) == ("file", "go", "unstable", None)
    assert entry["template"].startswith("sha256:")
    column = MOVING.index("{{ if and $.Tools") + 1
    assert {"code": "TF101", "severity": "error", "line": 1, "column": column} in entry["findings"]
    size, kept, tools = entry["loops"]["single-call"][1]
    assert 0 < kept < size
    assert tools == 1
    before = Path("templatefix.lock").read_bytes()
    assert templatefix("lock", "t.gotmpl").code == 0
    assert Path("templatefix.lock").read_bytes() == before


def test_the_day_of_an_entry_stays_while_it_says_the_same(templatefix: Any) -> None:
    locked(templatefix)
    path = Path("templatefix.lock")
    value = json.loads(path.read_text())
    value["targets"]["t.gotmpl"]["locked"] = "2025-05-01"
    path.write_text(json.dumps(value))
    assert locked(templatefix)["locked"] == "2025-05-01"
    assert locked(templatefix, MOVING)["locked"] > "2025-05-01"


def test_targets_are_added_and_forgotten(templatefix: Any) -> None:
    locked(templatefix)
    locked(templatefix, MOVING, "b.gotmpl")
    assert list(json.loads(Path("templatefix.lock").read_text())["targets"]) == ["b.gotmpl", "t.gotmpl"]
    assert templatefix("lock", "--forget", "t.gotmpl").code == 0
    assert list(json.loads(Path("templatefix.lock").read_text())["targets"]) == ["b.gotmpl"]
    done = templatefix("lock", "--forget", "t.gotmpl")
    assert (done.code, done.err) == (2, "templatefix: templatefix.lock has no t.gotmpl\n")


def test_one_target_that_fails_stops_no_other(templatefix: Any) -> None:
    Path("t.gotmpl").write_text(STABLE)
    Path("bad.gotmpl").write_text("{{ if }}")
    done = templatefix("lock", "bad.gotmpl", "none.gotmpl", "t.gotmpl")
    assert done.code == 2
    assert "bad.gotmpl" in done.err
    assert "there is no file none.gotmpl" in done.err
    assert list(json.loads(Path("templatefix.lock").read_text())["targets"]) == ["t.gotmpl"]


@pytest.mark.parametrize(
    ("before", "after", "code", "head"),
    [
        (STABLE, STABLE, 0, "t.gotmpl: same\n  Nothing changed.\n"),
        (STABLE, MOVING, 1, "t.gotmpl: worse\n  The verdict was stable and is unstable.\n"),
        (MOVING, STABLE, 0, "t.gotmpl: better\n  The verdict was unstable and is stable.\n"),
        (STABLE, "{{ if }}", 1, "t.gotmpl: worse\n  The verdict was stable and is not-evaluated.\n"),
        (STABLE, STABLE + "\n", 0, "t.gotmpl: same\n  It was written anew, and nothing follows from that.\n"),
    ],
)
def test_what_watch_says(templatefix: Any, before: str, after: str, code: int, head: str) -> None:
    locked(templatefix, before)
    Path("t.gotmpl").write_text(after)
    done = templatefix("watch")
    assert (done.code, done.err) == (code, "")
    assert done.out.startswith(head)
    assert all(len(line) <= 80 for line in done.out.splitlines())


def test_watch_shows_structure_and_consequence(templatefix: Any) -> None:
    locked(templatefix)
    Path("t.gotmpl").write_text(MOVING)
    out = templatefix("watch").out
    assert "    -    1 {{if .Tools}}\n" in out
    assert "    +    1 {{range $i, $m := .Messages}}\n" in out
    assert "  - Errors found now: TF101 tools-follow-last-message.\n" in out
    assert "    keeps what it should → reads it again: long 1," in out


def test_watch_as_json(templatefix: Any) -> None:
    entry = locked(templatefix)
    Path("t.gotmpl").write_text(MOVING)
    made = json.loads(templatefix("watch", "--format", "json").out)
    (result,) = made["results"]
    assert (made["version"], result["target"], result["outcome"]) == (1, "t.gotmpl", "worse")
    assert result["before"]["template"] == entry["template"] != result["after"]["template"]
    assert (result["before"]["findings"], result["after"]["findings"]) == ([], ["TF101"])
    assert {"scenario": "single-call", "step": 1, "figure": "kept", "before": True, "after": False} in result["loops"]
    assert result["structure"][0]["kind"] in ("added", "removed", "changed")


def test_a_server_whose_tag_was_updated(templatefix: Any, server: OllamaServer) -> None:
    assert templatefix("lock", "owl:1").code == 0
    assert "secret" not in Path("templatefix.lock").read_text()
    digest = json.loads(Path("templatefix.lock").read_text())["targets"]["owl:1"]["manifest"]
    held = server.store.read("owl:1")
    assert held is not None
    assert digest == f"sha256:{held.digest.removeprefix('sha256:')}"
    server.store.add("owl:1", STABLE, system="Another secret.")
    done = templatefix("watch")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("owl:1: same\n  The tag was updated; its template is the same.\n")
    server.store.add("owl:1", MOVING)
    done = templatefix("watch", "--format", "github")
    assert done.code == 1
    first, last = done.out.splitlines()
    assert first.startswith(
        "::error file=templatefix.lock,line=3,title=worse%3A owl%3A1::owl:1: The verdict was stable"
    )
    assert last == "watched owl:1: worse"


def test_a_template_that_is_no_longer_in_force_is_worse(templatefix: Any, server: OllamaServer) -> None:
    assert templatefix("lock", "owl:1").code == 0
    server.store.add("owl:1", STABLE, config={"renderer": "qwen3-coder", "parser": "qwen3-coder"})
    done = templatefix("watch")
    assert (done.code, done.err) == (1, "")
    assert done.out.startswith("owl:1: worse\n  Errors found now: TF401 template-not-in-force.\n")


def test_a_tag_that_is_gone_is_never_the_same(templatefix: Any, server: OllamaServer) -> None:
    locked(templatefix)
    assert templatefix("lock", "owl:1").code == 0
    server.store.delete("owl:1")
    done = templatefix("watch")
    assert done.code == 2
    assert done.err.startswith("templatefix: owl:1: there is no model owl:1 on http://127.0.0.1:")
    assert "2 watched: 1 not-compared, 1 same." in done.out


def test_a_store_without_a_server(templatefix: Any, server: OllamaServer, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = str(server.store.root)
    assert templatefix("lock", "owl:1", "--store", folder).code == 0
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:9")
    assert json.loads(Path("templatefix.lock").read_text())["targets"]["owl:1"]["source"] == "store"
    assert templatefix("watch", "--store", folder).code == 0
    monkeypatch.setenv("OLLAMA_MODELS", folder)
    assert templatefix("watch").code == 0
    server.store.add("owl:1", MOVING)
    assert templatefix("watch").code == 1
    done = templatefix("watch", "--store", ".")
    assert (done.code, done.err) == (2, "templatefix: . is no store of Ollama: it has no manifests\n")


def test_what_a_pull_would_bring(templatefix: Any, server: OllamaServer, tmp_path: Path) -> None:
    with RegistryServer().running() as registry:
        name = f"{registry.host}/me/owl:1"
        push(server, registry, name, STABLE)
        assert templatefix("lock", name).code == 0
        assert templatefix("watch", "--source", "registry").code == 0
        push(server, registry, name, MOVING)
        server.store.add(name, STABLE)
        assert templatefix("watch").code == 0
        done = templatefix("watch", "--source", "registry", "--format", "json")
        assert done.code == 1
        assert json.loads(done.out)["results"][0]["after"]["source"] == "registry"
        assert not [path for path in registry.asked if "model" in path]
        made = templatefix("report", name, "--regression", "--source", "registry")
        assert made.code == 0
        assert "| read from | server | registry |" in made.out


def test_formats_for_ci(templatefix: Any) -> None:
    locked(templatefix)
    locked(templatefix, MOVING, "b.gotmpl")
    Path("t.gotmpl").write_text(MOVING)
    Path("b.gotmpl").unlink()
    done = templatefix("watch", "--format", "sarif")
    run = json.loads(done.out)["runs"][0]
    assert done.code == 2
    assert [(row["ruleId"], row["level"]) for row in run["results"]] == [
        ("template-not-compared", "warning"),
        ("template-worse", "error"),
    ]
    region = run["results"][1]["locations"][0]["physicalLocation"]
    assert region["artifactLocation"] == {"uri": "templatefix.lock", "uriBaseId": "SRCROOT"}
    line = Path("templatefix.lock").read_text().splitlines()[region["region"]["startLine"] - 1]
    assert line == '    "t.gotmpl": {'
    assert run["invocations"] == [{"executionSuccessful": False}]
    suite = ElementTree.fromstring(templatefix("watch", "--format", "junit").data).find("testsuite")
    assert suite is not None
    assert {case.get("name"): [child.tag for child in case] for case in suite} == {
        "b.gotmpl": ["error"],
        "t.gotmpl": ["failure"],
    }


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "templatefix.lock is no lock file: it has no JSON in line 1"),
        ("[]", "templatefix.lock is no lock file: it has no targets"),
        ('{"version": 9, "targets": {}}', "templatefix.lock is of version 9; this templatefix reads version 1"),
        ('{"version": 1, "targets": {"a": {}}}', "templatefix.lock cannot be used: what it says of a is not whole"),
        ('{"version": 1, "targets": {}}', "templatefix.lock holds no targets"),
    ],
)
def test_lock_files_that_are_none(templatefix: Any, text: str, says: str) -> None:
    Path("templatefix.lock").write_text(text)
    done = templatefix("watch")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"templatefix: {says}")


def test_places_to_look_at(templatefix: Any) -> None:
    locked(templatefix)
    done = templatefix("watch", "--source", "moon")
    assert (done.code, done.err) == (
        2,
        "templatefix: --source takes locked, server, store or registry, not moon\n",
    )


def test_no_lock_file(templatefix: Any) -> None:
    done = templatefix("watch")
    assert (done.code, done.err) == (2, "templatefix: there is no file templatefix.lock\n")


def test_qwen_coder_as_the_library_changed_it(templatefix: Any, corpus: dict[str, dict[str, Any]]) -> None:
    locked(templatefix, corpus["sammcj-modelfile-qwen2.5-coder-2"]["template"])
    Path("t.gotmpl").write_text(corpus["unsloth-qwen-25-coder"]["template"])
    done = templatefix("watch")
    assert done.code == 1
    assert done.out.startswith("t.gotmpl: worse\n  Errors found now: TF301 go-struct-in-prompt.\n")
