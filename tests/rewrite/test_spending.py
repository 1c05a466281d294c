"""What a patch may cost: templates that are too slow to be proved are refused, the same on every machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from templatefix.chat.go import GoChatTemplate
from templatefix.chat.jinja import JinjaChatTemplate
from templatefix.chat.rendering import ChatTemplate
from templatefix.rewrite import attempt, spending
from templatefix.rewrite.patch import patch
from templatefix.rewrite.result import PatchResult
from templatefix.rewrite.spending import WORK, PatchBudget

GO = (Path(__file__).parent / "layouts" / "count-of-rest.tmpl").read_text(encoding="utf-8")
JINJA = """\
{%- for message in messages %}
{%- if tools and loop.last %}{{ '<tools>' }}{{ tools | tojson }}{{ '</tools>' }}{% endif %}
{{- '<' + message.role + '>' + (message.content or '') }}
{%- for call in message.tool_calls or [] %}{{ call.function | tojson }}{% endfor %}
{{- '</' + message.role + '>' }}
{%- endfor %}
"""
SENTENCE = "the template is too slow to be proved: "


@pytest.fixture
def budgets(monkeypatch: pytest.MonkeyPatch) -> list[PatchBudget]:
    """The budgets of all patches of a test."""
    made: list[PatchBudget] = []

    class Kept(PatchBudget):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    monkeypatch.setattr(attempt, "PatchBudget", Kept)
    return made


@pytest.mark.parametrize(("kind", "text"), [(GoChatTemplate, GO), (JinjaChatTemplate, JINJA)])
def test_with_less_work_a_patch_is_refused_or_the_same(
    kind: Callable[[str], ChatTemplate], text: str, budgets: list[PatchBudget], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = patch(kind(text))
    assert whole.changed
    assert budgets[-1].used < WORK / 10
    needed = budgets[-1].used
    told: list[bool] = []
    for share in (0.0, 0.3, 0.9, 1.0):
        monkeypatch.setattr(spending, "WORK", int(needed * share) + 1)
        result = patch(kind(text))
        told.append(result.changed)
        if result.changed:
            assert (result.template, result.proof.renders()) == (whole.template, whole.proof.renders())
            assert budgets[-1].used == needed
        else:
            assert result.template == text
            assert result.proof.checks == {}
            assert {refusal.code for refusal in result.refused} == _codes(whole)
            assert all(refusal.reason.startswith(SENTENCE) for refusal in result.refused)
    assert told == sorted(told)  # more work is never worse
    assert told[0] is False
    assert told[-1] is True


def _codes(whole: PatchResult) -> set[str]:
    """The codes that made the template unstable: here all of them go."""
    return set(whole.applied)


RANGE, END = "{{ range $.Messages }}", "{{ end }}"
FOR, ENDFOR = "{% for m in messages %}", "{% endfor %}"
MACRO = "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}"
DEFINE = (
    '{{ define "f" }}{{ if . }}{{ template "f" (slice . 1) }}{{ template "f" (slice . 1) }}{{ end }}{{ end }}'
    '{{ template "f" "aaaaaaaaaaaa" }}'
)


@pytest.mark.parametrize(
    "template",
    [
        GoChatTemplate(RANGE * 3 + "{{ if eq .Role .Content }}{{ end }}" + END * 3 + GO),
        GoChatTemplate(RANGE * 4 + "x" + END * 4 + GO),
        GoChatTemplate(DEFINE + GO),
        JinjaChatTemplate(FOR * 4 + "{% if m.role == m.content %}{% endif %}" + ENDFOR * 4 + JINJA),
        JinjaChatTemplate(MACRO + "{{ f(7) }}" * 16 + JINJA),
    ],
    ids=["silent", "printing", "define", "jinja", "macro"],
)
def test_what_grows_beyond_all_bounds_is_refused(
    template: ChatTemplate, budgets: list[PatchBudget], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spending, "WORK", WORK // 10)  # which takes a tenth of the time
    result = patch(template)
    assert not result.changed
    assert result.proof.checks == {}
    assert result.refused
    assert all(refusal.code and refusal.reason.startswith(SENTENCE) for refusal in result.refused)
    # The last render may go beyond, by no more than one render or one check may cost.
    assert budgets[-1].used < WORK // 10 + 3_000_000


def test_the_end_of_a_budget_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spending, "WORK", 10)
    (first, *_rest) = patch(GoChatTemplate(GO)).refused
    assert first.reason == SENTENCE + "its renders took more than 10 pieces, or as much work"
