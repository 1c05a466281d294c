"""What a target is, how it is read, and what is refused with which sentence."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from support.agent import CHANGED, PLAIN
from support.ollama_server import OllamaServer

from templatefix.gotemplate.source import Position
from templatefix.servers.errors import ModelNotFound, ServerUnreachable
from templatefix.servers.gguf import Field, Kind, gguf_bytes
from templatefix.servers.jinja_source import JinjaSource
from templatefix.servers.ollama import OllamaClient
from templatefix.servers.targets import LIMIT, TargetError, resolve


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refusal(target: str, kind: str | None = None, stdin: bytes = b"") -> str:
    with pytest.raises(TargetError) as caught:
        resolve(target, kind, stdin=io.BytesIO(stdin))
    return str(caught.value)


@pytest.mark.parametrize("text", [PLAIN, "\ufeff{{ .Prompt }}\r\n", "{{ .Prompt }}"])
def test_a_go_template_is_taken_as_it_is(here: Path, text: str) -> None:
    (here / "t.gotmpl").write_bytes(text.encode())
    target = resolve("t.gotmpl")
    assert (target.name, target.kind, target.path) == ("t.gotmpl", "go", Path("t.gotmpl"))
    assert target.source.text == text
    assert target.written(CHANGED) == CHANGED.encode()
    assert target.not_in_force() is None


def test_bytes_that_are_not_utf_8_come_out_as_they_went_in(here: Path) -> None:
    (here / "t").write_bytes(b"a\xff{{ .Prompt }}")
    target = resolve("t")
    assert target.written(target.source.text) == b"a\xff{{ .Prompt }}"


def test_standard_input_is_a_go_template() -> None:
    target = resolve("-", stdin=io.BytesIO(b"FROM {{ .Prompt }}"))
    assert (target.name, target.kind, target.path) == ("standard input", "go", None)
    assert target.source.text == "FROM {{ .Prompt }}"


def test_a_modelfile_is_written_as_one(here: Path) -> None:
    text = '# mine\nFROM m\nTEMPLATE """one\n{{ .X }}"""\nPARAMETER stop "x"\n'
    (here / "Modelfile").write_text(text)
    target = resolve("Modelfile")
    assert (target.kind, target.source.text) == ("modelfile", "one\n{{ .X }}")
    assert target.position(4) == Position(4, 1, 30)
    assert target.written("two").decode() == text.replace("one\n{{ .X }}", "two")
    with pytest.raises(TargetError, match=r'^Modelfile: a Modelfile cannot hold this template: it contains """'):
        target.written('a"""b')


def test_a_modelfile_with_a_renderer_is_not_in_force(here: Path) -> None:
    (here / "Modelfile").write_text("FROM m\nTEMPLATE x\nRENDERER qwen3-coder\n")
    assert resolve("Modelfile").not_in_force() == (
        "Modelfile has RENDERER qwen3-coder: the server would ignore its TEMPLATE"
    )


def test_a_path_wins_over_a_model_and_as_settles_it(here: Path, server: OllamaServer, client: OllamaClient) -> None:
    (here / "owl:1").write_text("of the file")
    server.store.add("owl:1", PLAIN)
    assert resolve("owl:1", client=lambda: client).source.text == "of the file"
    target = resolve("owl:1", "model", client=lambda: client)
    assert (target.kind, target.source.text, target.path) == ("model", PLAIN, None)
    assert target.shown is not None
    assert target.position(0) == Position(1, 1, 0)


def test_a_model_that_is_not_there_is_no_file_either(server: OllamaServer, client: OllamaClient) -> None:
    with pytest.raises(ModelNotFound) as caught:
        resolve("owl:1", client=lambda: client)
    assert str(caught.value) == f"owl:1: there is no model owl:1 on {server.url}, and there is no such file"


def test_without_a_server_the_sentence_says_so() -> None:
    with pytest.raises(ServerUnreachable) as caught:
        resolve("owl:1", client=lambda: OllamaClient("127.0.0.1:1"))
    assert str(caught.value) == ("owl:1: no Ollama server answers at http://127.0.0.1:1, and there is no such file")


@pytest.mark.parametrize(
    ("name", "data", "kind", "sentence"),
    [
        ("t", b"", None, "t is empty"),
        ("t", b" \r\n\t", None, "t is empty"),
        ("t", b"a\0b", None, "t is not text: it has NUL bytes"),
        ("t", "x{{".encode("utf-16"), None, "t is UTF-16 text; a Go template is UTF-8"),
        ("t", b"GGUF\x03\0\0\0", None, "The header of t is cut short"),
        ("t", b"{{ x }}", "gguf", "t is not a GGUF file"),
        ("t", gguf_bytes({"a.b": Field(Kind.UINT32, 1)}, ()), None, "t has no chat template"),
        ("t.jinja", b" ", None, "t.jinja is empty"),
        ("t.jinja", "{{ x }}".encode("utf-16"), None, "t.jinja is UTF-16 text; a Jinja template is UTF-8"),
        ("tokenizer_config.json", b"{", None, "tokenizer_config.json is not JSON"),
        ("tokenizer_config.json", b"[]", None, "tokenizer_config.json has no chat_template"),
        (
            "chat_template.json",
            b'{"chat_template": [{"name": "rag"}]}',
            None,
            "chat_template.json has no chat_template",
        ),
        ("t", b"x" * (LIMIT + 1), None, "t has more than 4 MB, which is no chat template"),
        ("Modelfile", b"SYSTEM x\n", None, "Modelfile: there is no FROM line"),
        (
            "Modelfile",
            b'FROM m\nTEMPLATE """\n',
            None,
            'Modelfile:2:10: the value opened with """ here is never closed at a line\'s end',
        ),
        ("Modelfile", b"FROM owl\n", None, "Modelfile has no TEMPLATE; its template is that of its FROM owl"),
        (
            "t",
            b"{{ x }}",
            "modelfile",
            "t:1:1: expected an instruction (one of ADAPTER, DRAFT, FROM, LICENSE, MESSAGE, "
            "PARAMETER, PARSER, RENDERER, REQUIRES, SYSTEM, TEMPLATE) and a blank behind it",
        ),
        ("t", b"x", "pdf", "--as takes one of model, go, jinja, modelfile, gguf, not pdf"),
    ],
)
def test_what_cannot_be_read(here: Path, name: str, data: bytes, kind: str | None, sentence: str) -> None:
    (here / name).write_bytes(data)
    assert refusal(name, kind) == sentence


def test_a_jinja_file_knows_its_tokens_from_the_file_beside_it(here: Path) -> None:
    (here / "chat_template.jinja").write_text("{{ messages }}")
    (here / "tokenizer_config.json").write_text('{"bos_token": {"content": "<s>"}, "eos_token": "</s>"}')
    target = resolve("chat_template.jinja")
    assert (target.kind, target.source.text) == ("jinja", "{{ messages }}")
    assert target.jinja is not None
    assert (target.jinja.bos, target.jinja.eos) == ("<s>", "</s>")


def test_of_several_named_templates_the_one_for_tools(here: Path) -> None:
    rows = '[{"name": "default", "template": "a"}, {"name": "tool_use", "template": "b"}]'
    (here / "tokenizer_config.json").write_text(f'{{"chat_template": {rows}, "eos_token": null}}')
    target = resolve("tokenizer_config.json")
    assert (target.source.text, target.jinja) == ("b", JinjaSource("b"))


def test_the_header_of_a_gguf_file(here: Path) -> None:
    fields = {
        "general.architecture": Field(Kind.STRING, "gemma3"),
        "gemma3.attention.sliding_window": Field(Kind.UINT32, 512),
        "tokenizer.ggml.tokens": Field(Kind.ARRAY, ["<pad>", "<bos>", "<eos>"], Kind.STRING),
        "tokenizer.ggml.bos_token_id": Field(Kind.UINT32, 1),
        "tokenizer.ggml.eos_token_id": Field(Kind.UINT32, 7),
        "tokenizer.chat_template": Field(Kind.STRING, "{{ messages }}"),
    }
    (here / "model").write_bytes(gguf_bytes(fields, ()))
    target = resolve("model")
    assert (target.kind, target.source.text) == ("gguf", "{{ messages }}")
    assert target.jinja == JinjaSource("{{ messages }}", "<bos>", "", None, "swa")


@pytest.mark.parametrize(
    ("target", "kind", "sentence"),
    [
        ("./none", None, "there is no file ./none"),
        ("none.tmpl", None, "there is no file none.tmpl"),
        ("owl:1", "go", "there is no file owl:1"),
        (
            "registry:Bad Name!",
            None,
            "registry:Bad Name!: 'Bad Name!' is not a model name: its model 'Bad Name!' cannot be used",
        ),
        (
            "what is this",
            None,
            "'what is this' is not a model name: its model 'what is this' cannot be used, and there is no such file",
        ),
        ("-", None, "standard input is empty"),
    ],
)
def test_what_is_not_there(target: str, kind: str | None, sentence: str) -> None:
    assert refusal(target, kind) == sentence


def test_a_folder_is_no_template(here: Path) -> None:
    (here / "folder").mkdir()
    assert refusal("folder") == "folder is a folder, not a template"


def test_a_utf_16_modelfile_is_read(here: Path) -> None:
    (here / "m.txt").write_bytes("FROM m\r\nTEMPLATE é\r\n".encode("utf-16"))
    target = resolve("m.txt")
    assert (target.kind, target.source.text) == ("modelfile", "é")
    assert target.written("ü") == "FROM m\r\nTEMPLATE ü\r\n".encode("utf-16")
