"""Reading a tree: what depends on later messages, and what only looks like it."""

from __future__ import annotations

from itertools import pairwise

import pytest

from templatefix.analysis.analyse import analyse
from templatefix.analysis.dependence import TreeReading, read
from templatefix.analysis.reading import TooComplex
from templatefix.chat.go import GoChatTemplate

HEAD = "{{ range $i, $m := .Messages }}<{{ .Role }}>"
BODY = "{{ .Content }}{{ json .ToolCalls }}"
LAST = "eq (len (slice $.Messages $i)) 1"


def reading_of(text: str) -> TreeReading:
    return read(GoChatTemplate(text).tree)


def opened(text: str) -> list[str]:
    """The suspects' opening actions (or nodes), as written, each once."""
    reading = reading_of(text)
    spans = [getattr(suspect.node, "open", suspect.node.span) for suspect in reading.suspects]
    return list(dict.fromkeys(reading.tree.source.slice(span) for span in spans))


@pytest.mark.parametrize(
    "condition",
    [
        LAST,
        "eq 1 (len (slice $.Messages $i))",
        "le (len (slice $.Messages $i)) 2",
        "lt (len (slice $.Messages $i)) 3",
        "ge 2 (len (slice $.Messages $i))",
        "not (gt (len (slice $.Messages $i)) 1)",
        "not (ne (len (slice $.Messages $i)) 1)",
        "or (eq (len (slice $.Messages $i)) 1) (eq (len (slice $.Messages $i)) 2)",
        "and .Content (eq (slice $.Messages $i | len) 1)",
        "lt (len $.Messages) 40",
        'eq (len $.Messages) (len (printf "a%*s" $i ""))',
    ],
)
def test_a_gate_on_the_last_message_is_found(condition: str) -> None:
    gate = f"{{{{ if {condition} }}}}"
    assert opened(HEAD + gate + "Note. {{ end }}" + BODY + "{{ end }}") == [gate]


@pytest.mark.parametrize(
    ("text", "suspect"),
    [
        # through a variable, through another, through `with`
        (HEAD + f"{{{{ $last := {LAST} }}}}" + "{{ if $last }}Note. {{ end }}" + BODY + "{{ end }}", "{{ if $last }}"),
        (
            HEAD + "{{ $n := len (slice $.Messages $i) }}{{ $last := eq $n 1 }}"
            "{{ if not $last }}Old. {{ end }}" + BODY + "{{ end }}",
            "{{ if not $last }}",
        ),
        (HEAD + f"{{{{ with {LAST} }}}}Note. {{{{ end }}}}" + BODY + "{{ end }}", f"{{{{ with {LAST} }}}}"),
        # an index that a loop before has found
        (
            '{{ $at := -1 }}{{ range $i, $m := .Messages }}{{ if eq .Role "user" }}{{ $at = $i }}{{ end }}{{ end }}'
            + HEAD
            + "{{ if eq $i $at }}Note. {{ end }}"
            + BODY
            + "{{ end }}",
            "{{ if eq $i $at }}",
        ),
        # something that comes true in mid-conversation
        (
            '{{ $worked := false }}{{ range .Messages }}{{ if eq .Role "tool" }}{{ $worked = true }}{{ end }}{{ end }}'
            "{{ if $worked }}You have results.{{ end }}" + HEAD + BODY + "{{ end }}",
            "{{ if $worked }}",
        ),
        # a value instead of a branch
        ("{{ len .Messages }} messages." + HEAD + BODY + "{{ end }}", "{{ len .Messages }}"),
        (HEAD + "{{ len (slice $.Messages $i) }} to go. " + BODY + "{{ end }}", "{{ len (slice $.Messages $i) }}"),
        # a loop ahead
        (
            HEAD + "{{ range slice $.Messages $i }}{{ .Role }}, {{ end }}" + BODY + "{{ end }}",
            "{{ range slice $.Messages $i }}",
        ),
        # `continue` leaves the rest out
        (
            HEAD + "{{ if le (len (slice $.Messages $i)) 2 }}{{ continue }}{{ end }}" + BODY + "{{ end }}",
            "{{ if le (len (slice $.Messages $i)) 2 }}",
        ),
        # a template of its own
        (
            '{{ define "note" }}{{ if eq (len .) 1 }}Note. {{ end }}{{ end }}'
            + HEAD
            + '{{ template "note" (slice $.Messages $i) }}'
            + BODY
            + "{{ end }}",
            "{{ if eq (len .) 1 }}",
        ),
        # behind the text, but not at the end of the message
        (
            HEAD + BODY + f"{{{{ if {LAST} }}}} /hush{{{{ end }}}}</{{{{ .Role }}}}>" + "{{ end }}",
            f"{{{{ if {LAST} }}}}",
        ),
        # what the loop leaves behind
        (HEAD + BODY + "{{ end }}{{ json .Tools }}", "{{ json .Tools }}"),
        (HEAD + "{{ end }}{{ range .Messages }}" + BODY + "{{ end }}", "{{ range .Messages }}"),
    ],
)
def test_dependence_is_followed(text: str, suspect: str) -> None:
    assert opened(text) == [suspect]


TURNS = HEAD + BODY + "{{ end }}"


@pytest.mark.parametrize(
    "head",
    [
        '{{ range .Messages }}{{ if eq .Content "zanzibar" }}[flag]{{ end }}{{ end }}',
        '{{ range .Messages }}{{ if and (eq .Role "tool") (eq .Content "zanzibar") }}[flag]{{ end }}{{ end }}',
        '{{ range .Messages }}{{ if eq .Content "zanzibar" }}[flag]{{ break }}{{ end }}{{ end }}',
        "{{ range $i, $m := .Messages }}{{ if lt $i 300 }}{{ continue }}{{ end }}[flag]{{ end }}",
        "{{ range $i, $m := .Messages }}{{ if gt $i 300 }}[flag]{{ break }}{{ end }}{{ end }}",
        '{{ range .Tools }}{{ range $.Messages }}{{ if eq .Content "zanzibar" }}[flag]{{ end }}{{ end }}{{ end }}',
    ],
)
def test_a_loop_that_prints_now_and_then_is_not_the_conversation(head: str) -> None:
    analysis = analyse(GoChatTemplate("{{ json .Tools }}\n" + head + "\n" + TURNS))
    assert analysis.verdict == "stable"
    assert analysis.disagreement == ("line 2 depends on later messages as it reads, but no loop shows it",)


@pytest.mark.parametrize("what", ["json .Tools", "(index .Messages 0).Content", ".System"])
def test_what_rarely_comes_behind_the_conversation_is_said(what: str) -> None:
    after = '{{ if eq (index .Messages 0).Content "zanzibar" }}{{ WHAT }}{{ end }}'.replace("WHAT", what)
    analysis = analyse(GoChatTemplate("{{ json .Tools }}" + TURNS + "\n" + after))
    assert analysis.verdict == "stable"
    assert analysis.disagreement == ("line 2 depends on later messages as it reads, but no loop shows it",)


@pytest.mark.parametrize("what", ["json .Tools", "(index .Messages 0).Content", ".System"])
def test_a_loop_is_looked_for_that_brings_it(what: str) -> None:
    after = "\n{{ if gt (len .Messages) 300 }}{{ WHAT }}{{ end }}".replace("WHAT", what)
    analysis = analyse(GoChatTemplate("{{ json .Tools }}" + TURNS + after))
    assert (analysis.verdict, analysis.disagreement) == ("unstable", ())


def test_what_moves_in_front_of_the_conversation_is_found_behind_another_loop() -> None:
    head = '{{ range .Messages }}{{ if eq .Content "zanzibar" }}[flag]{{ end }}{{ end }}'
    assert opened(head + "{{ len .Messages }}" + TURNS)[-1] == "{{ len .Messages }}"


def test_loops_in_loops_are_looked_through_once() -> None:
    around = "{{ range .Tools }}x" * 35
    assert opened(around + "{{ end }}" * 35 + TURNS) == []
    text = TURNS + around + "{{ json $.Tools }}" + "{{ end }}" * 35
    assert opened(text) == ["{{ json $.Tools }}"]


@pytest.mark.parametrize(
    "text",
    [
        TURNS + '{{ if eq (index .Messages 0).Content "zanzibar" }}Note.{{ end }}',
        "{{ range $i, $m := .Messages }}{{ if eq $i 0 }}{{ .Content }}{{ end }}{{ end }}" + TURNS,
        '{{ range .Messages }}{{ if eq .Role "system" }}{{ .Content }}{{ end }}{{ end }}' + TURNS,
    ],
)
def test_text_behind_the_conversation_and_a_loop_that_does_not_grow_are_free(text: str) -> None:
    analysis = analyse(GoChatTemplate("{{ json .Tools }}" + text))
    assert (analysis.verdict, analysis.disagreement) == ("stable", ())


@pytest.mark.parametrize(
    "text",
    [
        HEAD + BODY + "{{ end }}<assistant>",
        # a message that shows only when others follow: nothing is lost
        HEAD + f"{{{{ if {LAST} }}}}{{{{ continue }}}}{{{{ end }}}}" + BODY + "{{ end }}",
        # the header of the answer, inside the loop or behind it
        HEAD + BODY + f"{{{{ if {LAST} }}}}<assistant>{{{{ end }}}}" + "{{ end }}",
        HEAD + BODY + f"{{{{ if {LAST} }}}}</s><assistant>{{{{ else }}}}</s>{{{{ end }}}}" + "{{ end }}",
        HEAD + BODY + f'{{{{ if and ({LAST}) (ne .Role "assistant") }}}}<assistant>{{{{ end }}}}' + "\n{{ end }}",
        # an answer is never last
        HEAD + f'{{{{ if and (eq .Role "assistant") ({LAST}) }}}}Unfinished: {{{{ end }}}}' + BODY + "{{ end }}",
        # position, not what comes later
        "{{ $first := true }}"
        + HEAD
        + "{{ if $first }}{{ json $.Tools }}{{ end }}{{ $first = false }}"
        + BODY
        + "{{ end }}",
        HEAD + "{{ if eq $i 0 }}{{ json $.Tools }}{{ end }}" + BODY + "{{ end }}",
        HEAD + "{{ if lt (len (slice $.Messages 0 $i)) 2 }}Early. {{ end }}" + BODY + "{{ end }}",
        "{{ (index .Messages 0).Content }}" + HEAD + BODY + "{{ end }}",
        HEAD + '{{ if eq (index $.Messages $i).Role "user" }}You: {{ end }}' + BODY + "{{ end }}",
        # found once, by a loop before
        "{{ $at := -1 }}{{ range $i, $m := .Messages }}"
        '{{ if and (lt $at 0) (eq .Role "user") }}{{ $at = $i }}{{ end }}{{ end }}'
        + HEAD
        + "{{ if eq $i $at }}{{ json $.Tools }}{{ end }}"
        + BODY
        + "{{ end }}",
        "{{ $seen := false }}{{ $at := 0 }}{{ range $i, $m := .Messages }}"
        '{{ if and (not $seen) (eq .Role "user") }}{{ $at = $i }}{{ $seen = true }}{{ end }}{{ end }}'
        + HEAD
        + "{{ if eq $i $at }}{{ json $.Tools }}{{ end }}"
        + BODY
        + "{{ end }}",
        '{{ $sys := "" }}'
        '{{ range .Messages }}{{ if eq .Role "system" }}{{ $sys = print $sys .Content }}{{ end }}{{ end }}'
        "{{ $sys }}" + HEAD + BODY + "{{ end }}",
        '{{ $any := false }}{{ range .Messages }}{{ if eq .Role "user" }}{{ $any = true }}{{ end }}{{ end }}'
        "{{ if $any }}Hello.{{ end }}" + HEAD + BODY + "{{ end }}",
        # looking back within the same loop
        '{{ $before := "" }}'
        + HEAD
        + "{{ if ne $before .Role }}New. {{ end }}{{ $before = .Role }}"
        + BODY
        + "{{ end }}",
        "{{ $at := -1 }}"
        + HEAD
        + '{{ if eq .Role "user" }}{{ $at = $i }}{{ end }}{{ if eq $at $i }}U{{ end }}'
        + BODY
        + "{{ end }}",
        # the last of the tools is not the last message
        "{{ range $i, $t := .Tools }}{{ . }}"
        "{{ $last := eq (len (slice $.Tools $i)) 1 }}{{ if not $last }}, {{ end }}{{ end }}"
        + HEAD
        + BODY
        + "{{ end }}",
        # a system message stands first, so a loop that prints only that does not grow
        '{{ range .Messages }}{{ if eq .Role "system" }}{{ .Content }}{{ end }}{{ end }}'
        '{{ range .Messages }}{{ if ne .Role "system" }}<{{ .Role }}>' + BODY + "{{ end }}{{ end }}",
        # one message ahead, which is there as soon as this is not the last
        HEAD + BODY + '{{ $next := len (printf "x%*s" $i "") }}{{ if ne $next (len $.Messages) }}'
        "{{ if ne (index $.Messages $next).Role .Role }}</m>{{ end }}{{ else }}</m>{{ end }}{{ end }}",
        # two arms that say the same
        HEAD
        + f"{{{{ if {LAST} }}}}{{{{ .Content }}}}</m>{{{{ else }}}}{{{{ .Content }}}}</m>{{{{ end }}}}"
        + "{{ end }}",
        # a count that is shown behind all messages belongs to the tail
        HEAD + BODY + "{{ end }}{{ len .Messages }} messages<assistant>",
    ],
)
def test_what_looks_back_is_not_accused(text: str) -> None:
    assert opened(text) == []


SOME_TOOL = 'eq .Function.Name "lumbrel_lookup"'


@pytest.mark.parametrize(
    ("text", "suspect"),
    [
        # what a loop within makes of a variable hangs on what it was before
        (
            HEAD + f'{{{{ $x := "a" }}}}{{{{ if {LAST} }}}}{{{{ $x = "b" }}}}{{{{ end }}}}'
            f'{{{{ range $.Tools }}}}{{{{ if {SOME_TOOL} }}}}{{{{ $x = "c" }}}}{{{{ end }}}}{{{{ end }}}}'
            "{{ $x }}" + BODY + "{{ end }}",
            "{{ $x }}",
        ),
        # and on what it runs over
        (
            HEAD + f"{{{{ $x := 7 }}}}{{{{ $k := 2 }}}}{{{{ if {LAST} }}}}{{{{ $k = 3 }}}}{{{{ end }}}}"
            "{{ range $j := $k }}{{ $x = $j }}{{ end }}{{ $x }}" + BODY + "{{ end }}",
            "{{ $x }}",
        ),
        # and on what ends it
        (
            HEAD + "{{ range $.Tools }}{{ .Function.Name }}" + f"{{{{ if {LAST} }}}}{{{{ break }}}}{{{{ end }}}}"
            "{{ end }}" + BODY + "{{ end }}",
            "{{ range $.Tools }}",
        ),
        (
            HEAD + BODY + "{{ if eq (len (slice $.Messages $i)) 4 }}{{ break }}{{ end }}{{ end }}",
            "{{ range $i, $m := .Messages }}",
        ),
        # the last message says what it is behind the loop
        (
            '{{ $x := "" }}{{ range .Messages }}{{ $r := .Role }}{{ $x = "no" }}'
            '{{ range $.Tools }}{{ if eq $r "user" }}{{ $x = .Function.Name }}{{ end }}{{ end }}{{ end }}{{ $x }}'
            + HEAD
            + BODY
            + "{{ end }}",
            "{{ $x }}",
        ),
        # the `else` of a loop that has no turn
        (
            HEAD + "{{ $x := true }}{{ range .ToolCalls }}{{ else }}{{ $x = false }}{{ end }}"
            "{{ if $x }}{{ if lt (len $.Messages) 9 }}Note. {{ end }}{{ end }}" + BODY + "{{ end }}",
            "{{ if lt (len $.Messages) 9 }}",
        ),
        (
            HEAD
            + '{{ range slice $.Messages (len (printf "x%*s" $i "")) }}{{ else }}Note. {{ end }}'
            + BODY
            + "{{ end }}",
            '{{ range slice $.Messages (len (printf "x%*s" $i "")) }}',
        ),
        # a text that is counted is the longer or the shorter one
        (
            HEAD + '{{ $p := printf "%*s" 1 "" }}{{ if .ToolCalls }}{{ $p = printf "%*s" 3 "" }}{{ end }}'
            "{{ if eq (len $p) 1 }}{{ if lt (len $.Messages) 9 }}Note. {{ end }}{{ end }}" + BODY + "{{ end }}",
            "{{ if lt (len $.Messages) 9 }}",
        ),
        # as long, but another text
        (
            HEAD
            + f'{{{{ $p := printf "a%*s" $i "" }}}}{{{{ if {LAST} }}}}{{{{ $p = printf "b%*s" $i "" }}}}{{{{ end }}}}'
            "{{ $p }}" + BODY + "{{ end }}",
            "{{ $p }}",
        ),
        # a part of the conversation may hold the system message
        (
            f"{{{{ $k := 1 }}}}{{{{ range .Tools }}}}{{{{ if {SOME_TOOL} }}}}{{{{ $k = 0 }}}}{{{{ end }}}}{{{{ end }}}}"
            '{{ range slice .Messages $k }}{{ if eq .Role "system" }}'
            "{{ if lt (len $.Messages) 9 }}Note. {{ end }}{{ end }}" + BODY + "{{ end }}",
            "{{ if lt (len $.Messages) 9 }}",
        ),
        # either the conversation or a part of it
        (
            "{{ $all := .Messages }}{{ if lt (len .Messages) 9 }}{{ $all = slice .Messages 1 }}{{ end }}"
            "{{ range $all }}" + BODY + "{{ end }}",
            "{{ range $all }}",
        ),
        # white space that stays, with what comes before it
        (HEAD + BODY + f"{{{{ if not ({LAST}) }}}}</m>{{{{ end }}}}\n{{{{ end }}}}", f"{{{{ if not ({LAST}) }}}}"),
        # once for each tool, ahead of the conversation
        ("{{ range .Tools }}{{ len $.Messages }}{{ end }}" + HEAD + BODY + "{{ end }}", "{{ len $.Messages }}"),
        # the whole conversation for each tool
        ("{{ range .Tools }}{{ range $.Messages }}" + BODY + "{{ end }}{{ end }}", "{{ range $.Messages }}"),
        # a message that a part of the conversation holds is no text of the template
        (
            '{{ $x := "" }}'
            + HEAD
            + BODY
            + "{{ range slice $.Messages 0 $i }}{{ $x = .Content }}{{ break }}{{ end }}{{ end }}{{ $x }}",
            "{{ $x }}",
        ),
    ],
)
def test_variables_and_loops_within_are_followed(text: str, suspect: str) -> None:
    assert opened(text) == [suspect]


@pytest.mark.parametrize("before", ["", "Early. "])
def test_what_continue_leaves_out_is_shown_where_it_stands(before: str) -> None:
    gate = f"{{{{ if le (len (slice $.Messages $i)) 2 }}}}{before}{{{{ continue }}}}{{{{ end }}}}"
    found = analyse(GoChatTemplate("{{ json .Tools }}" + HEAD + gate + BODY + "{{ end }}"))
    assert found.verdict == "unstable"
    assert found.disagreement == ()


def test_what_takes_many_turns_to_reach_a_variable_is_found() -> None:
    names = "abcdefgh"
    start = "".join(f"{{{{ ${name} := 1 }}}}" for name in names)
    shift = "".join(f"{{{{ ${later} = ${name} }}}}" for name, later in reversed(list(pairwise(names))))
    text = (
        start + "{{ range .Tools }}" + shift + "{{ $a = len $.Messages }}{{ end }}{{ $h }}" + HEAD + BODY + "{{ end }}"
    )
    assert opened(text) == ["{{ $h }}"]


def test_a_count_that_grows_in_a_loop_can_be_read() -> None:
    count = '{{ $n = len (printf "x%*s" $n "") }}'
    text = "{{ $n := 0 }}{{ range .Tools }}" + count + "{{ end }}" + HEAD + "{{ $n }}" + BODY + count + "{{ end }}"
    assert opened(text) == []
    assert opened(text.replace("{{ $n }}", "{{ if lt $n (len $.Messages) }}Note. {{ end }}")) != []


def test_thinking_of_earlier_turns_is_read_apart() -> None:
    text = (
        '{{ $at := -1 }}{{ range $i, $m := .Messages }}{{ if eq .Role "user" }}{{ $at = $i }}{{ end }}{{ end }}'
        + HEAD
        + "{{ if and .Thinking (gt $i $at) }}{{ .Thinking }}{{ end }}"
        + BODY
        + "{{ end }}"
    )
    tree = GoChatTemplate(text).tree
    assert read(tree).suspects == ()
    assert len(read(tree, thoughts=True).suspects) == 1


def test_what_cannot_be_read_is_said() -> None:
    calls = "".join(
        f'{{{{ define "t{n}" }}}}{{{{ template "t{n + 1}" . }}}}{{{{ template "t{n + 1}" . }}}}{{{{ end }}}}'
        for n in range(20)
    )
    text = calls + '{{ define "t20" }}{{ end }}{{ template "t0" . }}'
    with pytest.raises(TooComplex):
        read(GoChatTemplate(text + HEAD + BODY + "{{ end }}").tree)


def test_recursion_and_deep_nesting_end() -> None:
    recursive = (
        '{{ define "a" }}{{ .Content }}{{ template "a" . }}{{ end }}{{ range .Messages }}{{ template "a" . }}{{ end }}'
    )
    assert opened(recursive) == []
    deep = "{{ if .Tools }}" * 3000 + "x" + "{{ end }}" * 3000
    assert opened(deep + HEAD + BODY + "{{ end }}") == []
