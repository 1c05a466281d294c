"""A Go template in the place of a Jinja text: what is shown of it, what differs, and what speaks against it."""

from __future__ import annotations

import pytest
from support.families import MISTRAL, QWEN3

from templatefix.analysis.analyse import analyse
from templatefix.chat.go import GoChatTemplate
from templatefix.chat.jinja import JinjaChatTemplate
from templatefix.rewrite.family import NoReplacement, Replacement, replace_by
from templatefix.rewrite.proof import NAMES
from templatefix.servers.families import FAMILIES

TEMPLATES = {family.name: family.template for family in FAMILIES}


def replaced(text: str, go: str, *capabilities: str) -> Replacement:
    jinja = JinjaChatTemplate(text)
    return replace_by(
        jinja, analyse(jinja), GoChatTemplate(go), family="f", parser="p", capabilities=capabilities or ("tools",)
    )


def test_the_words_that_go_and_come_are_listed() -> None:
    result = replaced(QWEN3, TEMPLATES["qwen3"], "tools", "thinking")
    assert (result.changed, result.applied, result.refused) == (True, ("TF203",), ())
    assert result.template == TEMPLATES["qwen3"]
    assert result.proof.renders()["conserved"] == 2
    (dropped,), (added,) = result.dropped_text, result.added_text
    assert "Your tools:\n<tools>\n</tools>\nCall one with <tool_call>, its answer comes in <tool_response>." in dropped
    assert added.startswith("These are your tools, one a line, each as JSON:\n<tools>\n</tools>\n\nUse a tool by")
    assert "Your tools:\n<tools>" in result.before
    assert "each as JSON:\n<tools>" in result.after
    told = result.to_json("m")
    assert (told["family"], told["parser"], told["tag"]) == ("f", "p", None)
    assert told["apart"] == "this is another template of the family f, since Ollama takes no Jinja text from a client"


def test_every_point_is_shown_and_equal_prompts_are_not_claimed() -> None:
    results = replaced(QWEN3, TEMPLATES["qwen3"], "tools", "thinking").proof.results()
    assert results == {name: name != "no_tools_identical" for name in NAMES}


def test_tools_that_moved_stand_still() -> None:
    result = replaced(MISTRAL, TEMPLATES["mistral-nemo"])
    assert "TF101" in result.applied
    assert result.after.startswith("[AVAILABLE_TOOLS][")


REFUSES = "{%- if WHEN %}{{ raise_exception('not like this') }}{%- endif %}"


def test_the_first_request_that_both_render_is_compared() -> None:
    result = replaced(REFUSES.replace("WHEN", "messages | length < 3") + MISTRAL, TEMPLATES["mistral-nemo"])
    assert result.before.count("[TOOL_RESULTS]") == result.after.count("[TOOL_RESULTS]") == 1
    assert result.proof.renders()["conserved"] == 2


def test_without_a_request_that_both_render_nothing_is_offered() -> None:
    with pytest.raises(NoReplacement, match=r"is no help: conserved: the Jinja text renders no request with tools"):
        replaced(REFUSES.replace("WHEN", "tools") + MISTRAL, TEMPLATES["mistral-nemo"])


@pytest.mark.parametrize(
    ("go", "capabilities", "reason"),
    [
        (
            TEMPLATES["mistral-nemo"],
            ("tools", "thinking"),
            "derived_unchanged: the model would lose its capability thinking",
        ),
        (
            TEMPLATES["llama3.1"].replace('eq .Role "tool"', 'eq "tool" .Role'),
            ("tools",),
            "derived_unchanged: the server would not take it for a full tool template",
        ),
        (
            TEMPLATES["llama3.1"].replace("{{ .Content }}<|eot_id|>", "{{ if $last }}{{ .Content }}{{ end }}"),
            (),
            "prefix",
        ),
        (TEMPLATES["llama3.1"].replace("{{- . }}", "{{ . }}{{ . }}"), (), "tools_once"),
        (TEMPLATES["llama3.1"].replace('"{{ .Function.Name }}"', '""'), (), "messages_kept: "),
        (
            TEMPLATES["llama3.1"].replace('"{{ $name }}": {{ json $value }}', ""),
            (),
            "messages_kept: loop .*: the argument 'shelfmark' of lumbrel_lookup is lost",
        ),
        (
            TEMPLATES["llama3.1"].replace("{{ json $value }}", '"of the first call"'),
            (),
            "messages_kept: loop .*: the argument 'Qz-31' of lumbrel_lookup is lost",
        ),
        (
            TEMPLATES["llama3.1"] + "{{ .Nothing }}",
            (),
            "parses: a name in it stands for nothing: <no value> is printed",
        ),
    ],
)
def test_a_template_that_would_harm_is_no_replacement(go: str, capabilities: tuple[str, ...], reason: str) -> None:
    with pytest.raises(NoReplacement, match=f"^the template of the family f is no help: {reason}"):
        replaced(MISTRAL, go, *capabilities)
