"""The rows of a workflow with one activity, and of one step of a sequence, as Outlast writes them.

They are made of Outlast's own records, so their columns and the sizes of their payloads are real (a test compares them
with what a run writes), but they are written without the engine.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from benchmarks.harness.inputs import ACTIVITY_TYPE, OPTIONS, WORKFLOW_TYPE, answer_to, argument
from outlast_activities.deadlines import refresh
from outlast_store.schema.rows import ActivityRow, InstanceRow, Row, RunRow
from outlast_store.transitions.new_runs import first_run, new_instance, started_event
from outlast_workflow.environment import Environment
from outlast_workflow.history.events import (
    ActivityCompleted,
    ActivityScheduled,
    Event,
    WorkflowCompleted,
    WorkflowTaskCompleted,
)
from outlast_workflow.options.options import StartOptions
from outlast_workflow.primitives.payloads import Payload

Values = tuple[Any, ...]

RUN_UPDATE = ("status", "closed_at", "last_seq", "last_event_at", "owner_id", "history_bytes")
RUN_STEP = ("last_seq", "last_event_at", "history_bytes")
RUN_GUARD = ("run_id", "fence", "last_seq", "inbox")
ACTIVITY_UPDATE = ("status", "next_deadline_at", "closed_at")
ACTIVITY_GUARD = ("run_id", "activity_id", "attempt", "status")


def values(row: Row) -> Values:
    """Return a row's values, in the table's column order."""
    return tuple(vars(row).values())


def picked(row: Row, names: Sequence[str]) -> Values:
    """Return some of a row's values."""
    return tuple(getattr(row, name) for name in names)


@dataclass(slots=True)
class WorkflowRows:
    """What the two commits of a workflow with one activity write."""

    instance: Values
    run: Values
    activity: Values
    first_events: list[Values]
    run_update: Values
    activity_update: Values
    last_events: list[Values]


class Recorder:
    """Makes a run's events with their sequence numbers, and keeps its row up to date."""

    def __init__(self, run: RunRow) -> None:
        self.run = run

    def record(self, *events: Event) -> list[Values]:
        """Return the rows of some events."""
        run, rows = self.run, []
        for event in events:
            text = event.to_json()
            run.last_seq += 1
            run.history_bytes += len(text)
            rows.append((run.run_id, run.last_seq, event.type, run.last_event_at, text))
        return rows

    def workflow_task(self, own: int, commands: int) -> WorkflowTaskCompleted:
        """Return the record of a workflow task that has seen everything."""
        run = self.run
        return WorkflowTaskCompleted(
            through=run.last_seq - own,
            own=own,
            at=run.last_event_at,
            commands=commands,
            history_events=run.last_seq,
            history_bytes=run.history_bytes,
            python=11,
        )


@dataclass(slots=True)
class Begun:
    """A workflow with one activity after its first commit."""

    run: RunRow
    recorder: Recorder
    activity: ActivityRow
    guards: tuple[Values, Values]
    """What the second commit's updates of the run and of the activity ask for."""
    instance: Values
    inserted_run: Values
    inserted_activity: Values
    events: list[Values]


def begin(environment: Environment, worker_id: str, value: object) -> Begun:
    """Make the rows of a workflow's first commit."""
    run = new_run(environment, worker_id)
    recorder = Recorder(run)
    instance: InstanceRow = new_instance(run)
    begun = started_event(run, input=Payload.of([value]), seed=environment.random.getrandbits(52))
    events = recorder.record(begun)
    events += recorder.record(recorder.workflow_task(0, 1), scheduled(1, value))
    activity = activity_row(run, 1)
    guards = picked(run, RUN_GUARD), picked(activity, ACTIVITY_GUARD)
    return Begun(run, recorder, activity, guards, values(instance), values(run), values(activity), events)


@dataclass(slots=True)
class Ended:
    """What the second commit of such a workflow writes."""

    run_update: Values
    activity_update: Values
    events: list[Values]


def end(begun: Begun, answer: object) -> Ended:
    """Make the rows of a workflow's second commit."""
    run, activity, recorder = begun.run, begun.activity, begun.recorder
    result = Payload.of(answer)
    events = recorder.record(ActivityCompleted(1, result, 1))
    events += recorder.record(recorder.workflow_task(1, 1), WorkflowCompleted(result))
    run.status, run.closed_at, run.owner_id = "completed", run.last_event_at, None
    close(activity)
    guard, activity_guard = begun.guards
    return Ended(picked(run, RUN_UPDATE) + guard, picked(activity, ACTIVITY_UPDATE) + activity_guard, events)


def workflow_rows(environment: Environment, worker_id: str, index: int) -> WorkflowRows:
    """Return the rows of one workflow with one activity."""
    value = argument(index)
    begun = begin(environment, worker_id, value)
    ended = end(begun, answer_to(value))
    return WorkflowRows(
        instance=begun.instance,
        run=begun.inserted_run,
        activity=begun.inserted_activity,
        first_events=begun.events,
        run_update=ended.run_update,
        activity_update=ended.activity_update,
        last_events=ended.events,
    )


@dataclass(slots=True)
class StepRows:
    """What the commit of one step in a sequence of activities writes: a result and the next activity."""

    run_update: Values
    activity_update: Values
    activity: Values
    events: list[Values]


def step_rows(environment: Environment, run: RunRow) -> Generator[StepRows]:
    """Make the rows of the steps of one run, whose first activity is already running, as they are asked for."""
    recorder = Recorder(run)
    activity = activity_row(run, 1)
    for number in count(1):
        run.last_event_at = environment.clock.now()
        guard, activity_guard = picked(run, RUN_GUARD), picked(activity, ACTIVITY_GUARD)
        events = recorder.record(ActivityCompleted(number, Payload.of(number), 1))
        events += recorder.record(recorder.workflow_task(1, 1), scheduled(number + 1, number))
        close(activity)
        activity_update = picked(activity, ACTIVITY_UPDATE) + activity_guard
        activity = activity_row(run, number + 1)
        yield StepRows(picked(run, RUN_STEP) + guard, activity_update, values(activity), events)


def new_run(environment: Environment, worker_id: str) -> RunRow:
    """Return the row of a run that a worker owns and that has had one workflow task."""
    run = first_run(
        run_id=environment.ids.next(),
        workflow_id=environment.ids.next(),
        workflow_type=WORKFLOW_TYPE,
        task_queue="default",
        options=StartOptions(),
        memo=None,
        now=environment.clock.now(),
        owner_id=worker_id,
    )
    run.status, run.started_at, run.wake_at = "running", run.created_at, None
    return run


def scheduled(command_id: int, value: object) -> ActivityScheduled:
    """Return the command that schedules an activity."""
    return ActivityScheduled(
        command_id=command_id,
        activity_type=ACTIVITY_TYPE,
        task_queue="default",
        priority=5,
        input=Payload.of([value]),
        options=OPTIONS.snapshot,
    )


def activity_row(run: RunRow, activity_id: int) -> ActivityRow:
    """Return the row of an activity that was started eagerly."""
    now = run.last_event_at
    row = ActivityRow(
        run_id=run.run_id,
        activity_id=activity_id,
        activity_type=ACTIVITY_TYPE,
        task_queue="default",
        priority=5,
        scheduled_seq=run.last_seq,
        status="running",
        attempt=1,
        uncharged=0,
        rescues=0,
        scheduled_at=now,
        available_at=now,
        claimed_by=run.owner_id,
        started_at=now,
        heartbeat_at=None,
        heartbeat_details=None,
        options=OPTIONS.snapshot.json.decode(),
        last_failure=None,
        schedule_to_start_deadline_at=None,
        start_to_close_deadline_at=now + (OPTIONS.start_to_close_us or 0),
        schedule_to_close_deadline_at=None,
        heartbeat_deadline_at=None,
        next_deadline_at=None,
        cancel_requested=False,
        local=False,
        closed_at=None,
        summary=None,
    )
    refresh(row)
    return row


def close(activity: ActivityRow) -> None:
    """Complete an activity."""
    activity.status, activity.closed_at, activity.next_deadline_at = "completed", activity.scheduled_at, None
