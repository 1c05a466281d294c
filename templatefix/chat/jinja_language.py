"""Jinja as llama-server's engine speaks it, made of jinja2: what is printed is marked with its place on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any, Final

from jinja2 import TemplateRuntimeError, TemplateSyntaxError, Undefined, nodes
from jinja2.compiler import CodeGenerator, Frame, operators
from jinja2.ext import Extension, loopcontrols
from jinja2.lexer import TokenStream
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from templatefix.chat.jinja_filters import FILTERS, KEPT, as_text, shown
from templatefix.chat.jinja_layout import Layout
from templatefix.chat.jinja_run import Run as Run
from templatefix.chat.jinja_text import Text, TooLong, join_texts, literal, plain
from templatefix.chat.jinja_values import wrapped
from templatefix.gotemplate.source import Source, Span

_WEIGHTS: Final[dict[type[nodes.Node], int]] = {nodes.Call: 20, nodes.Output: 5}  # others 1
_FILTER: Final = 10  # that of a filter, counted as it is called
_ITEMS: Final = 100_000  # of one list
_DATE: Final = 64  # characters that one of a date's layout counts as
_LARGEST_POWER: Final = 1024
_SHORT: Final = 64  # characters of a literal that costs nothing to compare with
_WRITTEN: Final = 4  # nodes that a value counts as where it is written, or sorted
_AT_A_GLANCE: Final = ("length", "count", "default", "d")  # filters that look at no item and no character
_OUTSIDE: Final = (  # filters that look at no more than a list's own items
    *("abs", "attr", "first", "items", "last", "list", "map", "reject", "rejectattr", "reverse", "select"),
    "selectattr",
)
_SORTING: Final = ("groupby", "max", "min", "sort", "sum", "unique")
_COMPARING: Final = (
    *("in", "==", "eq", "equalto", "!=", "ne", ">", "gt", "greaterthan", "ge", ">=", "<", "lt", "lessthan", "<=", "le"),
    *("lower", "upper", "filter", "test"),
)
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
_PLAIN: Final = (bool, int, float, bytes)  # without members
_VIEWS: Final = ("items", "keys", "values")
_UNKNOWN: Final[tuple[type[nodes.Node], ...]] = (
    nodes.Extends,
    nodes.Include,
    nodes.Import,
    nodes.FromImport,
    nodes.Block,
)


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
                (f"yield ({tag}, environment.printed(", "))")
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

    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:
        """A member, or a part."""
        if not isinstance(node.arg, nodes.Slice):
            super().visit_Getitem(node, frame)
            return
        self.write("environment.sliced(")
        self.visit(node.node, frame)
        self.write(")[")
        self.visit(node.arg, frame)
        self.write("]")

    def visit_Compare(self, node: nodes.Compare, frame: Frame) -> None:
        """Comparisons; what they go through is counted first."""
        self.write("(")
        member = node.ops[0].op in ("in", "notin")
        self._weighed("key", node.expr, frame) if member else self.visit(node.expr, frame)
        for operand in node.ops:
            self.write(f" {operators[operand.op]} ")
            self._weighed("within" if operand.op in ("in", "notin") else "against", operand.expr, frame)
        self.write(")")

    def visit_Dict(self, node: nodes.Dict, frame: Frame) -> None:
        """An object."""
        self.write("{")
        for item in node.items:
            self._weighed("key", item.key, frame)
            self.write(": ")
            self.visit(item.value, frame)
            self.write(", ")
        self.write("}")

    def _weighed(self, how: str, node: nodes.Expr, frame: Frame) -> None:
        if isinstance(node, nodes.Const) and not (isinstance(node.value, str) and len(node.value) > _SHORT):
            self.visit(node, frame)
            return
        self.write(f"environment.{how}(")
        self.visit(node, frame)
        self.write(")")

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
        self.filters = {name: self._charged(name, found) for name, found in known.items()}
        tests: dict[str, Any] = self.tests
        self.tests = {name: self._compared(found) if name in _COMPARING else found for name, found in tests.items()}
        self.texts: list[Text] = []
        self.tags: list[Span] = []
        self.run = Run()
        self.layout: Layout

    def _charged(self, name: str, found: Callable[..., Any]) -> Callable[..., Any]:
        """A filter whose work counts against what one prompt may cost, before it is done where it can be."""

        @wraps(found)
        def charged(*arguments: Any, **options: Any) -> Any:
            self.run.step(_FILTER)
            if name in _OUTSIDE:
                self._skim(arguments, options)
            elif name not in _AT_A_GLANCE:
                if name in _SORTING:
                    self._skim(arguments, options)
                self.run.weigh((*arguments, *options.values()), _WRITTEN, products=True)
            result = found(*arguments, **options)
            if isinstance(result, str) and result.__class__ is not Text:
                result = plain(str(result))
            self.run.result(result)
            if name == "indent":
                self.run.lines(result)
            return result

        return charged

    def _skim(self, arguments: Sequence[Any], options: Mapping[str, Any]) -> None:
        """What goes through the items of lists, and for each through a text such as the path of an attribute."""
        names = 0
        for argument in (*arguments[1:], *options.values()):
            if isinstance(argument, str):
                names += len(argument)
        for argument in arguments:
            if isinstance(argument, (list, tuple, range, dict)):
                self.run.step(len(argument) * (_FILTER + names // 2 if names else 1))
            elif isinstance(argument, str):
                self.run.text(argument)

    def _compared(self, found: Callable[..., Any]) -> Callable[..., Any]:
        """A test that goes through what it compares."""

        @wraps(found)
        def compared(value: Any, *others: Any) -> bool:
            self.run.weigh((value, *others) if not others or others[0].__class__ is not dict else (value,))
            return bool(found(value, *others))

        return compared

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
        text = self.printed(value)
        self.run.text(text)
        return text.marked(tag, self.run.message)

    def printed(self, value: Any) -> Text:
        """What a tag prints of a value."""
        if value.__class__ is Text:
            return value
        self._converted(value)
        return shown(value)

    def _converted(self, value: Any) -> None:
        if isinstance(value, (list, tuple, dict, range)):
            self.run.weigh((value,), _WRITTEN)

    def key(self, value: Any) -> Any:
        """A key, or what is looked for; that of a tuple is found out from all that is in it."""
        if value.__class__ is tuple:
            self.run.weigh(value)
        return value

    def sliced(self, value: Any) -> Any:
        """What a part is taken of."""
        if value.__class__ is Text:
            self.run.text(value)
        elif isinstance(value, (list, tuple)):
            self.run.items(len(value))
        return value

    def within(self, value: Any) -> Any:
        """What something is looked for in: the keys of an object are found at once."""
        if value.__class__ is Text:
            self.run.text(value)
        elif isinstance(value, (list, tuple, range)):
            self.run.weigh((value,))
        return value

    def against(self, value: Any) -> Any:
        """What something is compared with."""
        if value.__class__ is Text:
            self.run.spend(len(value))
        elif isinstance(value, (list, tuple, dict)):
            self.run.weigh((value,))
        return value

    def joined(self, values: Sequence[Any]) -> Text:
        """`~`."""
        for value in values:
            self._converted(value)
        text = join_texts([value if value.__class__ is Text else as_text(value) for value in values])
        self.run.text(text)
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
                self.run.items(len(left) + len(right))
                return [*left, *right]
        if isinstance(left, (list, tuple)) or isinstance(right, (list, tuple)):
            raise TemplateRuntimeError(f'Unknown operator "{operator}" between Array and another value')
        if operator == "**" and isinstance(right, (int, float)):
            if abs(right) > _LARGEST_POWER:
                raise TemplateRuntimeError("an exponent is too large")
            self.run.step(int(abs(right)))
        if operator == "*" and (isinstance(left, str) or isinstance(right, str)):
            left, right = (plain(value) if isinstance(value, str) else value for value in (left, right))
        if operator == "%" and isinstance(left, str):
            raise TemplateRuntimeError('Unknown operator "%" between String and another value')
        found = super().call_binop(context, operator, left, right)
        if found.__class__ is Text:
            self.run.text(found)
        if found.__class__ is int:
            return wrapped(found)
        return found

    def getattr(self, obj: Any, attribute: str) -> Any:
        """A member; of an object a method comes before a key, and there are four of them."""
        if isinstance(obj, dict):
            if attribute in _VIEWS:
                view = getattr(obj, attribute)
                self.run.items(len(obj))
                return lambda: list(view())
            if attribute == "get":
                return obj.get
            return obj[attribute] if attribute in obj else self.undefined(obj=obj, name=attribute)
        kind = obj.__class__
        if kind is list and attribute == "append":
            return obj.append
        if isinstance(obj, str):
            return getattr(plain(obj), attribute) if attribute in _METHODS else self.undefined(obj=obj, name=attribute)
        if (kind is Namespace or kind is LoopContext) and attribute[:1] != "_":
            return getattr(obj, attribute, None) if kind is LoopContext else self._kept(obj, attribute)
        if obj is None or isinstance(obj, Undefined) or kind in _PLAIN:
            return self.undefined(obj=obj, name=attribute)
        return super().getattr(obj, attribute)

    def _kept(self, space: Namespace, name: str) -> Any:
        try:
            return getattr(space, name)
        except AttributeError:
            return self.undefined(obj=space, name=name)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        """A call; a method of a text is one of those that `getattr` gives."""
        if isinstance(__obj, Undefined):
            name = __obj._undefined_name
            raise TemplateRuntimeError(f"Callee is not a function: got Undefined (hint: {name!r})")
        kwargs.pop("_loop_vars", None)  # which jinja2 hands on to what asks for it: nothing here does
        kwargs.pop("_block_vars", None)
        owner = getattr(__obj, "__self__", None)
        if owner.__class__ is Text:
            if __obj.__name__ not in _METHODS:
                raise TemplateRuntimeError(f"Unknown method of a text: {__obj.__name__}")
            __self.run.weigh((owner, *args, *kwargs.values()), _WRITTEN, products=True)
            result = __obj(*args, **kwargs)
            __self.run.result(result, parts=True)
            return result
        if owner.__class__ in _PLAIN or isinstance(owner, str):
            raise TemplateRuntimeError(f"Unknown method: {__obj.__name__}")
        if __obj.__class__ is not Macro:
            __self._called(__obj, owner, args, kwargs)
        else:
            __self.run.step(len(args) + len(kwargs))
        return super().call(__context, __obj, *args, **kwargs)

    def _called(self, called: Any, owner: Any, arguments: Sequence[Any], options: Mapping[str, Any]) -> None:
        """What is no macro goes through what it is given, and a list through its own items."""
        name = getattr(called, "__name__", "")
        if isinstance(owner, list) and name == "append":
            return
        if isinstance(owner, dict):
            self.key(arguments[0] if arguments else None)
            return
        if isinstance(owner, (list, tuple)):
            self.run.weigh((owner,))
        self.run.weigh((*arguments, *options.values()))
        if name == "strftime":
            self.run.spend(sum([_DATE * len(argument) for argument in arguments if isinstance(argument, str)]))

    def getitem(self, obj: Any, argument: Any) -> Any:
        """A member."""
        if isinstance(obj, dict):
            try:
                return obj[self.key(argument)]
            except (KeyError, TypeError):
                return super().getitem(obj, argument) if isinstance(argument, str) else self.undefined(obj=obj)
        if obj is None or isinstance(obj, Undefined):
            return self.undefined(obj=obj, name=argument)
        if obj.__class__ is Text:
            self.run.items(len(obj.runs) - 1)
        return super().getitem(obj, argument)


def _raise_exception(message: Any = "") -> None:
    raise TemplateRuntimeError(f"Jinja Exception: {message}")
