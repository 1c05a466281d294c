"""Which pieces are structs, and which of them `json` can print: the rule and the repair ask the same."""

from __future__ import annotations

import pytest

from templatefix.analysis.analyse import analyse
from templatefix.analysis.structs import datum_printed, is_struct
from templatefix.chat.go import GoChatTemplate
from templatefix.chat.rendering import Origin, Piece
from templatefix.gotemplate.nodes import ActionNode
from templatefix.gotemplate.parser import parse
from templatefix.gotemplate.source import Span
from templatefix.gotemplate.visitor import walk
from templatefix.rewrite.proof import Baseline
from templatefix.rewrite.repairs import printed_structs

FUNCTION = Origin("tool", 0, "function")


@pytest.mark.parametrize(
    ("text", "origin", "said"),
    [
        ("{look text {object <nil>}}", FUNCTION, True),
        ("&{look text}", FUNCTION, True),
        ("[{look text} {other text}]", Origin("message", 1, "tool_calls"), True),
        ("{0 look {}}", Origin("message", 1, "arguments"), True),
        ('{"name": "look"}', FUNCTION, False),
        ('{"name": "look"', FUNCTION, False),
        ("{}", FUNCTION, False),
        ("look", FUNCTION, False),
        ("{said by a person}", Origin("message", 0, "content"), False),
        ("{text of the template}", None, False),
    ],
)
def test_is_struct(text: str, origin: Origin | None, said: bool) -> None:
    assert is_struct(Piece(text, Span(0, 1), origin, None)) is said


@pytest.mark.parametrize(
    ("action", "datum"),
    [
        ("{{ .Function }}", ".Function"),
        ("{{ (index .Tools 0).Function }}", "(index .Tools 0).Function"),
        ("{{ index .Tools 0 }}", "index .Tools 0"),
        ("{{ print .Function }}", ".Function"),
        ('{{ .Function | printf "%v" }}', ".Function"),
        ('{{ printf "%v and more" .Function }}', None),
        ("{{ print .Function .Name }}", None),
        ("{{ print .Function 1 }}", None),
        ("{{ println .Function }}", None),
        ('{{ "words" }}', None),
    ],
)
def test_datum_printed(action: str, datum: str | None) -> None:
    tree = parse(action)
    node = next(each for each in walk(tree.root) if isinstance(each, ActionNode))
    found = datum_printed(tree, node.span)
    assert (None if found is None else tree.source.slice(found.span)) == datum


@pytest.mark.parametrize(
    "printed",
    ["{{ .Function }}", "{{ json .Function }}", "{{ .Function.Parameters }}", "{{ . }}", "{{ print .Function }}"],
)
@pytest.mark.parametrize("called", ["{{ .Function }}", "{{ .Function.Arguments }}", "{{ print .Function.Arguments }}"])
def test_what_the_rule_finds_is_what_a_patch_sees(printed: str, called: str) -> None:
    template = GoChatTemplate(
        f"{{{{ range .Tools }}}}{printed}{{{{ end }}}}{{{{ range .Messages }}}}<{{{{ .Role }}}}>{{{{ .Content }}}}"
        f"{{{{ range .ToolCalls }}}}{{{{ .Function.Name }}}}{called}{{{{ end }}}}{{{{ end }}}}"
    )
    found = {finding.span for finding in analyse(template).findings if finding.code == "TF301"}
    assert found == set(printed_structs(Baseline(template).runs))
    assert bool(found) == (
        printed in ("{{ .Function }}", "{{ .Function.Parameters }}", "{{ print .Function }}")
        or called == "{{ .Function }}"
    )
