"""The commands by name: the line that ``outlast --help`` shows of each, and where its code is.

A command's module is imported when the command is used. ``outlast --help`` imports none of them, and so neither a
database driver nor a web framework.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from outlast.cli import plugins


class Listed(NamedTuple):
    """A command of this package.

    Attributes:
        help: Its line in the list of commands: the first line of its own help.
        module: The module that holds it.
        name: The function, or the Typer application, in that module.
    """

    help: str
    module: str
    name: str


COMMANDS: Final[dict[str, Listed]] = {
    "demo": Listed(
        "Import 50,000 rows, kill a worker half-way, and watch another one finish.",
        "outlast.cli.processes.demo",
        "app",
    ),
    "migrate": Listed("Bring the database's schema up to date.", "outlast.cli.processes.schema", "migrate"),
    "worker": Listed(
        "Run workflows and activities until SIGINT or SIGTERM.", "outlast.cli.processes.worker", "worker"
    ),
    "effects": Listed(
        "Make or prune the table of effects that activity.once() needs in a database of yours.",
        "outlast.cli.processes.effects",
        "app",
    ),
    "check": Listed(
        "Check workflow code for what may not replay: clocks, randomness, I/O, threads.",
        "outlast.cli.processes.check",
        "check_",
    ),
    "start": Listed("Start a workflow.", "outlast.cli.workflows.start", "start"),
    "list": Listed("List runs, newest first.", "outlast.cli.workflows.listing", "list_"),
    "count": Listed("Count runs.", "outlast.cli.workflows.listing", "count"),
    "describe": Listed(
        "Show a workflow: status, deadlines, pending work, failures, attention.",
        "outlast.cli.workflows.description",
        "describe",
    ),
    "history": Listed("Print the events of a run, in order.", "outlast.cli.workflows.history", "history"),
    "stream": Listed(
        "Print the items of a workflow's stream, in order.", "outlast.cli.workflows.stream", "stream"
    ),
    "export": Listed(
        "Write runs and their histories as JSON, one document on each line.",
        "outlast.cli.histories.files",
        "export",
    ),
    "import": Listed(
        "Load exported closed runs into a database, for inspection and replay.",
        "outlast.cli.histories.files",
        "import_",
    ),
    "replay": Listed(
        "Replay recorded histories with the current code; exit with 1 if one no longer replays.",
        "outlast.cli.histories.replay",
        "replay",
    ),
    "result": Listed("Wait for a workflow's result and print it.", "outlast.cli.workflows.endings", "result"),
    "signal": Listed("Send a signal to a workflow.", "outlast.cli.workflows.messages", "signal"),
    "query": Listed(
        "Send a query to an open or closed workflow and print its result.",
        "outlast.cli.workflows.messages",
        "query",
    ),
    "stack": Listed("Show where the code of a workflow waits.", "outlast.cli.workflows.messages", "stack"),
    "update": Listed(
        "Send an update to a workflow and print its result.", "outlast.cli.workflows.messages", "update"
    ),
    "cancel": Listed(
        "Request cancellation of a workflow; its code may clean up.",
        "outlast.cli.workflows.endings",
        "cancel",
    ),
    "terminate": Listed(
        "End a workflow at once, without its code.", "outlast.cli.workflows.endings", "terminate"
    ),
    "set-start-delay": Listed(
        "Move the start of a workflow that has not begun.", "outlast.cli.workflows.start", "set_start_delay"
    ),
    "activity": Listed(
        "Complete, fail, cancel or heartbeat an activity from outside.",
        "outlast.cli.workflows.activity",
        "app",
    ),
    "reset": Listed(
        "Start a new run of a workflow from a point of its history.", "outlast.cli.workflows.reset", "reset"
    ),
    "fork": Listed(
        "Start another workflow with the history of one up to a point.",
        "outlast.cli.workflows.fork",
        "fork",
    ),
    "resume": Listed(
        "Take up a workflow that was cancelled or terminated, that timed out or failed.",
        "outlast.cli.workflows.reset",
        "resume",
    ),
    "bulk": Listed(
        "Cancel, terminate, signal, reset, resume, fork or delete all workflows that match, or move their start.",
        "outlast.cli.workflows.bulk",
        "bulk",
    ),
    "delete": Listed(
        "Delete a closed workflow: all of its runs and their histories.",
        "outlast.cli.histories.removal",
        "delete",
    ),
    "retention": Listed(
        "Delete closed workflows by age or number, in small steps.",
        "outlast.cli.histories.removal",
        "retention",
    ),
    "queue": Listed(
        "Define, update, list, describe, pause, resume or delete queues.",
        "outlast.cli.queues.queue",
        "app",
    ),
    "outbox": Listed(
        "Show what transactions of users have asked for, and what of it was refused.",
        "outlast.cli.processes.outbox",
        "app",
    ),
    "alerts": Listed(
        "List or acknowledge the alerts of deadlines that came near, or test a channel.",
        "outlast.cli.processes.alerts",
        "app",
    ),
    "upcoming": Listed(
        "Show what fires when: the next deadlines, timers, alerts and schedules of all workflows.",
        "outlast.cli.processes.upcoming",
        "upcoming",
    ),
    "schedule": Listed(
        "Create, apply, change, list, trigger or backfill schedules.",
        "outlast.cli.schedules.schedule",
        "app",
    ),
    "workers": Listed(
        "List the registered workers: their leases, what they serve and how much they hold.",
        "outlast.cli.workflows.listing",
        "workers",
    ),
    "watchdog": Listed(
        "Enforce deadlines, fire timers and release the work of dead workers, without being a worker.",
        "outlast.cli.processes.worker",
        "watchdog",
    ),
    "top": Listed(
        "Watch the engine: task queues, deadlines, workflow types, runs, and what needs attention.",
        "outlast.cli.processes.top",
        "top",
    ),
}


OTHER_NAMES: Final[dict[str, str]] = {
    "attention": "outlast list --attention",
    "call": "outlast signal, outlast query or outlast update",
    "dashboard": "outlast ui",
    "execute": "outlast start --wait",
    "get": "outlast describe",
    "inspect": "outlast describe",
    "kill": "outlast terminate",
    "logs": "outlast history",
    "ls": "outlast list",
    "ps": "outlast list, or outlast workers",
    "purge": "outlast retention",
    "retry": "outlast reset --to last-successful, or outlast resume",
    "revoke": "outlast cancel",
    "run": "outlast worker for the code, outlast start for a workflow",
    "serve": "outlast ui",
    "server": "outlast ui; there is no server to run",
    "show": "outlast history, or outlast describe",
    "status": "outlast describe",
    "steps": "outlast history",
    "stop": "outlast cancel, or outlast terminate",
    "task-queue": "outlast top",
    "trace": "outlast stack",
    "web": "outlast ui",
    "workflow": "the command alone, such as outlast list or outlast describe",
}
"""Commands under the names that other tools give them, and what to use here."""


class LazyCommand(TyperCommand):
    """A command that is known by its name and its line of help, and loaded when it is used."""

    def __init__(self, name: str, help: str, load: Callable[[], Any]) -> None:
        super().__init__(name, help=help)
        self.load = load

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Load the command, and return the context of its call."""
        return self.load().make_context(info_name, args, parent, **extra)


class CommandGroup(TyperGroup):
    """The commands of this package, and those that other packages bring by entry point."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        for name, listed in COMMANDS.items():
            self.add_command(LazyCommand(name, listed.help, _loader(name, listed)))

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, in the order of the list."""
        return [*self.commands, *(name for name in plugins.names() if name not in self.commands)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command by name, or ``None`` if there is none."""
        known = self.commands.get(cmd_name)
        if known is not None or cmd_name not in plugins.names():
            return known
        return LazyCommand(cmd_name, plugins.help_of(cmd_name), lambda: plugins.load(cmd_name))


def _loader(name: str, listed: Listed) -> Callable[[], Any]:
    def load() -> Any:
        command = command_of(name, getattr(import_module(listed.module), listed.name))
        _end_with_example(name, command)
        return command

    return load


def _end_with_example(path: str, command: Any) -> None:
    """Let the help of a command, or of each verb of a group, end with an example and the exit codes."""
    # Only a command that is used needs them.
    from outlast.cli.common.examples import EXAMPLES, EXIT_CODES

    for verb, one in getattr(command, "commands", {}).items():
        _end_with_example(f"{path} {verb}", one)
    if path in EXAMPLES:
        command.epilog = f"Example: {EXAMPLES[path]}\n\n{EXIT_CODES}"


def command_of(name: str, thing: Any) -> Any:
    """Return the command of a function or of a Typer application.

    Args:
        name: The command's name.
        thing: The function or the application.
    """
    if isinstance(thing, typer.Typer):
        return typer.main.get_command(thing)
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command(name)(thing)
    return typer.main.get_command(app)
