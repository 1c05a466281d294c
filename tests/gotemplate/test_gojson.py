"""JSON against texts recorded from real Go: encoding/json of Go 1.27.3 on the values of support/specimens.py."""

from __future__ import annotations

import base64
import math
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.oracle import Oracle
from support.specimens import (
    NIL_ARGUMENTS,
    NIL_BYTES,
    NIL_KINDS,
    NIL_MAP,
    NIL_RECORD,
    NIL_STRINGS,
    NOTE,
    NOTES,
    NUMBERED,
    RECORD,
    RECORD_POINTER,
    RECORD_TYPE,
    anys,
    arguments,
    data,
    images,
    kinds,
    mapping,
    strings,
    uint,
)
from support.values import go_value

from templatefix.gotemplate.gojson import MarshalError, marshal
from templatefix.gotemplate.values import INVALID, STRING, GoType, Map, Struct, TracedStr, to_bytes

inf = float("inf")
nan = float("nan")

MARSHALLED = [
    (None, "null"),
    (True, "true"),
    (0, "0"),
    (-9223372036854775808, "-9223372036854775808"),
    (uint(18446744073709551615), "18446744073709551615"),
    (0.0, "0"),
    (-0.0, "-0"),
    (1.0, "1"),
    (0.1, "0.1"),
    (1e6, "1000000"),
    (1e20, "100000000000000000000"),
    (1e21, "1e+21"),
    (1e-6, "0.000001"),
    (1e-7, "1e-7"),
    (1.5e-10, "1.5e-10"),
    (5e-324, "5e-324"),
    (1.7976931348623157e308, "1.7976931348623157e+308"),
    (12345678901234567890.0, "12345678901234567000"),
    (123456789.125, "123456789.125"),
    ("plain", '"plain"'),
    ('"\\/ \x7f', '"\\"\\\\/ \x7f"'),
    ("\b\f\n\r\t\x00\x01\x1f", r'"\b\f\n\r\t\u0000\u0001\u001f"'),
    ("<a href='x'>&amp;</a>", "\"\\u003ca href='x'\\u003e\\u0026amp;\\u003c/a\\u003e\""),
    ("é中😀\u2028\u2029\ufeff\ufffd", '"é中😀\\u2028\\u2029\ufeff�"'),
    ("a\udcff\udce4\udcb8", '"a���"'),
    ("\udce4" + "\udcb8\udcad", '"中"'),
    (strings("a", "b"), '["a","b"]'),
    (strings(), "[]"),
    (NIL_STRINGS, "null"),
    (anys(None, 1, 2.5, "x", True, anys()), '[null,1,2.5,"x",true,[]]'),
    (data(b"hello"), '"aGVsbG8="'),
    (data(b""), '""'),
    (NIL_BYTES, "null"),
    (images(b"hi"), '["aGk="]'),
    (mapping(b=1, a="x", B=None, é=2.0, a1=anys()), '{"B":null,"a":"x","a1":[],"b":1,"é":2}'),
    (mapping(), "{}"),
    (NIL_MAP, "null"),
    (NUMBERED, '{"-2":"b","10":"j","9":"i"}'),
    (
        mapping(**{"<k>&": 1, "\n": 2, "\udcff": 3, "\uffff": 4}),
        '{"\\n":2,"\\u003ck\\u003e\\u0026":1,"\uffff":4,"�":3}',
    ),
    (
        RECORD,
        (
            '{"a":7,"b":"x y","d":["p","q"],"e":{"k":1.5},"g":true,"h":1000000,"p":["string",'
            r'"null"],"j":{"n":"\u003cn\u003e"}}'
        ),
    ),
    (
        RECORD_POINTER,
        (
            '{"a":7,"b":"x y","d":["p","q"],"e":{"k":1.5},"g":true,"h":1000000,"p":["string",'
            r'"null"],"j":{"n":"\u003cn\u003e"}}'
        ),
    ),
    (NIL_RECORD, "null"),
    (NOTE, r'{"n":"\u003cn\u003e","m":5}'),
    (NOTES, r'[{"n":"\u003cn\u003e","m":5},{"n":"\u003cn\u003e","m":5}]'),
    (
        Struct(
            RECORD_TYPE,
            RECORD.fields | {"B": "", "C": False, "D": strings(), "G": False, "H": 0.0, "P": kinds(), "K": arguments()},
        ),
        r'{"a":7,"c":false,"e":{"k":1.5},"j":{"n":"\u003cn\u003e"}}',
    ),
    (
        Struct(
            RECORD_TYPE,
            RECORD.fields
            | {"C": anys(), "P": kinds("string"), "F": RECORD_POINTER, "H": -0.0, "K": arguments(b=1.0, a=None)},
        ),
        (
            '{"a":7,"b":"x y","c":[],"d":["p","q"],"e":{"k":1.5},"f":{"a":7,"b":"x '
            'y","d":["p","q"],"e":{"k":1.5},"g":true,"h":1000000,"p":["string","null"],"j":{"'
            r'n":"\u003cn\u003e"}},"g":true,"p":"string","j":{"n":"\u003cn\u003e"},"k":{"a":nu'
            'll,"b":1}}'
        ),
    ),
    (kinds(), "[]"),
    (NIL_KINDS, "null"),
    (kinds("string"), '"string"'),
    (kinds("string", "null"), '["string","null"]'),
    (arguments(b=1e6, a=12345678901234567890.0), '{"a":12345678901234567000,"b":1000000}'),
    (NIL_ARGUMENTS, "null"),
]
REFUSED = [
    (nan, "json: unsupported value: NaN"),
    (mapping(x=inf), "json: unsupported value: +Inf"),
    (anys(-inf), "json: unsupported value: -Inf"),
    (1j, "json: unsupported type: complex128"),
]


@pytest.mark.parametrize(("value", "expected"), MARSHALLED)
def test_marshal(value: Any, expected: str) -> None:
    assert marshal(value) == expected


@pytest.mark.parametrize(("value", "sentence"), REFUSED)
def test_what_json_cannot_hold(value: Any, sentence: str) -> None:
    with pytest.raises(MarshalError) as caught:
        marshal(value)
    assert str(caught.value) == sentence


def test_keys_that_are_no_text_are_refused() -> None:
    with pytest.raises(MarshalError, match=r"^json: unsupported type: map\[bool\]string$"):
        marshal(Map(GoType.map(STRING, key=GoType("bool", "bool")), {True: "a"}))


def test_reflects_zero_value_is_null() -> None:
    assert marshal(INVALID) == "null"


def test_a_traced_string_is_a_string() -> None:
    assert marshal(anys(TracedStr("<a>", origin="datum"))) == r'["\u003ca\u003e"]'


def test_a_map_behind_a_pointer_keeps_its_order() -> None:
    ordered = GoType.pointer(GoType("api.ToolPropertiesMap", "struct"))
    assert marshal(Map(ordered, {"b": 1, "a": 2})) == '{"b":1,"a":2}'
    assert marshal(Map(ordered, {}, is_nil=True)) == "null"


@settings(deadline=None, max_examples=300)
@given(bits=st.integers(0, 2**64 - 1), text=st.text(st.characters(codec="utf-8"), max_size=20))
def test_any_number_and_text_is_written_as_by_go(go_oracle: Oracle, bits: int, text: str) -> None:
    (number,) = struct.unpack("<d", struct.pack("<Q", bits))
    data = {text: number if math.isfinite(number) else 0.5, "text": [text]}
    answer = go_oracle.ask({"op": "exec", "template": "{{ json . }}", "data": data})
    assert marshal(go_value(data)) == answer["output"]


@settings(deadline=None, max_examples=100)
@given(data=st.binary(max_size=12))
def test_bytes_that_are_not_utf8_are_written_as_by_go(go_oracle: Oracle, data: bytes) -> None:
    wrapped = {"$string": base64.b64encode(data).decode("ascii")}
    answer = go_oracle.ask({"op": "exec", "template": "{{ json . }}", "data": wrapped})
    assert to_bytes(marshal(go_value(wrapped))) == to_bytes(answer["output"])
