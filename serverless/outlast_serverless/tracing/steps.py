"""Steps: what is told of the tasks that have run, and what collects it while a history is replayed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from outlast_serverless.tracing.observing import Change, Outcome, Step
from outlast_store.schema.rows import RunRow
from outlast_workflow.primitives.enums import RunStatus
from outlast_workflow.primitives.times import to_datetime

MOST_STEPS: Final = 10_000
"""How many steps are kept while a history is replayed; another replay gives what follows."""
MOST_WITH_DATA: Final = 1_000
"""The same of steps with their inputs and outputs."""


@dataclass(frozen=True, slots=True)
class TaskStep:
    """One execution of a task that has begun.

    Attributes:
        run_id: The run that it is part of: a long loop continues as new, and a retried workflow has several.
        number: Its place among the steps of that run, from 1, in the order in which they began.
        pointer: Where the task stands in the document.
        kind: ``call``, ``do``, ``emit``, ``for``, ``fork``, ``listen``, ``raise``, ``run``, ``set``, ``switch``,
            ``try`` or ``wait``.
        execution: The iteration, attempt or visit that it is: ``it=3,att=2``; empty for the only one.
        outcome: ``completed``, ``skipped`` by its ``if``, ``faulted``, ``timed_out``, ``cancelled``, ``continued`` in
            the next run, or ``open``.
        began: When it began.
        ended: When it ended; ``None`` while it is open.
        error: The error of the DSL that it ended with, caught or not.
        input: Its raw input, if it was asked for.
        output: Its output as it flowed on, if it was asked for.
    """

    run_id: str
    number: int
    pointer: str
    kind: str
    execution: str
    outcome: str
    began: datetime
    ended: datetime | None
    error: dict[str, Any] | None
    input: Any = None
    output: Any = None

    @property
    def id(self) -> str:
        """The pointer, with what tells this execution from others: ``/do/0/x#it=3,att=2``."""
        return f"{self.pointer}#{self.execution}" if self.execution else self.pointer


class Steps:
    """Collects a window of the steps of one run, and what waits before it begins.

    Args:
        after: The number of the last step that is not wanted.
        most: How many are kept.
        data: Whether their inputs and outputs are kept.

    Attributes:
        kept: The steps.
        count: How many have begun.
        held: The steps that a suspension holds back.
        clock: Returns the instant of what is replayed.
    """

    def __init__(self, after: int, most: int, *, data: bool) -> None:
        self.kept: list[Step] = []
        self.count = 0
        self.held: dict[int, Step] = {}
        self.clock: Callable[[], int] = int
        self._after = after
        self._last = after + most
        self._data = data

    @property
    def full(self) -> bool:
        """Whether more have begun than are kept."""
        return self.count > self._last

    def task(self, change: Change, step: Step) -> None:
        """Take note of what happens to a task."""
        if change in ("started", "continued"):
            self.held.pop(id(step), None)
            self.count += 1
            step.began, step.number = self.clock(), self.count
            if self._after < step.number <= self._last:
                self.kept.append(step)
            if not self._data:
                step.input = None
        elif change == "ended":
            self.held.pop(id(step), None)
            step.ended = self.clock()
            if not self._data:
                step.output = None
        elif change == "suspended":
            step.began = self.clock()
            self.held[id(step)] = step

    def workflow(self, change: str, **more: Any) -> None:
        """Leave what happens to the run to others."""


def told(step: Step, run: RunRow) -> TaskStep:
    """Return what is told of a step.

    Args:
        step: The step, which has begun.
        run: Its run. What is open where the run is not has ended with it.
    """
    assert step.began is not None
    outcome: Outcome | str = step.outcome
    ended = step.ended
    if ended is None and run.closed_at is not None:
        ended = run.closed_at
        outcome = "continued" if run.status == RunStatus.CONTINUED_AS_NEW else "cancelled"
    return TaskStep(
        run.run_id,
        step.number,
        step.task.pointer,
        step.kind,
        step.marks,
        outcome,
        to_datetime(step.began),
        None if ended is None else to_datetime(ended),
        step.error,
        step.input,
        step.output,
    )
