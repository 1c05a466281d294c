"""Good variants broken on purpose: the proof refuses each, and says what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from templatefix.chat.go import GoChatTemplate
from templatefix.rewrite.patch import patch
from templatefix.rewrite.proof import Baseline, Proof, prove
from templatefix.rewrite.result import PatchResult

LAYOUTS = Path(__file__).parent / "layouts"


class Good:
    """A layout, its variant, and proofs of changed texts."""

    def __init__(self, name: str) -> None:
        self.original = GoChatTemplate((LAYOUTS / f"{name}.tmpl").read_text(encoding="utf-8"))
        self.base = Baseline(self.original, generated=4)
        self.result: PatchResult = patch(self.original)
        assert self.result.changed

    def prove(self, text: str) -> Proof:
        """Prove another text in the variant's place."""
        return prove(
            self.base,
            GoChatTemplate(text),
            dropped=self.result.dropped_text,
            added=self.result.added_text,
            patch_again=lambda _: False,
        )


@pytest.fixture(scope="module")
def header() -> Good:
    return Good("header-if-else")


@pytest.fixture(scope="module")
def inst() -> Good:
    return Good("inst")


def test_the_good_variants_hold(header: Good, inst: Good) -> None:
    for good in (header, inst):
        proof = good.prove(good.result.template)
        assert proof.holds, proof.failure
        assert all(count > 0 for count in proof.renders().values())


def broken(good: Good, old: str, new: str, count: int = 1) -> Proof:
    assert good.result.template.count(old) >= count
    return good.prove(good.result.template.replace(old, new, count))


@pytest.mark.parametrize(
    ("old", "new", "point", "says"),
    [
        pytest.param(
            "\n\nThese tools may help. Call one by writing JSON with its name and its parameters.",
            "",
            "conserved",
            "words are lost",
            id="instructions lost",
        ),
        pytest.param(
            "\n\nOnce a tool has answered, tell the person what it said.",
            "\n\n{{ .Tools }}\n\nOnce a tool has answered, tell the person what it said.",
            "tools_once",
            "2 times",
            id="definitions once more",
        ),
        pytest.param(" Call one by writing JSON", " Call two by writing JSON", "conserved", "'one'", id="one word"),
        pytest.param(
            "{{ range $.Tools }}\n{{- . }}\n{{ end }}",
            "{{ index $.Tools 0 }}",
            "tools_once",
            "0 times",
            id="first tool only",
        ),
        pytest.param("{{- . }}", "{{- .Function.Name }}", "tools_once", "0 times", id="names for definitions"),
        pytest.param(
            "{{- . }}\n{{ end }}", "{{- . }}\n{{ end }}{{ $.Tools }}", "tools_once", "2 times", id="definitions twice"
        ),
        pytest.param("{{- . }}", "{{- json .Function }}", "tools_once", "definitions differ", id="another form"),
        pytest.param(
            "{{ if $last }}<|head|>assistant<|/head|>",
            "{{ if and $last (not $.Tools) }}<|head|>assistant<|/head|>",
            "conserved",
            "'assistant'",
            id="no generation prompt with tools",
        ),
        pytest.param(
            "{{ if not $last }}<|eot|>{{ end }}",
            "{{ if not (or $.Tools $last) }}<|eot|>{{ end }}",
            "conserved",
            "<|eot|>",
            id="no end mark with tools",
        ),
        pytest.param(
            "<|head|>result<|/head|>",
            "<|head|>{{ if $.Tools }}user{{ else }}result{{ end }}<|/head|>",
            "conserved",
            "'result'",
            id="results under another role",
        ),
        pytest.param(
            '"parameters": {{ .Function.Arguments }}',
            '"parameters": {{ if $.Tools }}{}{{ else }}{{ .Function.Arguments }}{{ end }}',
            "messages_kept",
            "",
            id="empty arguments",
        ),
        pytest.param(
            '"name": "{{ .Function.Name }}"',
            '"name": "{{ if not $.Tools }}{{ .Function.Name }}{{ end }}"',
            "messages_kept",
            "",
            id="calls without a name",
        ),
        pytest.param(
            '{{- if eq .Role "user" }}',
            '{{- if .ToolCalls }}{{ end }}{{- if eq .Role "user" }}',
            "derived_unchanged",
            "first if over the calls",
            id="an if over the calls in front of the first",
        ),
        pytest.param(
            "\n{{ range .ToolCalls }}\n{",
            "\nCALLS {{ range .ToolCalls }}\n{",
            "derived_unchanged",
            "tool-call tag was '{' and is 'CALLS'",
            id="other text behind the first if over the calls",
        ),
        pytest.param('eq .Role "tool"', 'eq "tool" .Role', "derived_unchanged", "round trip", id="round trip lost"),
        pytest.param("{{ .Content }}<|eot|>", "{{ .Content }} <|eot|>", "no_tools_identical", "differs", id="a blank"),
        pytest.param(
            "{{ if $last }}<|head|>", "{{ if $last }}{{ .Thinking }}<|head|>", "parses", "thinking", id="names"
        ),
        pytest.param(
            "\n\n{{ .Content }}<|eot|>{{ if $last }}",
            "{{ if and $last $.Tools }}\n\nMind the tools.{{ end }}\n\n{{ .Content }}<|eot|>{{ if $last }}",
            "prefix_stable",
            "not kept",
            id="a reminder that moves",
        ),
        pytest.param(
            "\n\n{{ .Content }}<|eot|>{{ if $last }}",
            "\n{{ if not $.Tools }}\n{{ end }}{{ .Content }}<|eot|>{{ if $last }}",
            "conserved",
            "white space",
            id="a line break lost with tools",
        ),
        pytest.param(
            "\n\n{{ .Content }}<|eot|>{{ if $last }}",
            "\n\n{{ if and $.Tools .Content }}{{ slice .Content 1 }}{{ else }}{{ .Content }}{{ end }}"
            "<|eot|>{{ if $last }}",
            "messages_kept",
            "",
            id="text cut short with tools",
        ),
        pytest.param(
            "{{ .System }}", "{{ if not .Tools }}{{ .System }}{{ end }}", "messages_kept", "", id="system text lost"
        ),
    ],
)
def test_broken_header(header: Good, old: str, new: str, point: str, says: str) -> None:
    proof = broken(header, old, new)
    assert not proof.holds
    assert proof.results()[point] is False
    failure = proof.failure or ""
    assert failure.startswith(f"{point}: ")
    assert says in failure


@pytest.mark.parametrize(
    ("old", "new", "point"),
    [
        pytest.param("[TOOLS] {{ $.Tools }}[/TOOLS]", "{{ $.Tools }}", "conserved", id="frame lost"),
        pytest.param("{{ $.Tools }}[/TOOLS]", "{{ $.Tools }}[/TOOLS][/TOOLS]", "conserved", id="frame closed twice"),
        pytest.param("[RESULTS]", "{{ if $.Tools }}[ASK]{{ else }}[RESULTS]{{ end }}", "conserved", id="result mark"),
        pytest.param("]</s>", "]{{ if not $.Tools }}</s>{{ end }}", "conserved", id="end mark of calls lost"),
        pytest.param(
            "(or (and $.Tools (eq $index $first))", "(or (and $.Tools false)", "messages_kept", id="system text lost"
        ),
        pytest.param(
            "(or (and $.Tools (eq $index $first))", "(or $.Tools", "messages_kept", id="system text at every turn"
        ),
    ],
)
def test_broken_inst(inst: Good, old: str, new: str, point: str) -> None:
    proof = broken(inst, old, new)
    assert not proof.holds
    assert (proof.failure or "").startswith(f"{point}: "), proof.failure


def test_a_label_must_be_named(header: Good) -> None:
    assert header.result.dropped_text == ("Question: ",)
    proof = prove(header.base, GoChatTemplate(header.result.template), patch_again=lambda _: False)
    assert proof.failure == "conserved: loop single-call, step 0: words are lost: 'Question:'"


def test_a_variant_that_would_change_again_is_refused(header: Good) -> None:
    proof = prove(
        header.base,
        GoChatTemplate(header.result.template),
        dropped=header.result.dropped_text,
        patch_again=lambda _: True,
    )
    assert proof.failure == "idempotent: patching the variant changes it again"


def test_a_point_that_was_not_shown_does_not_hold(header: Good) -> None:
    proof = prove(header.base, GoChatTemplate(header.result.template), dropped=header.result.dropped_text)
    assert not proof.holds
    assert proof.failure == "idempotent was not shown"


def test_definitions_stay_beside_their_words(header: Good) -> None:
    definitions = "{{ range $.Tools }}\n{{- . }}\n{{ end }}"
    words = "\n\nThese tools may help."
    text = header.result.template.replace(definitions, "", 1).replace(words, f"\n\n{definitions}{words}", 1)
    proof = header.prove(text)
    assert proof.failure == ("conserved: loop single-call, step 0: the definitions have lost their neighbour 'call.'")


FRAMED = (
    "{{ if .System }}<sys>{{ .System }}</sys>\n{{ end }}{{ range $i, $m := .Messages }}"
    '{{ if eq .Role "user" }}<you>{{ if eq (len (slice $.Messages $i)) 1 }}<tools>{{ range $.Tools }}{{ . }}\n{{ end }}'
    '</tools>\n{{ end }}{{ .Content }}</you>\n{{ else if eq .Role "assistant" }}<me>{{ .Content }}'
    '{{ range .ToolCalls }}<call>{"name": "{{ .Function.Name }}", "arguments": {{ .Function.Arguments }}}</call>'
    '{{ end }}</me>\n{{ else if eq .Role "tool" }}<out>{{ .Content }}</out>\n{{ end }}{{ end }}<me>'
)
MOVED = FRAMED.replace(
    "{{ if .System }}<sys>{{ .System }}</sys>\n{{ end }}",
    "{{ if or .System .Tools }}<sys>{{ .System }}{{ range .Tools }}{{ . }}\n{{ end }}</sys>\n{{ end }}",
).replace("{{ range $.Tools }}{{ . }}\n{{ end }}</tools>", "</tools>")


@pytest.mark.parametrize(
    ("gate", "dropped", "added", "says"),
    [
        (
            "or $.Tools (eq (len (slice $.Messages $i)) 1)",
            (),
            ("<sys></sys><tools></tools>",),
            "left with nothing in it",
        ),
        (
            "and (not $.Tools) (eq (len (slice $.Messages $i)) 1)",
            ("<tools></tools>",),
            ("<sys></sys>",),
            "have lost their frame '<tools> </tools>'",
        ),
    ],
)
def test_a_frame_goes_with_the_definitions(
    gate: str, dropped: tuple[str, ...], added: tuple[str, ...], says: str
) -> None:
    """A frame that the template prints without tools as well is neither left behind empty nor given up."""
    variant = MOVED.replace("if eq (len (slice $.Messages $i)) 1", f"if {gate}")
    base = Baseline(GoChatTemplate(FRAMED), generated=4)
    proof = prove(base, GoChatTemplate(variant), dropped=dropped, added=added, patch_again=lambda _: False)
    assert proof.failure is not None
    assert proof.failure.startswith("conserved: ")
    assert says in proof.failure
