"""Rules: the shipped ones and a user's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from templatefix.analysis.analyse import analyse
from templatefix.analysis.registry import RuleError, find_rule, load_rules, page, shipped_rules
from templatefix.chat.go import GoChatTemplate

OWN = '''
from templatefix.analysis.rule import Rule

class NoShouting(Rule):
    """XX001 no-shouting"""

    CODE = "XX001"
    NAME = "no-shouting"
    SEVERITY = "info"
    FIXABLE = False
    VALID = ()
    INVALID = ()

    def check(self, evidence):
        run = evidence.core[0]
        for piece in run.steps[0].rendering.pieces:
            if "!" in piece.text:
                yield self.finding(evidence, "Do not shout.", piece.span, run, 0)
'''


def test_all_codes_of_the_contract_are_there() -> None:
    assert [rule.CODE for rule in shipped_rules()] == [
        *[f"TF10{n}" for n in range(1, 6)],
        *[f"TF20{n}" for n in range(1, 7)],
        *[f"TF30{n}" for n in range(1, 6)],
        *[f"TF40{n}" for n in range(1, 3)],
    ]


def test_rules_are_found_by_code_and_name() -> None:
    rule = find_rule("tf101", shipped_rules())
    assert rule is not None
    assert rule is find_rule("tools-follow-last-message", shipped_rules())
    assert page(rule).startswith("TF101 tools-follow-last-message")
    assert find_rule("TF999", shipped_rules()) is None


def test_a_folder_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "no_shouting.py").write_text(OWN)
    (tmp_path / "_helper.py").write_text("raise RuntimeError('never loaded')")
    rules = load_rules([tmp_path])
    assert [rule.CODE for rule in rules][-1] == "XX001"
    found = analyse(
        GoChatTemplate("Hey!{{ json .Tools }}{{ range .Messages }}{{ .Content }}{{ end }}"), ("XX",), (), rules
    )
    assert [(f.code, f.message, f.span.start) for f in found.findings] == [("XX001", "Do not shout.", 0)]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("import nothing_of_that_name", "cannot be loaded: ModuleNotFoundError"),
        (OWN.replace("XX001", "TF101"), "the code TF101 is taken by tools-follow-last-message"),
        (OWN.replace('    NAME = "no-shouting"\n', ""), "NoShouting lacks NAME"),
        (OWN.replace("def check", "def look"), "NoShouting lacks check"),
    ],
)
def test_bad_rules_are_refused(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "own.py").write_text(text)
    with pytest.raises(RuleError, match=sentence):
        load_rules([tmp_path])


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RuleError, match="no such folder of rules"):
        load_rules([tmp_path / "none"])
