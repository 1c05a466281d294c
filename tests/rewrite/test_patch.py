"""What `patch` makes of a template: the variant's text, what it lists, what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from templatefix.analysis.analyse import analyse
from templatefix.chat.go import GoChatTemplate
from templatefix.chat.request import Request
from templatefix.gotemplate.runtime import Limits
from templatefix.rewrite.patch import patch
from templatefix.rewrite.proof import NAMES
from templatefix.rewrite.result import PatchResult

LAYOUTS = Path(__file__).parent / "layouts"


def patched(name: str, **options: object) -> PatchResult:
    return patch(GoChatTemplate((LAYOUTS / f"{name}.tmpl").read_text(encoding="utf-8")), **options)  # type: ignore[arg-type]


def test_every_layout_becomes_stable_and_stays_as_it_is(layout: str) -> None:
    result = patch(GoChatTemplate(layout))
    assert result.changed, result.refused
    assert result.proof.holds
    assert result.refused == ()
    assert not {"TF101", "TF102", "TF103", "TF201", "TF202"} & {finding.code for finding in result.remaining}
    again = patch(GoChatTemplate(result.template))
    assert not again.changed
    assert again.template == result.template
    assert again.diff() == ""
    assert again.refused == ()


def test_the_tool_text_stands_at_the_end_of_the_system_block() -> None:
    result = patched("header-if-else")
    head, rest = result.template.split("{{- range $i, $_ := .Messages }}")
    assert head == (
        "{{- if or .System .Tools }}<|head|>system<|/head|>\n"
        "{{- if .System }}\n\n{{ .System }}\n{{- end }}\n"
        "{{- if .Tools }}\n\nOnce a tool has answered, tell the person what it said.\n\n"
        "These tools may help. Call one by writing JSON with its name and its parameters.\n\n"
        "Write nothing but the call.\n\n"
        "{{ range $.Tools }}\n{{- . }}\n{{ end }}\n"
        "{{- end }}<|eot|>\n{{- end }}\n"
    )
    assert rest.startswith(
        "\n{{- $last := eq (len (slice $.Messages $i)) 1 }}\n"
        '{{- if eq .Role "user" }}<|head|>user<|/head|>\n\n'
        "{{ .Content }}<|eot|>{{ if $last }}<|head|>assistant<|/head|>\n\n{{ end }}\n"
        '{{- else if eq .Role "assistant" }}'
    )
    assert result.applied == ("TF101", "TF102", "TF202")
    assert result.dropped_text == ("Question: ",)
    assert result.added_text == ()
    assert result.placement == "system"


def test_a_block_is_opened_in_the_familys_markup() -> None:
    result = patched("no-block")
    assert result.template.startswith(
        "{{- if .Tools }}<|begin|>system\nTools at hand, one a line:\n"
        "{{ range $.Tools }}{{ . }}\n{{ end }}<|end|>\n{{ end }}\n"
    )
    assert result.added_text == ("<|begin|>system\n", "<|end|>\n")


def test_a_block_that_needs_a_system_text_opens_for_tools_as_well() -> None:
    template = GoChatTemplate(patched("system-only-block").template)
    tools = ({"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}},)
    user = {"role": "user", "content": "hello"}
    assert template.render(Request((user,), tools)).text.startswith("<|im_begin|>system\nYou may use these tools:\n{")
    both = template.render(Request(({"role": "system", "content": "Be kind."}, user), tools)).text
    assert both.startswith("<|im_begin|>system\nBe kind.\n\nYou may use these tools:\n{")
    assert template.render(Request((user,))).text == "<|im_begin|>user\nhello<|im_stop|>\n<|im_begin|>assistant\n\n"


def test_a_block_of_its_own_is_not_put_into_another() -> None:
    text = (
        "{{ if .System }}<sys>{{ .System }}</sys>{{ end }}{{ range $i, $m := .Messages }}"
        '{{ if ne .Role "system" }}<{{ .Role }}>{{ .Content }}{{ range .ToolCalls }}{{ json .Function }}{{ end }}</s>'
        "{{ if and $.Tools (le (len (slice $.Messages $i)) 1) }}<sys>At hand: {{ $.Tools }}</sys>{{ end }}"
        "{{ end }}{{ end }}<assistant>"
    )
    result = patch(GoChatTemplate(text))
    assert result.changed, result.refused
    tools = ({"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}},)
    request = Request(({"role": "system", "content": "Be kind."}, {"role": "user", "content": "hello"}), tools)
    prompt = GoChatTemplate(result.template).render(request).text
    assert prompt.startswith("<sys>Be kind.</sys><sys>At hand: [{")
    assert prompt.endswith("}]</sys><user>hello</s><assistant>")


def test_the_end_mark_of_a_block_goes_with_it() -> None:
    text = (
        "{{ range $i, $m := .Messages }}{{ if and $.Tools (eq (len (slice $.Messages $i)) 1) }}<turn>system\n"
        'At hand: {{ $.Tools }}\n<end>\n{{ end }}{{ if ne .Role "tool" }}<turn>{{ .Role }}\n{{ .Content }}'
        "{{ range .ToolCalls }}{{ json .Function }}{{ end }}<end>\n{{ else }}<turn>result\n{{ .Content }}<end>\n"
        "{{ end }}{{ end }}<turn>assistant\n"
    )
    result = patch(GoChatTemplate(text))
    assert result.changed, result.refused
    assert result.dropped_text == ()
    tools = ({"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}},)
    prompt = GoChatTemplate(result.template).render(Request(({"role": "user", "content": "hello"},), tools)).text
    assert prompt.startswith("<turn>system\nAt hand: [{")
    assert prompt.endswith("}]\n<end>\n<turn>user\nhello<end>\n<turn>assistant\n")


def test_without_a_system_block_the_tools_stand_before_the_first_turn() -> None:
    text = patched("inst").template
    opening = '{{- if and $.Tools $pending (ne .Role "system") }}{{ $pending = false }}'
    assert f"{opening}[TOOLS] {{{{ $.Tools }}}}[/TOOLS]{{{{ end }}}}" in text
    # What moves without tools stays as it was, byte for byte.
    assert "(and (not $.Tools) (eq (len (slice $.Messages $index)) 1))" in text


def test_a_history_that_was_cut_keeps_its_tools() -> None:
    template = GoChatTemplate(patched("inst").template)
    tools = ({"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}},)
    call = {"function": {"name": "f", "arguments": {}}}
    messages = ({"role": "assistant", "tool_calls": [call]}, {"role": "tool", "content": "done"})
    assert template.render(Request(messages, tools)).text.startswith("[TOOLS] [{")


def test_a_frame_round_the_question_stays_at_every_turn() -> None:
    result = patched("framed-query")
    assert result.dropped_text == ()
    assert "{{- if $.Tools }}\n\n[BEGIN QUERY]\n{{ .Content }}\n[END QUERY]" in result.template


def test_first_user_keeps_the_words_in_the_users_message() -> None:
    result = patched("header-if-else", placement="first-user")
    assert result.placement == "first-user"
    assert result.dropped_text == ()
    assert "{{- if and $.Tools (eq $i $first) }}\n\nThese tools may help." in result.template


def test_fresh_names_do_not_collide() -> None:
    text = (LAYOUTS / "inst.tmpl").read_text(encoding="utf-8").replace("$index", "$first").replace("$_", "$pending")
    result = patch(GoChatTemplate(text))
    assert result.changed
    assert "$first2 := -1" in result.template
    assert "$pending2 := true" in result.template


STABLE = """{{- if or .System .Tools }}<s>{{ .System }}{{ range .Tools }}
{{ . }}{{ end }}</s>{{ end }}
{{- range .Messages }}{{ if ne .Role "system" }}<{{ .Role }}>{{ .Content }}
{{- range .ToolCalls }}{{ .Function.Name }}{{ .Function.Arguments }}{{ end }}</m>{{ end }}{{ end }}"""


def test_a_stable_template_is_left_alone() -> None:
    result = patch(GoChatTemplate(STABLE))
    assert not result.changed
    assert result.refused == ()
    assert result.template == STABLE


def test_a_struct_is_printed_as_json() -> None:
    text = STABLE.replace("\n{{ . }}{{ end }}</s>", "\n{{ .Function }}{{ end }}</s>")
    result = patch(GoChatTemplate(text))
    assert result.applied == ("TF301",)
    assert result.template == text.replace("{{ .Function }}", "{{ json .Function }}")
    assert result.proof.holds
    ignored = patch(GoChatTemplate(text), ignore=["TF301"])
    assert not ignored.changed
    assert ignored.refused == ()


@pytest.mark.parametrize(
    ("broken", "mended"),
    [
        pytest.param(
            "{{ with .Tools }}{{ range .Tools }}\n{{ . }}{{ end }}{{ end }}",
            "{{ with .Tools }}{{ range . }}\n{{ . }}{{ end }}{{ end }}",
            id="range within with",
        ),
        pytest.param(
            "{{ range .Tools }}\n{{ .Name }}: {{ json .Parameters }}{{ end }}",
            "{{ range .Tools }}\n{{ .Function.Name }}: {{ json .Function.Parameters }}{{ end }}",
            id="fields of the function",
        ),
        pytest.param(
            "{{ range .Tools }}{{ if .System }}!{{ end }}\n{{ . }}{{ end }}",
            "{{ range .Tools }}{{ if $.System }}!{{ end }}\n{{ . }}{{ end }}",
            id="field of the request",
        ),
    ],
)
def test_what_fails_with_tools_is_mended(broken: str, mended: str) -> None:
    text = STABLE.replace("{{ range .Tools }}\n{{ . }}{{ end }}", broken)
    result = patch(GoChatTemplate(text))
    assert "TF305" in result.applied, result.refused
    assert result.template == text.replace(broken, mended)
    assert result.proof.holds


def test_a_failure_in_the_calls_is_mended() -> None:
    nested = (
        "{{- range .ToolCalls }}[{{ range .ToolCalls }}{{ .Function.Name }}{{ .Function.Arguments }}{{ end }}]{{ end }}"
    )
    text = STABLE.replace("{{- range .ToolCalls }}{{ .Function.Name }}{{ .Function.Arguments }}{{ end }}", nested)
    result = patch(GoChatTemplate(text))
    assert result.template == text.replace(
        nested, "{{- with .ToolCalls }}[{{ range . }}{{ .Function.Name }}{{ .Function.Arguments }}{{ end }}]{{ end }}"
    )


def test_what_cannot_be_mended_is_refused_with_the_place() -> None:
    text = STABLE.replace("{{ .System }}", "{{ .System.Words }}")
    result = patch(GoChatTemplate(text))
    assert not result.changed
    assert result.template == text
    assert [refusal.code for refusal in result.refused] == ["TF305"]
    assert "no repair of it is known: template: :1:" in result.refused[0].reason


def test_a_refusal_names_the_place_even_where_nothing_was_tried() -> None:
    text = (
        "{{ range $i, $m := .Messages }}{{ with slice $.Messages $i }}{{ $left := len . }}{{ with index . 0 }}"
        "<{{ .Role }}>{{ if and $.Tools (eq $left 1) }}{{ $.Tools }}{{ end }}{{ .Content }}{{ end }}{{ end }}{{ end }}"
    )
    result = patch(GoChatTemplate(text))
    column = text.index("{{ $.Tools }}") + 1
    assert {refusal.reason for refusal in result.refused} == {
        f"line 1, column {column}: prompts part here, and no change was found that keeps every prompt"
    }


def test_a_failure_that_no_repair_is_known_of_is_not_called_fixable() -> None:
    template = GoChatTemplate(
        STABLE.replace("{{ .Content }}", "{{ .Content }}{{ if .ToolCalls }}{{ slice .Role 99 }}{{ end }}")
    )
    (found,) = [finding for finding in analyse(template).findings if finding.code == "TF305"]
    assert "slice" in found.message
    assert not found.fixable
    assert [refusal.code for refusal in patch(template).refused] == ["TF305"]


def test_codes_left_out_are_refused_where_they_decide() -> None:
    result = patched("header-if-else", ignore=["TF1"])
    assert not result.changed
    assert [refusal.code for refusal in result.refused] == ["TF101", "TF102"]
    selected = patched("header-if-else", select=["TF101", "TF102", "TF202"])
    assert selected.changed


def test_without_tools_nothing_may_move() -> None:
    gate = "{{ if eq (len (slice $.Messages $i)) 1 }}{{ $.System }}{{ end }}"
    text = f"{{{{ range $i, $m := .Messages }}}}{gate}{{{{ .Content }}}}{{{{ end }}}}"
    result = patch(GoChatTemplate(text))
    assert not result.changed
    assert "every prompt has to stay as it is" in result.refused[0].reason


def test_names_alone_are_no_definitions() -> None:
    text = "{{ range .Tools }}{{ .Function.Name }}{{ end }}{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}"
    result = patch(GoChatTemplate(text))
    assert not result.changed
    assert "prints no tool definitions" in result.refused[0].reason


def test_json() -> None:
    result = patched("header-if-else")
    shown = result.to_json("some.tmpl")
    assert list(shown) == [
        "version",
        "target",
        "changed",
        "applied",
        "refused",
        "placement",
        "proof",
        "proof_renders",
        "remaining",
        "notes",
        "dropped_text",
        "added_text",
        "template",
        "diff",
        "tag",
    ]
    assert shown["target"] == "some.tmpl"
    assert shown["proof"] == dict.fromkeys(NAMES, True)
    assert all(shown["proof_renders"][name] > 0 for name in NAMES)
    assert shown["tag"] is None
    assert {"code": "TF205", "severity": "warning"}.items() <= shown["remaining"][0].items()
    refused = patched("header-if-else", ignore=["TF101"]).to_json("-")
    assert refused["changed"] is False
    assert refused["refused"][0]["code"] == "TF101"
    assert refused["proof"] == {}


def test_the_diff_applies_to_the_original() -> None:
    result = patched("reminder")
    assert result.diff("reminder.tmpl") == (
        "--- a/reminder.tmpl\n+++ b/reminder.tmpl\n@@ -8,7 +8,7 @@\n {{ end }}\n {{- range $i, $m := .Messages }}\n"
        ' {{- if eq .Role "user" }}<|begin|>user\n'
        "-{{ .Content }}{{ if eq $i $lastAsk }} /brief{{ end }}<|end|>\n"
        "+{{ .Content }}{{ if or $.Tools (eq $i $lastAsk) }} /brief{{ end }}<|end|>\n"
        ' {{ else if ne .Role "system" }}<|begin|>{{ .Role }}\n'
        " {{ .Content }}{{ range .ToolCalls }}\n"
        " CALL {{ .Function.Name }} {{ .Function.Arguments }}{{ end }}<|end|>\n"
    )
    assert result.added_text == ("/brief",)


def test_line_ends_are_kept() -> None:
    for name in ("header-if-else", "inst", "no-block", "open-block"):
        text = (LAYOUTS / f"{name}.tmpl").read_text(encoding="utf-8").replace("\n", "\r\n")
        result = patch(GoChatTemplate(text))
        assert result.changed, result.refused
        assert result.template.count("\n") == result.template.count("\r\n")


def test_a_byte_order_mark_stays() -> None:
    text = "\ufeff" + (LAYOUTS / "inst.tmpl").read_text(encoding="utf-8")
    result = patch(GoChatTemplate(text))
    assert result.changed
    assert result.template.startswith("\ufeff")


def test_deep_nesting_is_no_obstacle() -> None:
    text = (LAYOUTS / "header-if-else.tmpl").read_text(encoding="utf-8")
    nested = "{{ if true }}" * 300 + text.replace("$.Tools $last", "$.Tools " + "(" * 200 + "$last" + ")" * 200)
    result = patch(GoChatTemplate(nested + "{{ end }}" * 300))
    assert result.changed, result.refused


def test_what_goes_beyond_a_limit_is_refused_without_a_search() -> None:
    slow = "{{ range $i := 2000 }}{{ end }}{{ .Messages }}{{ .Tools }}"
    result = patch(GoChatTemplate(slow, limits=Limits(steps=1000)))
    assert not result.changed
    assert result.proof.checks == {}
    assert [(refusal.code, refusal.reason) for refusal in result.refused] == [
        ("", "no conversation could be rendered: template: more than 1000 steps")
    ]


def test_what_only_the_reading_knows_of_the_variant_is_told() -> None:
    inst = (LAYOUTS / "inst.tmpl").read_text(encoding="utf-8")
    shy = '{{ if and (eq .Content "zzz") (eq (len (slice $.Messages $index)) 1) }}!{{ end }}[ASK] '
    result = patch(GoChatTemplate(inst.replace("[ASK] ", shy)))
    assert result.changed
    line = result.template[: result.template.index('"zzz"')].count("\n") + 1
    assert result.notes == (f"line {line} depends on later messages as it reads, but no loop shows it",)
    assert patch(GoChatTemplate(inst)).notes == ()
