"""What no variant may lose, whatever it declares: end marks, headers, the generation prompt."""

from __future__ import annotations

from pathlib import Path

import pytest

from templatefix.chat.go import GoChatTemplate
from templatefix.rewrite.patch import patch
from templatefix.rewrite.proof import Baseline, prove
from templatefix.rewrite.standing import marks_in

LAYOUTS = Path(__file__).parent / "layouts"


class Good:
    """A layout and its variant; proofs of changed texts that declare more as given up."""

    def __init__(self, name: str) -> None:
        original = GoChatTemplate((LAYOUTS / f"{name}.tmpl").read_text(encoding="utf-8"))
        self.base = Baseline(original, generated=4)
        result = patch(original)
        assert result.changed
        self.text, self.dropped, self.added = result.template, result.dropped_text, result.added_text

    def failure(self, text: str, *declared: str) -> str:
        """What speaks against a text in the variant's place; nothing where the proof holds."""
        dropped = (*self.dropped, *declared)
        variant = GoChatTemplate(text)
        return prove(self.base, variant, dropped=dropped, added=self.added, patch_again=lambda _: False).failure or ""


@pytest.fixture(scope="module")
def header() -> Good:
    return Good("header-if-else")


def test_a_mark_that_is_printed_cannot_be_declared_as_given_up(header: Good) -> None:
    assert header.failure(header.text) == ""
    assert header.failure(header.text, "Just words.") == ""
    assert header.failure(header.text, "<|never_printed|>") == ""
    said = header.failure(header.text, "Ask: <|eot|>")
    assert said == "conserved: the mark '<|eot|>' would be given up, and only words may be"


def test_marks_in() -> None:
    text = "Ask: <|im_end|>\n[/INST]</s> [BEGIN OF QUERY] a[0] [see below] x < y > z <<SYS>><｜end▁of▁sentence｜>"
    assert marks_in([text, "</s>"]) == (
        "<|im_end|>",
        "[/INST]",
        "</s>",
        "[BEGIN OF QUERY]",
        "<SYS>",
        "<｜end▁of▁sentence｜>",
    )


@pytest.mark.parametrize(
    ("old", "new", "declared", "says"),
    [
        pytest.param(
            "{{ if not $last }}<|eot|>{{ end }}",
            "{{ if not (or $.Tools $last) }}<|eot|>{{ end }}",
            ("<|eot|>",),
            "'<|eot|>' is said with tools and without, and lost before",
            id="end mark",
        ),
        pytest.param(
            "{{ if $last }}<|head|>assistant<|/head|>",
            "{{ if and $last (not $.Tools) }}<|head|>assistant<|/head|>",
            ("<|head|>assistant<|/head|>",),
            "'assistant', '<|/head|>' is said with tools and without, and lost at the end of the prompt",
            id="generation prompt",
        ),
        pytest.param(
            "{{ if $last }}<|head|>assistant<|/head|>",
            "{{ if $last }}<|head|>{{ if not $.Tools }}assistant{{ end }}<|/head|>",
            ("assistant",),
            "'assistant' is said with tools and without, and lost at the end of the prompt",
            id="role of the generation prompt",
        ),
        pytest.param(
            '{{- if eq .Role "user" }}<|head|>user<|/head|>',
            '{{- if eq .Role "user" }}<|head|>{{ if not $.Tools }}user{{ end }}<|/head|>',
            ("user", "user"),
            "'user' is said with tools and without, and lost before",
            id="role of a user's turn",
        ),
    ],
)
def test_what_is_declared_as_given_up_is_no_mark_and_no_header(
    header: Good, old: str, new: str, declared: tuple[str, ...], says: str
) -> None:
    assert old in header.text
    failure = header.failure(header.text.replace(old, new), *declared)
    assert failure.startswith("conserved: ")
    assert says in failure


def test_an_end_mark_that_the_system_block_brings_cannot_make_up_for_one_that_is_lost() -> None:
    original = GoChatTemplate(
        "{{ if .Tools }}<turn>system\nAt hand: {{ .Tools }}<end>\n{{ end }}{{ range .Messages }}"
        '{{ if eq .Role "tool" }}<turn>result\n{{ .Content }}<end>\n{{ else if ne .Role "system" }}'
        "<turn>{{ .Role }}\n{{ .Content }}{{ range .ToolCalls }}{{ json .Function }}{{ end }}<end>\n"
        "{{ end }}{{ end }}<turn>assistant\n"
    )
    text = original.source.text
    variant = text.replace(
        "{{ .Content }}<end>\n{{ else", "{{ .Content }}{{ if not $.Tools }}<end>{{ end }}\n{{ else", 1
    )
    assert variant != text
    base = Baseline(original, generated=4)
    proof = prove(base, GoChatTemplate(variant), patch_again=lambda _: False)
    assert (proof.failure or "").startswith("conserved: loop single-call, step 1: '<end>' is "), proof.failure
    assert prove(base, original, patch_again=lambda _: False).holds


ALPACA = (
    "{{ if .System }}{{ .System }}\n\n{{ end }}{{ if .Tools }}Tools: {{ .Tools }}\n\n{{ end }}{{ range .Messages }}"
    '{{ if eq .Role "user" }}### Instruction:\n{{ .Content }}\n\n{{ else if eq .Role "assistant" }}### Response:\n'
    "{{ .Content }}{{ range .ToolCalls }}{{ json .Function }}{{ end }}\n\n"
    '{{ else if eq .Role "tool" }}### Result:\n{{ .Content }}\n\n{{ end }}{{ end }}### Response:\n'
)


@pytest.mark.parametrize("gone", ["### Response:", "Response:"])
def test_a_generation_prompt_of_words_stays(gone: str) -> None:
    base = Baseline(GoChatTemplate(ALPACA), generated=4)
    head, tail = ALPACA.rsplit(gone, 1)
    variant = GoChatTemplate(f"{head}{{{{ if not .Tools }}}}{gone}{{{{ end }}}}{tail}")
    proof = prove(base, variant, dropped=(gone,), patch_again=lambda _: False)
    assert "is said with tools and without, and lost at the end of the prompt" in (proof.failure or "")
    assert prove(base, base.template, patch_again=lambda _: False).holds
