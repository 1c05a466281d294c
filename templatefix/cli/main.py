"""The command `templatefix`: picks the command's file, and turns every failure into one sentence and an exit code."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any

import typer

from templatefix import __version__
from templatefix.cli.output import CliError, complain, fault, quiet_pipes, replace_closed

DONE, FOUND, FAILED = 0, 1, 2
INTERRUPTED, PIPE_CLOSED = 130, 141  # as a shell shows SIGINT and SIGPIPE

COMMANDS = (
    "check",
    "patch",
    "variants",
    "unpatch",
    "ab",
    "scenario",
    "publish",
    "render",
    "explain",
    "demo",
    "lock",
    "watch",
    "report",
    "doctor",
    "trace",
)


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit code."""
    sys.exit(run(sys.argv[1:] if args is None else args))


def run(args: Sequence[str]) -> int:
    """Run the command line; the exit code. Without a word it shows what there is."""
    args = list(args) or ["--help"]
    replace_closed()
    try:
        return int(_app(args)(args=args, prog_name="templatefix", standalone_mode=False) or DONE)
    except (typer.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except OSError as error:  # of a help page
        quiet_pipes()
        complain(f"the output cannot be written: {error.strerror or error}")
        return FAILED
    except Exception as error:
        # Typer's usage errors: its own copy of click has them in newer versions, an installed click in older ones.
        message = getattr(error, "format_message", None)
        if message is None:
            raise
        complain(f"{message().rstrip('.')}; see: {_help_of(error)}")
        return FAILED


def _help_of(error: Exception) -> str:
    context = getattr(error, "ctx", None)
    return f"{context.command_path if context else 'templatefix'} --help"


def _app(args: Sequence[str]) -> typer.Typer:
    """An app with the command that was called, or with all where none was: only what runs is imported."""
    app = typer.Typer(
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_templatefix)
    called = next((arg for arg in args if not arg.startswith("-")), None)
    for name in (called,) if called in COMMANDS else COMMANDS:
        module = import_module(f"templatefix.cli.{name}")
        if hasattr(module, "COMMANDS"):
            app.add_typer(_group(module.COMMANDS), name=name, help=module.HELP)
        else:
            app.command(name)(_guarded(module.run))
    return app


def _group(commands: Mapping[str, Callable[..., int]]) -> typer.Typer:
    """A command with commands of its own."""
    group = typer.Typer(rich_markup_mode=None)
    for name, command in commands.items():
        group.command(name)(_guarded(command))
    return group


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"templatefix {__version__}")
        raise typer.Exit


def _templatefix(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Find chat templates that break a server's prompt cache, mend them, and prove the mend."""


def _guarded(command: Callable[..., int]) -> Callable[..., int]:
    """The command with its failures said in one sentence."""

    @functools.wraps(command)
    def guarded(*args: Any, **kwargs: Any) -> int:
        try:
            code = command(*args, **kwargs)
            if sys.stdout is not None:
                sys.stdout.flush()
            return code
        except CliError as error:
            complain(str(error))
            return FAILED
        except BrokenPipeError:
            quiet_pipes()
            return PIPE_CLOSED
        except KeyboardInterrupt:
            return INTERRUPTED
        except Exception as error:
            complain(fault(error))
            return FAILED

    return guarded
