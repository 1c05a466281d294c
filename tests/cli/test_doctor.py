"""The command `doctor`, as people call it."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import pytest
from support.ollama_server import OllamaServer
from support.quiet_http import serving

from templatefix.servers.modelfile import Modelfile
from templatefix.trace.cost import CostKind

SAMPLES = Path(__file__).resolve().parents[2] / "modelfiles"
THOUGHTS = """{%- for tool in tools or [] %}{{ tool | tojson }}
{% endfor %}{% set at = namespace(user=-1) %}
{%- for m in messages %}{% if m.role == "user" %}{% set at.user = loop.index0 %}{% endif %}{% endfor %}
{%- for m in messages %}<|{{ m.role }}|>
{%- if m.reasoning_content and loop.index0 > at.user %}<think>{{ m.reasoning_content }}</think>{% endif %}
{{- m.content or "" }}{% for call in m.tool_calls or [] %}<call>{{ call.function.name }}
{{- call.function.arguments | tojson }}</call>{% endfor %}<|end|>
{%- endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"""
MARKS = """{%- for tool in tools or [] %}{{ tool | tojson }}
{% endfor %}{% set at = namespace(user=-1) %}
{%- for m in messages %}{% if m.role == "user" %}{% set at.user = loop.index0 %}{% endif %}{% endfor %}
{%- for m in messages %}<|{{ m.role }}|>
{%- if m.role == "assistant" and loop.index0 > at.user %}<think></think>{% endif %}
{{- m.content or "" }}{% for call in m.tool_calls or [] %}<call>{{ call.function.name }}
{{- call.function.arguments | tojson }}</call>{% endfor %}<|end|>
{%- endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"""
MOVING = """{%- for m in messages %}<|{{ m.role }}|>
{%- if tools and loop.last and m.role == "user" %}{% for tool in tools %}{{ tool | tojson }}
{% endfor %}{% endif %}{{ m.content or "" }}
{%- for call in m.tool_calls or [] %}<call>{{ call.function | tojson }}</call>{% endfor %}<|end|>{% endfor -%}
{%- if add_generation_prompt %}<|assistant|>{% endif %}"""
STARTS = 'time=2026-11-29T10:00:{:02}.000Z level=INFO msg="starting llama-server" cmd="llama-server --model /w -c {}"'
PROMPT = "slot   operator(): id  0 | task {0} | new prompt, n_ctx_slot = 8192, n_keep = 0, task.n_tokens = {1}"
CACHED = "slot   operator(): id  0 | task {0} | cached n_tokens = {1}, memory_seq_rm [{1}, end)"
TIMED = "slot print_timing: id  0 | task {0} | prompt eval time = 1000.00 ms / {1} tokens"
STOPPED = "slot      release: id  0 | task {0} | stop processing: n_tokens = {1}, truncated = 0"


def read(task: int, size: int, cached: int) -> list[str]:
    """The lines of a prompt that an engine reads in a second."""
    lines = [PROMPT.format(task, size), CACHED.format(task, cached), TIMED.format(task, size - cached)]
    return [*lines, STOPPED.format(task, size)]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OllamaServer]:
    with OllamaServer(tmp_path / "store").running() as running:
        monkeypatch.setenv("OLLAMA_HOST", running.url)
        for name, sample in (("owl:1", "llama31-like"), ("finch:1", "stable")):
            template = Modelfile.from_bytes((SAMPLES / f"{sample}.Modelfile").read_bytes()).template
            assert template is not None
            running.store.add(name, template.value)
        yield running


@pytest.fixture
def restarts(alone: Path) -> Path:
    """A log of an engine that starts anew between two turns, for another context."""
    log = alone / "server.log"
    lines = [STARTS.format(1, 8192), *read(1, 2000, 0), STARTS.format(2, 4096), *read(1, 2100, 0)]
    log.write_text("\n".join(lines) + "\n")
    return log


def test_a_server_alone(templatefix: Any, server: OllamaServer) -> None:
    server.loaded["owl:1"] = 4096
    before = dict(server.loaded)
    done = templatefix("doctor")
    assert (done.code, done.err) == (1, "")
    lines = done.out.splitlines()
    assert lines[0] == f"ollama at {server.url}"
    assert lines[1] == "  owl:1: in memory, context 4096; Go template in force, unstable"
    assert any(line.startswith("1. template: ") for line in lines)
    assert "   Change: `templatefix patch owl:1`, and use the tag that it makes." in lines
    assert max(map(len, lines)) <= 80
    assert {(method, path) for method, path, _ in server.requests} <= {
        *(("GET", path) for path in ("/api/version", "/api/ps", "/api/tags")),
        ("POST", "/api/show"),
    }
    assert server.loaded == before


def test_a_stable_model_by_name(templatefix: Any, server: OllamaServer) -> None:
    done = templatefix("doctor", server.url, "--model", "finch:1")
    assert done.code == 0
    assert "  finch:1: not in memory; Go template in force, stable" in done.out.splitlines()
    assert "Nothing was found that makes agents slow here." in done.out


def add_jinja(server: OllamaServer, name: str, text: str, **info: Any) -> None:
    """A model whose Jinja text is in force."""
    info = {"general.architecture": "llama", **info}
    server.store.add(name, None, weights={"model_info": info, "chat_template": text})


@pytest.mark.parametrize("logged", [False, True])
def test_a_model_by_name_is_looked_at_beside_those_in_memory(
    templatefix: Any, server: OllamaServer, restarts: Path, logged: bool
) -> None:
    """Two unstable templates are two costs: the cheap one by name hides nothing of the dear one in memory."""
    add_jinja(server, "marker:1", MARKS)
    add_jinja(server, "mover:1", MOVING)
    server.loaded["mover:1"] = 4096
    log = ["--log", str(restarts)] if logged else []
    before, after = (templatefix("doctor", *log, *named, "--format", "json") for named in ([], ["--model", "marker:1"]))
    costs = {cost["message"].split()[3]: cost for cost in json.loads(after.out)["costs"] if cost["kind"] == "template"}
    (alone,) = [cost for cost in json.loads(before.out)["costs"] if cost["kind"] == "template"]
    assert (before.code, after.code) == (1, 1)
    assert set(costs) == {"mover:1", "marker:1"}
    assert costs["mover:1"] == alone
    if not logged:
        assert alone["much"]
        assert 0 < costs["marker:1"]["share"] < 0.1


def test_what_a_log_does_not_explain_is_laid_to_the_model_in_memory(
    templatefix: Any, server: OllamaServer, alone: Path
) -> None:
    """Not to one that was merely named."""
    add_jinja(server, "mover:1", MOVING)
    server.loaded["owl:1"] = 8192
    lines = [*read(1, 2000, 0), *read(2, 2100, 1000)]
    (alone / "server.log").write_text("\n".join(lines) + "\n")
    done = templatefix("doctor", "--log", "server.log", "--model", "mover:1", "--format", "json")
    first, second = json.loads(done.out)["costs"]
    assert "the template of owl:1 is unstable" in first["message"]
    assert (first["tokens"], second["tokens"]) == (1000, None)


def test_it_says_of_each_model_what_check_says(templatefix: Any, server: OllamaServer) -> None:
    poor = "{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}"
    add_jinja(server, "marker:1", MARKS, **{"llama.attention.sliding_window": 512})
    add_jinja(server, "mover:1", MOVING)
    add_jinja(server, "steady:1", MOVING.replace('loop.last and m.role == "user"', "loop.first"))
    server.store.add("built:1", poor, config={"renderer": "qwen3-coder"})
    server.store.add("lost:1", poor, weights={"model_info": {"general.architecture": "llama"}, "chat_template": MOVING})
    add_jinja(server, "broken:1", "{% for m in messages %}{{ m.content }}")
    names = ["owl:1", "finch:1", "marker:1", "mover:1", "steady:1", "built:1", "lost:1", "broken:1"]
    named = [word for name in names for word in ("--model", name)]
    found = json.loads(templatefix("doctor", *named, "--format", "json").out)
    models = {model["name"]: model for model in found["server"]["models"]}
    checked = json.loads(templatefix("check", *names, "--format", "json").out)["results"]
    for result in checked:
        model = models[result["target"]]
        assert model["verdict"] == result["verdict"]
        assert sorted(model["findings"]) == sorted(one["code"] for one in result["findings"])
    assert {name for name in names if "TF401" in models[name]["findings"]} == {"built:1", "lost:1"}
    assert {name for name in names if models[name]["not_in_force"]} == {"built:1", "lost:1"}
    assert [models[name]["verdict"] for name in ("marker:1", "mover:1", "steady:1")] == [
        "unstable",
        "unstable",
        "stable",
    ]
    for cost in found["costs"]:
        for said in cost["evidence"]:
            assert any(said.endswith(one["message"]) for result in checked for one in result["findings"])


@pytest.mark.parametrize(
    ("text", "setting"),
    [
        (MOVING, "`templatefix patch --gguf OUT` on its GGUF file, and a model made FROM OUT"),
        (
            MARKS,
            "`templatefix patch --keep-thinking -o FILE owl:2`, and --chat-template-file FILE "
            "for a llama-server instead",
        ),
    ],
)
def test_a_jinja_text_without_a_go_template_to_replace_it(
    templatefix: Any, server: OllamaServer, text: str, setting: str
) -> None:
    """`patch` says the same: it makes no tag."""
    add_jinja(server, "owl:2", text)
    found = json.loads(templatefix("doctor", "--model", "owl:2", "--format", "json").out)
    assert [cost["setting"] for cost in found["costs"]] == [setting]
    done = templatefix("patch", "owl:2")
    assert done.code == 1
    assert ("--gguf OUT" in done.out) == (text == MOVING)
    if text == MARKS:
        assert templatefix("patch", "--keep-thinking", "-o", "FILE", "owl:2").code == 0


def test_what_is_not_there_is_never_shown_as_well(templatefix: Any, server: OllamaServer) -> None:
    done = templatefix("doctor")
    assert "Nothing was seen that could tell what makes agents slow here." in done.out
    assert "Nothing was found" not in done.out
    for name in ("wren:1", "Bad Name!"):
        done = templatefix("doctor", "--model", name)
        assert (done.code, done.out, len(done.err.splitlines())) == (2, "", 1)
        assert name in done.err


def test_a_log_beside_the_server(templatefix: Any, server: OllamaServer, restarts: Path) -> None:
    server.loaded["finch:1"] = 4096
    done = templatefix("doctor", "--log", str(restarts), "--format", "json")
    found = json.loads(done.out)
    (cost,) = found["costs"]
    assert (done.code, cost["kind"], cost["tokens"]) == (1, "context-size", 2000)
    assert (cost["share"], cost["seconds"]) == (pytest.approx(2000 / 2100), pytest.approx(2000 / 2050))
    assert cost["setting"].startswith("the same num_ctx in every request")
    assert found["figures"]["prompt_tokens"] == 4100
    assert found["server"]["models"][0]["verdict"] == "stable"
    assert [start["gone"] for start in found["setup"]["starts"]] == ["", "context"]


@pytest.mark.parametrize(
    ("line", "kind", "setting"),
    [
        ('msg="timer expired, expiring to unload" runner.model=/w', "keep-alive", "OLLAMA_KEEP_ALIVE"),
        ('msg="runner with zero duration has gone idle, expiring to unload" runner.model=/w', "keep-alive", "keep_al"),
        (
            'msg="resetting model to expire immediately to make room" runner.model=/w refCount=0',
            "models",
            "OLLAMA_MAX_LOADED_MODELS",
        ),
        ('msg="llama-server stopped"', "restart", "keep the engine running"),
    ],
)
def test_why_a_model_was_unloaded(templatefix: Any, alone: Path, line: str, kind: str, setting: str) -> None:
    gone = f"time=2026-11-29T10:00:01.500Z level=DEBUG {line}"
    lines = [STARTS.format(1, 8192), *read(1, 2000, 0), gone, STARTS.format(2, 8192), *read(1, 2100, 0)]
    (alone / "server.log").write_text("\n".join(lines) + "\n")
    done = templatefix("doctor", "--log", "server.log", "--format", "json")
    first = json.loads(done.out)["costs"][0]
    assert (done.code, first["kind"]) == (1, kind)
    assert setting in first["setting"]
    assert "the most that it cost" in first["message"]


def test_a_log_of_another_server(templatefix: Any, server: OllamaServer, alone: Path) -> None:
    server.loaded["owl:1"] = 4096
    lines = ["srv    load_model: initializing, n_slots = 1, n_ctx_slot = 8192, kv_unified = 'false'"]
    (alone / "llama.log").write_text("\n".join([*lines, *read(1, 2000, 0), *read(2, 2100, 2000)]) + "\n")
    done = templatefix("doctor", "--log", "llama.log", "--format", "json")
    found = json.loads(done.out)
    assert (done.code, found["costs"]) == (0, [])
    assert found["missing"][0].startswith("the server of this log")


def test_nothing_can_be_read(templatefix: Any, alone: Path) -> None:
    done = templatefix("doctor")
    assert (done.code, done.out) == (2, "")
    assert done.err == "templatefix: no Ollama and no llama-server answers at http://127.0.0.1:9\n"
    done = templatefix("doctor", "--log", "nowhere.log")
    assert (done.code, done.err) == (2, "templatefix: nowhere.log cannot be read: No such file or directory\n")
    (alone / "prose.txt").write_text("It rained.\n")
    done = templatefix("doctor", "--log", "prose.txt")
    assert (done.code, len(done.err.splitlines())) == (2, 1)
    (alone / "empty.log").write_text("")
    done = templatefix("doctor", "--log", "empty.log")
    said = "empty.log: no request of a server was found there, and no Ollama and no llama-server answers at http://127.0.0.1:9"
    assert (done.code, done.out, done.err) == (2, "", f"templatefix: {said}\n")
    done = templatefix("doctor", "not an address")
    assert (done.code, len(done.err.splitlines())) == (2, 1)
    assert templatefix("doctor", "--format", "xml").code == 2


@contextmanager
def answering(status: int, body: bytes) -> Iterator[str]:
    """A server that says one thing, but of Ollama's version nothing."""

    with serving(
        lambda path: (404, b'{"error": {"message": "no"}}') if path == "/api/version" else (status, body)
    ) as url:
        yield url


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (404, b'{"error": {"message": "no"}}', "answers neither as an Ollama server nor as a llama-server does"),
        (
            401,
            b'{"error": {"message": "Invalid API Key"}}',
            "asks for a key: LLAMA_API_KEY of a llama-server, OLLAMA_A",
        ),
        (503, b'{"error": {"message": "Loading model"}}', "is still loading its model: ask again in a moment"),
        (200, b"<html>", "answers neither as an Ollama server nor as a llama-server does"),
    ],
)
def test_another_kind_of_server(templatefix: Any, status: int, body: bytes, said: str) -> None:
    with answering(status, body) as url:
        done = templatefix("doctor", url)
    assert (done.code, done.out, len(done.err.splitlines())) == (2, "", 1)
    assert done.err.startswith(f"templatefix: {url} {said}")


def test_a_llama_server_that_shows_no_template(templatefix: Any) -> None:
    with answering(200, b'{"total_slots": 2, "model_path": "/m/x.gguf", "build_info": "b1"}') as url:
        done = templatefix("doctor", url)
    assert done.code == 0
    assert done.out.splitlines()[:2] == [
        f"llama-server b1 at {url}, 2 slots",
        "  x.gguf: in memory; its template could not be judged",
    ]
    assert "shows no chat template" in done.out.replace("\n  ", " ")


@pytest.mark.parametrize(("text", "keep"), [(THOUGHTS, ["--keep-thinking"]), (MOVING, [])])
def test_the_command_that_it_gives_for_a_llama_server_works(
    templatefix: Any, alone: Path, text: str, keep: list[str]
) -> None:
    props = {"total_slots": 1, "model_path": "/m/x.gguf", "build_info": "b1", "chat_template": text}
    with answering(200, json.dumps(props).encode()) as url:
        found = json.loads(templatefix("doctor", url, "--format", "json").out)
        (cost,) = found["costs"]
        assert cost["much"] == (text == MOVING)
        command = cost["setting"].split("`")[1].split()
        assert command == ["templatefix", "patch", *keep, "-o", "FILE", url]
        assert found["server"]["models"][0]["verdict"] == "unstable"
        said = templatefix("doctor", url).out
        assert (
            "The template of x.gguf is unstable; the share is that of check's own loops: 0.4%"
            in said.replace("\n  ", " ")
        ) == (text == THOUGHTS)
        assert f"  Change: `{' '.join(command)}`" in said
        assert templatefix(*command[1:]).code == 0
        assert templatefix("check", "--as", "jinja", "FILE").code == 0


def test_a_recording_without_a_log(templatefix: Any, alone: Path) -> None:
    """The requests themselves say that they ask for other contexts."""
    system = {"role": "system", "content": "You look after a garden. " * 80}
    rows = []
    for number, context in enumerate((8192, 4096, 8192)):
        talk = [
            {"role": "user" if turn % 2 == 0 else "assistant", "content": f"{turn}"} for turn in range(2 * number + 1)
        ]
        body = {"model": "owl:1", "messages": [system, *talk], "options": {"num_ctx": context}}
        answer = {"prompt_eval_count": 500 + number, "prompt_eval_cached_count": 0, "prompt_eval_duration": 5 * 10**8}
        rows.append({"path": "/api/chat", "request": body, "answer": [answer]})
    (alone / "trace.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = templatefix("doctor", "--trace", "trace.jsonl", "--format", "json")
    found = json.loads(done.out)
    first = found["costs"][0]
    assert (done.code, first["kind"]) == (1, "context-size")
    assert first["tokens"] == pytest.approx(1000, abs=30)
    assert first["setting"].startswith("the same num_ctx in every request (the largest was 8192)")
    assert found["figures"]["tokens_per_second"] == pytest.approx(1503 / 1.5)
    assert found["prompt"]["parts"]["system"] > 400


def test_an_ollama_whose_model_has_a_sliding_window(templatefix: Any, alone: Path) -> None:
    forced = "slot   operator(): id  0 | task 2 | forcing full prompt re-processing due to lack of cache data"
    checked = "slot get_availabl: id  0 | task -1 |  - checking sim = 0.900 (1900/2100) > 0.100"
    begun, *rest = read(2, 2100, 0)
    window = "print_info: n_swa                 = 512"
    lines = [STARTS.format(1, 8192), window, *read(1, 2000, 0), checked, begun, forced, *rest]
    (alone / "server.log").write_text("\n".join(lines) + "\n")
    done = templatefix("doctor", "--log", "server.log", "--format", "json")
    cost, unexplained = json.loads(done.out)["costs"]
    assert (unexplained["kind"], unexplained["tokens"]) == ("unknown", 100)
    assert (done.code, cost["kind"], cost["tokens"]) == (1, "memory", 1900)
    assert "its memory is a sliding window of 512 tokens" in cost["evidence"]
    assert cost["setting"].startswith("send prompts that only grow")
    assert "LLAMA_ARG_SWA_FULL=1" in cost["setting"]


def test_a_server_whose_model_is_named_without_its_tag(templatefix: Any, server: OllamaServer, alone: Path) -> None:
    """A request for `owl` runs `owl:latest`: its template is the server's."""
    template = Modelfile.from_bytes((SAMPLES / "llama31-like.Modelfile").read_bytes()).template
    assert template is not None
    server.store.add("owl:latest", template.value)
    server.loaded["owl:latest"] = 8192
    tool = {"type": "function", "function": {"name": "prune", "description": "Cut what is too long. " * 40}}
    rows, messages = [], [{"role": "system", "content": "You look after a garden. " * 40}]
    for turn in range(3):
        messages = [*messages, {"role": "user", "content": f"What of bed {turn}?"}]
        body = {"model": "owl", "messages": messages, "tools": [tool]}
        size = sum(len(one["content"]) + 40 for one in messages) // 4 + 250
        cached = 0 if turn == 0 else size - 300
        answer = {"prompt_eval_count": size, "prompt_eval_cached_count": cached, "prompt_eval_duration": 10**8}
        rows.append({"path": "/api/chat", "request": body, "answer": [answer]})
        messages = [*messages, {"role": "assistant", "content": "It can wait."}]
    (alone / "trace.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = json.loads(templatefix("doctor", "--trace", "trace.jsonl", "--format", "json").out)
    assert found["costs"][0]["kind"] == "template"
    assert any(said.startswith("line ") and "TF101" in said for said in found["costs"][0]["evidence"])


@contextmanager
def routing(models: dict[str, str]) -> Iterator[tuple[str, list[str]]]:
    """A router whose models are in the states given; the list holds what was asked."""
    asked: list[str] = []
    template = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}"
    answers: dict[str, Any] = {
        "/props": {"role": "router", "build_info": "b2"},
        "/models": {"data": [{"id": name, "status": {"value": state}} for name, state in models.items()]},
        "/props?model=owl": {"chat_template": template, "total_slots": 4},
        "/slots?model=owl": [{"id": 0, "n_ctx": 4096}],
    }

    def answer(path: str) -> tuple[int, bytes]:
        asked.append(path)
        known = path in answers
        return (200 if known else 404), json.dumps(answers[path] if known else {"error": {"message": "no"}}).encode()

    with serving(answer) as url:
        yield url, asked


def test_a_router_is_asked_for_what_is_in_memory_alone(templatefix: Any) -> None:
    """To ask for another model would load it."""
    with routing({"owl": "loaded", "finch": "unloaded"}) as (url, asked):
        done = templatefix("doctor", url, "--model", "finch")
        assert done.out.splitlines()[:3] == [
            f"llama-server b2 at {url}, a router to one server a model",
            "  finch: not in memory; its template could not be judged",
            "  owl: in memory, context 4096; Jinja template in force, stable",
        ]
        assert "finch: the router shows it once it is in memory" in done.out.replace("\n  ", " ")
        assert not any("model=finch" in path for path in asked)
        done = templatefix("doctor", url, "--model", "wren")
        assert (done.code, done.out, done.err) == (2, "", f"templatefix: there is no model wren on {url}\n")
    with routing({"finch": "unloaded"}) as (url, _):
        done = templatefix("doctor", url)
    assert done.code == 0
    assert "Nothing was seen that could tell" in done.out


def test_a_router_that_lists_nothing(templatefix: Any) -> None:
    with answering(200, b'{"role": "router"}') as url:
        done = templatefix("doctor", url)
    assert (done.code, done.err) == (0, "")
    assert "no template was looked at" in done.out.replace("\n  ", " ")


@pytest.mark.parametrize(("lost", "code"), [(200, 0), (201, 1)])
def test_a_tenth_of_the_prompt_is_the_bound(templatefix: Any, alone: Path, lost: int, code: int) -> None:
    chosen = "slot get_availabl: id  0 | task -1 | selected slot by LCP similarity, sim_best = 0.900 (> 0.100 thold)"
    lines = [*read(1, 2000, 0), chosen, *read(2, 2000, 2000 - lost)]
    (alone / "server.log").write_text("\n".join(lines) + "\n")
    done = templatefix("doctor", "--log", "server.log", "--format", "json")
    found = json.loads(done.out)
    assert (done.code, found["costs"][0]["tokens"]) == (code, lost)
    assert (found["healthy"], found["costs"][0]["much"]) == (code == 0, code == 1)


def test_what_costs_less_than_a_hundredth_is_no_cause(templatefix: Any, alone: Path) -> None:
    """Fifty tokens are read again, of 8,000 that could have come from the cache."""
    lines = read(1, 2000, 0)
    for task in (2, 3, 4, 5):
        lines += read(task, 2000, 1950 if task == 2 else 2000)
    (alone / "server.log").write_text("\n".join(lines) + "\n")
    done = templatefix("doctor", "--log", "server.log")
    assert done.code == 0
    assert "Nothing was found that makes agents slow here." in done.out
    assert "50 tokens read again: too few to matter (less than a hundredth)." in done.out


def test_the_report_is_plain_where_it_is_piped_and_fits_a_terminal(
    templatefix: Any, server: OllamaServer, restarts: Path
) -> None:
    server.loaded["owl:1"] = 4096
    done = templatefix("doctor", "--log", str(restarts))
    lines = done.out.splitlines()
    assert "\x1b" not in done.out
    assert max(map(len, lines)) <= 80
    at = lines.index("1. context-size: 95.2% of the prompts, 2000 tokens read again, 0.98 s")
    assert lines[at - 2 : at] == [
        "What costs most comes first; the share is that of prompts that could have come",
        "from the cache.",
    ]


def keys(value: Any) -> Any:
    """The shape of a JSON value: keys all the way down, of a list its first item's."""
    if isinstance(value, dict):
        return {key: keys(item) for key, item in value.items()}
    return [keys(value[0])] if isinstance(value, list) and value else None


def test_json_has_the_documented_shape(templatefix: Any, server: OllamaServer, restarts: Path, alone: Path) -> None:
    """The shape that the module's page shows, with everything in it that can be seen."""
    from templatefix.report import doctor_json

    assert doctor_json.__doc__ is not None
    block = doctor_json.__doc__.partition("\n\n    {")[2].partition("\n\n`healthy`")[0]
    documented = json.loads("{" + block)
    server.loaded["owl:1"] = 4096
    message = {"role": "user", "content": "What grows in this bed, and what could grow there? " * 40}
    row = {"path": "/api/chat", "request": {"model": "owl:1", "messages": [message]}, "answer": [{}]}
    (alone / "trace.jsonl").write_text(json.dumps(row) + "\n{broken\n")
    found = json.loads(templatefix("doctor", "--log", str(restarts), "--trace", "trace.jsonl", "--format", "json").out)
    assert keys(found) == keys(documented)
    assert found["version"] == documented["version"] == 1
    said = doctor_json.__doc__.partition("their kinds are")[2].partition(".")[0]
    assert set(re.findall(r"[a-z-]+", said)) - {"and"} == set(get_args(CostKind))


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("cut.log", "\n".join(read(1, 2000, 0))[:-60].encode()),
        ("binary.log", b"\x00\xff\xfe\x81" * 200 + b"\n" + "\n".join(read(1, 2000, 0)).encode() + b"\n\x00\x00"),
        ("one-line.log", ("\n".join(read(1, 2000, 0)) + "\n").encode() + b"x" * (3 << 20)),
        ("windows.log", "\r\n".join(read(1, 2000, 0)).encode("utf-16")),
        ("packed.log.gz", gzip.compress("\n".join(read(1, 2000, 0)).encode() + b"\n")[:-9]),
    ],
)
def test_logs_of_every_kind(templatefix: Any, alone: Path, name: str, data: bytes) -> None:
    """What can be read of them is; the rest is told, and nothing that is healthy is called ill."""
    (alone / name).write_bytes(data)
    done = templatefix("doctor", "--log", name)
    assert (done.code, done.err) == (0, "")
    assert "1 request in 1 conversation: 2000 of 2000 prompt tokens were read" in done.out.replace("\n    ", " ")
    assert "Nothing was found that makes agents slow here." in done.out


@pytest.mark.parametrize("option", ["--log", "--trace"])
def test_a_folder_is_no_log(templatefix: Any, alone: Path, option: str) -> None:
    (alone / "logs").mkdir()
    done = templatefix("doctor", option, "logs")
    assert (done.code, done.out, len(done.err.splitlines())) == (2, "", 1)
    assert "logs" in done.err


def test_a_refused_request_of_a_recording(templatefix: Any, alone: Path) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "What grows here? " * 300}]}
    refusal = {"error": {"code": 400, "type": "exceed_context_size_error", "n_prompt_tokens": 4977, "n_ctx": 2048}}
    row = {"path": "/v1/chat/completions", "request": body, "status": 400, "answer": [refusal]}
    (alone / "trace.jsonl").write_text(json.dumps(row) + "\n")
    done = templatefix("doctor", "--trace", "trace.jsonl", "--format", "json")
    (cost,) = json.loads(done.out)["costs"]
    assert (done.code, cost["kind"], cost["message"]) == (
        0,
        "context-full",
        "1 request refused: longer than the context",
    )
