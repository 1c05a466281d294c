"""What an analysis may cost, and what it says where that was not enough."""

from __future__ import annotations

import pytest

from templatefix.analysis import metering
from templatefix.analysis.analyse import Analysis, analyse
from templatefix.analysis.metering import WORK, Budget, Metered
from templatefix.chat.go import GoChatTemplate
from templatefix.chat.rendering import RenderError
from templatefix.chat.request import Request

ASKED = Request(({"role": "user", "content": "one"}, {"role": "user", "content": "two"}))
CHAT = "{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ json .ToolCalls }}{{ end }}"
MOVING = (
    "{{ range $i, $m := .Messages }}{{ if eq (len (slice $.Messages $i)) 1 }}{{ $.Tools }}{{ end }}"
    "<{{ .Role }}>{{ .Content }}{{ json .ToolCalls }}{{ end }}"
)
NOTHING = "{{ if eq .Role .Content }}{{ end }}"  # work that prints nothing


@pytest.fixture
def tight(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fiftieth of what an analysis may cost."""
    monkeypatch.setattr(metering, "WORK", WORK // 50)


def check(text: str) -> Analysis:
    return analyse(GoChatTemplate(text))


def test_pieces_and_bytes_and_silent_steps_count() -> None:
    def used(text: str) -> int:
        budget = Budget()
        Metered(GoChatTemplate(text), budget).render(ASKED)
        return budget.used

    assert used(CHAT) >= 6
    assert used(CHAT + "x" * 256_000) >= used(CHAT) + 1000
    assert used("{{ range .Messages }}" + NOTHING * 500 + "{{ end }}") >= 300


def test_too_much_work_is_refused_from_then_on() -> None:
    budget = Budget(work=4)
    Metered(GoChatTemplate(CHAT), budget).render(ASKED)
    with pytest.raises(RenderError, match=r"^template: more than 4 pieces, or as much work, over all loops$"):
        Metered(GoChatTemplate(MOVING), budget).render(ASKED)  # another template of the same budget


def test_ordinary_templates_are_far_from_the_limit(corpus: dict[str, dict[str, str]]) -> None:
    from templatefix.analysis.evidence import Evidence

    evidence = Evidence(GoChatTemplate(corpus["hf-granite3.3-2b"]["template"]))  # one of the dearest
    assert evidence.core
    assert evidence.others
    assert evidence.budget.used < WORK / 10


@pytest.mark.usefixtures("tight")
@pytest.mark.parametrize("more", [NOTHING * 1500, "{{ .Role }}" * 500], ids=["silent", "printing"])
def test_what_could_not_be_rendered_is_never_called_stable(more: str) -> None:
    found = check("{{ json .Tools }}" + CHAT.replace("<", more + "<"))
    assert found.verdict == "not-evaluated"
    assert found.reason is not None
    assert found.reason.startswith("the template is too large or too slow: ")
    assert [finding.code for finding in found.findings if finding.severity == "error"] == []


@pytest.mark.usefixtures("tight")
def test_what_was_seen_to_move_is_unstable_however_little_was_rendered() -> None:
    found = check(MOVING.replace("<", "{{ .Role }}" * 500 + "<"))
    assert found.verdict == "unstable"
    assert "TF101" in {finding.code for finding in found.findings}


def test_one_prompt_beyond_all_limits_is_no_fault_of_the_template() -> None:
    found = check("{{ json .Tools }}{{ range .Messages }}{{ range 3000 }}{{ range 3000 }}x{{ end }}{{ end }}{{ end }}")
    assert found.verdict == "not-evaluated"
    assert "TF305" not in {finding.code for finding in found.findings}
