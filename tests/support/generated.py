"""Random templates that parse, for comparisons with real Go: any type of value meets any function."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

VERBS = ["%v", "%d", "%s", "%q", "%x", "%T", "%t", "%5.2f", "%-6v|", "%05d", "%+v", "%#v", "%c", "%U", "%e", "%g", "%%"]
TEXTS = ["", " ", "\n", "text", "é ", "  \n\t", "a\n\n b", "<b>", "}}", "{", "'q'"]
WORDS = ["", "a", "text", "é", "%d", "<&>", "a b", "\n", '"', "\\", "10", "\x00", "\u2028", "user", "tool"]
NUMBERS = ["0", "1", "2", "-1", "3", "1.5", "-0.5", "2.0", "1e3", "1e21", "0x2", "1i", "'a'", "'\\n'", "1_0", "0b1"]
COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge"]


class Template:
    """One random template over the given `fields` of dot; `text` writes it.

    Loops are few and short, since a template may double a text in each turn.
    """

    def __init__(self, random: Random, fields: Sequence[str], functions: Sequence[str] = ("json",)) -> None:
        self.random = random
        self.fields = fields
        self.functions = functions
        self.variables: list[str] = []
        self.loops = 0
        self.defined: list[str] = []

    def text(self) -> str:
        parts = []
        for name in self.some(["one", "two"]):
            parts.append(self.action(f"define {json.dumps(name)}") + self.body(1) + self.action("end"))
            self.defined.append(name)
        parts.append(self.body(3))
        if self.chance(0.3):
            self.random.shuffle(parts)
        return "".join(parts)

    # -- drawing

    def one(self, choices: Sequence[Any]) -> Any:
        return choices[self.random.randint(0, len(choices) - 1)]

    def some(self, choices: Sequence[str]) -> list[str]:
        return [choice for choice in choices if self.chance(0.15)]

    def chance(self, share: float) -> bool:
        return self.random.randint(0, 99) < 100 * share

    # -- statements

    def body(self, depth: int) -> str:
        known = len(self.variables)
        body = "".join(self.statement(depth) for _ in range(self.random.randint(0, 3)))
        del self.variables[known:]
        return body

    def statement(self, depth: int) -> str:
        kinds: list[Callable[[int], str]] = [self.literal, self.printed, self.printed, self.declared, self.assigned]
        if depth > 0:
            kinds += [self.conditional, self.conditional, self.looped, self.called]
        return self.one(kinds)(depth)

    def literal(self, depth: int) -> str:
        return str(self.one(TEXTS))

    def action(self, content: str) -> str:
        left = self.one(["{{ ", "{{", "{{- ", "{{ "])
        right = self.one([" }}", "}}", " -}}", " }}"])
        return f"{left}{content}{right}"

    def printed(self, depth: int) -> str:
        return self.action(self.pipeline(2))

    def declared(self, depth: int) -> str:
        content = self.pipeline(2)
        name = self.one(["$x", "$y", "$z"])
        self.variables.append(name)
        return self.action(f"{name} := {content}")

    def assigned(self, depth: int) -> str:
        if not self.variables:
            return self.printed(depth)
        return self.action(f"{self.one(self.variables)} = {self.pipeline(1)}")

    def conditional(self, depth: int) -> str:
        known = len(self.variables)
        keyword = self.one(["if", "if", "with"])
        head = self.pipeline(2)
        if self.chance(0.15):
            self.variables.append("$c")
            head = f"$c := {head}"
        parts = [self.action(f"{keyword} {head}"), self.body(depth - 1)]
        if self.chance(0.2):
            parts += [self.action(f"else {keyword} {self.pipeline(1)}"), self.body(depth - 1)]
        if self.chance(0.4):
            parts += [self.action("else"), self.body(depth - 1)]
        del self.variables[known:]
        return "".join([*parts, self.action("end")])

    def looped(self, depth: int) -> str:
        if self.loops == 2:
            return self.conditional(depth)
        self.loops += 1
        known = len(self.variables)
        head = self.pipeline(1)
        declared = self.one([[], [], ["$e"], ["$i", "$e"]])
        if declared:
            head = f"{', '.join(declared)} := {head}"
            self.variables += declared
        elif len(self.variables) > 1 and self.chance(0.2):
            head = f"{self.variables[0]}, {self.variables[-1]} = {head}"
        parts = [self.action(f"range {head}"), self.body(depth - 1)]
        if self.chance(0.2):
            jump = self.action(self.one(["break", "continue"]))
            parts += [self.action(f"if {self.pipeline(1)}"), jump, self.action("end"), self.body(depth - 1)]
        self.loops -= 1
        if self.chance(0.3):
            parts += [self.action("else"), self.body(depth - 1)]
        del self.variables[known:]
        return "".join([*parts, self.action("end")])

    def called(self, depth: int) -> str:
        if not self.defined:
            return self.printed(depth)
        return self.action(f"template {json.dumps(self.one(self.defined))} {self.pipeline(1)}")

    # -- expressions

    def pipeline(self, depth: int) -> str:
        commands = [self.command(depth)]
        while self.chance(0.2):
            commands.append(self.function(depth, piped=True))
        return " | ".join(commands)

    def command(self, depth: int) -> str:
        return self.function(depth) if self.chance(0.5) else self.operand(depth, lone=True)

    def function(self, depth: int, piped: bool = False) -> str:
        args = [self.operand(depth - 1) for _ in range(self.random.randint(0 if piped else 1, 2))]
        name = self.one(["compare", "printf", "index", "slice", "len", "logic", "print", "escape", "other"])
        if name == "compare":
            name = self.one(COMPARISONS)
            args = [self.operand(depth - 1) for _ in range(1 if piped else 2)]
        elif name == "printf":
            args.insert(0, json.dumps(" ".join(self.one(VERBS) for _ in range(self.random.randint(1, 2)))))
        elif name == "len":
            args = args[:0] if piped else args[:1]
        elif name == "logic":
            name = self.one(["and", "or", "not"])
            args = args[: (not piped)] if name == "not" else args
        elif name == "print":
            name = self.one(["print", "println"])
        elif name == "escape":
            name = self.one(["html", "js", "urlquery"])
        elif name == "other":
            name = self.one(self.functions)
            args = args[:0] if piped else args[:1]
        return " ".join([name, *args])

    def operand(self, depth: int, lone: bool = False) -> str:
        kind = self.random.randint(0, 11)
        if kind < 5:
            return self.chain(self.one(["", "", "", "$"]))
        if kind == 5:
            return str(self.one([".", "$"]))
        if kind < 8 and self.variables:
            variable = str(self.one(self.variables))
            return self.chain(variable) if self.chance(0.3) else variable
        if kind == 8 and depth > 0:
            group = f"({self.pipeline(depth - 1)})"
            return self.chain(group) if self.chance(0.3) else group
        if kind == 9:
            return str(self.one(NUMBERS))
        if kind == 10 and not lone:
            return str(self.one(["true", "false", "nil"]))
        return self.quoted(self.one(WORDS))

    def chain(self, start: str) -> str:
        return start + "".join(f".{self.one(self.fields)}" for _ in range(self.one([1, 1, 1, 2])))

    def quoted(self, word: str) -> str:
        if self.chance(0.2) and "`" not in word and "\r" not in word:
            return f"`{word}`"
        return json.dumps(word)
