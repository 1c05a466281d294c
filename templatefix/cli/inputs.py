"""What commands read: targets and files, with their failures as one sentence."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from templatefix.cli.output import CliError

if TYPE_CHECKING:
    import datetime

    from templatefix.analysis.rule import Rule
    from templatefix.chat.go import GoChatTemplate
    from templatefix.chat.jinja import JinjaChatTemplate
    from templatefix.chat.rendering import RenderError
    from templatefix.chat.request import Request
    from templatefix.servers.targets import Target

_CODE = re.compile(r"[A-Z]+[0-9]*")  # a rule, or the codes that begin so; a user's own need not begin with TF
T = TypeVar("T", bound=str)


def read_input(file: str) -> bytes:
    """The bytes of a file, of standard input for `-`."""
    if file == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(file).expanduser().read_bytes()
    except FileNotFoundError:
        raise CliError(f"there is no file {file}") from None
    except IsADirectoryError:
        raise CliError(f"{file} is a folder") from None
    except OSError as error:
        raise CliError(f"{file} cannot be read: {error.strerror or error}") from error


def resolved(target: str, as_kind: str | None) -> Target:
    """The target that a word on the command line names."""
    from templatefix.servers.errors import ServerError
    from templatefix.servers.targets import TargetError, resolve

    try:
        return resolve(target, as_kind)
    except (TargetError, ServerError) as error:
        raise CliError(str(error)) from error


def all_or(targets: Sequence[str], every: bool) -> list[str]:
    """The targets on the command line, or with `--all` every model on the server; exactly one of both is wanted."""
    if every == bool(targets):
        wrong = "--all takes every model on the server: name no other" if every else "a TARGET is wanted; see --help"
        raise CliError(wrong)
    if not every:
        return list(targets)
    from templatefix.servers.errors import ServerError
    from templatefix.servers.ollama import OllamaClient

    try:
        return sorted(OllamaClient().tags())
    except ServerError as error:
        raise CliError(str(error)) from error


def served(target: Target, template: GoChatTemplate | JinjaChatTemplate) -> Callable[[Request], Request]:
    """What a server makes of a request before this template sees it."""
    if target.shown is None:
        return template.as_served
    from templatefix.servers.served import as_served

    shown = target.shown
    return lambda request: as_served(request, shown)


def as_file(target: Target) -> Target:
    """The target, of a Jinja text as if it had come in a file: not its Ollama but a llama-server renders it."""
    return replace(target, shown=None) if target.jinja is not None else target


def explained(error: RenderError, target: Target) -> str:
    """The engine's sentence with file, line and column, the line itself and a caret below it."""
    from templatefix.gotemplate.errors import GoError
    from templatefix.gotemplate.source import Span

    message = error.message
    if target.jinja is None and error.stage == "parse" and "{%" in target.source.text:
        message += " (a Jinja template is read with --as jinja)"
    if error.span is None:
        return f"{target.name}: {message}"
    span = Span(target.position(error.span.start).offset, target.position(error.span.end).offset)
    source = target.source if target.modelfile is None else target.modelfile.source
    return GoError(message, source, span).explain(target.name)


def template_of(target: Target, date: datetime.date | None = None) -> GoChatTemplate:
    """The Go template of a target, ready to render; Go's sentences do not name the file, as on the server."""
    from templatefix.chat.go import GoChatTemplate
    from templatefix.chat.rendering import RenderError

    try:
        return GoChatTemplate(target.source.text, date=date)
    except RenderError as error:
        raise CliError(explained(error, target)) from error


def chat_template_of(
    target: Target, date: datetime.date | None = None, bos: str | None = None, eos: str | None = None
) -> GoChatTemplate | JinjaChatTemplate:
    """The template of a target in whichever language; `bos` and `eos` are the target's own by default."""
    if target.jinja is None:
        return template_of(target, date)
    from templatefix.chat.jinja import JinjaChatTemplate
    from templatefix.chat.rendering import RenderError

    told = target.jinja
    try:
        if target.shown is not None:
            from templatefix.servers.in_force import jinja_in_force

            return jinja_in_force(told, target.shown, date, bos, eos)
        bos, eos = told.bos if bos is None else bos, told.eos if eos is None else eos
        return JinjaChatTemplate(target.source.text, bos=bos, eos=eos, date=date, caps=told.caps)
    except RenderError as error:
        raise CliError(explained(error, target)) from error


def program_path(name: str) -> Path:
    """A program by its path or its name on the PATH; raises CliError where there is none."""
    found = shutil.which(os.path.expanduser(name))
    if found is None:
        raise CliError(f"there is no program {name}")
    return Path(found).absolute()


def known(option: str, value: str, allowed: Sequence[T]) -> T:
    """The value of an option that takes one of a few words."""
    for word in allowed:
        if word == value:
            return word
    raise CliError(f"{option} takes {', '.join(allowed[:-1])} or {allowed[-1]}, not {value}")


def codes(words: Iterable[str] | None) -> tuple[str, ...]:
    """The rule codes in the values of an option, parted by commas or blanks."""
    found = tuple(code.upper() for word in words or () for code in word.replace(",", " ").split())
    for code in found:
        if not _CODE.fullmatch(code):
            raise CliError(f"{code} is no rule code; they look like TF101")
    return found


def selected(rules: Sequence[Rule], select: Sequence[str], ignore: Sequence[str]) -> tuple[Rule, ...]:
    """The rules that --select and --ignore leave; they hold codes or their beginnings."""
    for code in (*select, *ignore):
        if not any(rule.CODE.startswith(code) for rule in rules):
            raise CliError(f"there is no rule {code}; there are {', '.join(rule.CODE for rule in rules)}")
    chosen = [rule for rule in rules if not select or rule.CODE.startswith(tuple(select))]
    return tuple(rule for rule in chosen if not rule.CODE.startswith(tuple(ignore)))


def rules_of(folders: Iterable[str] | None) -> tuple[Rule, ...]:
    """The rules that are shipped and those of the user's folders."""
    from templatefix.analysis.registry import RuleError, load_rules

    try:
        return load_rules(Path(folder).expanduser() for folder in folders or ())
    except RuleError as error:
        raise CliError(str(error)) from error
