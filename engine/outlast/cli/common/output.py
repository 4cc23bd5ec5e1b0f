"""What commands print on stdout: JSON for programs, tables and text for people."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final

import orjson
from pydantic import BaseModel
from rich.console import Console, RenderableType
from rich.progress import Progress
from rich.text import Text

from outlast.cli.common.tables import FittedTable, Paragraph
from outlast.text.wording import clock, label, progress_words, words
from outlast.visibility.views import RunProgress, RunSummary
from outlast_workflow.primitives.enums import RunStatus

WIDE: Final = 200
"""The width of tables in characters where the output, a file or a pipe, has no width."""
NEAR_S: Final = 60.0
MOST_NAMED: Final = 3
"""How many workflows of one reason are named."""

_COLOURS: Final = {
    RunStatus.QUEUED: "cyan",
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
    if not out.is_terminal:
        # Some versions of Rich end even a bar that is disabled with an empty line.
        yield lambda _: None
        return
    with Progress(console=out, transient=True) as bars:
        bar = bars.add_task(what, total=total)
        yield lambda done: bars.update(bar, completed=done)


def table(
    *columns: str, title: str | None = None, drop: Sequence[str] = (), clip: str | None = None
) -> FittedTable:
    """Return an empty table that fits the terminal.

    Args:
        *columns: The names of its columns.
        title: A line above it.
        drop: The columns that are left out first where the terminal is narrow, in this order.
        clip: A column whose cells are cut where the line ends.
    """
    return FittedTable(columns, title=title, drop=drop, clip=clip)


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


def attention(runs: Iterable[RunSummary]) -> list[RenderableType]:
    """Return why runs need attention and what to do about it: a paragraph for each reason, with its runs."""
    found: dict[str, list[str]] = {}
    for run in runs:
        for reason in run.attention_reasons:
            found.setdefault(f"{reason.cause}: {reason.remedy}", []).append(run.workflow_id)
    return [Paragraph(Text.assemble((_some(ids), "bold"), f": {why}")) for why, ids in found.items()]


def hold_ups(runs: Iterable[RunSummary]) -> list[RenderableType]:
    """Return what holds up runs in lines of queues: a paragraph for each cause, with its runs, unless it says more."""
    found: dict[str, list[str]] = {}
    for run in runs:
        if run.held_up_by is not None and not run.attention_reasons:
            found.setdefault(label(run.held_up_by), []).append(run.workflow_id)
    return [Paragraph(Text.assemble((_some(ids), "bold"), f" in line: {why}")) for why, ids in found.items()]


def _some(ids: list[str]) -> str:
    rest = f" and {len(ids) - MOST_NAMED:,} more" if len(ids) > MOST_NAMED else ""
    return ", ".join(ids[:MOST_NAMED]) + rest


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
    if any(run.queue is not None for run in runs):
        columns["QUEUE"] = _queue_text
    return columns


def _queue_text(run: RunSummary) -> Text:
    if run.queue is None:
        return Text("")
    return Text(run.queue if run.partition_key is None else f"{run.queue}, {run.partition_key}")


def progress_text(found: RunProgress | None) -> Text:
    """Return how far a run is."""
    return Text("" if found is None else progress_words(found.done, found.total, found.message))
