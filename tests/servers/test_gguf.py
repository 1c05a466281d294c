"""GGUF headers and files, held against the `gguf` package."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import gguf
import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from templatefix.servers.gguf import Field, GgufError, Kind, Tensor, gguf_bytes, read_metadata

FIELDS = {
    "general.architecture": Field(Kind.STRING, "llama"),
    "a.number": Field(Kind.UINT32, 7),
    "a.big": Field(Kind.UINT64, 2**40),
    "a.flag": Field(Kind.BOOL, True),
    "a.float": Field(Kind.FLOAT32, 0.5),
    "tokenizer.ggml.tokens": Field(Kind.ARRAY, ["a", "Ġü", "🦀", ""], Kind.STRING),
    "tokenizer.ggml.scores": Field(Kind.ARRAY, [0.0, -1.5, 2.0, 3.0], Kind.FLOAT32),
    "tokenizer.ggml.token_type": Field(Kind.ARRAY, [1, 1, 3, -1], Kind.INT32),
}
TENSORS = [
    Tensor("one", (3,), 0, struct.pack("<3f", 1.0, 2.0, 3.0)),
    Tensor("two", (2, 3), 0, struct.pack("<6f", 1, 2, 3, 4, 5, 6)),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "model.gguf"
    file.write_bytes(gguf_bytes(FIELDS, TENSORS))
    return file


def test_the_gguf_package_reads_what_is_written(path: Path) -> None:
    reader = gguf.GGUFReader(path)
    for key, field in FIELDS.items():
        assert reader.get_field(key).contents() == field.value
    shapes = {tensor.name: tuple(map(int, tensor.shape)) for tensor in reader.tensors}
    assert shapes == {"one": (3,), "two": (2, 3)}
    assert [tensor.data.tolist() for tensor in reader.tensors] == [[1, 2, 3], [[1, 2], [3, 4], [5, 6]]]


def test_what_the_gguf_package_writes_is_read(tmp_path: Path) -> None:
    path = tmp_path / "theirs.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(["a", "b", "ü"])
    writer.add_token_types([1, 3, 1])
    writer.add_bos_token_id(1)
    writer.add_add_bos_token(False)
    writer.add_tensor("t", numpy.ones((2, 2), dtype=numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert read_metadata(path, lambda key: key.startswith("tokenizer.")) == {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": ["a", "b", "ü"],
        "tokenizer.ggml.token_type": [1, 3, 1],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.add_bos_token": False,
    }


def test_the_header_is_enough(path: Path) -> None:
    data = path.read_bytes()
    body = data.index(struct.pack("<3f", 1.0, 2.0, 3.0))
    path.write_bytes(data[:body])
    assert read_metadata(path, lambda key: key == "a.number") == {"a.number": 7}


def test_every_cut_is_said(path: Path) -> None:
    data = path.read_bytes()
    end_of_fields = data.index(struct.pack("<Q", 3) + b"one")
    for size in range(4, end_of_fields):
        path.write_bytes(data[:size])
        with pytest.raises(GgufError, match=r"^The header of .* is cut short\.$"):
            read_metadata(path, lambda key: True)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "is not a GGUF file."),
        (b"{{ .Prompt }}", "is not a GGUF file."),
        (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "version 1 is not known"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "version 50331648 is not known"),
        (b"GGUF" + struct.pack("<IQQQ1sI", 3, 0, 1, 1, b"k", 99), "unknown type 99"),
        (b"GGUF" + struct.pack("<IQQQ1sIIQ", 3, 0, 1, 1, b"k", 9, 9, 1), "array of arrays"),
        (b"GGUF" + struct.pack("<IQQQ1sIIQ", 3, 0, 1, 1, b"k", 9, 0, 2**62), "cut short"),
        (b"GGUF" + struct.pack("<IQQQ1sIIQ", 3, 0, 1, 1, b"k", 9, 8, 2**62), "cut short"),
        (b"GGUF" + struct.pack("<IQQQ1sIQ", 3, 0, 1, 1, b"k", 8, 2**63), "cut short"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**63), "cut short"),
    ],
)
def test_damaged_files(tmp_path: Path, data: bytes, sentence: str) -> None:
    path = tmp_path / "bad"
    path.write_bytes(data)
    with pytest.raises(GgufError) as caught:
        read_metadata(path, lambda key: True)
    assert sentence in str(caught.value)


def _values() -> st.SearchStrategy[Field]:
    text = st.text(st.characters(codec="utf-8") | st.sampled_from("\udc80\udcff"))
    floats = st.floats(width=32, allow_nan=False)
    return st.one_of(
        text.map(lambda value: Field(Kind.STRING, value)),
        st.integers(0, 2**32 - 1).map(lambda value: Field(Kind.UINT32, value)),
        st.integers(-(2**63), 2**63 - 1).map(lambda value: Field(Kind.INT64, value)),
        st.booleans().map(lambda value: Field(Kind.BOOL, value)),
        floats.map(lambda value: Field(Kind.FLOAT32, value)),
        st.lists(text).map(lambda value: Field(Kind.ARRAY, value, Kind.STRING)),
        st.lists(floats).map(lambda value: Field(Kind.ARRAY, value, Kind.FLOAT32)),
        st.lists(st.integers(0, 255)).map(lambda value: Field(Kind.ARRAY, value, Kind.UINT8)),
    )


@given(st.dictionaries(st.text(st.characters(codec="utf-8"), min_size=1), _values(), max_size=6))
def test_metadata_comes_back(tmp_path_factory: pytest.TempPathFactory, fields: dict[str, Field]) -> None:
    path = tmp_path_factory.getbasetemp() / "round.gguf"
    path.write_bytes(gguf_bytes(fields, []))
    found: dict[str, Any] = read_metadata(path, lambda key: True)
    assert found == {key: field.value for key, field in fields.items()}


def test_tensor_data_is_aligned() -> None:
    data = gguf_bytes({}, [Tensor("a", (1,), 0, b"\1\2\3\4"), Tensor("b", (1,), 0, b"\5\6\7\x08")])
    assert data.index(b"\1\2\3\4") % 32 == 0
    assert data.index(b"\5\6\7\x08") - data.index(b"\1\2\3\4") == 32
