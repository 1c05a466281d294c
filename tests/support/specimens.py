"""Go values of many types, for tests of printing and of JSON whose expectations were recorded from real Go.

The recordings come from a Go 1.27.3 program that calls fmt and encoding/json on values of these types, in package main:

    type Record struct {
        A int            `json:"a"`
        B string         `json:"b,omitempty"`
        C any            `json:"c,omitempty"`
        D []string       `json:"d,omitempty"`
        E map[string]any `json:"e"`
        F *Record        `json:"f,omitempty"`
        G bool           `json:"g,omitempty"`
        H float64        `json:"h,omitempty"`
        P Kinds          `json:"p,omitempty"`
        J Note           `json:"j"`
        K Arguments      `json:"k,omitempty"`
    }
    type Note struct {
        N string `json:"n"`
        M any    `json:"m,omitempty"`
    }
    type Notes []Note
    type Arguments map[string]any
    type Kinds []string
    type Image []byte

Note, Notes and Arguments have a String method that returns their JSON (nil Arguments: `{}`). Kinds, with one element,
is that string as JSON; its String method gives nothing, the element, or the slice as %v prints it.
"""

from __future__ import annotations

from typing import Any, Final

from templatefix.gotemplate.values import (
    ANY,
    BOOL,
    FLOAT64,
    INT,
    MAP_OF_ANY,
    SLICE_OF_ANY,
    SLICE_OF_STRING,
    STRING,
    UINT,
    UINT8,
    Field,
    GoType,
    Map,
    Nil,
    Slice,
    Struct,
    TypedInt,
)

INT32: Final = GoType("int32", "int")
BYTES_TYPE: Final = GoType.slice(UINT8)
IMAGE_TYPE: Final = GoType.slice(UINT8, "main.Image")
KINDS_TYPE: Final = GoType.slice(STRING, "main.Kinds", "joined")
ARGUMENTS_TYPE: Final = GoType.map(ANY, "main.Arguments", "json")
NOTE_TYPE: Final = GoType.struct("main.Note", (Field("N", STRING, "n"), Field("M", ANY, "m", True)), "json")
NOTES_TYPE: Final = GoType.slice(NOTE_TYPE, "main.Notes", "json")


def _record_type(pointer: GoType) -> GoType:
    return GoType.struct(
        "main.Record",
        (
            Field("A", INT, "a"),
            Field("B", STRING, "b", True),
            Field("C", ANY, "c", True),
            Field("D", SLICE_OF_STRING, "d", True),
            Field("E", MAP_OF_ANY, "e"),
            Field("F", pointer, "f", True),
            Field("G", BOOL, "g", True),
            Field("H", FLOAT64, "h", True),
            Field("P", KINDS_TYPE, "p", True),
            Field("J", NOTE_TYPE, "j"),
            Field("K", ARGUMENTS_TYPE, "k", True),
        ),
    )


# A frozen type cannot hold a pointer to itself; two levels are enough here.
RECORD_POINTER_TYPE: Final = GoType.pointer(_record_type(GoType("*main.Record", "ptr")))
RECORD_TYPE: Final = _record_type(RECORD_POINTER_TYPE)


def strings(*items: str) -> Slice:
    """A []string."""
    return Slice(SLICE_OF_STRING, list(items))


def anys(*items: Any) -> Slice:
    """A []any."""
    return Slice(SLICE_OF_ANY, list(items))


def ints(*items: int) -> Slice:
    """An []int."""
    return Slice(GoType.slice(INT), list(items))


def data(content: bytes) -> Slice:
    """A []byte."""
    return Slice(BYTES_TYPE, list(content))


def image(content: bytes) -> Slice:
    """An Image."""
    return Slice(IMAGE_TYPE, list(content))


def images(*contents: bytes) -> Slice:
    """An []Image."""
    return Slice(GoType.slice(IMAGE_TYPE), [image(content) for content in contents])


def uint(number: int) -> TypedInt:
    """A uint."""
    return TypedInt(number, UINT)


def byte(number: int) -> TypedInt:
    """A byte."""
    return TypedInt(number, UINT8)


def int32(number: int) -> TypedInt:
    """An int32."""
    return TypedInt(number, INT32)


def mapping(**entries: Any) -> Map:
    """A map[string]any."""
    return Map(MAP_OF_ANY, entries)


def arguments(**entries: Any) -> Map:
    """An Arguments."""
    return Map(ARGUMENTS_TYPE, entries)


def kinds(*items: str) -> Slice:
    """A Kinds."""
    return Slice(KINDS_TYPE, list(items))


NIL_STRINGS: Final = Slice(SLICE_OF_STRING, [], is_nil=True)
NIL_BYTES: Final = Slice(BYTES_TYPE, [], is_nil=True)
NIL_KINDS: Final = Slice(KINDS_TYPE, [], is_nil=True)
NIL_NOTES: Final = Slice(NOTES_TYPE, [], is_nil=True)
NIL_MAP: Final = Map(MAP_OF_ANY, {}, is_nil=True)
NIL_ARGUMENTS: Final = Map(ARGUMENTS_TYPE, {}, is_nil=True)
NIL_RECORD: Final = Nil(RECORD_POINTER_TYPE)
NIL_NOTE: Final = Nil(GoType.pointer(NOTE_TYPE))
NUMBERED: Final = Map(GoType.map(STRING, key=INT), {10: "j", -2: "b", 9: "i"})
NOTE: Final = Struct(NOTE_TYPE, {"N": "<n>", "M": 5})
NOTE_POINTER: Final = Struct(GoType.pointer(NOTE_TYPE), NOTE.fields)
NOTES: Final = Slice(NOTES_TYPE, [NOTE, NOTE])
RECORD: Final = Struct(
    RECORD_TYPE,
    {
        "A": 7,
        "B": "x y",
        "C": None,
        "D": strings("p", "q"),
        "E": mapping(k=1.5),
        "F": NIL_RECORD,
        "G": True,
        "H": 1e6,
        "P": kinds("string", "null"),
        "J": Struct(NOTE_TYPE, {"N": "<n>", "M": None}),
        "K": NIL_ARGUMENTS,
    },
)
RECORD_POINTER: Final = Struct(RECORD_POINTER_TYPE, RECORD.fields)
