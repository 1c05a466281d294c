"""What a patch says on the terminal."""

from __future__ import annotations

import re

from templatefix.analysis.findings import Finding
from templatefix.gotemplate.source import Span
from templatefix.report.patch_text import file_diff, patch_text
from templatefix.report.style import Style
from templatefix.rewrite.proof import NAMES, Check, Proof
from templatefix.rewrite.result import PatchResult, Refusal

PROOF = Proof({name: Check(True, 7) for name in NAMES})
LATE = Finding("TF205", "late-system-moves-up", "warning", "It moves up.", Span(0, 1), "late", 1, False, None)


def test_a_variant() -> None:
    result = PatchResult(
        "a\nb\n",
        "a\nc\n",
        True,
        applied=("TF101", "TF102"),
        proof=PROOF,
        remaining=(LATE,),
        dropped_text=("Question: ", "\n"),
        added_text=("One\ntwo",),
    )
    diff = file_diff("x.tmpl", b"a\nb\n", b"a\nc\n")
    assert patch_text("x.tmpl", result, diff) == (
        "x.tmpl: TF101, TF102 are gone, tools stand in the system block\n"
        "\n"
        "--- a/x.tmpl\n"
        "+++ b/x.tmpl\n"
        "@@ -1,2 +1,2 @@\n"
        " a\n"
        "-b\n"
        "+c\n"
        "\n"
        "proof                    renders\n"
        "parses              holds      7  accepted, and uses the same names\n"
        "derived_unchanged   holds      7  what the server derives from it is as before\n"
        "no_tools_identical  holds      7  without tools every prompt is the same to the byte\n"
        "prefix_stable       holds      7  every tool loop only grows\n"
        "tools_once          holds      7  the tools stand in each prompt once, always the same\n"
        "messages_kept       holds      7  every message's text is still there, in order\n"
        "conserved           holds      7  nothing else went or came on the first request\n"
        "idempotent          holds      7  patching it again changes nothing\n"
        "\n"
        "dropped text:\n"
        "  | Question: \n"
        "  | \n"
        "\n"
        "added text:\n"
        "  | One\n"
        "  | two\n"
        "\n"
        "left as it is:\n"
        "  TF205 warning: It moves up.\n"
    )
    coloured = patch_text("x.tmpl", result, diff, Style(True))
    assert "\x1b[32m+c\x1b[0m" in coloured
    assert "\x1b[31m-b\x1b[0m" in coloured
    assert re.sub(r"\x1b\[\d+m", "", coloured) == patch_text("x.tmpl", result, diff)


def test_a_repair_alone() -> None:
    result = PatchResult("a", "b", True, applied=("TF301",), refused=(Refusal("TF304", "no."),), proof=PROOF)
    text = patch_text("x", result, "")
    assert text.startswith("x: TF301 is gone\n")
    assert text.endswith("\nnot mended:\n  TF304: no.\n")


def test_a_refusal_wraps_its_reason() -> None:
    reason = "line 3, column 4: " + "a word too many and " * 5 + "no more"
    result = PatchResult("a", "a", False, refused=(Refusal("TF101", reason), Refusal("", "Nothing else.")))
    assert patch_text("x", result, "") == (
        "x: refused, nothing was changed\n"
        "  TF101: line 3, column 4: a word too many and a word too many and a word too\n"
        "    many and a word too many and a word too many and no more\n"
        "  Nothing else.\n"
    )


def test_nothing_to_do_says_what_stays() -> None:
    assert patch_text("x", PatchResult("a", "a", False, remaining=(LATE,)), "") == (
        "x: nothing to do, every tool loop only grows already\n\nleft as it is:\n  TF205 warning: It moves up.\n"
    )


def test_what_only_the_reading_knows_is_a_note() -> None:
    for changed in (True, False):
        result = PatchResult("a", "b" if changed else "a", changed, proof=PROOF, notes=("line 1 is odd", "line 2"))
        assert patch_text("x", result, "").endswith("\n\nnote: line 1 is odd\nnote: line 2\n")


def test_the_diff_of_a_file_marks_a_missing_line_end_and_bytes_that_are_no_text() -> None:
    assert file_diff("m", b"one\n\xffend", b"two\n\xffend") == (
        "--- a/m\n+++ b/m\n@@ -1,2 +1,2 @@\n-one\n+two\n \ufffdend\n\\ No newline at end of file\n"
    )
