"""A workflow task as its owner hands it over, and what became of it.

:mod:`outlast_runs.task_commit` writes one that was decided, :mod:`outlast_runs.task_failure` one that failed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from outlast_store.schema.rows import ActivityRow, RunRow
from outlast_store.transitions.children import NewChild
from outlast_workflow.history.events import (
    ActivityCompleted,
    ActivityScheduled,
    Event,
    SignalReceived,
    WorkflowStarted,
    WorkflowTaskCompleted,
)
from outlast_workflow.options.limits import DEFAULT_LIMITS, StructuralLimits
from outlast_workflow.options.options import ActivityOptions
from outlast_workflow.run.handler_tasks import Considered


class OwnResult(NamedTuple):
    """The result of an activity that ran here, bundled with the decision that it led to."""

    activity_id: int
    attempt: int
    event: ActivityCompleted


@dataclass(slots=True)
class WorkflowTask:
    """What one workflow task decided, and what it had seen when it did.

    Attributes:
        worker_id: The owner.
        fence: The fence that it claimed the run with.
        seen_seq: The last event that it had seen.
        seen_inbox: The inbox that it had seen.
        record: Its record in the history. ``None`` where a structural limit ended the run (replay ends before such a
            workflow task), and where only requests of the inbox are answered.
        commands: The commands, in the order in which the code asked; only the last may end the run.
        own: The bundled results of activities that ran here.
        considered: What became of the updates that waited.
        eager: The activities that start here as soon as this is durable, by command id.
        nothing_open: Whether no activity, timer or child is open.
        build_id: The worker's build.
        next_run_id: The id of the next run, if this one continues as new.
        next_owner_id: The worker that owns the next run from the first write, if any.
        children: The children that start with it, by command id.
        buffered: The signals that wait without a handler.
        limits: How many signals may wait in a run that this one signals.
        progress: The run's progress as its code has last set it, as JSON text; ``None`` if it never has.
        started: How the run was started, which the next run takes over if this one continues as new.
        streams: The streams that it writes to or closes.
        closed_streams: All that the code has closed, in this workflow task and before.
    """

    worker_id: str
    fence: int
    seen_seq: int
    seen_inbox: int
    record: WorkflowTaskCompleted | None
    commands: Sequence[Event]
    own: Sequence[OwnResult] = ()
    considered: Considered | None = None
    eager: Mapping[int, ActivityOptions] = field(default_factory=dict)
    nothing_open: bool = False
    build_id: str | None = None
    next_run_id: str | None = None
    next_owner_id: str | None = None
    children: Mapping[int, NewChild] = field(default_factory=dict)
    buffered: Sequence[SignalReceived] = ()
    limits: StructuralLimits = DEFAULT_LIMITS
    progress: str | None = None
    started: WorkflowStarted | None = None
    streams: Sequence[str] = ()
    closed_streams: Sequence[str] = ()


@dataclass(slots=True)
class Applied:
    """What became of a workflow task.

    Attributes:
        run: The run's row. It is closed where the workflow task ended it, or a deadline did instead.
        first_seq: The seq of the first event that the change appended.
        following: The next run's row, if the run continued as new.
        claimed: The activities that start here now.
        consequences: What follows from commands. It is written after all of them, so that no event comes between.
    """

    run: RunRow
    first_seq: int
    following: RunRow | None = None
    claimed: list[tuple[ActivityRow, ActivityScheduled]] = field(default_factory=list)
    consequences: list[Callable[[], None]] = field(default_factory=list)
