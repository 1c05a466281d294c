"""A template as a server of another age would run it: what that one lacks fails there as it does here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from templatefix.chat.go import GoChatTemplate
from templatefix.chat.serving import FIELDS_SINCE, FUNCTIONS_SINCE, Version
from templatefix.gotemplate import nodes as n
from templatefix.gotemplate.edits import Edit, apply_edits
from templatefix.gotemplate.source import Span
from templatefix.gotemplate.visitor import walk

_UNKNOWN = "Unknown"  # behind a field's name, to make it one that nobody knows


@dataclass(frozen=True, slots=True)
class Lack:
    """A function or a field that a version does not know, with every place where the template uses it."""

    name: str  # `currentDate`, `.Thinking`
    function: bool
    since: Version
    spans: tuple[Span, ...]


def lacks(template: GoChatTemplate, version: Version) -> Iterator[Lack]:
    """What the template uses and the version does not know, in the order of first use."""
    found: dict[str, list[Span]] = {}
    for root in (template.tree.root, *template.tree.templates.values()):
        for node in walk(root):
            for name in _names(node):
                spans = found.setdefault(name, [])
                if node.span not in spans:
                    spans.append(node.span)
    for name, spans in sorted(found.items(), key=lambda item: min(item[1])):
        function = not name.startswith(".")
        since = FUNCTIONS_SINCE[name] if function else FIELDS_SINCE[name[1:]]
        if version < since:
            yield Lack(name, function, since, tuple(sorted(spans)))


def without_field(template: GoChatTemplate, lack: Lack) -> GoChatTemplate:
    """The template with a field that no message has in the place of one; it fails where an older server would fail."""
    source = template.source
    word = re.compile(re.escape(lack.name) + r"\b")
    outermost = [span for span in lack.spans if not any(other != span and other.contains(span) for other in lack.spans)]
    edits = [Edit(span, word.sub(lack.name + _UNKNOWN, source.slice(span))) for span in outermost]
    return GoChatTemplate(apply_edits(source, edits), date=template.date)


def _names(node: n.Node) -> Iterator[str]:
    if isinstance(node, n.IdentifierNode):
        if node.ident in FUNCTIONS_SINCE:
            yield node.ident
        return
    fields: tuple[str, ...] = ()
    if isinstance(node, n.FieldNode):
        fields = node.ident
    elif isinstance(node, n.VariableNode):
        fields = node.ident[1:]
    elif isinstance(node, n.ChainNode):
        fields = node.field
    yield from (f".{field}" for field in fields if field in FIELDS_SINCE)
