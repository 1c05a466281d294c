"""`templatefix patch MODEL` where the Jinja text of the weights is in force, and what can be done with the tag."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.families import MISTRAL, QWEN3, QWEN35
from support.ollama_server import OllamaServer

from templatefix.servers.families import FAMILIES
from templatefix.servers.ollama import OllamaClient

TEMPLATES = {family.name: family.template for family in FAMILIES}
TAG = "owl:1-prefix-stable"
POOR = "{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OllamaServer]:
    with OllamaServer(tmp_path / "store").running() as running:
        monkeypatch.setenv("OLLAMA_HOST", running.url)
        running.tells_cached = True
        yield running


def weights(jinja: str) -> dict[str, Any]:
    return {"model_info": {"general.architecture": "llama"}, "chat_template": jinja}


def names(server: OllamaServer) -> list[str]:
    return sorted(OllamaClient(server.url).tags())


def test_a_tag_gets_the_familys_template(templatefix: Any, server: OllamaServer) -> None:
    server.store.add("owl:1", None, weights=weights(QWEN3), params={"stop": ["<|im_end|>"]})
    before = OllamaClient(server.url).tags()["owl:1"].digest
    done = templatefix("patch", "owl:1")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("owl:1: TF203 is gone, by a Go TEMPLATE of the family qwen3\n")
    assert "this is no variant of the one in the weights but another template" in " ".join(done.out.split())
    assert "\n-Your tools:\n" in done.out
    assert "\n+These are your tools, one a line, each as JSON:\n" in done.out
    assert f"\n{TAG}: made, digest " in done.out
    assert "5 prompts of the server compared with ours: the same" in done.out
    assert f"templatefix ab owl:1 {TAG}" in done.out
    client = OllamaClient(server.url)
    made = client.show(TAG)
    assert (made.template, made.not_in_force(), made.instruction("PARSER")) == (TEMPLATES["qwen3"], None, "")
    assert client.tags()["owl:1"].digest == before
    assert server.loaded == {}  # an engine that was started for the tag would refuse the model's tools
    again = templatefix("patch", "owl:1")
    assert again.code == 0
    assert f"{TAG}: there already, with this very template" in again.out


def test_the_engine_of_a_model_in_use_is_left_alone(templatefix: Any, server: OllamaServer) -> None:
    server.store.add("owl:1", None, weights=weights(QWEN3))
    server.loaded = {"owl:1": 4096, TAG: 4096}
    assert templatefix("patch", "owl:1").code == 0
    assert server.loaded == {"owl:1": 4096, TAG: 4096}


def test_calls_that_are_no_json_come_with_their_parser(templatefix: Any, server: OllamaServer) -> None:
    server.store.add("owl:1", None, weights=weights(QWEN35))
    done = templatefix("patch", "owl:1", "--tag", "bat:1", "--format", "json")
    told = json.loads(done.out)
    assert (done.code, told["changed"], told["family"], told["parser"]) == (0, True, "qwen3.5", "qwen3.5")
    assert (told["tag"]["name"], told["template"]) == ("bat:1", TEMPLATES["qwen3.5"])
    assert {name for name, holds in told["proof"].items() if not holds} == {"no_tools_identical"}
    assert told["apart"].startswith("this is another template of the family qwen3.5")
    assert told["dropped_text"]
    assert told["added_text"]
    assert OllamaClient(server.url).show("bat:1").instruction("PARSER") == "qwen3.5"


def test_a_go_template_that_has_lost_is_replaced_as_well(templatefix: Any, server: OllamaServer) -> None:
    server.store.add("owl:1", POOR, weights=weights(MISTRAL))
    done = templatefix("patch", "owl:1")
    assert done.code == 0
    assert "by a Go TEMPLATE of the family mistral-nemo" in done.out
    assert OllamaClient(server.url).show(TAG).template == TEMPLATES["mistral-nemo"]


def test_dry_run_and_files_make_no_tag(templatefix: Any, server: OllamaServer, alone: Path) -> None:
    server.store.add("owl:1", None, weights=weights(QWEN3))
    assert templatefix("patch", "owl:1", "--dry-run").code == 0
    done = templatefix("patch", "owl:1", "--keep-thinking", "-o", "kept.jinja")
    assert done.code == 0
    assert "{%- if tools %}" in (alone / "kept.jinja").read_text()
    done = templatefix("patch", "owl:1", "--keep-thinking", "-o", "other.jinja", "--tag", "bat:1")
    assert (done.code, (alone / "other.jinja").exists(), names(server)) == (2, False, ["owl:1"])


def test_check_says_which_thoughts_the_server_hands_over(templatefix: Any, server: OllamaServer, alone: Path) -> None:
    server.store.add("owl:1", None, weights=weights(QWEN3))
    (alone / "owl.jinja").write_text(QWEN3)
    said = "Ollama hands no past thought to a Jinja text"
    results = [
        result
        for target in ("owl:1", "owl.jinja")
        for result in json.loads(templatefix("check", target, "--format", "json").out)["results"]
    ]
    assert [said in (result["reason"] or "") for result in results] == [True, False]
    # The thoughts themselves never come and go there: only the empty mark around them does.
    told = [next(one for one in result["findings"] if one["code"] == "TF203")["message"] for result in results]
    assert ["Thinking is shown" in message for message in told] == [False, True]


def test_a_stable_text_that_thinks_is_replaced_only_when_asked(templatefix: Any, server: OllamaServer) -> None:
    # Where no thought is handed back, only an empty mark can move.
    marked = "loop.index0 > asked.last"
    stable = QWEN3.replace(marked, f"{marked} and message.reasoning_content")
    server.store.add("owl:1", None, weights=weights(stable))
    done = templatefix("check", "owl:1", "--format", "json")
    told = json.loads(done.out)["results"][0]
    assert (done.code, told["verdict"], told["disagreement"]) == (0, "stable", [])
    assert told["reason"].endswith("a Go TEMPLATE of the family gets the thoughts (patch --keep-thinking)")
    done = templatefix("patch", "owl:1")
    assert (done.code, names(server)) == (0, ["owl:1"])
    done = templatefix("patch", "owl:1", "--keep-thinking")
    assert (done.code, names(server)) == (0, ["owl:1", TAG])
    assert done.out.startswith("owl:1: past thoughts reach the model, by a Go TEMPLATE of the family qwen3")
    assert OllamaClient(server.url).show(TAG).template == TEMPLATES["qwen3"]


def test_a_stable_text_stays(templatefix: Any, server: OllamaServer) -> None:
    stable = (
        "{% for t in tools or [] %}{{ t | tojson }}{% endfor %}{% for m in messages %}<{{ m.role }}>{{ m.content }}"
    )
    calls = "{% for call in m.tool_calls or [] %}{{ call.function | tojson }}{% endfor %}</>{% endfor %}"
    server.store.add("owl:1", None, weights=weights(stable + calls))
    done = templatefix("patch", "owl:1")
    assert (done.code, names(server)) == (0, ["owl:1"])
    assert done.out.startswith("owl:1: nothing to do")


@pytest.mark.parametrize(
    ("jinja", "said"),
    [
        (MISTRAL.replace("[INST]", "[ASK]"), "the template is of none of the families known here"),
        (MISTRAL.replace("[INST]", "<|turn>[INST]<turn|>"), "Ollama gives every tag that is made of Gemma 4's weights"),
    ],
)
def test_without_a_family_the_reason_is_told(templatefix: Any, server: OllamaServer, jinja: str, said: str) -> None:
    server.store.add("owl:1", None, weights=weights(jinja))
    done = templatefix("patch", "owl:1", "--format", "json")
    told = json.loads(done.out)
    assert (done.code, told["changed"], names(server)) == (1, False, ["owl:1"])
    assert "TF101" in [one["code"] for one in told["refused"]]
    assert said in told["refused"][0]["reason"]
    server.store.add("owl:1", POOR, weights=weights(jinja))
    told = json.loads(templatefix("patch", "owl:1", "--format", "json").out)
    assert [one["code"] for one in told["refused"]] == ["TF401"]
    assert said in told["refused"][0]["reason"]


def test_codes_that_are_left_out_are_not_mended(templatefix: Any, server: OllamaServer) -> None:
    server.store.add("owl:1", None, weights=weights(QWEN3))
    done = templatefix("patch", "owl:1", "--ignore", "TF203")
    assert (done.code, names(server)) == (1, ["owl:1"])
    assert "TF203: left out by the choice of codes" in done.out


def test_a_tag_that_is_not_in_force_is_taken_away(templatefix: Any, server: OllamaServer) -> None:
    server.store.add("owl:1", None, weights=weights(QWEN3))

    def gets_a_renderer(store: Any, name: str) -> None:
        config = store.read(name).config
        store.write(store.read(name).name, {**config, "renderer": "gemma4"}, store.read(name).manifest["layers"])

    server.faults.after_create = gets_a_renderer
    done = templatefix("patch", "owl:1")
    assert (done.code, names(server)) == (1, ["owl:1"])
    assert "has RENDERER gemma4: the server builds its prompts itself" in done.err
    assert done.err.endswith("was removed again\n")
    server.faults.after_create = None
    server.faults.render = lambda text: text + " "
    done = templatefix("patch", "owl:1")
    assert (done.code, names(server)) == (1, ["owl:1"])
    assert "its prompts are made with something else" in done.err


def test_nothing_is_overwritten_unasked(templatefix: Any, server: OllamaServer) -> None:
    server.store.add("owl:1", None, weights=weights(QWEN35))
    client = OllamaClient(server.url)
    client.create(TAG, "owl:1", TEMPLATES["qwen3.5"])  # the same template, without the parser that it needs
    done = templatefix("patch", "owl:1")
    assert (done.code, client.show(TAG).instruction("PARSER")) == (1, "")
    assert f"{TAG} is there already" in done.err
    assert templatefix("patch", "owl:1", "--force").code == 2
    assert templatefix("patch", "owl:1", "--force", "--yes").code == 0
    assert client.show(TAG).instruction("PARSER") == "qwen3.5"


def test_variants_and_unpatch_know_the_tag(templatefix: Any, server: OllamaServer) -> None:
    server.store.add("owl:1", None, weights=weights(QWEN3))
    assert templatefix("patch", "--all").code == 0
    assert templatefix("variants").out == f"{TAG}: of owl:1, as its base is now, in force\n"
    assert templatefix("unpatch", TAG, "--yes").code == 0
    assert names(server) == ["owl:1"]


def test_ab_measures_the_text_in_force_and_its_replacement(templatefix: Any, server: OllamaServer) -> None:
    server.store.add("owl:1", None, weights=weights(MISTRAL))
    done = templatefix("ab", "owl:1", "--format", "json")
    made = json.loads(done.out)
    assert (done.code, made["valid"], made["verdict"], made["invalid_reasons"]) == (0, True, "better", [])
    stock, variant = made["arms"]
    assert (stock["name"], variant["name"]) == ("owl:1", "owl:1, patched")
    assert stock["warm_hit_rate"] < 0.9
    assert variant["warm_hit_rate"] > 0.95
    assert names(server) == ["owl:1"]
    assert templatefix("patch", "owl:1").code == 0
    swapped = json.loads(templatefix("ab", TAG, "owl:1", "--format", "json").out)
    assert (swapped["valid"], swapped["verdict"]) == (True, "worse")


def test_ab_puts_what_the_model_wrote_into_the_cache(templatefix: Any, server: OllamaServer) -> None:
    server.store.add("owl:1", None, weights=weights(QWEN3))
    done = templatefix("ab", "owl:1", "--scenario", "thinking", "--format", "json")
    made = json.loads(done.out)
    assert (done.code, made["valid"]) == (0, True)
    stock, variant = (
        [row["fresh_tokens"] - row["new_tokens"] for row in arm["requests"] if row["step"]] for arm in made["arms"]
    )
    assert min(stock) > 0  # a thought that the next prompt lacks: what stood behind it is read again
    assert max(variant) <= 1


@pytest.mark.parametrize("args", [("ab", "owl:1", "kept.jinja"), ("ab", "kept.jinja", "owl:1", "--engine", "ollama")])
def test_ab_takes_no_jinja_file_to_the_server(
    templatefix: Any, server: OllamaServer, alone: Path, args: tuple[str, ...]
) -> None:
    server.store.add("owl:1", None, weights=weights(QWEN3))
    (alone / "kept.jinja").write_text(QWEN3)
    done = templatefix(*args)
    assert (done.code, done.out) == (2, "")
    assert "Ollama takes no Jinja template from a client" in done.err
