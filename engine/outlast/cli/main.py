"""``outlast``: running a command, and reporting its errors."""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from outlast.cli.commands import OTHER_NAMES, CommandGroup
from outlast.cli.common.exit_codes import Exit, error_line, exit_code
from outlast.cli.common.stderr import tell
from outlast.version import __version__

# Typer may contain its own copy of click, so the bases of its public error are taken from that error.
_UsageError, _ClickError = typer.BadParameter.__mro__[1:3]

COMPLETE = "_OUTLAST_COMPLETE"

app = typer.Typer(
    name="outlast",
    cls=CommandGroup,
    help="Durable workflows in your own database.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"outlast {__version__}")
        raise typer.Exit


@app.callback()
def outlast(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", envvar="OUTLAST_DEBUG", help="Show where errors come from.")
    ] = False,
) -> None:
    """Durable workflows in your own database."""
    if debug:
        os.environ["OUTLAST_DEBUG"] = "1"


def main() -> None:
    """The entry point of ``outlast``."""
    # A shell asks for completions.
    if COMPLETE in os.environ:
        app(prog_name="outlast")
    code = run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _no_more_output()
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code. Errors become one line on stderr."""
    command = typer.main.get_command(app)
    try:
        # Not `main()`, which has an exit code of its own for a closed pipe.
        with command.make_context("outlast", list(arguments)) as context:
            command.invoke(context)
    except typer.Exit as end:
        return end.exit_code
    except BrokenPipeError:
        # The reader has seen enough, as with `| head`.
        _no_more_output()
        return Exit.OK
    except (KeyboardInterrupt, typer.Abort):
        return Exit.INTERRUPTED
    except Exception as error:
        if isinstance(error, _ClickError):
            return _usage(error)
        if _debugging():
            traceback.print_exc()
        else:
            tell(error_line(error))
        return exit_code(error)
    return Exit.OK


def _debugging() -> bool:
    return os.environ.get("OUTLAST_DEBUG", "").lower() not in ("", "0", "false", "no")


def _usage(error: Exception) -> int:
    context = getattr(error, "ctx", None)
    where = context.command_path if context is not None else "outlast"
    say = getattr(error, "format_message", error.__str__)
    message = str(say())
    # Without any command, the help has been shown.
    if not message:
        return Exit.USAGE
    advice = _input_advice(context, message) or _command_advice(message)
    tell(f"{' '.join(message.split()).rstrip('.')}: {advice}see `{where} --help`")
    return Exit.USAGE if isinstance(error, _UsageError) else Exit.FAILED


def _input_advice(context: Any, message: str) -> str:
    """Return what to do about arguments for a handler that were not given as ``--input``."""
    command = getattr(context, "command", None)
    options = [name for parameter in getattr(command, "params", ()) for name in parameter.opts]
    if "unexpected extra argument" not in message or "--input" not in options:
        return ""
    return "what the workflow gets is given as JSON, as in --input 7 or --input '\"text\"'; "


def _command_advice(message: str) -> str:
    """Return what to use instead of a command that there is not, if other tools have it."""
    missing = re.match(r"No such command '([\w-]+)'", message)
    instead = OTHER_NAMES.get(missing[1]) if missing is not None else None
    return "" if instead is None else f"use {instead}; "


def _no_more_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
