"""Commands that packages above this one bring. They are found by entry point, so that no import points upwards."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any, Final

import typer

from outlast.cli.common.exit_codes import CommandFailedError

GROUP: Final = "outlast.commands"

OWN: Final = {
    "dag": ("Check and draw DAGs, show their runs, and decide their approvals.", ""),
    "serverless": ("Check, draw and run documents of the Serverless Workflow DSL.", "serverless"),
    "ui": ("Serve the dashboard and the HTTP control plane.", "web"),
}
"""Commands of packages above this one, listed even where they cannot run: the line of help, and the extra they need."""


def names() -> list[str]:
    """Return the names of the commands, without importing any."""
    installed = {entry.name for entry in entry_points(group=GROUP)}
    return [*OWN, *sorted(installed - OWN.keys())]


def help_of(name: str) -> str:
    """Return a command's line in the list of commands, without importing the command."""
    if name in OWN:
        return OWN[name][0]
    dists = [entry.dist for entry in entry_points(group=GROUP, name=name)]
    return f"Installed by {dists[0].name}." if dists and dists[0] is not None else ""


def load(name: str) -> Any:
    """Import a command.

    Raises:
        CommandFailedError: It is not installed; the message names the extra that brings it.
    """
    extra = OWN.get(name, ("", ""))[1]
    wanted = f"needs the extra {extra!r}" if extra else "is not installed"
    missing = CommandFailedError(
        f"`outlast {name}` {wanted}: in a clone, pip install '.{f'[{extra}]' if extra else ''}'"
    )
    for entry in entry_points(group=GROUP, name=name):
        try:
            app = entry.load()
        except ModuleNotFoundError as error:
            if not extra or (error.name or "").startswith("outlast"):
                raise
            # Where the cause says the same it is not told again.
            raise missing from (None if f"the extra {extra!r}" in str(error) else error)
        assert isinstance(app, typer.Typer)
        return typer.main.get_command(app)
    raise missing
