"""A template called stable is stable on conversations that nobody chose."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from templatefix.analysis.analyse import analyse
from templatefix.analysis.dependence import read
from templatefix.analysis.reading import TooComplex
from templatefix.analysis.sampling import random_loop, samples
from templatefix.analysis.stability import run_loop
from templatefix.chat.go import GoChatTemplate

LOOPS = list(samples(7, 12))

GATES = (
    "eq (len (slice $.Messages $i)) 1",
    "le (len (slice $.Messages $i)) 2",
    "gt (len (slice $.Messages $i)) 1",
    "lt $i 2",
    "eq $i $first",
    "eq $i $latest",
    "$seen",
    "$.Tools",
    "not $.System",
    'eq .Role "user"',
    'eq .Role "tool"',
    'ne .Role "assistant"',
    ".ToolCalls",
    "gt (len $.Messages) 9",
    "gt $n 3",
)
PRINTS = (
    "{{ .Content }}",
    "{{ json .ToolCalls }}",
    "{{ $.System }}",
    "{{ json $.Tools }}",
    "note",
    "\n",
    "<{{ .Role }}>",
)
PRELUDE = (
    "{{ $first := -1 }}{{ $latest := -1 }}{{ $seen := false }}{{ $n := 0 }}"
    '{{ range $i, $m := .Messages }}{{ if eq .Role "user" }}{{ $latest = $i }}'
    "{{ if lt $first 0 }}{{ $first = $i }}{{ end }}{{ end }}"
    '{{ if eq .Role "tool" }}{{ $seen = true }}{{ end }}{{ $n = $i }}{{ end }}'
)

conditions = st.recursive(
    st.sampled_from(GATES),
    lambda inner: st.one_of(
        inner.map("not ({})".format),
        st.tuples(st.sampled_from(("and", "or")), inner, inner).map(lambda t: f"{t[0]} ({t[1]}) ({t[2]})"),
    ),
    max_leaves=3,
)
bodies = st.recursive(
    st.sampled_from(PRINTS),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=4).map("".join),
        st.tuples(conditions, inner).map(lambda t: f"{{{{ if {t[0]} }}}}{t[1]}{{{{ end }}}}"),
        st.tuples(conditions, inner, inner).map(
            lambda t: f"{{{{ if {t[0]} }}}}{t[1]}{{{{ else }}}}{t[2]}{{{{ end }}}}"
        ),
    ),
    max_leaves=8,
)


@given(body=bodies, seed=st.integers(0, 2**32))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_reads_as_stable_never_moves(body: str, seed: int) -> None:
    template = GoChatTemplate(PRELUDE + "{{ range $i, $m := .Messages }}" + body + "{{ end }}<assistant>")
    if read(template.tree).suspects:
        return
    for loop in (*LOOPS[:4], random_loop(Random(seed))):
        run = run_loop(template, loop, template.as_served)
        assert run.error is None
        assert run.lost == (), loop.name


VARIABLES = (
    '{{ $x := "a" }}{{ $w := "a" }}{{ $y := false }}{{ $k := 1 }}{{ $p := "" }}{{ $all := .Messages }}'
    '{{ define "named" }}{{ $x := . }}{{ range 2 }}{{ if eq $x "b" }}{{ $x = "d" }}{{ end }}{{ end }}{{ $x }}{{ end }}'
    '{{ define "calls" }}{{ $q := .Role }}{{ range .ToolCalls }}{{ $q = .Function.Name }}{{ end }}{{ $q }}{{ end }}'
)
SETS = (
    '{{ $x = "b" }}',
    '{{ $x = "c" }}',
    '{{ $x := "own" }}',
    "{{ $x = $w }}",
    "{{ $w = $x }}",
    '{{ $x = print $x "q" }}',
    "{{ $y = true }}",
    '{{ $y = eq $x "b" }}',
    "{{ $y = eq (len (slice $.Messages $i)) 1 }}",
    "{{ $n = len $p }}",
    "{{ $n = 0 }}",
    "{{ $k = len (slice $.Messages $i) }}",
    '{{ $p = printf "a%*s" $i "" }}',
    '{{ $p = printf "b%*s" 1 "" }}',
)
SHOWN = (
    *PRINTS,
    "{{ $x }}",
    "{{ $n }}",
    "{{ $p }}",
    "{{ len $p }}",
    '{{ template "named" $x }}',
    '{{ template "calls" $m }}',
    "{{ with $m.Content }}{{ . }}{{ else }}{{ $y = true }}{{ end }}",
)
TESTS = (*GATES, 'eq $x "b"', "eq $x $w", "$y", "lt $n 2", "gt (len $p) $i", "eq (len (slice $.Messages $i)) 3")
WITHIN = ('eq $x "b"', "eq $x $w", "$y", "lt $n 2", *GATES[:3], "gt (len $.Messages) 5")
CALLS = ("$.Tools", "$m.ToolCalls")
PARTS = ("slice $.Messages 0 $i", "slice $.Messages $i", "slice $.Messages 1", "slice $.Messages $n", "$all")
NUMBERS = ("2", "$i", "$k")


def inner_loops(over: str) -> st.SearchStrategy[str]:
    own = ('eq .Function.Name "lumbrel_lookup"',) if over in CALLS else ('eq .Role "tool"',) if over in PARTS else ()
    leaves = st.sampled_from((*SETS, *SETS, "t", "{{ $x }}", "{{ break }}", "{{ continue }}"))
    tests = st.sampled_from((*WITHIN, *own, *own))
    inner = st.recursive(
        leaves,
        lambda within: st.one_of(
            st.lists(within, min_size=1, max_size=3).map("".join),
            st.tuples(tests, within).map(lambda t: f"{{{{ if {t[0]} }}}}{t[1]}{{{{ end }}}}"),
            st.tuples(tests, within, within).map(
                lambda t: f"{{{{ if {t[0]} }}}}{t[1]}{{{{ else }}}}{t[2]}{{{{ end }}}}"
            ),
        ),
        max_leaves=4,
    )
    otherwise = st.sampled_from(("", "", "{{ else }}e", *[f"{{{{ else }}}}{one}" for one in SETS[:8]]))
    return st.tuples(inner, otherwise).map(lambda t: f"{{{{ range {over} }}}}{t[0]}{t[1]}{{{{ end }}}}")


turns = st.recursive(
    st.one_of(
        st.sampled_from(SHOWN), st.sampled_from(SETS), st.sampled_from((*CALLS, *PARTS, *NUMBERS)).flatmap(inner_loops)
    ),
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=4).map("".join),
        st.tuples(st.sampled_from(TESTS), inner).map(lambda t: f"{{{{ if {t[0]} }}}}{t[1]}{{{{ end }}}}"),
    ),
    max_leaves=8,
)
AHEAD = (
    "",
    "",
    "{{ range .Tools }}{{ if $seen }}{{ break }}{{ end }}t{{ end }}",
    "{{ range .Tools }}{{ $x }}{{ if $y }}{{ $x = print $w $x }}{{ end }}{{ end }}",
    "{{ $all = slice .Messages 1 }}",
    "{{ range slice .Messages 1 }}{{ if .ToolCalls }}{{ $x = .Role }}{{ end }}{{ else }}none{{ end }}",
    '{{ range .Messages }}{{ if eq .Content "continue" }}[flag]{{ $y = true }}{{ end }}{{ end }}',
    '{{ range .Messages }}{{ if eq .Role "tool" }}[flag]{{ break }}{{ end }}{{ end }}',
    "{{ range $j, $k := .Messages }}{{ if lt $j 6 }}{{ continue }}{{ end }}x{{ end }}"
    "{{ if gt (len .Messages) 9 }}y{{ end }}",
    '{{ range $j, $k := .Messages }}{{ if or (eq $j 0) (eq .Role "system") }}{{ .Content }}{{ end }}{{ end }}',
)
BEHIND = (
    *("", "", "{{ len .Messages }}", "{{ if $y }}note{{ end }}"),
    '{{ if eq (index .Messages 0).Content "continue" }}{{ json .Tools }}{{ end }}',
    "{{ if gt (len .Messages) 7 }}{{ .System }}{{ end }}",
    "{{ range $i, $m := .Messages }}{{ if eq (len (slice $.Messages $i)) 1 }}{{ .Role }}{{ end }}{{ end }}",
)


@given(
    ahead=st.sampled_from(AHEAD),
    body=turns,
    end=st.sampled_from(("", "\n", "{{ .Content }}\n")),
    behind=st.sampled_from(BEHIND),
    seed=st.integers(0),
)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_loops_within_and_variables(ahead: str, body: str, end: str, behind: str, seed: int) -> None:
    text = VARIABLES + PRELUDE + ahead + "{{ range $i, $m := .Messages }}<{{ .Role }}>" + body + end
    template = GoChatTemplate(text + "{{ end }}" + behind + "<assistant>{{ $x }}")
    try:
        if read(template.tree).suspects:
            return
    except TooComplex:
        return
    for loop in (*LOOPS[:4], random_loop(Random(seed))):
        # A part that ends beyond the conversation fails, and what comes before that is kept.
        assert run_loop(template, loop, template.as_served).lost == (), loop.name


@pytest.mark.parametrize("seed", [1, 2])
def test_stable_templates_of_the_corpus_stay_stable(corpus: dict[str, dict[str, Any]], seed: int) -> None:
    loops = list(samples(seed, 6))
    for key, row in corpus.items():
        if not row.get("class"):
            continue
        template = GoChatTemplate(row["template"])
        if template.legacy or analyse(template, select=("none",)).verdict != "stable":
            continue
        for loop in loops:
            run = run_loop(template, loop, template.as_served)
            assert run.error is None, (key, loop.name)
            assert run.lost == (), (key, loop.name)
            assert all(step.tools for step in run.steps), (key, loop.name)


@given(body=bodies)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_an_unstable_template_has_a_cause_and_a_stable_one_has_none(body: str) -> None:
    text = PRELUDE + "{{ json .Tools }}{{ range $i, $m := .Messages }}<{{ .Role }}>" + body + "{{ end }}<assistant>"
    found = analyse(GoChatTemplate(text))
    errors = {finding.code for finding in found.findings if finding.severity == "error"} - {"TF301", "TF302"}
    assert (found.verdict == "unstable") == bool(errors)
