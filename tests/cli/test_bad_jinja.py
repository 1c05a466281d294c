"""Jinja templates and their places as people have them, bad ones among them: each gets its plain sentence."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from support.quiet_http import serving

from templatefix.servers.gguf import Field, Kind, Tensor, gguf_bytes, read_metadata

MOVING = (
    "{% for m in messages %}{% if loop.last and tools %}{{ tools | tojson }}{% endif %}<{{ m.role }}>{{ m.content }}"
    "{% for c in m.tool_calls or [] %}{{ c.function | tojson }}{% endfor %}\n{% endfor %}"
)
CALLS = '{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}{"name": "{{ c.function.name }}", '
NO_JSON = CALLS + '"arguments": {{ c.function.arguments }}}{% endfor %}{% endfor %}'
TENSORS = [Tensor("one", (8,), 0, bytes(range(32)))]
REQUEST = json.dumps({"messages": [{"role": "user", "content": "Hello?"}]})


def text(value: str) -> Field:
    return Field(Kind.STRING, value)


def part(number: int, count: int) -> dict[str, Field]:
    return {"split.no": Field(Kind.UINT16, number), "split.count": Field(Kind.UINT16, count)}


def gguf(fields: dict[str, Field]) -> bytes:
    return gguf_bytes({"general.architecture": text("llama"), **fields}, TENSORS)


def template(value: str) -> dict[str, Field]:
    return {"tokenizer.chat_template": text(value)}


NAMED = {
    **template("{{ messages }}"),
    "tokenizer.chat_template.tool_use": text(MOVING),
    "tokenizer.chat_template.rag": text("{{ documents }}"),
}

# name, bytes, verdict, and how the reason begins
FILES = [
    ("moving.gguf", gguf(template(MOVING)), "unstable", ""),
    ("named.gguf", gguf(NAMED), "unstable", ""),  # a server takes the one for tools
    (
        "rag.gguf",
        gguf({"tokenizer.chat_template.rag": text("x")}),
        "not-evaluated",
        "rag.gguf has no chat template but",
    ),
    ("none.gguf", gguf({}), "not-evaluated", "none.gguf has no chat template"),
    ("blank.gguf", gguf(template(" \n")), "not-evaluated", "blank.gguf has no chat template"),
    ("number.gguf", gguf({"tokenizer.chat_template": Field(Kind.UINT32, 7)}), "not-evaluated", "number.gguf has no"),
    (
        "large.gguf",
        gguf(template("x" * (10 << 20))),
        "not-evaluated",
        "the chat template of large.gguf has more than 4",
    ),
    ("cut.gguf", gguf(template(MOVING))[:99], "not-evaluated", "The header of cut.gguf is cut short"),
    ("start.gguf", b"GGUF", "not-evaluated", "The header of start.gguf is cut short"),
    ("old.gguf", b"GGUF\1\0\0\0" + bytes(16), "not-evaluated", "The header of old.gguf is damaged: version 1 is not"),
    ("empty.gguf", b"", "not-evaluated", "empty.gguf is not a GGUF file"),
    ("words.gguf", b"not at all", "not-evaluated", "words.gguf is not a GGUF file"),
    ("m-00001-of-00002.gguf", gguf({**template(MOVING), **part(0, 2)}), "unstable", ""),
    ("m-00002-of-00002.gguf", gguf(part(1, 2)), "not-evaluated", "m-00002-of-00002.gguf is part 2 of 2 of a model"),
    ("go.gguf", gguf(template("{{ .Messages }}")), "not-evaluated", "go.gguf:1:1: unexpected '.'"),
    ("raises.jinja", b"{{ raise_exception('Not today.') }}", "not-evaluated", "llama-server does not start with the"),
    ("unparsed.jinja", b"a\n{% if %}", "not-evaluated", "unparsed.jinja:2:1: Expected an expression"),
    ("no-json.jinja", NO_JSON.encode(), "not-evaluated", "llama-server does not start with the template: Unable to"),
    ("empty.jinja", b"", "not-evaluated", "empty.jinja is empty"),
]


@pytest.fixture
def folder(alone: Path) -> Path:
    """A folder with all of them."""
    for name, data, _, _ in FILES:
        (alone / name).write_bytes(data)
    (alone / "request.json").write_text(REQUEST)
    return alone


def test_each_has_its_own_verdict_in_one_call(templatefix: Any, folder: Path) -> None:
    done = templatefix("check", "--format", "json", *[row[0] for row in FILES])
    results = json.loads(done.out)["results"]
    assert done.code == 2
    assert [(found["target"], found["verdict"]) for found in results] == [(row[0], row[2]) for row in FILES]
    for found, (_, _, _, reason) in zip(results, FILES, strict=True):
        assert (found["reason"] or "").startswith(reason), found["target"]
    kinds = {found["target"]: found["kind"] for found in results}
    assert [kinds[name] for name in ("moving.gguf", "go.gguf", "raises.jinja", "unparsed.jinja")] == ["jinja"] * 4
    told = [line for line in done.err.splitlines() if line.startswith("templatefix: ")]
    assert len(told) == sum(row[2] == "not-evaluated" for row in FILES)
    assert "Traceback" not in done.err


@pytest.mark.parametrize("name", [row[0] for row in FILES if row[2] == "not-evaluated"])
def test_nothing_is_rendered_that_a_server_would_not_start_with(templatefix: Any, folder: Path, name: str) -> None:
    done = templatefix("render", name, "--request", "request.json")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("templatefix: ")


def test_a_part_of_a_model_is_not_copied(templatefix: Any, folder: Path) -> None:
    done = templatefix("patch", "m-00001-of-00002.gguf", "--gguf", "out.gguf")
    assert done.code == 2
    assert "m-00001-of-00002.gguf is part 1 of 2, and a part cannot be copied alone" in done.err
    assert not (folder / "out.gguf").exists()
    done = templatefix("patch", "m-00001-of-00002.gguf", "-o", "out.jinja")
    assert (done.code, done.err) == (0, "")
    assert "llama-server -m m-00001-of-00002.gguf --jinja --chat-template-file out.jinja" in done.out


def test_of_several_named_templates_the_one_for_tools_is_replaced(templatefix: Any, folder: Path) -> None:
    assert templatefix("patch", "named.gguf", "--gguf", "out.gguf").code == 0
    before, after = (read_metadata(folder / name, lambda key: "template" in key) for name in ("named.gguf", "out.gguf"))
    assert {key for key in before if before[key] != after[key]} == {"tokenizer.chat_template.tool_use"}


def test_a_file_without_its_tensors_is_not_copied(templatefix: Any, folder: Path) -> None:
    whole = (folder / "moving.gguf").read_bytes()
    (folder / "short.gguf").write_bytes(whole[: -len(TENSORS[0].data)])
    done = templatefix("patch", "short.gguf", "--gguf", "out.gguf")
    assert (done.code, done.err) == (2, "templatefix: short.gguf is cut short: tensors are missing\n")
    assert not (folder / "out.gguf").exists()


@contextmanager
def showing(answers: dict[str, tuple[int, Any]]) -> Iterator[str]:
    """A server with an answer for each path and query; to all else it says what llama-server says."""

    missing = (404, {"error": {"code": 404, "message": "File Not Found", "type": "not_found_error"}})

    def answer(path: str) -> tuple[int, bytes]:
        parts = urlsplit(path)
        status, value = answers.get(f"{parts.path}?{parts.query}".rstrip("?"), missing)
        return status, json.dumps(value).encode()

    with serving(answer) as url:
        yield url


def complaint(templatefix: Any, target: str) -> str:
    done = templatefix("check", target)
    assert done.code == 2
    first, _, rest = done.err.partition("\n")
    assert rest == ""
    return str(first.removeprefix("templatefix: "))


ROUTER = (200, {"role": "router", "model_path": "none", "build_info": "b1"})
MODELS = (200, {"data": [{"id": "owl"}, {"id": "wren/small"}]})


def test_a_router_has_no_template_of_its_own(templatefix: Any, alone: Path) -> None:
    with showing({"/props": ROUTER, "/v1/models": MODELS}) as url:
        assert complaint(templatefix, url) == (
            f"{url} is a router, which has no template of its own; name one of its models, as in {url}?model=owl "
            "(owl, wren/small)"
        )
    with showing({"/props": ROUTER, "/v1/models": (200, {"data": []})}) as url:
        assert complaint(templatefix, url) == f"{url} is a router, which has no template of its own"


def test_a_model_behind_a_router(templatefix: Any, alone: Path) -> None:
    missing = (404, {"error": {"message": "model 'crow' not found"}})
    answers = {"/props": ROUTER, "/props?model=wren%2Fsmall": (200, {"chat_template": MOVING, "bos_token": "<s>"})}
    with showing({**answers, "/props?model=crow": missing}) as url:
        done = templatefix("check", f"{url}?model=wren/small", "--format", "json")
        (found,) = json.loads(done.out)["results"]
        assert (done.code, found["kind"], found["verdict"]) == (1, "jinja", "unstable")
        assert complaint(templatefix, f"{url}?model=crow") == f"{url} says: model 'crow' not found"


def test_a_server_without_properties(templatefix: Any, alone: Path) -> None:
    with showing({}) as url:
        assert complaint(templatefix, url) == f"{url} has no /props, where a llama-server shows its template"
    with showing({"/props": (200, {"chat_template": ""})}) as url:
        assert complaint(templatefix, url) == f"{url} shows no chat template"
    with showing({"/props": (401, {"error": {"message": "Invalid API Key"}})}) as url:
        assert complaint(templatefix, url) == f"{url} says: Invalid API Key"
    assert complaint(templatefix, url).startswith(f"no llama.cpp server answers at {url}")


def test_jinja_that_is_taken_for_go_is_told_apart(templatefix: Any) -> None:
    done = templatefix("check", "-", stdin=b"{% for m in messages %}{{ m.content }}{% endfor %}")
    assert done.code == 2
    assert "(a Jinja template is read with --as jinja)" in done.err
    assert templatefix("check", "--as", "jinja", "-", stdin=MOVING.encode()).code == 1


@pytest.mark.parametrize("command", ["check", "patch"])
def test_a_number_with_thousands_of_digits(templatefix: Any, alone: Path, command: str) -> None:
    (alone / "long.jinja").write_text("a\n{{ " + "9" * 5000 + " }}")
    done = templatefix(command, "long.jinja")
    assert done.code == 2
    assert "template: more than 300 digits of a number" in done.out + done.err
    assert "fault in templatefix" not in done.err
