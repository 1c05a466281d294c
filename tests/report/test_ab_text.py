"""The A/B table for the terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from templatefix.lab.figures import AbResult, ArmFigures, RequestFigures
from templatefix.report.ab_text import ab_text


def figures(scenario: str, step: int, prompt: int, cached: int, new: int) -> RequestFigures:
    return RequestFigures(scenario, step, prompt, cached, prompt - cached, new, 1.0, True)


STOCK = ArmFigures(
    "llama3.1:8b",
    (
        figures("seed-loop", 0, 8092, 0, 8092),
        figures("seed-loop", 1, 3551, 3509, 11),
        figures("seed-loop", 2, 8145, 3558, 86),
        figures("seed-loop", 3, 3604, 3562, 11),
    ),
)
STABLE = ArmFigures(
    "llama3.1:8b-prefix-stable",
    (
        figures("seed-loop", 0, 8090, 0, 8090),
        figures("seed-loop", 1, 8122, 8111, 11),
        figures("seed-loop", 2, 8143, 8129, 14),
        figures("seed-loop", 3, 8175, 8164, 11),
    ),
)


def test_two_arms_side_by_side() -> None:
    assert ab_text(AbResult("embedded", "engine", "Llama 3 (llama-models)", (STOCK, STABLE)), 30) == (
        "engine embedded, figures from the engine, tokenizer Llama 3 (llama-models)\n"
        "\n"
        "step             A: llama3.1:8b                 B: llama3.1:8b-prefix-stable\n"
        "      cached / prompt     hit  fresh   new  cached / prompt     hit  fresh   new\n"
        "seed-loop\n"
        "   0         0 / 8092   0.00%   8092  8092         0 / 8090   0.00%   8090  8090\n"
        "   1      3509 / 3551  98.82%     42    11      8111 / 8122  99.86%     11    11\n"
        "   2      3558 / 8145  43.68%   4587    86      8129 / 8143  99.83%     14    14\n"
        "   3      3562 / 3604  98.83%     42    11      8164 / 8175  99.87%     11    11\n"
        "warm    10629 / 15300  69.47%   4671   108    24404 / 24440  99.85%     36    36\n"
        "\n"
        "Better: of the warm prompt tokens, 99.85% come from the cache with B, 69.47%\n"
        "with A.\n"
        "Read for each token that had to be read: 1.00 with B, 43.25 with A.\n"
        "A model that reads 30 tokens a second spends 400 ms on a prompt with B, 51.9 s\n"
        "with A.\n"
    )


def test_repeats_are_shown_as_their_mean() -> None:
    once, again = figures("loop", 1, 1000, 500, 10), replace(figures("loop", 1, 1000, 600, 10), repeat=1)
    arm = ArmFigures("a", (figures("loop", 0, 9, 0, 9), once, replace(figures("loop", 0, 9, 0, 9), repeat=1), again))
    lines = ab_text(AbResult("embedded", "engine", "t", (arm,), repeats=2)).splitlines()
    assert lines[1] == "means of 2 repeats"
    assert lines[7] == "   1       550 / 1000  55.00%    450    10"


def test_the_middle_of_a_long_session_is_left_out() -> None:
    rows = tuple(figures("long-session", step, 1000, 990, 10) for step in range(60))
    result = AbResult("embedded", "engine", "t", (ArmFigures("a", rows),))
    lines = ab_text(result).splitlines()
    assert "   … 48 more requests" in lines
    assert [line.split()[0] for line in lines if line.startswith("  ") and line.split()[0].isdigit()] == [
        *map(str, range(8)),
        *map(str, range(56, 60)),
    ]


def test_a_loss_in_the_middle_is_shown() -> None:
    rows = [figures("long-turn", step, 1000, 990, 10) for step in range(60)]
    rows[30] = figures("long-turn", 30, 1000, 0, 10)
    lines = ab_text(AbResult("embedded", "engine", "t", (ArmFigures("a", tuple(rows)),))).splitlines()
    middle = lines.index("   … 22 more requests")
    assert lines[middle + 1] == "  30         0 / 1000   0.00%   1000    10"
    assert lines[middle + 2] == "   … 25 more requests"


def test_the_kind_of_memory_is_said_where_it_matters() -> None:
    result = AbResult("embedded", "engine", "t", (STOCK, STABLE), attention="swa")
    assert ab_text(result).startswith(
        "engine embedded, figures from the engine, tokenizer t, memory: a sliding window\n"
    )
    first = ab_text(replace(result, attention="recurrent", checkpoints=1)).partition("\n\n")[0]
    assert first.replace("\n", " ").endswith(", memory: one recurrent state, 1 checkpoint")
    none = ab_text(replace(result, attention="recurrent", checkpoints=0)).partition("\n\n")[0]
    assert none.replace("\n", " ").endswith(", memory: one recurrent state, no checkpoints")


def test_how_well_a_live_run_went() -> None:
    def lived(name: str, called: int) -> ArmFigures:
        rows = [
            replace(
                figures("loop", step % 4, 1000, 990, 10),
                repeat=step // 4,
                tool_called=step < called,
                answered=True,
                rewritten_tokens=step,
            )
            for step in range(16)
        ]
        return ArmFigures(name, tuple(rows))

    text = ab_text(AbResult("embedded", "engine", "t", (lived("a", 16), lived("b", 4)), repeats=4, live=True))
    text = " ".join(text.split())
    assert "Worse, as tools are called or questions answered less often: of the warm prompt tokens" in text
    assert (
        "Tools called where one was due: 4 of 16 with B, 16 of 16 with A "
        "(95% interval of the difference: -90 to -44 points)."
    ) in text
    assert "Right answers: 16 of 16 with B, 16 of 16 with A (95% interval" in text
    assert "Calls with valid arguments" not in text
    assert "word otherwise: 120 with B, 120 with A." in text


def test_an_invalid_run_says_why_and_gives_no_verdict() -> None:
    text = ab_text(
        AbResult("embedded", "engine", "byte-level", (ArmFigures("broken", ()), STABLE), ("broken cannot.",))
    )
    assert text.endswith("The run is not valid:\n- broken cannot.\n")
    assert "Better" not in text
    assert "8129 / 8143" in text


@pytest.mark.parametrize("names", [("a" * 200, "b" * 200), ("short", "a name with blanks " * 9)])
def test_never_wider_than_the_terminal(names: tuple[str, str]) -> None:
    many = [figures("long-session-of-thirty-turns", step, 131_072, 131_071, 130_000) for step in range(3)]
    result = AbResult(
        "embedded", "engine", "x" * 300, tuple(ArmFigures(name, tuple(many)) for name in names), ("why " * 50,)
    )
    assert max(map(len, ab_text(result).splitlines())) <= 80


def test_nearly_all_is_not_all() -> None:
    nearly = ArmFigures("nearly", (figures("loop", 0, 10, 0, 10), figures("loop", 1, 100_000, 99_999, 1)))
    lines = ab_text(AbResult("embedded", "engine", "t", (nearly,))).splitlines()
    assert "99999 / 100000  99.99%" in lines[6]
