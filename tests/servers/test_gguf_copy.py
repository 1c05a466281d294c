"""Copies of GGUF files with another chat template."""

from __future__ import annotations

from pathlib import Path

import pytest

from templatefix.servers.gguf import Field, GgufError, Kind, Tensor, gguf_bytes, layout_of, read_metadata
from templatefix.servers.gguf_copy import copy_with_template

FIELDS = {
    "general.architecture": Field(Kind.STRING, "llama"),
    "tokenizer.ggml.tokens": Field(Kind.ARRAY, ["<s>", "a", "ä"], Kind.STRING),
    "tokenizer.chat_template": Field(Kind.STRING, "{{ messages }}"),
    "tokenizer.ggml.bos_token_id": Field(Kind.UINT32, 0),
}
TENSORS = [Tensor("one", (4, 2), 0, bytes(range(32))), Tensor("two", (3,), 0, b"\7" * 12)]


@pytest.fixture
def original(tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf_bytes(FIELDS, TENSORS))
    return path


@pytest.mark.parametrize("template", ["{{ x }}", "a much longer template, with an ä and a line\nbreak" * 9, "{}"])
def test_the_copy_is_the_file_that_would_have_been_made_with_the_new_template(original: Path, template: str) -> None:
    target = original.with_name("copy.gguf")
    before = original.read_bytes()
    report = copy_with_template(original, target, template)
    wanted = {**FIELDS, "tokenizer.chat_template": Field(Kind.STRING, template)}
    assert target.read_bytes() == gguf_bytes(wanted, TENSORS)
    assert original.read_bytes() == before
    assert (report.tensors, report.key) == (2, "tokenizer.chat_template")
    assert [path.name for path in original.parent.iterdir() if path.name.startswith(".")] == []


def test_another_alignment_is_kept(tmp_path: Path) -> None:
    path, target = tmp_path / "wide.gguf", tmp_path / "copy.gguf"
    data = gguf_bytes({**FIELDS, "general.alignment": Field(Kind.UINT32, 64)}, TENSORS)
    path.write_bytes(data)
    layout = layout_of(path, "tokenizer.chat_template")
    if layout.data != -(-layout.head // 32) * 32:  # the writer of the tests knows 32 alone
        path.write_bytes(data[: layout.head] + bytes(layout.data - layout.head) + data[-(-layout.head // 32) * 32 :])
    tensors = path.read_bytes()[layout.data :]
    copy_with_template(path, target, "{{ a longer one }}" * 5)
    after = layout_of(target, "tokenizer.chat_template")
    assert after.data % 64 == 0
    assert target.read_bytes()[after.data :] == tensors


def test_the_template_for_tools_is_the_one_that_is_replaced(tmp_path: Path) -> None:
    path, target = tmp_path / "named.gguf", tmp_path / "copy.gguf"
    path.write_bytes(gguf_bytes({**FIELDS, "tokenizer.chat_template.tool_use": Field(Kind.STRING, "t")}, TENSORS))
    copy_with_template(path, target, "new")
    found = read_metadata(target, lambda key: key.startswith("tokenizer.chat_template"))
    assert found == {"tokenizer.chat_template": "{{ messages }}", "tokenizer.chat_template.tool_use": "new"}


def test_the_file_itself_is_never_written(original: Path) -> None:
    link = original.with_name("link.gguf")
    link.symlink_to(original)
    before = original.read_bytes()
    for target in (original, link):
        with pytest.raises(GgufError, match="is the file itself"):
            copy_with_template(original, target, "new", force=True)
    assert original.read_bytes() == before


def test_a_file_that_exists_is_replaced_only_by_force(original: Path) -> None:
    target = original.with_name("copy.gguf")
    target.write_bytes(b"mine")
    with pytest.raises(FileExistsError):
        copy_with_template(original, target, "new")
    assert target.read_bytes() == b"mine"
    copy_with_template(original, target, "new", force=True)
    assert target.read_bytes().startswith(b"GGUF")


@pytest.mark.parametrize("size", [40, 200])
def test_a_header_that_is_cut_leaves_nothing_behind(original: Path, size: int) -> None:
    original.write_bytes(original.read_bytes()[:size])
    target = original.with_name("copy.gguf")
    with pytest.raises(GgufError):
        copy_with_template(original, target, "new")
    assert [path.name for path in original.parent.iterdir()] == ["model.gguf"]
