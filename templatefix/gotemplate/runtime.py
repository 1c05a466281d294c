"""What an execution carries along, what it may cost, and how it fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final, TypeAlias

from templatefix.gotemplate.errors import ExecError
from templatefix.gotemplate.formatting import AddressPrinted, format_value
from templatefix.gotemplate.functions import Function
from templatefix.gotemplate.nodes import Node
from templatefix.gotemplate.printer import error_context
from templatefix.gotemplate.source import Source, Span
from templatefix.gotemplate.values import INVALID, Composite, TracedStr, origin_of, pointed_to, type_of

RawPiece: TypeAlias = tuple[Node, Any, str]
TEXT: Final[Callable[[RawPiece], str]] = itemgetter(2)
Expression: TypeAlias = Callable[["State", Any], Any]
Statement: TypeAlias = Callable[["State", Any], None]

MAX_TEMPLATE_DEPTH: Final = 100_000  # Go's own limit for nested template calls


@dataclass(frozen=True, slots=True)
class Limits:
    """What one execution may cost."""

    steps: int = 5_000_000  # nodes executed in loops and called templates
    output: int = 64 * 1024 * 1024  # characters


DEFAULT_LIMITS: Final = Limits()


class Unset:
    """The type of the marks below."""

    __slots__ = ()


UNSET: Final = Unset()  # a variable whose declaration was not executed
DYNAMIC: Final = Unset()  # the node that Go is at is in the state
At: TypeAlias = "Node | Unset"


class State:
    """What an execution carries along."""

    __slots__ = ("at", "depth", "emit", "limits", "made", "out", "scope", "steps", "variables")

    def __init__(self, root: Any, limits: Limits, slots: int) -> None:
        self.out: list[RawPiece] = []
        self.emit = self.out.append
        self.variables: list[Any] = [root] + [UNSET] * slots
        self.scope: Any = root.scope if isinstance(root, Composite) else None
        self.depth = 0
        self.steps = limits.steps
        self.made = 0
        self.limits = limits
        self.at: Node | None = None


def limit_error(what: str, source: Source) -> ExecError:
    """The error for an execution that goes beyond a limit."""
    return ExecError(f"template: {what}", source, Span(0, 0))


class Context:
    """What all code compiled of one template shares: its source, Go's name of it and the functions it may call.

    `custom` are the names of the functions that are not Go's own; `missing_is_zero` is Go's option missingkey=zero.
    """

    __slots__ = ("custom", "functions", "missing_is_zero", "name", "source")

    def __init__(
        self,
        source: Source,
        name: str,
        functions: Mapping[str, Function],
        custom: frozenset[str],
        missing_is_zero: bool = True,
    ) -> None:
        self.source = source
        self.name = name
        self.functions = functions
        self.custom = custom
        self.missing_is_zero = missing_is_zero

    def is_builtin(self, name: str) -> bool:
        """Whether a function is Go's own."""
        return name in self.functions and name not in self.custom

    def error(self, state: State, at: At, message: str) -> ExecError:
        """An error with Go's sentence about the node that Go is at."""
        node = state.at if isinstance(at, Unset) else at
        assert node is not None
        location, context = error_context(self.source, node)
        quoted = self.name.replace("\\", "\\\\").replace('"', '\\"')
        text = f'template: {location}: executing "{quoted}" at <{context}>: {message}'
        return ExecError(text, self.source, node.span)

    def spend(self, state: State, steps: int) -> None:
        """Count steps against the limit."""
        state.steps -= steps
        if state.steps < 0:
            raise limit_error(f"more than {state.limits.steps} steps", self.source)

    def account(self, state: State, text: str) -> str:
        """Count new text against the limit."""
        state.made += len(text)
        if state.made > state.limits.output:
            raise limit_error(f"output longer than {state.limits.output} characters", self.source)
        return text

    def printed(self, state: State, at: At, value: Any) -> str:
        """What an action prints of a value that is not a string."""
        if value is INVALID or value is None:
            return "<no value>"
        try:
            text = self.account(state, format_value(pointed_to(value)))
        except AddressPrinted:
            message = f"prints the address of a {type_of(value).name}, which is another one every time"
            raise self.error(state, at, message) from None
        origin = origin_of(value)
        return text if origin is None else TracedStr(text, origin)

    def failing(self, at: At, message: str, before: Expression | None = None) -> Expression:
        """An expression that always fails, once what stands before it is evaluated."""

        def fail(state: State, dot: Any) -> Any:
            if before is not None:
                before(state, dot)
            raise self.error(state, at, message)

        return fail
