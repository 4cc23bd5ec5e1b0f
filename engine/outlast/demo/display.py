"""How the demonstration is shown while it goes on: live on a terminal, in plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, Self

from rich.console import Console

from outlast.demo.narration import Narrator, clock
from outlast.demo.processes import WorkerProcess
from outlast.demo.watching import ChainEvent, Scene


class Display(Protocol):
    """What the driver needs of it; a context manager."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc_info: object) -> None: ...

    def say(self, text: str) -> None:
        """Something that is worth a line of its own."""
        ...

    def show(self, scene: Scene, processes: Sequence[WorkerProcess]) -> None:
        """How things stand."""
        ...


class PlainDisplay:
    """A line for each step: for logs, pipes and CI."""

    TOLD = frozenset(
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
        """Print it."""
        self._console.print(text, highlight=False, soft_wrap=True)

    def show(self, scene: Scene, processes: Sequence[WorkerProcess]) -> None:
        """Print the events that are new, and retries, which are no events."""
        for told in scene.news:
            self._tell(told)
        self._tell_retry(scene)

    def _tell(self, told: ChainEvent) -> None:
        words = self._narrator.tell(told)
        if told.event.type in self.TOLD:
            self.say(
                f"{clock(told.event.recorded_at)}  run {told.run_number}  {told.event.type:<22}  {words}"
            )

    def _tell_retry(self, scene: Scene) -> None:
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
