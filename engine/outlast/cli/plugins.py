"""Commands that packages above the face bring: found by entry point, so that the face need not know them."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Final

import typer

from outlast.cli.common.exit_codes import CommandFailedError

GROUP: Final = "outlast.commands"


def run_plugin(name: str, extra: str, arguments: list[str]) -> None:
    """Run the Typer application of an entry point as a command.

    Raises:
        CommandFailedError: It is not installed; the message says which extra brings it.
    """
    app = _load(name, extra)
    command = typer.main.get_command(app)
    with command.make_context(f"outlast {name}", arguments) as context:
        command.invoke(context)


def _load(name: str, extra: str) -> typer.Typer:
    missing = CommandFailedError(
        f"`outlast {name}` needs more than is installed: pip install 'outlast[{extra}]'"
    )
    for entry in entry_points(group=GROUP, name=name):
        try:
            app = entry.load()
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("outlast"):
                raise
            raise missing from error
        assert isinstance(app, typer.Typer)
        return app
    raise missing


def ui(context: typer.Context) -> None:
    """Serve the dashboard and the HTTP control plane."""
    run_plugin("ui", "web", context.args)
