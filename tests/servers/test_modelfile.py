"""Modelfiles: what Ollama reads in them, and that only the TEMPLATE value changes.

The values expected here are what the reader in Ollama's source gives for these files.
"""

from __future__ import annotations

import string

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from templatefix.gotemplate.source import Position
from templatefix.servers.modelfile import Modelfile, ModelfileError, looks_like_modelfile, unholdable


def read(text: str) -> list[tuple[str, str, str]]:
    return [(found.name, found.key, found.value) for found in Modelfile.from_bytes(text.encode()).instructions]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FROM m", [("from", "", "m")]),
        ("from m\n", [("from", "", "m")]),
        ("FrOm\tm  \n", [("from", "", "m")]),
        ("# TEMPLATE no\nFROM m # no comment\n", [("from", "", "m # no comment")]),
        ("FROM m\nTEMPLATE one line {{ .X }}\n", [("from", "", "m"), ("template", "", "one line {{ .X }}")]),
        ('FROM m\nTEMPLATE "quoted" \n', [("from", "", "m"), ("template", "", "quoted")]),
        ('FROM m\nTEMPLATE "a" b\nc"\n', [("from", "", "m"), ("template", "", 'a" b\nc')]),
        ('FROM m\nTEMPLATE """a\n "b" \n\n"""\n', [("from", "", "m"), ("template", "", 'a\n "b" \n\n')]),
        ('FROM m\nTEMPLATE """a"""" \n', [("from", "", "m"), ("template", "", 'a"')]),
        ('FROM m\nTEMPLATE """"""\n', [("from", "", "m"), ("template", "", "")]),
        ('FROM m\nTEMPLATE """""\n"""', [("from", "", "m"), ("template", "", '""\n')]),
        ('FROM m\nTEMPLATE """a\r\nb"""\r\n', [("from", "", "m"), ("template", "", "a\r\nb")]),
        ('FROM m\nTEMPLATE   """a\tb"""', [("from", "", "m"), ("template", "", "a\tb")]),
        ("FROM m\nTEMPLATE \nSYSTEM s", [("from", "", "m"), ("template", "", ""), ("system", "", "s")]),
        ("FROM m\nTEMPLATE a\u200bb\u00a0c\n", [("from", "", "m"), ("template", "", "abc")]),
        ("FROM m\nTEMPLATE 'a'\n", [("from", "", "m"), ("template", "", "'a'")]),
        ("FROM m\nPARAMETER stop <x> \n", [("from", "", "m"), ("parameter", "stop", "<x>")]),
        ('FROM m\nMESSAGE user """hi\nyou"""\n', [("from", "", "m"), ("message", "user", "hi\nyou")]),
        ("\ufeffFROM m\n", [("from", "", "m")]),
        ("FROM m\rSYSTEM s\r", [("from", "", "m"), ("system", "", "s")]),
        ("FROM m\n\u200bSYSTEM s", [("from", "", "m"), ("system", "", "s")]),
    ],
)
def test_reading(text: str, expected: list[tuple[str, str, str]]) -> None:
    assert read(text) == expected


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_a_byte_order_mark_announces_utf_16(encoding: str) -> None:
    mark = "\ufeff".encode(encoding)
    data = mark + 'FROM m\nTEMPLATE """é😀"""\n'.encode(encoding)
    modelfile = Modelfile.from_bytes(data)
    assert modelfile.template is not None
    assert modelfile.template.value == "é😀"
    assert modelfile.data == data
    assert modelfile.with_template("ü").data == mark + 'FROM m\nTEMPLATE """ü"""\n'.encode(encoding)


def test_invalid_bytes_are_read_as_go_reads_them_and_written_as_they_were() -> None:
    data = b"FROM m\nSYSTEM a\xff\xe2\x82b\nTEMPLATE x\n"
    modelfile = Modelfile.from_bytes(data)
    assert modelfile.instructions[1].value == "a\ufffd\ufffdb"
    assert modelfile.with_template("y").data == b"FROM m\nSYSTEM a\xff\xe2\x82b\nTEMPLATE y\n"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("TEMPLATE x\n", "F: there is no FROM line"),
        ("", "F: there is no FROM line"),
        ('FROM m\n\nTEMPLATE """a\n', 'F:3:10: the value opened with """ here is never closed at a line\'s end'),
        ('FROM m\nSYSTEM "a\n', "F:2:8: the value opened with \" here is never closed at a line's end"),
        ("FROM m\nMESSAGE robot x\n", "F:2:9: a MESSAGE begins with its role: system, user or assistant"),
        ("FROM m\nPARAMETER stop\n", "F:2:11: a PARAMETER has a name and a value"),
    ],
)
def test_refusals_name_the_place(text: str, sentence: str) -> None:
    with pytest.raises(ModelfileError) as caught:
        Modelfile.from_bytes(text.encode(), "F")
    assert str(caught.value) == sentence


@pytest.mark.parametrize("line", ["FROM", "NOPE x", "1FROM x", "TEMPLATE", '"""'])
def test_a_line_that_is_no_instruction_is_refused(line: str) -> None:
    with pytest.raises(ModelfileError, match=r"^F:2:1: expected an instruction \(one of ADAPTER, DRAFT, FROM, "):
        Modelfile.from_bytes(f"FROM m\n{line}\n".encode(), "F")


def test_only_the_value_changes() -> None:
    text = '# é\r\nfrom m\r\n\r\nTemplate   """old"""  \r\n\tPARAMETER stop "x" \r\nSYSTEM """a\r\n"""'
    new = Modelfile.from_bytes(text.encode()).with_template("{{ .New }}\n")
    assert new.data.decode() == text.replace("old", "{{ .New }}\n")


def test_the_last_template_is_the_one_that_counts_and_changes() -> None:
    modelfile = Modelfile.from_bytes(b"FROM m\nTEMPLATE one\nTEMPLATE two\n")
    assert modelfile.template is not None
    assert modelfile.template.value == "two"
    assert modelfile.with_template("three").data == b"FROM m\nTEMPLATE one\nTEMPLATE three\n"


def test_a_value_gets_the_quotes_it_needs() -> None:
    modelfile = Modelfile.from_bytes(b"FROM m\nTEMPLATE one\nSYSTEM s\n")
    assert modelfile.with_template(" two\n").data == b'FROM m\nTEMPLATE """ two\n"""\nSYSTEM s\n'
    quoted = Modelfile.from_bytes(b'FROM m\nTEMPLATE "one"\n')
    assert quoted.with_template("a\nb").data == b'FROM m\nTEMPLATE "a\nb"\n'
    assert quoted.with_template('a"\nb').data == b'FROM m\nTEMPLATE """a"\nb"""\n'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FROM m\n", 'FROM m\nTEMPLATE """x"""\n'),
        ("FROM m", 'FROM m\nTEMPLATE """x"""\n'),
        ("FROM m\r\nSYSTEM s", 'FROM m\r\nSYSTEM s\r\nTEMPLATE """x"""\r\n'),
        ("FROM m\n# end", 'FROM m\n# end\nTEMPLATE """x"""\n'),
    ],
)
def test_a_missing_template_is_added_at_the_end(text: str, expected: str) -> None:
    modelfile = Modelfile.from_bytes(text.encode())
    assert modelfile.template is None
    assert modelfile.with_template("x").data.decode() == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('a """ b', 'it contains """, which ends the value'),
        ("", "an empty TEMPLATE counts as none"),
        ("a\nb\u200bc", "Ollama's reader would drop or change U+200B (line 2, column 2)"),
        ("a\udcffb", "Ollama's reader would drop or change a byte that is not UTF-8 (line 1, column 2)"),
        ("a\0", "Ollama's reader would drop or change U+0000 (line 1, column 2)"),
    ],
)
def test_what_a_modelfile_cannot_hold_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ModelfileError) as caught:
        Modelfile.from_bytes(b"FROM m\nTEMPLATE x\n", "F").with_template(text)
    assert str(caught.value) == f"F: a Modelfile cannot hold this template: {reason}"


def test_places_in_a_template_are_places_in_its_file() -> None:
    modelfile = Modelfile.from_bytes('FROM m\nTEMPLATE """é{{ x }}\nnext"""\n'.encode())
    assert modelfile.position_of(len("é{{ x }}\n".encode())) == Position(3, 1, 29)
    holed = Modelfile.from_bytes("FROM m\nTEMPLATE a\u200bb\u200bc\n".encode())
    assert [holed.position_of(offset).column for offset in range(4)] == [10, 12, 14, 15]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("Modelfile", "anything", True),
        ("x/Modelfile.llama", "", True),
        ("my.modelfile", "", True),
        ("x.txt", "# note\nFROM m\nTEMPLATE x\n", True),
        ("x.txt", "TEMPLATE x\nfrom m\n", True),
        ("x.txt", "\ufeffFROM m\n", True),
        ("x.txt", "{{ .Prompt }}\nFROM m\n", False),
        ("x.txt", "SYSTEM {{ .System }}\n", False),
    ],
)
def test_a_modelfile_is_known_by_name_or_content(name: str, text: str, expected: bool) -> None:
    assert looks_like_modelfile(name, text) is expected


printable = st.text(st.characters(exclude_categories=("C", "Z")) | st.sampled_from(' \t\r\n"{}'))
lines = st.lists(
    st.sampled_from(
        [
            "FROM m",
            "# é TEMPLATE",
            "",
            "  ",
            "SYSTEM é",
            'SYSTEM """a\n"TEMPLATE b"\n"""',
            'LICENSE "x\ny"',
            "PARAMETER stop <a>",
            "MESSAGE user hi",
            "TEMPLATE old",
            'template "old\n" ',
            'TEMPLATE\t """{{ .Old }}\n"""  ',
        ]
    ),
    max_size=6,
)
files = st.builds(
    lambda before, after, end, last: end.join(["FROM m", *before, *after]) + last,
    lines,
    lines,
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["", "\n", "\r\n"]),
)


@given(files, printable)
@example("FROM m", '"')
@example('FROM m\nTEMPLATE "old"', 'a"\n')
def test_a_template_that_is_held_reads_back_and_nothing_else_moves(text: str, template: str) -> None:
    old = Modelfile.from_bytes(text.encode())
    if unholdable(template) is not None:
        with pytest.raises(ModelfileError):
            old.with_template(template)
        return
    new = Modelfile.from_bytes(old.with_template(template).data)
    assert new.template is not None
    assert new.template.value == template
    before, after = old.find("template"), new.find("template")
    assert after is not None
    if before is None:
        assert new.data.startswith(old.data)
        assert new.data[len(old.data) :].strip() == b'TEMPLATE """' + template.encode() + b'"""'
    else:
        head = old.data[: before.inner.start - len(before.quote)]
        tail = old.data[before.inner.end + len(before.quote) :]
        assert new.data == head + (after.quote + template + after.quote).encode() + tail


@given(st.binary(max_size=60) | st.text(string.printable + "é\u200b\ufeff", max_size=60).map(str.encode), st.booleans())
def test_whatever_is_read_is_written_byte_for_byte(tail: bytes, quoted: bool) -> None:
    data = b'FROM m\nTEMPLATE """' + tail + b'"""\n' if quoted else b"FROM m\n" + tail
    try:
        modelfile = Modelfile.from_bytes(data)
    except ModelfileError:
        assume(False)
    assert modelfile.data == data
    for found in modelfile.instructions:
        assert found.span.start < found.inner.start <= found.inner.end <= found.span.end or not found.value
