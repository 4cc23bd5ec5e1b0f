"""What the client shows of workflows: typed, immutable, and written as JSON by ``model_dump_json()``.

Instants are aware datetimes (UTC) in Python, and ISO 8601 with ``+00:00`` in JSON. Durations are seconds, as integers
where they are whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, PlainSerializer

from outlast_workflow.options.search_attributes import FORK_ATTRIBUTE, SCHEDULE_ATTRIBUTE, SearchValue
from outlast_workflow.primitives.enums import (
    ActivityStatus,
    AlertKind,
    Attention,
    FailureCategory,
    PropagationKind,
    RunStatus,
    TimeoutKind,
)
from outlast_workflow.primitives.lazy_names import names_of_class

Instant = Annotated[datetime, PlainSerializer(datetime.isoformat, return_type=str, when_used="json")]
"""An aware datetime, UTC."""

Attributes = Annotated[
    dict[str, SearchValue],
    PlainSerializer(
        lambda values: {
            name: value.isoformat() if isinstance(value, datetime) else value
            for name, value in values.items()
        },
        return_type=dict[str, Any],
        when_used="json",
    ),
]
"""Search attributes by name; in JSON, instants are ISO 8601."""


class View(BaseModel):
    """The base of all views."""

    model_config = ConfigDict(frozen=True)


class WorkerView(View):
    """The worker that holds a run or an activity. Its host and pid are known while it is registered."""

    worker_id: str
    host: str | None
    pid: int | None
    alive: bool


class RunProgress(View):
    """How far a run is, as its code last set it with ``workflow.set_progress``.

    Attributes:
        done: How much is done.
        total: How much there is to do; ``None`` if that is not known.
        message: What it is doing, in words.
    """

    done: int | float
    total: int | float | None = None
    message: str | None = None

    @property
    def fraction(self) -> float | None:
        """How far it is, from 0 to 1; ``None`` if the total is not known."""
        if self.total is None:
            return None
        return 1.0 if self.done >= self.total else self.done / self.total


class QueuePlace(View):
    """Where a run or an activity stands in its queue.

    Attributes:
        name: The queue.
        partition_key: Its partition there.
        queued_at: Since when it stands in line; ``None`` if it is delayed, or was admitted.
        start_at: When a start delay, or an activity's wait for its next attempt, ends, while it lasts.
        start_deadline_at: Until when it must have been admitted, while it stands in line.
        ahead: How many of its partition stand before it, counted up to 1,000; ``None`` for activities.
        holds_slot: Whether it was admitted and holds one of the queue's slots.
        held_up_by: What holds it up while it stands in line: the queue is paused, no live worker can run it, all slots
            are taken, those of each worker are, or a rate is used up. ``None`` where the queue has room.
    """

    name: str
    partition_key: str | None
    queued_at: Instant | None
    start_at: Instant | None
    start_deadline_at: Instant | None
    ahead: int | None
    holds_slot: bool
    held_up_by: str | None = None


def schedule_of(search_attributes: Mapping[str, SearchValue]) -> str | None:
    """Return the id of the schedule that started a run with these search attributes, if one did."""
    found = search_attributes.get(SCHEDULE_ATTRIBUTE)
    return found if isinstance(found, str) else None


def original_of(search_attributes: Mapping[str, SearchValue]) -> str | None:
    """Return the id of the workflow that a run with these search attributes was forked from, if it was."""
    found = search_attributes.get(FORK_ATTRIBUTE)
    return found if isinstance(found, str) else None


class RunDescription(View):
    """One run.

    Attributes:
        attempt: Counts the runs that a workflow retry policy started; 1 is the first.
        execution_time_left_seconds: Seconds to the execution deadline while the run is open; negative if it has passed.
        run_time_left_seconds: The same for the run deadline.
        begins_at: When a start delay or a retry backoff ends, if it has not ended yet.
        owner: The worker that holds the run in memory.
        history_length: How many events the history has.
        task_failures: How many workflow tasks in a row have failed.
        owner_losses: How many owners in a row have died while they held the run awake, or left it waiting.
        parent_run_id: The run that started it as its child.
        search_attributes: What the run is found by.
        attention_since: Since when the stored kinds of ``attention`` have held.
        summary: What the workflow does, as its start said.
        progress: How far the run is, as its code last said.
        queue: The queue that it was started in, and where it stands there.
    """

    run_id: str
    run_number: int
    first_run_id: str
    previous_run_id: str | None
    next_run_id: str | None
    status: RunStatus
    task_queue: str
    priority: int
    attempt: int
    created_at: Instant
    started_at: Instant | None
    closed_at: Instant | None
    run_timeout_seconds: int | float | None
    execution_deadline_at: Instant | None
    run_deadline_at: Instant | None
    execution_time_left_seconds: int | float | None
    run_time_left_seconds: int | float | None
    begins_at: Instant | None
    start_delayed: bool
    owner: WorkerView | None
    history_length: int
    history_bytes: int
    memo: dict[str, Any] | None
    parent_run_id: str | None
    search_attributes: Attributes
    cancel_requested_at: Instant | None
    build_id: str | None
    task_failures: int
    attention_since: Instant | None
    summary: str | None = None
    progress: RunProgress | None = None
    queue: QueuePlace | None = None
    owner_losses: int = 0

    @property
    def schedule(self) -> str | None:
        """The schedule that started the chain, if one did."""
        return schedule_of(self.search_attributes)

    @property
    def forked_from(self) -> str | None:
        """The id of the workflow that the chain was forked from, if it was."""
        return original_of(self.search_attributes)


class FailureCause(View):
    """Why an attempt failed; ``cause`` is the failure behind it."""

    category: FailureCategory
    exception_class: str
    message: str
    timeout_kind: TimeoutKind | None = None
    deadline_at: Instant | None = None
    stack: str | None = None
    cause: FailureCause | None = None


class PendingActivity(View):
    """An open activity.

    Attributes:
        attempt: How many attempts were made, the running one included, as the retry policy counts them: rescued and
            released attempts are not counted.
        max_attempts: 0 is unlimited.
        next_deadline_at: The first of the deadlines that apply now.
        heartbeat_details: What the last heartbeat reported, decoded.
        last_failure: Why the previous attempt did not succeed.
        available_at: When the next attempt may start, while the activity waits.
        worker: The worker that runs it.
        local: Whether only the worker that owns the run may run it.
        summary: What the call does, as it said.
        deferred: Whether it runs without a worker, since ``started_at``, until somebody outside ends it or
            ``next_deadline_at`` passes.
        queue: The queue that decides when its attempts begin, and where it stands there.
        transactional: Whether the code that called it knew it as ``@activity.defn(transactional=True)``: what it
            writes is committed with its completion.
    """

    activity_id: int
    activity_type: str
    task_queue: str
    local: bool
    priority: int
    status: ActivityStatus
    attempt: int
    max_attempts: int
    scheduled_at: Instant
    available_at: Instant | None
    started_at: Instant | None
    schedule_to_start_deadline_at: Instant | None
    start_to_close_deadline_at: Instant | None
    schedule_to_close_deadline_at: Instant | None
    heartbeat_deadline_at: Instant | None
    next_deadline_at: Instant | None
    last_heartbeat_at: Instant | None
    heartbeat_details: tuple[Any, ...]
    last_failure: FailureCause | None
    worker: WorkerView | None
    cancel_requested: bool
    summary: str | None = None
    deferred: bool = False
    queue: QueuePlace | None = None
    transactional: bool = False


class PendingTimer(View):
    """A timer that has not fired. ``summary`` is what the code said that it waits for."""

    timer_id: int
    fire_at: Instant
    summary: str | None = None


class PendingChild(View):
    """A child that has not ended. A closed workflow may have some: abandoned ones, or ones yet to be ended."""

    workflow_id: str
    run_id: str
    workflow_type: str
    status: RunStatus
    created_at: Instant
    summary: str | None = None
    progress: RunProgress | None = None


class PendingUpdate(View):
    """An update without a result. If ``accepted``, it is in the history and its handler is running."""

    update_id: str
    name: str
    accepted: bool
    asked_at: Instant


class PendingSignal(View):
    """Signals of one name that wait.

    Attributes:
        without_handler: Whether the code has seen them, has no handler of that name (is it misspelt?) and has not
            received them: they wait until it does, or for the next run. Otherwise no workflow task has seen them yet.
    """

    name: str
    count: int
    without_handler: bool


class StreamView(View):
    """A stream of the workflow's chain.

    Attributes:
        items: How many items were written.
        bytes: The size of their values, as JSON text.
        closed_at: Since when it is closed; ``None`` while more may come.
    """

    name: str
    items: int
    bytes: int
    closed_at: Instant | None


class ArmedAlert(View):
    """An alert that fires if nothing ends before.

    Attributes:
        activity_id: The activity that it is about; ``None`` for the workflow itself.
        attempt: The attempt that it is about; ``None`` for all of them.
        kind: The deadline that it is about, or ``after`` or ``at_instant``.
        mark: ``80%`` of the time, ``-600s`` ahead of the deadline, ``+3600s`` after the begin, or an instant.
        deadline_at: The deadline.
        due_at: When it fires.
    """

    activity_id: int | None
    attempt: int | None
    kind: AlertKind
    mark: str
    deadline_at: Instant | None
    due_at: Instant


class AlertDelivery(View):
    """What brings an alert to a channel.

    Attributes:
        channel: The channel.
        workflow_id: The workflow that delivers it; ``None`` once that was deleted.
        status: The status of that workflow: ``completed`` when it is delivered.
        delivered_at: When it was delivered.
    """

    channel: str
    workflow_id: str | None
    status: RunStatus | None
    delivered_at: Instant | None


class Alert(View):
    """An alert that was fired; the other attributes are those of :class:`ArmedAlert`.

    Attributes:
        run_id: The run that was current then.
        task_queue: The task queue of the workflow, or of the activity.
        text: What has come near, in words.
        fired_at: When it was fired: at ``due_at`` or shortly afterwards, never before.
        deliveries: What brings it to the channels of its policy.
        acknowledged_at: When somebody first said that he has seen it; ``None`` if nobody has.
        acknowledged_by: Who that was.
    """

    alert_id: str
    workflow_id: str
    run_id: str
    workflow_type: str
    task_queue: str
    activity_id: int | None
    activity_type: str | None
    attempt: int | None
    kind: AlertKind
    mark: str
    text: str
    deadline_at: Instant | None
    due_at: Instant
    fired_at: Instant
    deliveries: tuple[AlertDelivery, ...] = ()
    acknowledged_at: Instant | None = None
    acknowledged_by: str | None = None


class AlertPage(View):
    """A page of alerts.

    Attributes:
        alerts: The newest first.
        cursor: Where the next page begins; ``None`` if there is none. The next page may be empty.
        stopped: Whether the page ends early because 10,000 were looked at, of which the filters left out too many.
    """

    alerts: tuple[Alert, ...]
    cursor: str | None
    stopped: bool


class AlertsView(View):
    """The alerts of a workflow and its activities.

    Attributes:
        armed: Those that lie ahead, the next one first; a hundred at most.
        fired: Those that were fired, the newest first; a hundred at most.
    """

    armed: tuple[ArmedAlert, ...] = ()
    fired: tuple[Alert, ...] = ()


class FailureView(View):
    """A failure that was recorded for the run.

    Attributes:
        event_seq: The number of the event that it led to, if any.
        stack: Where it was raised, if that event says so: one call a line, the innermost last.
        cause: The failure behind it, if that event names one.
    """

    failure_id: str
    recorded_at: Instant
    event_seq: int | None
    source_kind: str
    source_id: str | None
    failure_category: FailureCategory
    propagation_kind: PropagationKind
    exception_class: str
    message: str
    timeout_kind: TimeoutKind | None
    deadline_at: Instant | None
    stack: str | None = None
    cause: FailureCause | None = None


class AttentionReason(View):
    """Why a run needs attention.

    Attributes:
        kind: The kind.
        cause: What is wrong, in a sentence.
        remedy: What to do about it, in a sentence.
    """

    kind: Attention
    cause: str
    remedy: str


class WorkflowDescription(View):
    """A workflow, its run, and everything that is open in it, from one snapshot of the database.

    Attributes:
        run_count: How many runs its chain has had so far.
        failures: The latest 20, newest first.
        attention: Why the workflow needs attention; empty if it does not.
        attention_reasons: The same with cause and remedy, one for each cause.
        described_at: When the snapshot was taken, by the engine's clock.
        receiving: The names of the signals that the code waits to receive, in the order of its calls.
        forks: The ids of its first forks, at most 20.
        streams: The streams of its chain by name, a hundred at most.
        alerts: The alerts of its deadlines, and of those of its activities.
    """

    workflow_id: str
    workflow_type: str
    execution_timeout_seconds: int | float | None
    run_count: int
    run: RunDescription
    pending_activities: tuple[PendingActivity, ...]
    pending_timers: tuple[PendingTimer, ...]
    pending_children: tuple[PendingChild, ...]
    pending_updates: tuple[PendingUpdate, ...]
    pending_signals: tuple[PendingSignal, ...]
    failures: tuple[FailureView, ...]
    attention: tuple[Attention, ...]
    attention_reasons: tuple[AttentionReason, ...]
    described_at: Instant
    receiving: tuple[str, ...] = ()
    forks: tuple[str, ...] = ()
    streams: tuple[StreamView, ...] = ()
    alerts: AlertsView = AlertsView()

    if not TYPE_CHECKING:
        __getattr__ = names_of_class("WorkflowDescription")


class RunSummary(View):
    """One run, as listings show it; the fields are those of :class:`RunDescription`, and of its :class:`QueuePlace`.

    Attributes:
        queued_at: Since when it stands in the line of its queue, while it does.
        held_up_by: What holds it up there. Of a page of runs that stand in many lines only the first few have it.
    """

    workflow_id: str
    run_id: str
    workflow_type: str
    status: RunStatus
    task_queue: str
    priority: int
    run_number: int
    first_run_id: str
    attempt: int
    created_at: Instant
    started_at: Instant | None
    closed_at: Instant | None
    execution_deadline_at: Instant | None
    run_deadline_at: Instant | None
    history_length: int
    history_bytes: int
    owner_id: str | None
    cancel_requested_at: Instant | None
    task_failures: int
    attention: tuple[Attention, ...]
    attention_reasons: tuple[AttentionReason, ...]
    attention_since: Instant | None
    build_id: str | None
    parent_run_id: str | None
    search_attributes: Attributes
    summary: str | None = None
    progress: RunProgress | None = None
    queue: str | None = None
    partition_key: str | None = None
    queued_at: Instant | None = None
    held_up_by: str | None = None

    if not TYPE_CHECKING:
        __getattr__ = names_of_class("RunSummary")

    @property
    def schedule(self) -> str | None:
        """The schedule that started the chain, if one did."""
        return schedule_of(self.search_attributes)

    @property
    def forked_from(self) -> str | None:
        """The id of the workflow that the chain was forked from, if it was."""
        return original_of(self.search_attributes)


class RunPage(View):
    """A page of runs, and the cursor of the next page; ``None`` on the last one."""

    runs: Sequence[RunSummary]
    cursor: str | None


class WorkerSummary(View):
    """A registered worker, what it serves, and how much it holds.

    Attributes:
        queues: The queues that it admits from; ``None``: from all.
        activity_slots: How many activities it runs at a time; ``None`` for workers of earlier versions.
        dags: The DAGs among its workflows, each with the hash of the spec that its new runs follow.
    """

    worker_id: str
    host: str
    pid: int
    alive: bool
    started_at: Instant
    lease_expires_at: Instant
    task_queues: tuple[str, ...]
    workflows: tuple[str, ...]
    activities: tuple[str, ...]
    build_id: str | None
    runs_held: int
    activities_held: int
    activity_slots: int | None
    queues: tuple[str, ...] | None = None
    dags: dict[str, str] = {}
