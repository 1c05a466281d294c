"""`templatefix render`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

CHAT = "{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}"
HELLO = {"messages": [{"role": "user", "content": "Grüß Gott"}]}


def files(work: Path, template: str = CHAT, request: Any = HELLO) -> tuple[str, ...]:
    (work / "chat.tmpl").write_text(template, encoding="utf-8")
    (work / "request.json").write_text(json.dumps(request), encoding="utf-8")
    return "render", "chat.tmpl", "--request", "request.json"


def test_the_prompt_and_nothing_else(templatefix: Any, alone: Path) -> None:
    done = templatefix(*files(alone))
    assert (done.code, done.data, done.err) == (0, "<user>Grüß Gott".encode(), "")


def test_bytes_that_are_not_utf8_come_out_as_the_template_cuts_them(templatefix: Any, alone: Path) -> None:
    done = templatefix(*files(alone, "{{ range .Messages }}{{ slice .Content 3 }}{{ end }}"))
    assert done.data == "Grüß Gott".encode()[3:]


def test_template_or_request_from_standard_input(templatefix: Any, alone: Path) -> None:
    files(alone)
    assert templatefix("render", "-", "--request", "request.json", stdin=CHAT.encode()).out == "<user>Grüß Gott"
    read = templatefix("render", "chat.tmpl", "--request", "-", stdin=json.dumps(HELLO).encode())
    assert read.out == "<user>Grüß Gott"
    both = templatefix("render", "-", "--request", "-")
    assert both.code == 2
    assert both.err == "templatefix: the template and the request cannot both come from standard input\n"


@pytest.mark.parametrize(
    ("think", "prompt"),
    [(None, "medium"), (True, "medium"), (False, "no"), ("high", "high")],
)
def test_thinking_is_on_where_there_are_think_tags(templatefix: Any, alone: Path, think: Any, prompt: str) -> None:
    template = (
        "{{ range .Messages }}{{ if .Thinking }}<think>{{ .Thinking }}</think>{{ end }}{{ end }}"
        "{{ if .ThinkLevel }}{{ .ThinkLevel }}{{ else if .Think }}yes{{ else }}no{{ end }}"
    )
    request = {**HELLO, **({} if think is None else {"think": think})}
    assert templatefix(*files(alone, template, request)).out == prompt


def test_thinking_stays_off_without_think_tags(templatefix: Any, alone: Path) -> None:
    assert (
        templatefix(*files(alone, "{{ range .Messages }}{{ end }}{{ if $.Think }}yes{{ else }}no{{ end }}")).out == "no"
    )


def test_the_date(templatefix: Any, alone: Path) -> None:
    args = files(alone, "{{ currentDate }}{{ range .Messages }}{{ end }}")
    assert templatefix(*args, "--date", "2025-02-28").out == "2025-02-28"
    wrong = templatefix(*args, "--date", "yesterday")
    assert (wrong.code, wrong.err) == (2, "templatefix: --date takes a day such as 2026-11-29, not yesterday\n")


def test_pieces(templatefix: Any, alone: Path) -> None:
    template = (
        "Be brief.\n"
        '{{ range .Messages }}{{ if eq .Role "user" }}User: {{ .Content }}\n{{ end }}{{ end }}{{ json .Tools }}'
    )
    tools = [{"type": "function", "function": {"name": "look"}}]
    done = templatefix(*files(alone, template, {**HELLO, "tools": tools}), "--pieces")
    assert done.code == 0
    assert [line.split("  ")[0] for line in done.out.splitlines()[:5]] == ["bytes", "0-10", "10-16", "16-27", "27-28"]
    assert done.out.splitlines()[1:5] == [
        '0-10    1:1    template                   "Be brief.\\n"',
        '10-16   2:46   template, for messages[0]  "User: "',
        '16-27   2:52   messages[0].content        "Grüß Gott"',
        '27-28   2:66   template, for messages[0]  "\\n"',
    ]
    assert done.out.splitlines()[5].split()[1:3] == ["3:19", "tools"]
    assert done.out.splitlines()[-1].endswith(" bytes in 5 pieces")


def test_a_modelfile_is_rendered_by_its_template_and_faults_are_shown_in_the_file(
    templatefix: Any, alone: Path
) -> None:
    files(alone)
    (alone / "Modelfile").write_text(f'FROM base\nTEMPLATE """{CHAT}"""\n')
    assert templatefix("render", "Modelfile", "--request", "request.json").out == "<user>Grüß Gott"
    (alone / "Modelfile").write_text('FROM base\nTEMPLATE """hello\n{{ .Messages }\n"""\n')
    done = templatefix("render", "Modelfile", "--request", "request.json")
    assert done.code == 2
    assert done.err == (
        'templatefix: Modelfile:3:14: template: :2: unexpected "}" in operand\n'
        " 3 | {{ .Messages }\n"
        "   |              ^\n"
    )


def test_an_execution_that_fails_shows_the_place(templatefix: Any, alone: Path) -> None:
    done = templatefix(*files(alone, "{{ range .Messages }}\n{{ index .Content 99 }}{{ end }}"))
    assert (done.code, done.out) == (2, "")
    head, line, caret = done.err.splitlines()
    assert head.startswith("templatefix: chat.tmpl:2:4: template: :2:3: executing ")
    assert head.endswith("error calling index: index out of range: 99")
    assert line == " 2 | {{ index .Content 99 }}{{ end }}"
    assert caret.strip(" |") == "^" * len("index .Content 99")


@pytest.mark.parametrize(
    ("request_text", "sentence"),
    [
        ("{", "expecting property name enclosed in double quotes (column 2)"),
        ('{"messages": 3}', "messages must be an array, not a number"),
        ('{"messages": ["hello"]}', "messages[0] must be an object, not a string"),
        ('{"messages": [], "think": 7}', "think must be true, false or a level, not a number"),
        ('{"messages": [{"role": "user", "content": 5}]}', "content must be a string"),
        ("[]", "a request must be an object, not an array"),
        ('{"messages": [], "tools": NaN}', "NaN is no number"),
    ],
)
def test_requests_that_are_none(templatefix: Any, alone: Path, request_text: str, sentence: str) -> None:
    args = files(alone)
    (alone / "request.json").write_text(request_text)
    done = templatefix(*args)
    assert done.code == 2
    assert done.err.startswith("templatefix: request.json: ")
    assert sentence in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("render",), "render needs a TARGET and --request FILE, or --batch"),
        (("render", "chat.tmpl"), "render needs a TARGET and --request FILE, or --batch"),
        (("render", "none.tmpl", "--request", "request.json"), "there is no file none.tmpl"),
        (("render", "chat.tmpl", "--request", "none.json"), "there is no file none.json"),
        (("render", "chat.tmpl", "--request", "."), ". is a folder"),
        (
            ("render", "chat.tmpl", "--batch"),
            "--batch reads templates and requests from standard input, and takes no target",
        ),
    ],
)
def test_bad_usage(templatefix: Any, alone: Path, args: tuple[str, ...], sentence: str) -> None:
    files(alone)
    done = templatefix(*args)
    assert (done.code, done.out, done.err) == (2, "", f"templatefix: {sentence}\n")


# -- batch


def lines(*rows: Any) -> bytes:
    return b"".join(row if isinstance(row, bytes) else json.dumps(row).encode() + b"\n" for row in rows)


def test_batch_answers_in_order(templatefix: Any) -> None:
    stdin = lines(
        {"id": "b", "template": CHAT, **HELLO},
        {"id": 1, "template": "{{ if }}", **HELLO},
        {"id": [None], "template": "{{ range .Messages }}{{ .Nope }}{{ end }}", **HELLO},
        {"template": "{{ currentDate }}{{ range .Messages }}{{ end }}"},
    )
    done = templatefix("render", "--batch", "--date", "2026-11-29", stdin=stdin)
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[0] == '{"id":"b","ok":true,"output":"<user>Grüß Gott"}'
    second, third, fourth = map(json.loads, done.out.splitlines()[1:])
    assert second == {"id": 1, "ok": False, "stage": "parse", "error": "template: :1: missing value for if"}
    assert (third["id"], third["ok"], third["stage"]) == ([None], False, "exec")
    assert "can't evaluate field Nope" in third["error"]
    assert fourth == {"id": None, "ok": True, "output": "2026-11-29"}


def test_batch_takes_think_literally(templatefix: Any) -> None:
    template = "{{ range .Messages }}{{ if .Thinking }}<think>{{ .Thinking }}</think>{{ end }}{{ end }}{{ .Think }}"
    stdin = lines({"id": 1, "template": template}, {"id": 2, "template": template, "think": True})
    assert [json.loads(line)["output"] for line in templatefix("render", "--batch", stdin=stdin).out.splitlines()] == [
        "false",
        "true",
    ]


def test_batch_goes_on_behind_lines_that_cannot_be_read(templatefix: Any) -> None:
    stdin = lines(
        {"id": 1, "template": "a"},
        b"oops\n",
        b"\n",
        {"id": 2, "template": ["b"]},
        {"id": 3, "template": "{{ range .Messages }}{{ end }}", "messages": [{"role": "user", "content": 1}]},
        b'{"id":4,"template":"c"}',
    )
    done = templatefix("render", "--batch", stdin=stdin)
    assert done.code == 2
    assert [json.loads(line)["id"] for line in done.out.splitlines()] == [1, 4]
    problems = done.err.splitlines()
    assert problems[0] == "templatefix: line 2: not JSON: expecting value (column 1)"
    assert problems[1] == "templatefix: line 4: template must be a string"
    assert problems[2].startswith("templatefix: line 5: ")
    assert len(problems) == 3


def test_batch_knows_no_number_that_json_cannot_hold(templatefix: Any) -> None:
    long = b"9" * 5000
    stdin = b'{"id":1e999,"template":"a"}\n{"id":' + long + b',"template":"b"}\n{"id":1e3,"template":"c"}\n'
    done = templatefix("render", "--batch", stdin=stdin)
    assert (done.code, done.out) == (2, '{"id":1000.0,"ok":true,"output":"c"}\n')
    assert done.err.splitlines() == [
        "templatefix: line 1: not JSON: the number 1e999 is too large",
        f"templatefix: line 2: not JSON: the number {'9' * 20}\N{HORIZONTAL ELLIPSIS} is too large",
    ]


def test_batch_takes_a_byte_order_mark(templatefix: Any) -> None:
    done = templatefix("render", "--batch", stdin=b'\xef\xbb\xbf{"id":1,"template":"a"}\n')
    assert (done.code, done.out, done.err) == (0, '{"id":1,"ok":true,"output":"a"}\n', "")


def test_batch_writes_what_is_not_utf8_as_go_does(templatefix: Any) -> None:
    # Expected: a byte that belongs to no character is one U+FFFD in Go's encoding/json, read or written.
    halves = "{{ slice .Content 0 2 }}|{{ slice .Content 1 }}|{{ slice .Content 0 2 }}{{ slice .Content 2 }}"
    cut = f"{{{{ range .Messages }}}}{halves}{{{{ end }}}}"
    euro = {"messages": [{"role": "user", "content": "€"}]}
    stdin = lines(
        {"id": 1, "template": cut, **euro},
        b'{"id":2,"template":"{{ range .Messages }}{{ .Content }}{{ end }}",'
        b'"messages":[{"role":"user","content":"a\\ud83d \\ud83d\\ude00 \xe2\x82b"}]}\n',
    )
    outputs = [json.loads(line)["output"] for line in templatefix("render", "--batch", stdin=stdin).out.splitlines()]
    assert outputs == ["\ufffd\ufffd|\ufffd\ufffd|€", "a\ufffd \U0001f600 \ufffd\ufffdb"]


def test_batch_of_nothing(templatefix: Any) -> None:
    done = templatefix("render", "--batch")
    assert (done.code, done.out, done.err) == (0, "", "")


def test_a_batch_of_jinja_templates(templatefix: Any) -> None:
    user = {"role": "user", "content": "hi"}
    call = {"function": {"name": "look", "arguments": {"a": 1}}}
    turn = "[{{ m.content }}{{ (m.tool_calls or '') | tojson }}]"
    text = "{{ bos_token }}{% for m in messages %}" + turn + "{% endfor %}{{ eos_token }}"
    rows: list[dict[str, Any]] = [
        {"id": 1, "template": text, "messages": [user, {"role": "assistant", "tool_calls": [call]}, user]},
        {
            "id": 2,
            "template": "{% if messages | length > 1 %}{{ raise_exception('no') }}{% endif %}",
            "messages": [user, user],
        },
        {"id": "c", "template": "{% if %}", "messages": [user]},
        {"id": "d", "template": "{{ x.split() }}", "messages": [user]},
        {"id": "e", "template": "{{ date_string }}", "messages": [user]},
    ]
    data = "".join(json.dumps(row) + "\n" for row in rows)
    options = ("--bos", "<s>", "--eos", "</s>", "--date", "2026-11-29")
    done = templatefix("render", "--batch", "--kind", "jinja", *options, stdin=data.encode())
    assert (done.code, done.err) == (0, "")
    answers = [json.loads(line) for line in done.out.splitlines()]
    calls = '[{"type": "function", "function": {"name": "look", "arguments": {"a": 1}}, "id": "call00001"}]'
    assert answers == [
        {"id": 1, "ok": True, "output": f'<s>[hi""][{calls}][hi""]</s>'},
        {"id": 2, "ok": False, "stage": "render", "error": "Jinja Exception: no"},
        {"id": "c", "ok": False, "stage": "start", "error": "Expected an expression, got 'end of statement block'"},
        {"id": "d", "ok": False, "stage": "start", "error": "Callee is not a function: got Undefined (hint: 'split')"},
        {"id": "e", "ok": True, "output": "29 Nov 2026"},
    ]
