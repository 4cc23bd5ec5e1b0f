"""What commands print on stdout: JSON for programs, tables and text for people."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final

import orjson
from pydantic import BaseModel
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from outlast.text.wording import clock, label, progress_words, words
from outlast.visibility.views import RunProgress, RunSummary
from outlast_workflow.primitives.enums import RunStatus

WIDE: Final = 200
"""The width of tables in characters where the output, a file or a pipe, has no width."""
NEAR_S: Final = 60.0

_COLOURS: Final = {
    RunStatus.PENDING: "cyan",
    RunStatus.RUNNING: "cyan",
    RunStatus.COMPLETED: "green",
    RunStatus.FAILED: "red",
    RunStatus.TIMED_OUT: "red",
    RunStatus.CANCELLED: "yellow",
    RunStatus.TERMINATED: "yellow",
    RunStatus.CONTINUED_AS_NEW: "blue",
}


def console() -> Console:
    """Return the console that people read."""
    out = Console(highlight=False)
    return out if out.is_terminal or "COLUMNS" in out._environ else Console(highlight=False, width=WIDE)


def show(*things: Any) -> None:
    """Print texts and tables for people."""
    out = console()
    for thing in things:
        out.print(thing, soft_wrap=isinstance(thing, str), markup=False)


def document(value: Any) -> None:
    """Print a JSON document on a line of its own."""
    text = value.model_dump_json() if isinstance(value, BaseModel) else orjson.dumps(value).decode()
    print(text, flush=True)


@contextmanager
def progress(what: str, total: int) -> Generator[Callable[[int], None]]:
    """Show a progress bar on stderr, if that is a terminal.

    Args:
        what: What is being done.
        total: The number at which it is finished.

    Yields:
        A function that takes the number reached.
    """
    out = Console(stderr=True)
    with Progress(console=out, transient=True, disable=not out.is_terminal) as bars:
        bar = bars.add_task(what, total=total)
        yield lambda done: bars.update(bar, completed=done)


def table(*columns: str, title: str | None = None) -> Table:
    """Return an empty table with these columns."""
    made = Table(
        box=None, header_style="bold", pad_edge=False, title=title, title_justify="left", title_style="bold"
    )
    for name in columns:
        made.add_column(name, overflow="fold")
    return made


def status(value: str) -> Text:
    """Return a run's status in its colour."""
    return Text(value, style=_COLOURS.get(RunStatus(value), ""))


def left(deadline: datetime | None, now: datetime) -> Text:
    """Return how much time a deadline leaves: yellow if it is near, red if it has passed."""
    if deadline is None:
        return Text("")
    seconds = (deadline - now).total_seconds()
    if seconds <= 0:
        return Text(f"passed {words(seconds)} ago", style="bold red")
    return Text(f"in {words(seconds)}", style="yellow" if seconds <= NEAR_S else "")


def deadline(instant: datetime | None, now: datetime) -> Text:
    """Return a deadline with the time that it leaves."""
    if instant is None:
        return Text("none", style="dim")
    return Text.assemble(clock(instant), " (", left(instant, now), ")")


def label_columns(runs: Sequence[RunSummary]) -> dict[str, Callable[[RunSummary], Text]]:
    """Return the columns that a table of runs has only where one of them has something to show, and their cells."""
    columns: dict[str, Callable[[RunSummary], Text]] = {}
    if any(run.summary is not None for run in runs):
        columns["SUMMARY"] = lambda run: Text(label(run.summary))
    if any(run.progress is not None for run in runs):
        columns["PROGRESS"] = lambda run: progress_text(run.progress)
    return columns


def progress_text(found: RunProgress | None) -> Text:
    """Return how far a run is."""
    return Text("" if found is None else progress_words(found.done, found.total, found.message))
