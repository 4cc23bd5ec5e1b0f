"""What has run of a document, as its page shows it: how each task ended last, and which attempts have failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from outlast.visibility.views import WorkflowDescription
from outlast_serverless.picture.svg import Look
from outlast_serverless.runtime.run import DocumentRun, OpenTask
from outlast_serverless.tracing.steps import TaskStep
from outlast_workflow.errors import OutlastError

MOST_REPLAYED: Final = 2_000
"""What has run is told of a run with at most so many events: that takes a replay."""
_MOST_STEPS: Final = 5_000
_ENDED: Final = {"completed": "completed", "continued": "completed", "skipped": "skipped"}


@dataclass(frozen=True, slots=True)
class Setback:
    """An attempt that has failed, after which a task waits for the next one.

    Attributes:
        name: The name of the task.
        attempt: The how manieth attempt it was.
        at: When it failed.
        error: The error of the DSL.
    """

    name: str
    attempt: int
    at: datetime
    error: dict[str, Any]


async def ended_steps(handle: DocumentRun, found: WorkflowDescription) -> list[TaskStep]:
    """Return the executions of tasks that have ended in a run, in the order in which they began.

    Args:
        handle: The run.
        found: The same as the engine describes it.

    Returns:
        Nothing if that cannot be told cheaply.
    """
    run = found.run
    if run.history_length > MOST_REPLAYED or run.started_at is None:
        return []
    try:
        page = await handle.trace_page(f"{run.run_id}:0", limit=_MOST_STEPS)
    except OutlastError:
        # Where it is, is told without a replay.
        return []
    return [step for step in page.steps if step.run_id == run.run_id and step.ended is not None]


def looks_of(steps: Sequence[TaskStep]) -> dict[str, Look]:
    """Return how each task ended the last time, and how often it has run, by pointer.

    Args:
        steps: What has ended.
    """
    outcomes: dict[str, Counter[str]] = {}
    told: dict[str, Look] = {}
    for step in steps:
        counted = outcomes.setdefault(step.pointer, Counter())
        counted[step.outcome] += 1
        words = step.outcome.replace("_", " ")
        if counted.total() > 1:
            times = f"{counted.total():,} times"
            words = f"{words}, {times}" if len(counted) == 1 else f"{times}, {words} at last"
        told[step.pointer] = Look(_ENDED.get(step.outcome, "cancelled"), f"{step.kind}: {words}")
    return told


def setbacks_of(tasks: Iterable[OpenTask], steps: Sequence[TaskStep]) -> list[Setback]:
    """Return which attempt failed last, for each task that waits for its next one.

    Args:
        tasks: What is open.
        steps: What has ended.
    """
    found: list[Setback] = []
    for task in tasks:
        if task.kind != "backoff":
            continue
        inside = f"{task.pointer}/try/"
        failed = [
            step
            for step in steps
            if step.error is not None and step.pointer.startswith(inside) and _within(step.execution, task)
        ]
        last = max(failed, key=lambda step: (step.ended, step.number), default=None)
        if last is not None and last.ended is not None and last.error is not None:
            attempt = _attempt(last.execution.removeprefix(task.execution))
            found.append(Setback(name_of(task.pointer), attempt, last.ended, last.error))
    return found


def name_of(pointer: str) -> str:
    """Return the name of a task.

    Args:
        pointer: Where it stands in the document.
    """
    return pointer.rpartition("/")[2].replace("~1", "/").replace("~0", "~")


def _within(execution: str, task: OpenTask) -> bool:
    return not task.execution or execution == task.execution or execution.startswith(f"{task.execution},")


def _attempt(marks: str) -> int:
    """Return the attempt that the first of some marks names; the first attempt has no mark."""
    name, _, number = marks.removeprefix(",").partition(",")[0].partition("=")
    return int(number) if name == "att" and number.isdecimal() else 1
