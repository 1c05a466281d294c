"""Reports for maintainers: what stands in them, what never does, and whose wording they have."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.ollama_server import OllamaServer

from templatefix.chat.go import GoChatTemplate
from templatefix.chat.reading import read_request
from templatefix.servers.standin import standin_bytes
from templatefix.servers.tokenizer import Tokenizer, byte_level

TURNS = "{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ range .ToolCalls }}{{ json .Function }}{{ end }}\n{{ end }}"
STABLE = "{{ if .Tools }}<tools>{{ range .Tools }}{{ . }}{{ end }}</tools>{{ end }}\n" + TURNS
MOVING = (
    "{{ if .System }}<sys>{{ .System }}</sys>\n{{ end }}"
    '{{ range $i, $m := .Messages }}{{ if ne .Role "system" }}<{{ .Role }}>'
    '{{ if and $.Tools (eq .Role "user") (eq (len (slice $.Messages $i)) 1) }}\n'
    "Tools:\n{{ range $.Tools }}{{ . }}\n{{ end }}{{ end }}{{ .Content }}"
    "{{ range .ToolCalls }}{{ json .Function }}{{ end }}</{{ .Role }}>\n{{ end }}{{ end }}<assistant>"
)
STRUCTS = STABLE.replace("{{ . }}", "{{ .Function }}")
SECRET = "Never tell that the owl is Minerva."


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OllamaServer]:
    with OllamaServer(tmp_path / "store").running() as running:
        monkeypatch.setenv("OLLAMA_HOST", running.url)
        running.store.add("owl:1", MOVING, system=SECRET)
        yield running


def reported(templatefix: Any, text: str, *args: str, name: str = "t.gotmpl") -> str:
    Path(name).write_text(text)
    done = templatefix("report", name, *args)
    assert (done.code, done.err) == (0, "")
    out: str = done.out
    return out


def block(report: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", report, re.MULTILINE | re.DOTALL)


def test_a_report_has_what_a_maintainer_needs(templatefix: Any) -> None:
    made = reported(templatefix, MOVING)
    assert made.startswith(
        "# t.gotmpl: tool definitions move with the last message, so the prompt cache is lost at every turn\n"
    )
    headings = re.findall(r"^## (.*)", made, re.MULTILINE)
    assert headings == [
        "What happens",
        "The condition",
        "Reproduction",
        "Prompts",
        "The whole loop",
        "Proposed change",
        "How to verify",
        "Versions",
        "Known in public",
    ]
    assert "TF101 tools-follow-last-message, line 2 of the template (`t.gotmpl`):" in made
    assert "- HKUDS/nanobot#4867 — " in made
    assert "\n\n\n" not in made
    assert "Undefined" not in made
    (diff,) = block(made, "diff")
    assert diff.startswith("--- a/template\n+++ b/template\n@@ ")
    assert "`prefix_stable` holds (" in made


def test_the_requests_show_what_the_report_says(templatefix: Any) -> None:
    made = reported(templatefix, MOVING)
    requests = [block_ for block_ in block(made, "sh") if "/api/chat" in block_]
    template = GoChatTemplate(MOVING)
    prompts = []
    for command in requests:
        words = shlex.split(command)
        body = json.loads(words[words.index("-d") + 1])
        assert body["_debug_render_only"] is True
        assert body["model"] == "prefix-repro"
        prompts.append(template.render(read_request(body)).data)
    assert len(prompts) == 2
    first, second = prompts
    at = next(index for index, (a, b) in enumerate(zip(first, second, strict=False)) if a != b)
    assert f"`cmp 1.txt 2.txt` names byte {at + 1}, where the two part." in made
    assert f"Request 1: {len(first)} bytes, tools once" in made
    assert f"Request 2: {len(second)} bytes, tools not in it" in made
    assert made.count("█") == 3  # in the sentence and in both prompts as they are


def test_the_loop_before_and_after(templatefix: Any) -> None:
    made = reported(templatefix, MOVING)
    assert "|  | after | prompt | kept | read | tools | mended: prompt | kept | read | tools |" in made
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in made.splitlines() if "| tool |" in line]
    assert rows
    for _, _, prompt, kept, read, tools, mended, kept_mended, read_mended, tools_mended in rows:
        have, due = map(int, kept.split(" / "))
        assert have < due
        assert int(read) <= int(prompt)
        assert tools == "none"
        assert len(set(kept_mended.split(" / "))) == 1
        assert int(read_mended) < int(mended)
        assert tools_mended == "once"


def test_a_fault_of_words_needs_no_mark(templatefix: Any) -> None:
    made = reported(templatefix, STRUCTS)
    assert made.startswith("# t.gotmpl: tools or calls are printed as raw structs where the model expects JSON\n")
    assert "Both prompts open with the same " in made
    assert "█" not in made
    assert "+<tools>" not in made
    assert "{{ json .Function }}" in block(made, "diff")[0]
    assert "- ollama/ollama#14601 — " in made


def test_nothing_private_unless_asked_for(templatefix: Any, server: OllamaServer) -> None:
    done = templatefix("report", "owl:1")
    assert (done.code, done.err) == (0, "")
    assert "Minerva" not in done.out
    assert "| manifest | sha256:" in done.out
    assert '"model": "owl:1"' in done.out
    assert "Minerva" in templatefix("report", "owl:1", "--include-prompts").out
    assert server.asked("/api/chat") == []


def test_a_modelfile_tells_only_its_template(templatefix: Any) -> None:
    secret = f'FROM owl\nSYSTEM "{SECRET}"\nMESSAGE user A private word.\nTEMPLATE """{MOVING}"""\n'
    folder = Path("private-folder")
    folder.mkdir()
    made = reported(templatefix, secret, name="private-folder/Modelfile")
    assert "line 2 of the template (`Modelfile`)" in made
    for word in ("Minerva", "private"):
        assert word not in made
    told = reported(templatefix, secret, "--include-prompts", name="private-folder/Modelfile")
    assert SECRET in told
    assert "A private word." in told


def ab_result(**changes: Any) -> str:
    arms = [
        {"name": "/home/me/secret-a", "requests": [{"scenario": "secret-b"}] * 4, "warm_hit_rate": rate, **counts}
        for rate, counts in (
            (0.4422, {"fresh_tokens": 9, "new_tokens": 3}),
            (0.9982, {"fresh_tokens": 3, "new_tokens": 3}),
        )
    ]
    made = {"version": 1, "engine": "embedded", "source": "engine", "repeats": 1, "verdict": "better", "valid": True}
    return json.dumps({**made, "invalid_reasons": [], "arms": arms, **changes})


def test_an_ab_without_the_names_in_it(templatefix: Any) -> None:
    Path("ab.json").write_text(ab_result())
    made = reported(templatefix, MOVING, "--ab", "ab.json")
    assert "| A | 4 | 44.22 % | 9 | 3 |" in made
    assert "| B | 4 | 99.82 % | 3 | 3 |" in made
    assert "secret" not in made
    Path("ab.json").write_text(ab_result(valid=False, invalid_reasons=["the prompt was cut"]))
    assert "The run is not valid: the prompt was cut." in reported(templatefix, MOVING, "--ab", "ab.json")


@pytest.mark.parametrize("text", ["{", "[]", '{"version": 1}', "\x00"])
def test_what_is_no_ab_result(templatefix: Any, text: str) -> None:
    Path("ab.json").write_text(text)
    Path("t.gotmpl").write_text(MOVING)
    done = templatefix("report", "t.gotmpl", "--ab", "ab.json")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("templatefix: ab.json: ")


def test_nothing_to_report(templatefix: Any) -> None:
    Path("t.gotmpl").write_text(STABLE)
    done = templatefix("report", "t.gotmpl", "-o", "r.md")
    assert (done.code, done.out) == (0, "")
    assert done.err == "templatefix: t.gotmpl: stable, there is nothing to report\n"
    assert not Path("r.md").exists()


def test_a_template_of_ones_own(templatefix: Any) -> None:
    Path("mine.md.j2").write_text("{{ title }}|{{ finding.code }}|{{ diff | fenced('diff') }}|{{ name | code }}\n")
    made = reported(templatefix, MOVING, "--template", "mine.md.j2", "-o", "r.md")
    assert made == ""
    head, code, diff, name = Path("r.md").read_text().split("|", 3)
    assert head.startswith("t.gotmpl: ")
    assert code == "TF101"
    assert diff.startswith("```diff\n--- a/template")
    assert name.endswith("`t.gotmpl`\n")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{% if %}", "mine.md.j2, line 1: "),
        ("{{ nothing }}", "mine.md.j2 cannot be filled in: 'nothing' is undefined"),
        ("{{ title.__class__.__mro__ }}", "mine.md.j2 cannot be filled in: access to attribute '__class__'"),
    ],
)
def test_templates_that_cannot_be_used(templatefix: Any, text: str, says: str) -> None:
    Path("mine.md.j2").write_text(text)
    Path("t.gotmpl").write_text(MOVING)
    done = templatefix("report", "t.gotmpl", "--template", "mine.md.j2")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"templatefix: {says}")


def test_llama_cpp_reads_no_go_templates(templatefix: Any) -> None:
    Path("t.gotmpl").write_text(MOVING)
    done = templatefix("report", "t.gotmpl", "--repo", "llama.cpp")
    assert done.code == 2
    assert "is a Go template, which llama.cpp does not read" in done.err


JINJA = (
    "{% for m in messages %}<{{ m.role }}>{% if loop.last and tools %}{{ tools | tojson }}{% endif %}"
    "{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function | tojson }}{% endfor %}\n{% endfor %}"
)


def test_a_jinja_template_for_llama_cpp(templatefix: Any) -> None:
    made = reported(templatefix, JINJA, name="t.jinja")
    assert reported(templatefix, JINJA, "--repo", "llama.cpp", name="t.jinja") == made
    assert "llama-server -m ANY-MODEL.gguf --jinja --chat-template-file template.jinja" in made
    assert "/apply-template" in made
    assert "_debug_render_only" not in made
    (diff,) = block(made, "diff")
    assert "+{% if tools %}{{ tools | tojson }}{% endif %}" in diff
    assert "`prefix_stable` holds (" in made
    assert "with the diff it calls it stable" in made
    (body,) = [words for block_ in block(made, "sh") if '"tool_calls"' in block_ for words in [shlex.split(block_)]]
    messages = json.loads(body[body.index("-d") + 1])["messages"]
    (call,) = messages[1]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"city": "Oslo"}
    assert messages[2]["tool_call_id"] == call["id"]


THOUGHTS = (
    "{% set ns = namespace(at=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.at = loop.index0 %}"
    "{% endif %}{% endfor %}{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}<{{ m.role }}>"
    "{% set thought = m.reasoning_content or '' %}{% if thought and loop.index0 > ns.at %}<think>{{ thought }}</think>"
    "{% endif %}{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function | tojson }}{% endfor %}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def test_a_jinja_template_that_drops_thinking(templatefix: Any) -> None:
    made = reported(templatefix, THOUGHTS, name="t.jinja")
    assert block(made, "diff")
    assert "The model sees other prompts than before: thinking that is kept." in made


def test_a_cost_that_hangs_on_checkpoints_says_so(templatefix: Any, alone: Path) -> None:
    metadata = {**byte_level(THOUGHTS).read().metadata, "tokenizer.chat_template": THOUGHTS}
    (alone / "state.gguf").write_bytes(standin_bytes(Tokenizer(metadata), "recurrent"))
    made = " ".join(templatefix("report", "state.gguf").out.split())
    assert "a server with a prompt cache keeps 0 of them where no checkpoint fits" in made


def test_a_jinja_template_that_nothing_mends(templatefix: Any) -> None:
    made = reported(templatefix, "{% if tools %}You have tools.{% endif %}{{ messages[-1].content }}", name="t.jinja")
    assert block(made, "diff") == []
    assert "None is offered:\n\n- TF102: the template prints no tool definitions" in made


def test_a_jinja_template_for_hugging_face(templatefix: Any) -> None:
    made = reported(templatefix, JINJA, "--repo", "huggingface", name="t.jinja")
    (script,) = block(made, "python")
    compile(script, "script", "exec")
    assert "apply_chat_template" in script
    assert "curl" not in made


def test_a_jinja_template_for_ollama(templatefix: Any) -> None:
    made = reported(templatefix, JINJA, "--repo", "ollama", name="t.jinja")
    assert "_debug_render_only" in made
    assert "`prefix-repro` stands for a model made of a GGUF file that carries the template" in made


def test_a_regression(templatefix: Any) -> None:
    Path("t.gotmpl").write_text(STABLE)
    assert templatefix("lock", "t.gotmpl").code == 0
    assert templatefix("report", "--regression", "t.gotmpl").err == (
        "templatefix: t.gotmpl: same, there is nothing to report\n"
    )
    made = reported(templatefix, MOVING, "--regression")
    assert made.startswith(
        "# t.gotmpl: an update made the chat template worse (the verdict was stable and is unstable)\n"
    )
    entry = json.loads(Path("templatefix.lock").read_text())["targets"]["t.gotmpl"]
    assert f"| template | {entry['template']} | sha256:" in made
    assert f"| seen | locked {entry['locked']} | found " in made
    assert "| verdict | stable | unstable |" in made
    assert re.search(r"^\| last good \| 0 \| 0% \|\n\| first bad \| [1-9]\d* \| [1-9]\d*% \|$", made, re.MULTILINE)
    assert "\n| first bad, mended | 0 | 0% |\n" in made
    structure, update, repair = block(made, "diff")
    assert "-    1 {{if .Tools}}\n" in structure
    assert "+{{ if .System }}<sys>" in update
    assert repair.startswith("--- a/template\n")


def test_a_regression_needs_a_lock(templatefix: Any) -> None:
    Path("t.gotmpl").write_text(STABLE)
    assert templatefix("report", "--regression", "t.gotmpl").err == "templatefix: there is no file templatefix.lock\n"
    assert templatefix("lock", "t.gotmpl").code == 0
    done = templatefix("report", "--regression", "other")
    assert done.err == "templatefix: templatefix.lock has no other; lock it first: templatefix lock other\n"


@pytest.mark.parametrize("name", ["hf-llama3.1-8b", "hf-mistral-small-24b", "lib-mistral-nemo-latest", "lib-qwen3"])
def test_reports_of_real_templates(templatefix: Any, corpus: dict[str, dict[str, Any]], name: str) -> None:
    made = reported(templatefix, corpus[name]["template"])
    assert "Two requests of one conversation; the second goes on where the first ended:" in made
    assert block(made, "diff")
    assert "lumbrel" not in "".join(block(made, "sh"))
