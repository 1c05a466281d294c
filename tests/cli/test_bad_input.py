"""Templates as people have them, bad ones among them: each gets its own verdict, and none stops the others."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from templatefix.servers.targets import LIMIT

CHAT = "{{ range .Messages }}<{{ .Role }}>{{ .Content }}\n{{ end }}"
MOVING = (
    "<system>{{ .System }}\n{{ range $i, $m := .Messages }}\n"
    "{{ if and $.Tools (eq (len (slice $.Messages $i)) 1) }}{{ $.Tools }}{{ end }}\n"
    '{{ if ne .Role "system" }}<{{ .Role }}>{{ .Content }}{{ end }}\n'
    "{{ range .ToolCalls }}{{ .Function.Name }}{{ .Function.Arguments }}{{ end }}{{ end }}\n"
)
NO_TOOLS = "the template has no tools: judged on chats"
LEGACY = "a legacy template never sees tools: judged on chats"
FAILING = '{{ json .Tools }}{{ range .Messages }}{{ if eq .Role "tool" }}{{ .Name }}{{ end }}{{ .Content }}{{ end }}'

# name, bytes, verdict, and how the reason begins
TEMPLATES = [
    ("chat", CHAT.encode(), "stable", NO_TOOLS),
    ("unparsed", b"one\n{{ if }}", "not-evaluated", "unparsed:2:7: template: :2: missing value for if"),
    ("undefined", b'{{ template "x" }}', "not-evaluated", "undefined:1:1: undefined template specified"),
    ("open", b"{{ range .Messages }}", "not-evaluated", "open:1:22: template: :1: unexpected EOF"),
    ("failing", FAILING.encode(), "broken", "step 1 of the loop single-call cannot be rendered: template: :1:65: "),
    ("always-failing", b"{{ .Messages.X }}", "not-evaluated", "no conversation could be rendered: template: :1:12: "),
    ("legacy", b"{{ .System }} {{ .Prompt }} {{ .Response }}", "stable", LEGACY),
    ("prompt", b"{{ .Prompt }}", "stable", LEGACY),
    ("words", b"no action at all", "stable", LEGACY),
    ("empty", b"", "not-evaluated", "empty is empty"),
    ("blank", b" \r\n\t\n", "not-evaluated", "blank is empty"),
    ("binary", bytes(range(256)) * 8, "not-evaluated", "binary is not text: it has NUL bytes"),
    ("png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "not-evaluated", "png is not text: it has NUL bytes"),
    ("utf-16", CHAT.encode("utf-16"), "not-evaluated", "utf-16 is UTF-16 text; a Go template is UTF-8"),
    ("large", b"x" * (10 << 20), "not-evaluated", "large has more than 4 MB, which is no chat template"),
    ("fitting", CHAT.encode() + b"x" * (LIMIT - len(CHAT)), "stable", NO_TOOLS),
    ("bom", b"\xef\xbb\xbf" + CHAT.encode(), "stable", NO_TOOLS),
    ("crlf", CHAT.replace("\n", "\r\n").encode(), "stable", NO_TOOLS),
    ("latin-1", CHAT.encode() + b"caf\xe9", "stable", NO_TOOLS),
    ("bad-action", b"{{ \xff }}", "not-evaluated", "bad-action:1:4: template: :1: "),
    ("nested", b"{{ if .System }}" * 3000 + b"x" + b"{{ end }}" * 3000 + CHAT.encode(), "stable", NO_TOOLS),
    ("too-nested", b"{{ if 1 }}" * 20_001 + b"{{ end }}" * 20_001, "not-evaluated", "too-nested:1:"),
    ("parens", b"{{ " + b"(" * 10_001 + b"1" + b")" * 10_001 + b" }}", "not-evaluated", "parens:1:"),
    (
        "endless",
        b'{{ define "a" }}{{ template "a" . }}{{ end }}{{ template "a" . }}',
        "not-evaluated",
        "no conversation",
    ),
    ("spinning", b"{{ range 9000 }}{{ range 9000 }}{{ end }}{{ end }}" + CHAT.encode(), "not-evaluated", "no conv"),
]


@pytest.fixture
def folder(alone: Path) -> Path:
    """A folder with all of them."""
    for name, data, _, _ in TEMPLATES:
        (alone / name).write_bytes(data)
    return alone


def check(templatefix: Any, *args: str) -> tuple[Any, list[dict[str, Any]]]:
    done = templatefix("check", "--format", "json", *args)
    results: list[dict[str, Any]] = json.loads(done.out)["results"]
    return done, results


def test_each_has_its_own_verdict_in_one_call(templatefix: Any, folder: Path) -> None:
    done, results = check(templatefix, *[name for name, _, _, _ in TEMPLATES])
    assert done.code == 2
    assert [(found["target"], found["verdict"]) for found in results] == [(row[0], row[2]) for row in TEMPLATES]
    for found, (_, _, _, reason) in zip(results, TEMPLATES, strict=True):
        assert (found["reason"] or "").startswith(reason), found["target"]
    complaints = [line for line in done.err.splitlines() if line.startswith("templatefix: ")]
    assert len(complaints) == sum(row[2] == "not-evaluated" for row in TEMPLATES)
    assert "Traceback" not in done.err
    assert "fault in templatefix" not in done.err
    assert "\x1b" not in done.err


def test_none_that_was_not_evaluated_looks_clean(templatefix: Any, folder: Path) -> None:
    done = templatefix("check", *[name for name, _, _, _ in TEMPLATES])
    for name, _, verdict, _ in TEMPLATES:
        if verdict == "not-evaluated":
            assert f"\n{name}: not evaluated" in "\n" + done.out
    assert max(len(line) for line in done.out.splitlines()) <= 80


def test_what_is_no_file_to_read(templatefix: Any, alone: Path) -> None:
    (alone / "sub").mkdir()
    (alone / "good").write_text(CHAT)
    (alone / "loop.tmpl").symlink_to("loop.tmpl")
    (alone / "dangling.tmpl").symlink_to("nowhere")
    names = [
        "sub",
        "./gone.tmpl",
        "good/below.tmpl",
        "./good/below",
        "loop.tmpl",
        "dangling.tmpl",
        "~nobody-at-all/x",
        "good",
    ]
    done, results = check(templatefix, *names)
    assert done.code == 2
    assert [found["reason"] for found in results] == [
        "sub is a folder, not a template",
        "there is no file ./gone.tmpl",
        "good/below.tmpl cannot be read: Not a directory",
        "./good/below cannot be read: Not a directory",
        "loop.tmpl cannot be read: Too many levels of symbolic links",
        "there is no file dangling.tmpl",
        "~nobody-at-all/x cannot be read: Could not determine home directory.",
        NO_TOOLS,
    ]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read(templatefix: Any, alone: Path) -> None:
    (alone / "secret.tmpl").write_text(CHAT)
    (alone / "secret.tmpl").chmod(0)
    _, (found,) = check(templatefix, "secret.tmpl")
    assert found["reason"] == "secret.tmpl cannot be read: Permission denied"


def test_a_fault_of_our_own_stops_no_other(templatefix: Any, alone: Path) -> None:
    (alone / "rules").mkdir()
    (alone / "rules" / "clumsy.py").write_text(
        "from templatefix.analysis.rule import Rule\n\n\n"
        "class Clumsy(Rule):\n"
        '    """TF998 clumsy\n\n    Falls over owls.\n    """\n\n'
        '    CODE, NAME, SEVERITY, FIXABLE, VALID, INVALID = "TF998", "clumsy", "info", False, (), ()\n\n'
        "    def check(self, evidence):\n"
        '        return iter([1 // ("owl" not in evidence.template.source.text)][:0])\n'
    )
    (alone / "owl").write_text("owl" + CHAT)
    (alone / "chat").write_text(CHAT)
    done, results = check(templatefix, "owl", "chat", "--rules", "rules")
    assert done.code == 2
    assert [found["verdict"] for found in results] == ["not-evaluated", "stable"]
    assert done.err.startswith("templatefix: owl: a fault in templatefix itself, please report it: ZeroDivisionError")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"\xef\xbb\xbf", lambda text: text),
        (b"", lambda text: text.replace(b"\n", b"\r\n")),
        (b"", lambda text: text.rstrip(b"\n")),
        (b"caf\xe9 ", lambda text: text),
        ("\N{OWL}\t".encode(), lambda text: text.replace(b"\n", b"\r\n") + b"\xff"),
    ],
    ids=["bom", "crlf", "no line end", "latin-1", "mixed"],
)
def test_a_variant_differs_in_its_edits_alone(templatefix: Any, alone: Path, before: bytes, after: Any) -> None:
    data = before + after(MOVING.encode())
    (alone / "odd").write_bytes(data)
    done = templatefix("patch", "odd", "-o", "fixed")
    assert (done.code, done.err) == (0, "")
    made = (alone / "fixed").read_bytes()
    assert made.startswith(before)
    assert (b"\r\n" in made) is (b"\r\n" in data)
    assert made.count(b"\n") - made.count(b"\r\n") == (0 if b"\r\n" in data else made.count(b"\n"))
    assert made[-8:] == data[-8:]
    _, (found,) = check(templatefix, "fixed")
    assert found["verdict"] == "stable"
