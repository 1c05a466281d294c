"""Finds the rules: one class a file, in the folder that is shipped and in folders of the user's own."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

from templatefix.analysis.rule import Rule

_SHIPPED = "templatefix.rules"


class RuleError(Exception):
    """A folder or file of rules that cannot be used; one sentence."""


@cache
def shipped_rules() -> tuple[Rule, ...]:
    """The project's own rules, by code."""
    package = importlib.import_module(_SHIPPED)
    names = [module.name for module in pkgutil.iter_modules(package.__path__)]
    rules = [rule for name in names for rule in _rules_of(importlib.import_module(f"{_SHIPPED}.{name}"))]
    return tuple(sorted(rules, key=lambda rule: rule.CODE))


def load_rules(folders: Iterable[Path] = ()) -> tuple[Rule, ...]:
    """The shipped rules and those of the user's folders, by code. Raises RuleError."""
    rules = {rule.CODE: rule for rule in shipped_rules()}
    for folder in folders:
        if not folder.is_dir():
            raise RuleError(f"{folder}: no such folder of rules")
        for path in sorted(folder.glob("[!_]*.py")):
            for rule in _rules_of(_load(path)):
                if rule.CODE in rules:
                    raise RuleError(f"{path}: the code {rule.CODE} is taken by {rules[rule.CODE].NAME}")
                rules[rule.CODE] = rule
    return tuple(rules[code] for code in sorted(rules))


def find_rule(code: str, rules: Iterable[Rule]) -> Rule | None:
    """The rule with a code or a name."""
    wanted = code.strip()
    return next((rule for rule in rules if wanted.upper() == rule.CODE or wanted.lower() == rule.NAME), None)


def page(rule: Rule) -> str:
    """A rule's page: its docstring, as written, and what is known of it in public."""
    import inspect  # slow to import, and only pages need it
    import textwrap

    lines = [inspect.getdoc(type(rule)) or ""]
    if rule.REFERENCES:
        lines += ["", "Known in public"]
    for text in rule.REFERENCES:
        lines += textwrap.wrap(text, 116, initial_indent="    ", subsequent_indent="        ", break_on_hyphens=False)
    return "\n".join(lines)


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"templatefix_user_rules_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise RuleError(f"{path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # whatever a user's file may raise
        raise RuleError(f"{path}: cannot be loaded: {type(error).__name__}: {error}") from error
    return module


def _rules_of(module: ModuleType) -> Iterator[Rule]:
    for value in vars(module).values():
        if isinstance(value, type) and issubclass(value, Rule) and value.__module__ == module.__name__:
            missing = [name for name in ("CODE", "NAME", "SEVERITY", "FIXABLE") if not hasattr(value, name)]
            if missing or value.__abstractmethods__:
                raise RuleError(f"{module.__file__}: {value.__name__} lacks {', '.join(missing) or 'check'}")
            yield value()
