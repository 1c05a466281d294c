"""Filters and printing as llama-server's engine does them, where jinja2 does otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from typing import Any, Final

from jinja2 import TemplateRuntimeError, Undefined
from jinja2.filters import FILTERS as jinja_filters

from templatefix.chat.jinja_json import mark_of, to_json
from templatefix.chat.jinja_layout import DIGITS
from templatefix.chat.jinja_text import LONGEST, Mark, Text, TooLong, join_texts, marked, plain
from templatefix.chat.jinja_values import wrapped
from templatefix.chat.rendering import is_of_tools


def shown(value: Any) -> Text:
    """What a tag prints of a value: nothing for none and objects, the items of an array in a row."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, Mapping):
        return _nothing(value)
    if isinstance(value, (list, tuple, range)):
        return join_texts(_leaves(value))
    if isinstance(value, float):
        text = str(value)
        return plain(f"{value:.1f}" if "e+" in text else text)
    return as_text(value)


def _nothing(value: Any) -> Text:
    """No text; of tools and calls it keeps the origin, so that it can be seen that they are not printed."""
    mark = mark_of(value)
    return plain("") if mark is None or not is_of_tools(mark.origin) else marked("", mark)


def _leaves(items: Iterable[Any]) -> Iterator[str]:
    for item in items:
        if isinstance(item, (list, tuple)):
            yield from _leaves(item)
        else:
            yield shown(item)


def as_text(value: Any) -> Text:
    """A value as a part of a text: nothing for none, arrays and objects as Python writes them."""
    if isinstance(value, str):
        return plain(value)
    if value is None or isinstance(value, Undefined):
        return plain("")
    if isinstance(value, (bool, int, float)):
        return plain(str(value))
    if isinstance(value, (Mapping, list, tuple, range)):
        return join_texts(_written(value, mark_of(value)))
    return plain("")


def _written(value: Any, mark: Mark | None) -> Iterator[str]:
    """A value in Python's notation; what belongs to a request keeps its origin, its marks included."""

    def said(text: str) -> str:
        return text if mark is None else marked(text, mark)

    if isinstance(value, str):
        quote = '"' if "'" in value and '"' not in value else "'"
        yield said(f"{quote}{value}{quote}") if mark is not None else join_texts((quote, value, quote))
    elif isinstance(value, Mapping):
        yield said("{")
        for index, (key, item) in enumerate(dict.items(value) if isinstance(value, dict) else value.items()):
            yield said(", " if index else "")
            yield from _written(key, mark)
            yield said(": ")
            yield from _written(item, mark or mark_of(item))
        yield said("}")
    elif isinstance(value, (list, tuple, range)):
        yield said("(" if isinstance(value, tuple) else "[")
        # Past what watches the use of a value: to be written is no use of its parts.
        for index, item in enumerate(list.__iter__(value) if isinstance(value, list) else value):
            yield said(", " if index else "")
            yield from _written(item, mark or mark_of(item))
        yield said(")" if isinstance(value, tuple) else "]")
    else:
        yield said("None" if value is None else as_text(value))


def argument(value: Any) -> Text:
    """A value as a filter of texts takes it."""
    return plain("None") if value is None else as_text(value)


def _tojson(value: Any, indent: int | None = None, separators: Any = None, **_options: Any) -> Text:
    if isinstance(value, Undefined):
        raise TemplateRuntimeError("Unknown (built-in) filter 'tojson' for type Undefined")
    if separators is not None:
        return to_json(value, indent, str(separators[1]), str(separators[0]))
    return to_json(value, indent)


def _listed(name: str) -> Callable[..., Any]:
    """A filter of jinja2's that gives its items one by one, made to give an array."""
    lazy = jinja_filters[name]

    @wraps(lazy)
    def listed(*arguments: Any, **options: Any) -> list[Any]:
        return list(lazy(*arguments, **options))

    return listed


def _join(value: Any, d: Any = "", attribute: Any = None) -> Text:
    items = [] if value is None else list(value)
    if attribute is not None:
        items = [item.get(attribute) if isinstance(item, Mapping) else None for item in items]
    return join_texts([as_text(item) for item in items], as_text(d))


def _trim(value: Any, chars: str | None = None) -> Text:
    return argument(value).strip(chars)


def _replace(value: Any, old: Any, new: Any, count: int = -1) -> Text:
    return argument(value).replace(as_text(old), as_text(new), count)


def _items(value: Any) -> list[tuple[Any, Any]]:
    if value is None or isinstance(value, Undefined):
        return []
    if not isinstance(value, Mapping):
        raise TemplateRuntimeError("Can only get item pairs from a mapping.")
    return list(value.items())


def _length(value: Any) -> int:
    if isinstance(value, Undefined):
        return 0
    if value is None:
        raise TemplateRuntimeError("Unknown (built-in) filter 'length' for type None")
    return len(value)


def _lower(value: Any) -> Text:
    return argument(value).lower()


def _upper(value: Any) -> Text:
    return argument(value).upper()


def _capitalize(value: Any) -> Text:
    return argument(value).capitalize()


def _title(value: Any) -> Text:
    return argument(value).title()


def _indent(value: Any, width: int = 4, first: bool = False, blank: bool = False) -> Text:
    text = argument(value)
    lines = text.splitlines() or [text]
    if width * len(lines) > LONGEST:
        raise TooLong
    pad = " " * width
    kept = [plain(pad + line if (line or blank) and (first or number) else line) for number, line in enumerate(lines)]
    return join_texts(kept, "\n")


def _int(value: Any, default: Any = 0, base: int = 10) -> Any:
    if isinstance(value, str) and len(value) > DIGITS:
        raise TemplateRuntimeError(f"template: more than {DIGITS} characters of a number")
    found = jinja_filters["int"](value, default, base)
    return wrapped(found) if found.__class__ is int else found


def _round(value: Any, precision: int = 0, method: Any = "common") -> Any:
    if abs(precision) > DIGITS:
        raise TemplateRuntimeError(f"template: more than {DIGITS} digits of a number")
    return jinja_filters["round"](value, precision, method)


@wraps(jinja_filters["sum"])
def _sum(environment: Any, value: Any, attribute: Any = None, start: Any = 0) -> Any:
    if not isinstance(start, (int, float)):
        raise TemplateRuntimeError("Cannot sum anything but numbers")
    return jinja_filters["sum"](environment, value, attribute, start)


_LAZY: Final = ("map", "select", "reject", "selectattr", "rejectattr", "reverse", "unique")
# Filters of jinja2's own that need no change; the rest of them the server's engine does not know.
KEPT: Final = (
    *("abs", "attr", "d", "default", "dictsort", "e", "escape", "first", "float", "groupby", "last", "list"),
    *("max", "min", "sort"),
)
FILTERS: Final[dict[str, Callable[..., Any]]] = {
    "tojson": _tojson,
    "string": argument,
    "join": _join,
    "trim": _trim,
    "replace": _replace,
    "items": _items,
    "length": _length,
    "count": _length,
    "lower": _lower,
    "upper": _upper,
    "capitalize": _capitalize,
    "title": _title,
    "safe": argument,
    "indent": _indent,
    "int": _int,
    "round": _round,
    "sum": _sum,
    **{name: _listed(name) for name in _LAZY},
}
