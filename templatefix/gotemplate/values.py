"""Go values as Python objects: types, structs, slices, maps, and where a value came from.

Go's `bool`, `int`, `float64`, `complex128` and `string` are Python's own; other integer types are `TypedInt`. A nil
interface is None, and `INVALID` is reflect's zero Value (what a nil interface becomes at the end of a pipeline).
Strings hold bytes that are not UTF-8 as lone surrogates (PEP 383); lengths and indexes count bytes, as in Go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

Kind: TypeAlias = Literal[
    "bool", "int", "uint", "float", "complex", "string", "slice", "map", "struct", "ptr", "interface", "func"
]
Stringer: TypeAlias = Literal["", "json", "joined"]


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a struct type, with what encoding/json needs of its tag."""

    name: str
    type: GoType
    json_name: str
    omitempty: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class GoType:
    """A Go type: its name as `%T` prints it, and its kind.

    `stringer` says that the type has a String method which gives the value's JSON (`"json"`; `{}` for a nil map) or
    its elements as Ollama's PropertyType does (`"joined"`).
    """

    name: str
    kind: Kind
    elem: GoType | None = None  # of a slice, map or pointer
    key: GoType | None = None  # of a map
    fields: tuple[Field, ...] = ()  # of a struct
    stringer: Stringer = ""
    field_names: frozenset[str] = field(default=frozenset(), repr=False)
    methods: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict, repr=False)  # without arguments

    @classmethod
    def struct(
        cls,
        name: str,
        fields: Iterable[Field],
        stringer: Stringer = "",
        methods: Mapping[str, Callable[[Any], Any]] | None = None,
    ) -> GoType:
        """A struct type."""
        members = tuple(fields)
        names = frozenset(f.name for f in members)
        return cls(name, "struct", fields=members, stringer=stringer, field_names=names, methods=methods or {})

    @classmethod
    def slice(cls, elem: GoType, name: str = "", stringer: Stringer = "") -> GoType:
        """A slice type; `name` only if it is a defined type."""
        return cls(name or f"[]{elem.name}", "slice", elem=elem, stringer=stringer)

    @classmethod
    def map(cls, elem: GoType, name: str = "", stringer: Stringer = "", key: GoType | None = None) -> GoType:
        """A map type, with string keys unless said otherwise."""
        key = key or STRING
        return cls(name or f"map[{key.name}]{elem.name}", "map", elem=elem, key=key, stringer=stringer)

    @classmethod
    def pointer(cls, elem: GoType) -> GoType:
        """A pointer type. A pointer to a struct is a Struct whose type is the pointer type."""
        return cls(f"*{elem.name}", "ptr", elem=elem, stringer=elem.stringer, field_names=elem.field_names)


BOOL: Final = GoType("bool", "bool")
INT: Final = GoType("int", "int")
UINT: Final = GoType("uint", "uint")
UINT8: Final = GoType("uint8", "uint")
FLOAT64: Final = GoType("float64", "float")
COMPLEX128: Final = GoType("complex128", "complex")
STRING: Final = GoType("string", "string")
ANY: Final = GoType("interface {}", "interface")
SLICE_OF_ANY: Final = GoType.slice(ANY)
SLICE_OF_STRING: Final = GoType.slice(STRING)
MAP_OF_ANY: Final = GoType.map(ANY)


class Invalid:
    """The type of INVALID, reflect's zero Value."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "INVALID"


INVALID: Final = Invalid()


class TracedStr(str):
    """A string that knows the datum it came from."""

    __slots__ = ("origin",)
    origin: Any

    def __new__(cls, text: str, origin: Any) -> TracedStr:
        """A string with the (opaque) datum it came from."""
        self = super().__new__(cls, text)
        self.origin = origin
        return self


class TypedInt(int):
    """An integer of another type than int."""

    type: GoType  # an int cannot have slots

    def __new__(cls, value: int, type: GoType) -> TypedInt:
        """An integer with its Go type."""
        self = super().__new__(cls, value)
        self.type = type
        return self


class Composite:
    """A struct, slice, map or nil of some type.

    `origin` is the datum it stands for, if any. A dot that has a `scope` hands it to all text printed while it is
    the dot; both are opaque here. Values are never changed once they are made, so `json` can keep their JSON text.
    """

    __slots__ = ("json", "origin", "scope", "type")
    type: GoType
    origin: Any
    scope: Any
    json: str | None


class Struct(Composite):
    """A struct, or a pointer to one if the type is a pointer type; `fields` by Go's names."""

    __slots__ = ("fields",)

    def __init__(self, type: GoType, fields: dict[str, Any], origin: Any = None, scope: Any = None) -> None:
        self.type = type
        self.fields = fields
        self.origin = origin
        self.scope = scope
        self.json = None


class Map(Composite):
    """A map; `fields` maps keys to values."""

    __slots__ = ("fields", "is_nil")

    def __init__(self, type: GoType, fields: Mapping[Any, Any], origin: Any = None, is_nil: bool = False) -> None:
        self.type = type
        self.fields = fields
        self.origin = origin
        self.scope = None
        self.json = None
        self.is_nil = is_nil


class Slice(Composite):
    """A slice: a window `[start, stop)` on a shared array, as in Go, so that it can be sliced up to its capacity."""

    __slots__ = ("array", "is_nil", "start", "stop")

    def __init__(
        self,
        type: GoType,
        array: list[Any],
        origin: Any = None,
        is_nil: bool = False,
        start: int = 0,
        stop: int | None = None,
    ) -> None:
        self.type = type
        self.array = array
        self.origin = origin
        self.scope = None
        self.json = None
        self.is_nil = is_nil
        self.start = start
        self.stop = len(array) if stop is None else stop

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def items(self) -> list[Any]:
        """The elements."""
        if self.start == 0 and self.stop == len(self.array):
            return self.array
        return self.array[self.start : self.stop]


class Nil(Composite):
    """A nil pointer."""

    __slots__ = ()

    def __init__(self, type: GoType) -> None:
        self.type = type
        self.origin = None
        self.scope = None
        self.json = None


class Opaque(Composite):
    """A pointer to a struct that templates cannot look into; `json` is what it marshals to."""

    __slots__ = ()

    def __init__(self, type: GoType, json: str) -> None:
        self.type = type
        self.origin = None
        self.scope = None
        self.json = json


BOXED: Final = Nil(ANY)  # stands for a value that Go sees as an interface only


_BASIC_TYPES: Final[Mapping[type, GoType]] = {
    str: STRING,
    TracedStr: STRING,
    bool: BOOL,
    int: INT,
    float: FLOAT64,
    complex: COMPLEX128,
}


def type_of(value: Any) -> GoType:
    """The Go type of a value (of a nil interface: `interface {}`)."""
    basic = _BASIC_TYPES.get(type(value))
    if basic is not None:
        return basic
    if isinstance(value, (Composite, TypedInt)):
        return value.type
    return ANY


def kind_of(value: Any) -> Kind | Literal["invalid"]:
    """The reflect kind of a value, integers of all sizes taken together."""
    return "invalid" if value is INVALID else type_of(value).kind


def origin_of(value: Any) -> Any:
    """The datum a value stands for, or None."""
    return value.origin if isinstance(value, (TracedStr, Composite)) else None


def holds_any(value: Any) -> bool:
    """Whether the elements of a value are held as `interface {}`."""
    return isinstance(value, (Slice, Map)) and value.type.elem is not None and value.type.elem.kind == "interface"


def is_true(value: Any) -> bool:
    """Go's truth of a value: not the zero value of its type; structs always are true."""
    if isinstance(value, (str, bool, int, float, complex)):
        return bool(value)
    if isinstance(value, Slice):
        return value.stop > value.start
    if isinstance(value, Map):
        return bool(value.fields)
    return isinstance(value, (Struct, Opaque))


def pointed_to(value: Any) -> Any:
    """What a pointer points to; any other value itself."""
    if isinstance(value, Struct) and value.type.kind == "ptr" and value.type.elem is not None:
        return Struct(value.type.elem, value.fields, value.origin, value.scope)
    return value


def zero_value(type: GoType) -> Any:
    """The zero value of a type."""
    if type.kind == "struct":
        return Struct(type, {f.name: zero_value(f.type) for f in type.fields})
    if type.kind == "slice":
        return Slice(type, [], is_nil=True)
    if type.kind == "map":
        return Map(type, {}, is_nil=True)
    if type.kind == "ptr":
        return Nil(type)
    if (type.kind == "int" and type is not INT) or type.kind == "uint":
        return TypedInt(0, type)
    return {"string": "", "bool": False, "int": 0, "float": 0.0, "complex": 0j}.get(type.kind)


def to_bytes(text: str) -> bytes:
    """A Go string's bytes."""
    return text.encode("utf-8", "surrogateescape")


def from_bytes(data: bytes) -> str:
    """A Go string of these bytes."""
    return data.decode("utf-8", "surrogateescape")


def byte_len(text: str) -> int:
    """The length of a Go string, in bytes."""
    return len(text) if text.isascii() else len(to_bytes(text))
