"""Commands that packages above this one bring. They are found by entry point, so that no import points upwards."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any, Final

import typer

from outlast.cli.common.exit_codes import CommandFailedError

GROUP: Final = "outlast.commands"

NEED_AN_EXTRA: Final = {"ui": ("Serve the dashboard and the HTTP control plane.", "web")}
"""Commands that are listed even where they cannot run: the line of help, and the extra that they need."""


def names() -> list[str]:
    """Return the names of the commands, without importing any."""
    installed = {entry.name for entry in entry_points(group=GROUP)}
    return [*NEED_AN_EXTRA, *sorted(installed - NEED_AN_EXTRA.keys())]


def help_of(name: str) -> str:
    """Return a command's line in the list of commands, without importing the command."""
    if name in NEED_AN_EXTRA:
        return NEED_AN_EXTRA[name][0]
    dists = [entry.dist for entry in entry_points(group=GROUP, name=name)]
    return f"Installed by {dists[0].name}." if dists and dists[0] is not None else ""


def load(name: str) -> Any:
    """Import a command.

    Raises:
        CommandFailedError: It is not installed; the message names the extra that brings it.
    """
    extra = NEED_AN_EXTRA.get(name, ("", ""))[1]
    missing = CommandFailedError(
        f"`outlast {name}` needs the extra {extra!r}: in a clone, pip install '.[{extra}]'"
    )
    for entry in entry_points(group=GROUP, name=name):
        try:
            app = entry.load()
        except ModuleNotFoundError as error:
            if not extra or (error.name or "").startswith("outlast"):
                raise
            raise missing from error
        assert isinstance(app, typer.Typer)
        return typer.main.get_command(app)
    raise missing
