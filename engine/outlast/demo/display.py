"""Showing the demonstration while it runs, in plain lines. :mod:`live` shows it on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, Self

from rich.console import Console

from outlast.demo.narration import Narrator, clock
from outlast.demo.processes import WorkerProcess
from outlast.demo.watching import ChainEvent, Scene


class Display(Protocol):
    """What the driver needs of a display, which is a context manager."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc_info: object) -> None: ...

    def say(self, text: str) -> None:
        """Print a line."""
        ...

    def show(self, scene: Scene, processes: Sequence[WorkerProcess]) -> None:
        """Show the state of the import."""
        ...


class PlainDisplay:
    """A display that prints a line for each step, for logs, pipes and CI."""

    NARRATED = frozenset(
        {
            "ActivityCompleted",
            "ActivityFailed",
            "ActivityTimedOut",
            "TimerFired",
            "WorkflowCompleted",
            "WorkflowContinuedAsNew",
            "WorkflowFailed",
            "WorkflowStarted",
            "WorkflowTaskFailed",
            "WorkflowTimedOut",
        }
    )

    def __init__(self, console: Console) -> None:
        self._console = console
        self._narrator = Narrator()
        self._retry = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None: ...

    def say(self, text: str) -> None:
        """Print a line."""
        self._console.print(text, highlight=False, soft_wrap=True)

    def show(self, scene: Scene, processes: Sequence[WorkerProcess]) -> None:
        """Print new events, and retries, which are not events."""
        for seen in scene.news:
            self._print_event(seen)
        self._report_retry(scene)

    def _print_event(self, seen: ChainEvent) -> None:
        words = self._narrator.describe(seen)
        if seen.event.type in self.NARRATED:
            self.say(
                f"{clock(seen.event.recorded_at)}  run {seen.run_number}  {seen.event.type:<22}  {words}"
            )

    def _report_retry(self, scene: Scene) -> None:
        activity = scene.activity
        if activity is None or activity.last_failure is None:
            return
        retry = (
            f"{activity.activity_type} · attempt {activity.attempt} failed: {activity.last_failure.message}"
        )
        if activity.available_at is not None and retry != self._retry:
            self._retry = retry
            run = scene.description.run.run_number
            at = scene.description.described_at
            self.say(
                f"{clock(at)}  run {run}  {'(retry)':<22}  {retry} · again at {clock(activity.available_at)}"
            )
