"""Jinja as llama-server's engine speaks it, made of jinja2: what is printed is marked with its place on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from time import monotonic
from typing import Any, Final

from jinja2 import TemplateRuntimeError, TemplateSyntaxError, Undefined, nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.ext import Extension, loopcontrols
from jinja2.lexer import TokenStream
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from templatefix.chat.jinja_filters import FILTERS, KEPT, as_text, shown
from templatefix.chat.jinja_layout import Layout
from templatefix.chat.jinja_text import LONGEST, Text, TooLong, join_texts, literal
from templatefix.chat.jinja_values import Record, wrapped
from templatefix.gotemplate.source import Source, Span

_NODES: Final = 4_000_000  # nodes executed for one prompt, by their weight
_NODES_A_STEP: Final = 3  # as heavy as one of a Go template
_WEIGHTS: Final[dict[type[nodes.Node], int]] = {nodes.Call: 20, nodes.Filter: 10, nodes.Output: 5}  # others 1
_MADE: Final = 4 * LONGEST  # characters of all strings of one prompt
_SECONDS: Final = 8.0  # of one prompt; what a step on long strings can cost has no other bound
_ITEMS: Final = 100_000  # of one list
_METHODS: Final = frozenset(
    (
        "capitalize",
        "endswith",
        "format",
        "index",
        "join",
        "lower",
        "lstrip",
        "replace",
        "rsplit",
        "rstrip",
        "split",
        "startswith",
    )
) | {"strip", "title", "upper", "count", "find", "isdigit", "splitlines", "removeprefix", "removesuffix"}
_VIEWS: Final = ("items", "keys", "values")
_UNKNOWN: Final[tuple[type[nodes.Node], ...]] = (
    nodes.Extends,
    nodes.Include,
    nodes.Import,
    nodes.FromImport,
    nodes.Block,
)


class Run:
    """One prompt in the making: the message at hand, and what may still be spent."""

    __slots__ = ("deadline", "frames", "left", "message", "numbers", "room")

    def __init__(self) -> None:
        self.left = _NODES
        self.deadline = monotonic() + _SECONDS
        self.room = _MADE
        self.message: int | None = None
        self.numbers = False  # the message at hand was found by its number
        self.frames: list[int | None] = []

    def push(self) -> None:
        """A loop begins."""
        self.frames.append(self.message)

    def pop(self) -> None:
        """A loop is over."""
        self.message = self.frames.pop()
        self.numbers = self.numbers and bool(self.frames)

    def step(self, weight: int) -> None:
        """A body with nodes of some weight begins: of a branch, a macro, a pass of a loop."""
        self.left -= weight
        if self.left < 0:
            raise TemplateRuntimeError(f"template: more than {_NODES} nodes executed")
        if monotonic() > self.deadline:
            raise TemplateRuntimeError(f"template: more than {_SECONDS:.0f} seconds")

    def enter(self, item: Any = None) -> None:
        """A pass of a loop begins."""
        if item.__class__ is Record and item.origin.field == "":
            self.message, self.numbers = item.message, False

    def bound(self, value: Any) -> None:
        """A variable is set; in a loop over numbers it may be the message at hand."""
        about = value.message if value.__class__ is Record and not value.origin.field else None
        if about is not None and self.frames and (self.message is None or self.numbers):
            self.message, self.numbers = about, True

    @property
    def steps(self) -> int:
        """What was spent, in steps as a Go template takes them; 64 characters count as one."""
        return (_NODES - self.left) // _NODES_A_STEP + (_MADE - self.room) // 64

    def spend(self, size: int) -> None:
        """Characters were made."""
        self.room -= size
        if self.room < 0:
            raise TooLong


class _Generation(Extension):
    """`{% generation %}`, which marks what a model wrote; to a prompt it does nothing."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
        """Give the body."""
        next(parser.stream)
        return list(parser.parse_statements(("name:endgeneration",), drop_needle=True))


class _Coder(CodeGenerator):
    """Writes jinja2's code with what is printed marked, and the message at hand kept track of."""

    environment: JinjaLanguage

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._targets: dict[int, nodes.Node] = {}
        self._iterated: nodes.Node | None = None
        self._sifted = 0  # what the condition on its items weighs

    def visit(self, node: nodes.Node, *args: Any, **options: Any) -> Any:
        """A node; what a loop goes over is looked at first."""
        if node is not self._iterated:
            return super().visit(node, *args, **options)
        self._iterated = None
        self.write("environment.passes(")
        super().visit(node, *args, **options)
        self.write(f", {self._sifted})")
        return None

    def _kept(self, text: str, span: Span) -> str:
        self.environment.texts.append(literal(text, span))
        return f"environment.texts[{len(self.environment.texts) - 1}]"

    def visit_Output(self, node: nodes.Output, frame: Frame) -> None:
        """Text and printed values, one by one."""
        layout = self.environment.layout
        for child in node.nodes:
            self.environment.tags.append(layout.tag(child.lineno))
            tag = f"environment.tags[{len(self.environment.tags) - 1}]"
            start, end = (
                (f"yield ({tag}, ", ")")
                if frame.buffer is None
                else (f"{frame.buffer}.append(environment.here({tag}, ", "))")
            )
            self.writeline(start, child)
            if isinstance(child, nodes.TemplateData):
                self.write(self._kept(child.data, layout.span(child.lineno, child.lineno + len(child.data))))
            else:
                self.visit(child, frame)
            self.write(end)

    def visit_Const(self, node: nodes.Const, frame: Frame) -> None:
        """Strings know their place."""
        if isinstance(node.value, str):
            self.write(self._kept(node.value, self.environment.layout.literal(node.lineno)))
        else:
            super().visit_Const(node, frame)

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:
        """`~`."""
        self.write("environment.joined((")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write("))")

    def visit_For(self, node: nodes.For, frame: Frame) -> None:
        """A loop, which may be one over the messages."""
        self._targets[id(node.body)] = node.target
        self.writeline("environment.run.push()")
        self._iterated = node.iter
        self._sifted = _weight([node.test]) if node.test is not None else 0
        super().visit_For(node, frame)
        self.writeline("environment.run.pop()")

    def blockvisit(self, nodes: Iterable[Any], frame: Frame) -> None:
        """A body, which may be that of a loop; what it costs is counted before it is executed."""
        body = list(nodes)
        self.writeline(f"environment.run.step({1 + _weight(body)})")
        target = self._targets.pop(id(nodes), None)
        if target is not None:
            name = getattr(target, "name", None)
            self.writeline(f"environment.run.enter({frame.symbols.ref(name) if name else ''})")
        super().blockvisit(body, frame)

    def visit_Assign(self, node: nodes.Assign, frame: Frame) -> None:
        """A variable, which may be the message at hand."""
        super().visit_Assign(node, frame)
        if isinstance(node.target, nodes.Name) and isinstance(node.node, nodes.Getitem):
            self.writeline(f"environment.run.bound({frame.symbols.ref(node.target.name)})")


def _weight(body: Iterable[nodes.Node]) -> int:
    """What the nodes of a body weigh that are executed with it, those of the bodies in it apart."""
    weight = 0
    waiting = list(body)
    while waiting:
        node = waiting.pop()
        weight += _WEIGHTS.get(type(node), 1)
        waiting.extend(node.iter_child_nodes(exclude=("body", "else_")))
    return weight


class JinjaLanguage(ImmutableSandboxedEnvironment):
    """An environment for one template."""

    code_generator_class = _Coder
    intercepted_binops = frozenset(("+", "-", "*", "/", "//", "%", "**"))

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            optimized=False,
            extensions=[loopcontrols, _Generation],
        )
        for name in ("lipsum", "cycler", "joiner"):
            del self.globals[name]
        self.globals.update(raise_exception=_raise_exception)
        known = {name: self.filters[name] for name in KEPT} | FILTERS
        self.filters = {name: self._charged(found) for name, found in known.items()}
        self.texts: list[Text] = []
        self.tags: list[Span] = []
        self.run = Run()
        self.layout: Layout

    def _charged(self, found: Callable[..., Any]) -> Callable[..., Any]:
        """A filter whose results count against what one prompt may make, as do the lists that it goes through."""

        @wraps(found)
        def charged(*arguments: Any, **options: Any) -> Any:
            for argument in arguments:
                if isinstance(argument, (list, range)):
                    self.run.step(len(argument))
            result = found(*arguments, **options)
            if isinstance(result, (str, list)):
                self.run.spend(len(result))
            return result

        return charged

    def read(self, source: Source) -> nodes.Template:
        """Parse a template; the line of each node is its place in `layout`. Raises TemplateSyntaxError."""
        self.layout = Layout(source, self)
        parser = Parser(self, self.layout.text)
        tree = parser.parse()
        for unknown in tree.find_all(_UNKNOWN):
            raise TemplateSyntaxError(f"Unknown statement: {type(unknown).__name__.lower()}", unknown.lineno)
        return tree

    def _tokenize(
        self, source: str, name: str | None, filename: str | None = None, state: str | None = None
    ) -> TokenStream:
        stream: Any = self.lexer.wrap(self.layout.stream(), name, filename)
        return TokenStream(stream, name, filename)

    # -- called by the template's code

    def passes(self, value: Any, sifted: int) -> Any:
        """What a loop goes over; the server's engine takes no string. A condition on its items weighs `sifted`."""
        if value is None or isinstance(value, str):
            kind = "None" if value is None else "String"
            raise TemplateRuntimeError(f"Expected iterable or object type in for loop: got {kind}")
        if sifted and isinstance(value, (list, tuple, dict, range)):
            self.run.step(sifted * len(value))
        return value

    def here(self, tag: Span, value: Any) -> Text:
        """What goes to a variable, marked with its tag and the message at hand."""
        text = value if value.__class__ is Text else shown(value)
        self.run.spend(len(text))
        return text.marked(tag, self.run.message)

    def joined(self, values: Sequence[Any]) -> Text:
        """`~`."""
        text = join_texts([value if value.__class__ is Text else as_text(value) for value in values])
        self.run.spend(len(text))
        return text

    @staticmethod
    def concat(parts: Iterable[Text]) -> Text:  # type: ignore[override]
        """What a block or a macro printed."""
        return join_texts(parts)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Arithmetic as the server's engine does it; a string takes anything that is added to it."""
        if operator == "+":
            if isinstance(left, str) or isinstance(right, str):
                return self.joined((left, right))
            if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
                if len(left) + len(right) > _ITEMS:
                    raise TooLong
                return [*left, *right]
        if isinstance(left, (list, tuple)) or isinstance(right, (list, tuple)):
            raise TemplateRuntimeError(f'Unknown operator "{operator}" between Array and another value')
        if operator == "**" and abs(right if isinstance(right, (int, float)) else 0) > 1024:
            raise TemplateRuntimeError("an exponent is too large")
        if operator == "%" and isinstance(left, str):
            raise TemplateRuntimeError('Unknown operator "%" between String and another value')
        found = super().call_binop(context, operator, left, right)
        if found.__class__ is int:
            return wrapped(found)
        return found

    def getattr(self, obj: Any, attribute: str) -> Any:
        """A member; of an object a method comes before a key, and there are four of them."""
        if isinstance(obj, dict):
            if attribute in _VIEWS:
                view = getattr(obj, attribute)
                return lambda: list(view())
            if attribute == "get":
                return obj.get
            return obj[attribute] if attribute in obj else self.undefined(obj=obj, name=attribute)
        kind = obj.__class__
        if kind is list and attribute == "append":
            return obj.append
        if kind is Text:
            return getattr(obj, attribute) if attribute in _METHODS else self.undefined(obj=obj, name=attribute)
        if (kind is Namespace or kind is LoopContext) and attribute[:1] != "_":
            return getattr(obj, attribute, None) if kind is LoopContext else self._kept(obj, attribute)
        if obj is None or isinstance(obj, Undefined):
            return self.undefined(obj=obj, name=attribute)
        return super().getattr(obj, attribute)

    def _kept(self, space: Namespace, name: str) -> Any:
        try:
            return getattr(space, name)
        except AttributeError:
            return self.undefined(obj=space, name=name)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        """A call; a method of a text is one of those that `getattr` gives."""
        if getattr(__obj, "__self__", None).__class__ is Text:
            kwargs.pop("_loop_vars", None)  # which jinja2 hands on to what asks for it
            kwargs.pop("_block_vars", None)
            __self.run.spend(len(__obj.__self__))
            return __obj(*args, **kwargs)
        if isinstance(__obj, Undefined):
            name = __obj._undefined_name
            raise TemplateRuntimeError(f"Callee is not a function: got Undefined (hint: {name!r})")
        return super().call(__context, __obj, *args, **kwargs)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """A member."""
        if isinstance(obj, dict):
            try:
                return obj[argument]
            except (KeyError, TypeError):
                return super().getitem(obj, argument) if isinstance(argument, str) else self.undefined(obj=obj)
        if obj is None or isinstance(obj, Undefined):
            return self.undefined(obj=obj, name=argument)
        if argument.__class__ is slice:
            self.run.spend(len(obj))
        return super().getitem(obj, argument)


def _raise_exception(message: Any = "") -> None:
    raise TemplateRuntimeError(f"Jinja Exception: {message}")
