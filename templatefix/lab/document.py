"""Files that people write, in YAML or JSON, read so that whatever is wrong in them can be shown with its line and key.

Of YAML only what JSON has is taken: mappings with text as keys, lists, text, numbers, true, false and null. Words such
as `yes`, `on` or `2026-11-29` stay text; aliases and tags are refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

LIMIT = 4_000_000  # bytes of a file

Key = str | int
_CORE = "tag:yaml.org,2002:"


class DocumentError(ValueError):
    """Something wrong in a file; the message is one sentence with file, line and key."""


class _Loader(yaml.SafeLoader):
    """YAML with the plain words of JSON."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  # PyYAML replaces it, it is never shared

    def compose_node(self, parent: Any, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event: Any = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(problem=f"the alias *{event.anchor} is not taken", problem_mark=event.start_mark)
        return super().compose_node(parent, index)


for _tag, _pattern, _first in (
    ("null", r"(?:null|~|)", ["n", "~", ""]),
    ("bool", r"(?:true|false)", ["t", "f"]),
    ("int", r"-?(?:0|[1-9][0-9]*)", [*"-0123456789"]),
    ("float", r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?", [*"-0123456789"]),
):
    _Loader.add_implicit_resolver(_CORE + _tag, re.compile(f"^{_pattern}$"), _first)


@dataclass(frozen=True, slots=True)
class Place:
    """A value in a file, with the way to it."""

    file: str
    value: Any
    root: yaml.Node | None = None  # for lines
    path: tuple[Key, ...] = ()

    @property
    def key(self) -> str:
        """The way to it as people write it: `turns[2].calls[0].name`."""
        steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path]
        return "".join(steps).removeprefix(".")

    def fault(self, sentence: str) -> DocumentError:
        """What is wrong here, as an error to raise."""
        line = _line(self.root, self.path)
        parts = [self.file, *([f"line {line}"] if line else []), *([self.key] if self.path else [])]
        return DocumentError(f"{', '.join(parts)}: {sentence}")

    def at(self, key: Key, value: Any) -> Place:
        """What stands under a key, or would."""
        return Place(self.file, value, self.root, (*self.path, key))

    def mapping(self, known: Sequence[str]) -> dict[str, Place]:
        """The places under a mapping's keys; raises DocumentError where it is none or has a key that is not known."""
        if not isinstance(self.value, dict):
            raise self.fault(f"a mapping belongs here, with {_listed(known)}")
        for key, value in self.value.items():
            if key not in known:
                raise self.at(key, value).fault(f"there is no such key here; there is {_listed(known)}")
        return {key: self.at(key, value) for key, value in self.value.items()}

    def items(self) -> Iterator[Place]:
        """The places of a list; raises DocumentError where it is none."""
        if not isinstance(self.value, list):
            raise self.fault("a list belongs here")
        return (self.at(index, item) for index, item in enumerate(self.value))

    def text(self) -> str:
        """A text; raises DocumentError where it is none."""
        if not isinstance(self.value, str):
            hint = ", in quotes" if isinstance(self.value, (int, float)) else ""
            raise self.fault(f"a text belongs here{hint}")
        return self.value

    def number(self, least: int, most: int) -> int:
        """A whole number within limits; raises DocumentError where it is none."""
        if not isinstance(self.value, int) or isinstance(self.value, bool) or not least <= self.value <= most:
            raise self.fault(f"a number from {least} to {most} belongs here")
        return self.value

    def truth(self) -> bool:
        """True or false; raises DocumentError where it is neither."""
        if not isinstance(self.value, bool):
            raise self.fault("true or false belongs here")
        return self.value


def read_document(path: Path, name: str | None = None) -> Place:
    """Read a file, JSON where its name ends so and YAML else; raises DocumentError, OSError where it cannot be read."""
    name = name or str(path)
    if path.stat().st_size > LIMIT:
        raise DocumentError(f"{name} has more than {LIMIT} bytes, which is not such a file.")
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DocumentError(f"{name} is not UTF-8: byte {error.start} is not.") from None
    try:
        return _json(text, name) if path.suffix == ".json" else _yaml(text, name)
    except RecursionError:
        raise DocumentError(f"{name} is nested too deeply.") from None


def _yaml(text: str, name: str) -> Place:
    try:
        root = yaml.compose(text, _Loader)
    except yaml.YAMLError as error:
        raise DocumentError(_complaint(name, error)) from None
    return Place(name, _value(root, name) if root is not None else None, root)


def _complaint(name: str, error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "it is no YAML"
    where = f"{name}, line {mark.line + 1}" if mark else name
    return f"{where}: {problem}"


def _value(node: yaml.Node, name: str) -> Any:
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, name)
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, name) for item in node.value]
    kind = node.tag.removeprefix(_CORE)
    if kind == "str":
        return node.value
    if isinstance(node, yaml.ScalarNode) and node.style is None and kind in ("null", "bool", "int", "float"):
        return None if kind == "null" else json.loads(node.value)
    raise DocumentError(f"{name}, line {node.start_mark.line + 1}: the tag {node.tag} is not taken")


def _mapping(node: yaml.MappingNode, name: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in node.value:
        where = f"{name}, line {key.start_mark.line + 1}"
        if not isinstance(key, yaml.ScalarNode) or not key.tag.endswith(":str"):
            raise DocumentError(f"{where}: a key is text")
        if key.value in found:
            raise DocumentError(f"{where}: {key.value} stands here twice")
        found[key.value] = _value(value, name)
    return found


def _json(text: str, name: str) -> Place:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            twice = next(key for index, (key, _) in enumerate(pairs) if key in dict(pairs[:index]))
            raise DocumentError(f"{name}: {twice} stands twice in one object")
        return found

    def constant(word: str) -> Any:
        raise DocumentError(f"{name}: {word} is no JSON")

    try:
        value = json.loads(text, object_pairs_hook=unique, parse_constant=constant)
    except json.JSONDecodeError as error:
        raise DocumentError(f"{name}, line {error.lineno}: {error.msg}") from None
    try:
        # For lines alone. Tabs stand between JSON's tokens only, and YAML does not like them.
        return Place(name, value, yaml.compose(text.replace("\t", " "), _Loader))
    except yaml.YAMLError:
        return Place(name, value)


def _line(node: yaml.Node | None, path: Sequence[Key]) -> int | None:
    """Where the way leads, or as far as it goes."""
    if node is None:
        return None
    line: int = node.start_mark.line + 1
    for step in path:
        if isinstance(node, yaml.MappingNode):
            found = next(((key, value) for key, value in node.value if key.value == step), None)
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            found = (node.value[step], node.value[step])
        else:
            found = None
        if found is None:
            break
        line, node = found[0].start_mark.line + 1, found[1]
    return line


def _listed(words: Sequence[str]) -> str:
    return ", ".join(words[:-1]) + f" and {words[-1]}" if len(words) > 1 else words[0]
