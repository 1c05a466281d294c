"""Templates made up at random: valid ones of every construct, and broken ones.

`Writer` draws from anything with the methods of `random.Random`, so one generator serves both hypothesis (through the
strategies below, which shrink) and long runs over plain seeds (`Writer(random.Random(seed)).template()`).

Templates are written over a root with the keys `System`, `Prompt`, `Response`, `Suffix`, `ThinkLevel` (strings),
`Think` (bool), `Messages` (objects with `Role`, `Content`, `Thinking`, `ToolName`, `ToolCalls`, each call with
`Function.Name`, `.Arguments`, `.Index`), `Tools` (objects with `Type`, `Function.Name`, `.Description`) and the generic
`N` (int), `F` (float), `S` (string), `L` (list), `M` (map), `B` (bool), `Z` (nil).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random

from hypothesis import strategies as st

# What an expression is meant to yield; "any" is anything.
KINDS = (
    "string",
    "int",
    "bool",
    "messages",
    "message",
    "tools",
    "tool",
    "calls",
    "call",
    "map",
    "list",
    "float",
    "any",
)
FIELDS: dict[str, dict[str, tuple[str, ...]]] = {
    "root": {
        "string": (".System", ".Prompt", ".Response", ".Suffix", ".ThinkLevel", ".S"),
        "bool": (".Think", ".B"),
        "messages": (".Messages",),
        "tools": (".Tools",),
        "int": (".N",),
        "float": (".F",),
        "list": (".L",),
        "map": (".M",),
        "any": (".Missing", ".Z", ".M.a", ".M.b.c", "."),
    },
    "message": {
        "string": (".Role", ".Content", ".Thinking", ".ToolName"),
        "calls": (".ToolCalls",),
        "message": (".",),
        "any": (".Nope", ".Content.X"),
    },
    "tool": {
        "string": (".Type", ".Function.Name", ".Function.Description"),
        "tool": (".",),
        "any": (".Function", ".Function.Parameters", ".Function.Nope"),
    },
    "call": {
        "string": (".Function.Name", ".ID"),
        "map": (".Function.Arguments",),
        "int": (".Function.Index",),
        "call": (".",),
        "any": (".Function", ".Function.Arguments.city"),
    },
}
ELEMENTS = {"messages": "message", "tools": "tool", "calls": "call", "map": "any", "list": "any", "int": "int"}
TEXTS = (
    *(
        "a",
        "x y",
        "\n",
        " \n ",
        "\t",
        "  ",
        "<|im_start|>",
        "User: ",
        "[INST]",
        "é",
        "日本\n",
        "{",
        "}",
        "{ {",
        "%d",
        "\r\n",
    ),
    *("\x00", "\u2028", "\udcff", "/*", "*/", "-", "😀", '"q"'),
)
STRINGS = (
    *('""', '"user"', '"system"', '"tool"', '"a\\tb"', '"\\"q\\""', "`raw`", "`two\nlines`", '"é"', '"\\u00e9\\x41"'),
    *('"\\101"', '"%v"', '"{{"', "`}}`", '"<&>"', '"\\xff"', '"日本"', '"-}}"', '"/* */"', "`\\n`"),
)
INTS = ("0", "1", "2", "-1", "3", "10", "0x1F", "0b11", "0o17", "1_000", "'a'", "'\\n'", "-0", "+2", "017", "1e3")
FLOATS = ("1.5", ".5", "-2.25", "1e-3", "0x1p-2", "1_0.5", "1e100", "3.0")
ODDITIES = (
    *(
        "1i",
        "1+2i",
        "0i",
        "1.5-2i",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551615",
        "1e18",
        "1e19",
    ),
    *("0x_1", "'\\''", "'\"'", "'é'", "nil", "true", "1e308", "-9223372036854775808", "0x1p63", "1+0i"),
)
FORMATS = (
    '"%v"',
    '"%d"',
    '"%s"',
    '"%q"',
    '"%5d|%-5s"',
    '"%%"',
    '"%T"',
    '"%x"',
    '"%+v"',
    '"%!"',
    '"%[2]v"',
    "`%08.3f`",
    '"%c"',
)
ALL_FUNCTIONS = (
    *("and", "or", "not", "eq", "ne", "lt", "le", "gt", "ge", "len", "index", "slice", "print", "printf", "println"),
    *("html", "js", "urlquery", "json", "currentDate", "call"),
)
FRAGMENTS = (
    *(
        "{{",
        "}}",
        "{{-",
        "-}}",
        "{{- ",
        " -}}",
        "{{end}}",
        "{{else}}",
        "{{ else if .A }}",
        "{{else with .B}}",
        "{{range .X}}",
    ),
    *(
        "{{if .X}}",
        "{{with $x := .Y}}",
        "{{break}}",
        "{{continue}}",
        '{{define "x"}}',
        '{{block "y" .}}',
        '{{template "x"}}',
    ),
    *(
        "{{template `x` .}}",
        "(",
        ")",
        " ",
        "\n",
        "|",
        " | ",
        ".",
        "..",
        ".A",
        ".A.B",
        "$",
        "$x",
        "$i, $x := ",
        "$x := ",
        "$x = ",
    ),
    *(
        ":=",
        "=",
        ",",
        '"',
        "`",
        "'",
        '"a\\n"',
        "`raw\n`",
        "'x'",
        "'ab'",
        "''",
        '"\\q"',
        '"\\xff"',
        "1",
        "-",
        "+",
        "-3",
        "+1",
    ),
    *(
        "0x1F",
        "0x",
        "0b2",
        "0o7",
        "08",
        "1_000",
        "1__0",
        "1_",
        "0x_1",
        "1e3",
        "1e",
        "1.5",
        ".5",
        "1i",
        "1+2i",
        "1-i",
        "0x1p4",
    ),
    *(
        "1e999",
        "99999999999999999999",
        "18446744073709551615",
        "0x1+2i",
        "1e999+1i",
        "0x1p-1074",
        "true",
        "false",
        "nil",
    ),
    *(
        "nil.X",
        '"s".X',
        "1 .X",
        "true.X",
        "not",
        "and",
        "print",
        'printf "%d"',
        "nope",
        "json",
        "if",
        "else",
        "end",
        "range",
    ),
    *(
        "with",
        "define",
        "block",
        "template",
        "break",
        "continue",
        "/* c */",
        "{{/* c */}}",
        "{{- /* c\n */ -}}",
        "{{/* c",
        "*/",
    ),
    *(
        "é",
        "ß.x",
        "$é",
        ".é",
        "\u00a0",
        "\x00",
        "\x7f",
        "\t",
        "\r",
        "\udcff",
        "日本",
        "٣",
        "#",
        "!",
        "%",
        "{",
        "}",
        "\\",
        "😀",
    ),
    *(
        "(.A).B",
        "(index .A 0).B.C",
        '"\\400"',
        '"\\ud800"',
        "'\\''",
        "'\"'",
        "0i",
        "-0",
        "1e19",
        "()",
        "( )",
        "\u200b",
        "\ue000",
    ),
)
_PIECE = re.compile(r"\{\{|\}\}|[.$]?\w+|\s+|.", re.DOTALL)


class Writer:
    """Writes one template; `wild` is how often an expression of the wrong kind or an odd constant slips in."""

    def __init__(self, random: Random, wild: float = 0.05, size: int = 12) -> None:
        self.random = random
        self.wild = wild
        self.budget = size  # statements still to be written
        self.dots = ["root"]
        self.variables: list[tuple[str, str]] = []  # name, kind
        self.defined: list[tuple[str, str]] = []  # name, kind of its dot
        self.in_range = 0
        self.fresh = 0

    # Choices

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def pick(self, options: Sequence[str]) -> str:
        return self.random.choice(options)

    # Layout

    def action(self, *words: str) -> str:
        """An action of some words, with blanks and trim markers as they come."""
        blank = self.random.choice((" ", " ", " ", "\n", "  ", "\t"))
        left = self.random.choice(("{{", "{{ ", "{{", "{{- ", "{{-\n", "{{-  "))
        right = self.random.choice(("}}", " }}", "}}", " -}}", "\n-}}", "  -}}"))
        return left + blank.join(word for word in words if word) + right

    # Statements

    def template(self) -> str:
        """A whole template."""
        parts: list[str] = []
        while self.budget > 0:
            parts.append(self.define() if self.chance(0.05) else self.statement())
        return "".join(parts)

    def body(self) -> str:
        return "".join(self.statement() for _ in range(self.random.randrange(4)) if self.budget > 0)

    def statement(self) -> str:
        self.budget -= 1
        choices: list[Callable[[], str]] = [self.text, self.text, self.output, self.output, self.output, self.declare]
        choices += [self.assign, self.branch, self.branch, self.loop, self.loop, self.narrow, self.comment, self.call]
        if self.in_range:
            choices.append(self.jump)
        return self.random.choice(choices)()

    def text(self) -> str:
        text = "".join(self.random.choice(TEXTS) for _ in range(self.random.randrange(1, 4)))
        text = re.sub(r"\{(?=\{)", "{ ", text)
        return text + " " if text.endswith("{") else text  # a brace would join the next action's

    def output(self) -> str:
        return self.action(self.pipeline("any"))

    def comment(self) -> str:
        text = self.random.choice((" a comment ", "", "\n}} {{ end }}\n", " *** "))
        return self.random.choice(("{{", "{{- ")) + f"/*{text}*/" + self.random.choice(("}}", " -}}"))

    def declare(self) -> str:
        kind = self.pick(KINDS)
        value = self.pipeline(kind)
        return self.action(self.variable(kind), ":=", value)

    def variable(self, kind: str) -> str:
        """A new variable, or a known name declared again."""
        if self.variables and self.chance(0.2):
            name = self.random.choice(self.variables)[0]
        else:
            self.fresh += 1
            name = self.random.choice(("$v", "$_", "$x", "$é", "$1")) + str(self.fresh)
        self.variables.append((name, kind))
        return name

    def assign(self) -> str:
        if not self.variables:
            return self.declare()
        name, kind = self.random.choice(self.variables)
        return self.action(name, "=", self.pipeline(kind))

    def scoped(self, write: Callable[[], str], dot: str | None = None) -> str:
        """What `write` writes, with its variables forgotten and, if given, another dot."""
        known = len(self.variables)
        if dot is not None:
            self.dots.append(dot)
        written = write()
        if dot is not None:
            self.dots.pop()
        del self.variables[known:]
        return written

    def branch(self) -> str:
        def write() -> str:
            parts = [self.action("if", self.condition()), self.body()]
            while self.chance(0.25):
                parts += [self.action("else", "if", self.condition()), self.body()]
            if self.chance(0.4):
                parts += [self.action("else"), self.body()]
            return "".join(parts) + self.action("end")

        return self.scoped(write)

    def condition(self) -> str:
        kind = self.random.choice(("bool", "bool", "bool", "string", "calls", "tools", "any"))
        if self.chance(0.15):
            value = self.pipeline(kind)
            return f"{self.variable(kind)} := {value}"
        return self.pipeline(kind)

    def narrow(self) -> str:
        def write() -> str:
            kind = self.random.choice(("string", "message", "tool", "call", "map", "any"))
            value = self.pipeline(kind)
            head = f"{self.variable(kind)} := {value}" if self.chance(0.3) else value
            parts = [self.action("with", head), self.scoped(self.body, kind)]
            if self.chance(0.25):
                parts += [self.action("else", "with", self.pipeline("string")), self.scoped(self.body, "string")]
            if self.chance(0.3):
                parts += [self.action("else"), self.body()]
            return "".join(parts) + self.action("end")

        return self.scoped(write)

    def loop(self) -> str:
        def write() -> str:
            kind = self.random.choice(("messages", "messages", "tools", "calls", "map", "list", "int"))
            element = ELEMENTS[kind]
            value = self.pipeline(kind)
            names = self.random.randrange(3)
            key = "any" if kind == "map" else "int"
            kinds = [element] if names == 1 else [key, element][:names]
            head = ", ".join([self.variable(each) for each in kinds])
            sign = self.random.choice((" := ", " := ", " := ", ":=")) if head else ""
            self.in_range += 1
            parts = [self.action("range", head + sign + value), self.scoped(self.body, element)]
            self.in_range -= 1
            if self.chance(0.2):
                parts += [self.action("else"), self.body()]
            return "".join(parts) + self.action("end")

        return self.scoped(write)

    def jump(self) -> str:
        jump = self.action(self.random.choice(("break", "continue")))
        if self.chance(0.3):
            return jump
        return self.scoped(lambda: self.action("if", self.condition()) + jump + self.action("end"))

    def define(self) -> str:
        """A definition; calls of it may come before it is written, so names are few."""
        self.budget -= 1
        self.fresh += 1
        name = f"t{self.fresh}"
        dot = self.random.choice(tuple(FIELDS))
        written = self.separate(dot)
        self.defined.append((name, dot))
        return self.action("define", f'"{name}"') + written + self.action("end")

    def separate(self, dot: str) -> str:
        """A body that sees no variables of those around it."""
        outer, self.variables = self.variables, []
        ranges, self.in_range = self.in_range, 0
        dots, self.dots = self.dots, [dot]
        written = self.body()
        self.variables, self.in_range, self.dots = outer, ranges, dots
        return written

    def call(self) -> str:
        if self.defined and self.chance(0.7):
            name, dot = self.random.choice(self.defined)
            argument = "" if self.chance(0.15) else self.pipeline("any" if dot == "root" else dot)
            return self.action("template", f'"{name}"', argument)
        if self.chance(0.5):
            return self.output()
        self.fresh += 1
        head = self.action("block", f"`b{self.fresh}`", self.pipeline("message"))
        return head + self.separate("message") + self.action("end")

    # Expressions

    def pipeline(self, kind: str) -> str:
        if self.chance(0.12):
            argument = self.command(self.pick(KINDS))
            function = {"string": "print", "int": "len", "bool": "not"}.get(kind, self.pick(ALL_FUNCTIONS[:18]))
            bar = self.random.choice((" | ", "|", "\n| "))
            return f"{argument}{bar}{function}"
        return self.command(kind)

    def command(self, kind: str, depth: int = 0) -> str:
        """A command without parentheses around it."""
        if self.chance(self.wild):
            kind = self.pick(KINDS)
        if self.chance(self.wild / 2):
            function = self.pick(ALL_FUNCTIONS)
            return " ".join([function, *(self.operand("any", depth + 1) for _ in range(self.random.randrange(4)))])
        calls = self.calls(kind, depth)
        if calls and depth < 3 and self.chance(0.45):
            return self.random.choice(calls)()
        return self.operand(kind, depth)

    def calls(self, kind: str, depth: int) -> list[Callable[[], str]]:
        """Functions that yield a kind."""

        def of(function: str, *kinds: str) -> Callable[[], str]:
            return lambda: " ".join([function, *(self.operand(each, depth + 1) for each in kinds)])

        both = self.random.choice(("string", "int"))
        compare = self.random.choice(("eq", "ne"))
        order = self.random.choice(("lt", "le", "gt", "ge"))
        table: dict[str, list[Callable[[], str]]] = {
            "bool": [
                *(of(compare, both, both), of("eq", "string", "string", "string"), of(order, "int", "int")),
                *(
                    of("not", "bool"),
                    of("and", "bool", "any"),
                    of("or", "bool", "bool", "bool"),
                    of("eq", "string", "string"),
                ),
            ],
            "int": [of("len", self.random.choice(("string", "messages", "tools", "map", "list")))],
            "string": [
                *(
                    of("print", "any", "any"),
                    of("json", "any"),
                    of("slice", "string", "int"),
                    of("or", "string", "string"),
                ),
                *(of("html", "any"), of("printf " + self.pick(FORMATS), "any"), of("println", "any", "string")),
                *(of("js", "string"), of("urlquery", "string")),
            ],
            "messages": [of("slice", "messages", "int"), of("slice", "messages", "int", "int")],
            "message": [of("index", "messages", "int")],
            "tool": [of("index", "tools", "int")],
            "call": [of("index", "calls", "int")],
            "any": [
                of("index", "map", "string"),
                of("index", "list", "int"),
                of("and", "any", "any"),
                of("or", "any", "any"),
            ],
        }
        found = table.get(kind, [])
        return found + table["string"] if kind == "any" else found

    def operand(self, kind: str, depth: int = 0) -> str:
        if self.chance(self.wild / 2):
            return self.pick(ODDITIES)
        options = [name for name, each in self.variables if each == kind]
        dot = FIELDS.get(self.dots[-1], {})
        options += dot.get(kind, ()) if kind != "any" else [path for paths in dot.values() for path in paths]
        options += ["$" + path if path != "." else "$" for path in FIELDS["root"].get(kind, ())]
        options += self.constants(kind)
        if self.dots[-1] == kind:
            options.append(".")
        if depth < 3 and (not options or self.chance(0.25)):
            return self.parenthesised(kind, depth)
        return self.pick(options or ["."])

    def constants(self, kind: str) -> list[str]:
        if kind == "string":
            return [self.pick(STRINGS), self.pick(STRINGS)]
        if kind == "int":
            return [self.pick(INTS), self.pick(INTS), str(self.random.randrange(4))]
        if kind == "float":
            return [self.pick(FLOATS)]
        if kind == "bool":
            return ["true", "false"]
        return []

    def parenthesised(self, kind: str, depth: int) -> str:
        if kind == "string" and self.chance(0.3):
            owner = self.random.choice(("message", "tool", "call"))
            return f"({self.command(owner, depth + 1)}){self.pick(FIELDS[owner]['string'])}"
        space = self.random.choice(("", "", " "))
        return f"({space}{self.command(kind, depth + 1)}{space})"


def broken(text: str, random: Random) -> str:
    """A template with some pieces cut out, doubled, moved or strewn in, most of them inside actions."""
    for _ in range(random.choice((1, 1, 1, 2, 2, 3, 5))):
        places = [match.start() for match in _PIECE.finditer(text)] + [len(text)]
        actions = [match.span() for match in re.finditer(r"\{\{.*?\}\}", text, re.DOTALL)]
        if actions and random.random() < 0.8:
            first, last = random.choice(actions)
            start = random.choice([place for place in places if first <= place <= last])
        else:
            start = random.choice(places)
        end = places[min(len(places) - 1, places.index(start) + random.choice((1, 1, 2, 3)))]
        way = random.random()
        if way < 0.45:
            text = text[:start] + random.choice(FRAGMENTS) + text[start:]
        elif way < 0.7:
            text = text[:start] + text[end:]
        elif way < 0.85:
            text = text[:start] + random.choice(FRAGMENTS) + text[end:]
        elif way < 0.9:
            text = text[:start]
        else:
            origin = random.choice(places)
            text = text[:start] + text[origin : origin + random.randrange(1, 30)] + text[start:]
    return text


def soup(random: Random) -> str:
    """Actions of fragments in no order."""
    parts: list[str] = []
    for _ in range(random.randrange(1, 6)):
        if random.random() < 0.3:
            parts.append(random.choice(("t", "\n", " x ", "\n\n")))
        words = [random.choice(FRAGMENTS) for _ in range(random.randrange(5))]
        left = random.choice(("{{", "{{ ", "{{- ", "{{-\n"))
        parts.append(left + random.choice(("", " ", "\n")).join(words) + random.choice(("}}", " }}", " -}}", "\n-}}")))
    return "".join(parts)


def any_template(random: Random) -> str:
    """A template of any sort, valid or not."""
    sort = random.randrange(10)
    if sort < 3:
        return soup(random)
    text = Writer(random, wild=random.choice((0.0, 0.05, 0.3)), size=random.choice((1, 3, 8, 20))).template()
    return text if sort < 6 else broken(text, random)


def templates(wild: float = 0.05, size: int = 10) -> st.SearchStrategy[str]:
    """Templates that Go parses; with `wild` 0 most of them execute over the root described above."""
    return st.randoms(use_true_random=False).map(lambda random: Writer(random, wild, size).template())


def broken_templates() -> st.SearchStrategy[str]:
    """Templates of any sort, most of which Go refuses."""
    return st.randoms(use_true_random=False).map(any_template)
