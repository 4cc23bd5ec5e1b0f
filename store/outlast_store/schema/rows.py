"""Rows as Python objects: one class per table, one attribute per column, in the table's column order.

A row's ``__dict__`` *is* its column values in order. So inserting is ``tuple(vars(row).values())``, and what changed is
found by comparing two dicts. Rows are mutable, but only a :class:`~outlast_store.journal.batch.Batch` may change one,
and only its own copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self


class Row:
    """The base of all rows."""

    def copy(self) -> Self:
        """Return a row with the same values."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        return copy


@dataclass(eq=False)
class InstanceRow(Row):
    """A workflow id, and its current run."""

    workflow_id: str
    workflow_type: str
    current_run_id: str
    run_count: int
    created_at: int


@dataclass(eq=False)
class RunRow(Row):
    """One run. Instants are microseconds since the epoch; both timeouts are durations in microseconds.

    Attributes:
        queue: The queue that it was started in, if any.
        partition_key: Its partition there, ``''`` for none; ``None`` without a queue.
        queued_at: Since when it stands in the queue's line; ``None`` if it stands in none.
        slot_queue: Its queue while it holds a slot there, else ``None``.
        start_deadline_at: When it is too late to begin, while it stands in the line.
    """

    run_id: str
    workflow_id: str
    run_number: int
    first_run_id: str
    previous_run_id: str | None
    next_run_id: str | None
    workflow_type: str
    task_queue: str
    priority: int
    status: str
    created_at: int
    started_at: int | None
    closed_at: int | None
    execution_timeout: int | None
    execution_deadline_at: int | None
    run_timeout: int | None
    run_deadline_at: int | None
    next_deadline_at: int | None
    last_seq: int
    last_event_at: int
    inbox: int
    wake_at: int | None
    not_before: int
    start_delayed: bool
    owner_id: str | None
    fence: int
    owner_losses: int
    parent_run_id: str | None
    parent_command_id: int | None
    parent_close_policy: str | None
    cascade_at: int | None
    attempt: int
    retry_policy: str | None
    memo: str | None
    cancel_requested_at: int | None
    task_failures: int
    attention: str | None
    attention_since: int | None
    build_id: str | None
    history_bytes: int
    search_attributes: str | None
    summary: str | None
    progress: str | None
    queue: str | None = None
    partition_key: str | None = None
    queued_at: int | None = None
    slot_queue: str | None = None
    start_deadline_at: int | None = None
    alerts: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether the run can still take events."""
        return self.closed_at is None

    def is_behind(self, other: RunRow) -> bool:
        """Return whether this is an older state of the run than ``other``."""
        return self.fence < other.fence or self.last_seq < other.last_seq or self.inbox < other.inbox

    def wake(self, now: int) -> None:
        """Make the run ready now, unless it has been ready for longer. A run that its queue has not admitted stays."""
        if (self.wake_at is None or self.wake_at > now) and self.status != "queued":
            self.wake_at = now


LOCAL = "\x01"
"""The prefix of a task queue's name for the local activities of its runs. No user's queue can begin with it."""


@dataclass(eq=False)
class ActivityRow(Row):
    """One activity execution. ``attempt`` is also the claim token: it rises with every claim."""

    run_id: str
    activity_id: int
    activity_type: str
    task_queue: str
    priority: int
    scheduled_seq: int
    status: str
    attempt: int
    uncharged: int
    rescues: int
    scheduled_at: int
    available_at: int
    claimed_by: str | None
    started_at: int | None
    heartbeat_at: int | None
    heartbeat_details: str | None
    options: str
    last_failure: str | None
    schedule_to_start_deadline_at: int | None
    start_to_close_deadline_at: int | None
    schedule_to_close_deadline_at: int | None
    heartbeat_deadline_at: int | None
    next_deadline_at: int | None
    cancel_requested: bool
    local: bool
    closed_at: int | None
    summary: str | None
    queue: str | None = None
    partition_key: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether the activity can still be claimed or completed."""
        return self.closed_at is None

    @property
    def is_deferred(self) -> bool:
        """Whether its attempt goes on without a worker, until somebody outside ends it."""
        return self.status == "running" and self.claimed_by is None

    @property
    def public_task_queue(self) -> str:
        """The task queue as users know it."""
        return self.task_queue.removeprefix(LOCAL) if self.local else self.task_queue

    @property
    def charged_attempt(self) -> int:
        """The attempt number as the user's retry policy counts it: without rescues and releases."""
        return self.attempt - self.uncharged


@dataclass(eq=False)
class AttemptRow(Row):
    """An attempt that did not succeed."""

    run_id: str
    activity_id: int
    attempt: int
    worker_id: str | None
    started_at: int | None
    ended_at: int
    outcome: str
    timeout_kind: str | None
    failure: str | None


@dataclass(eq=False)
class FailureRow(Row):
    """A failure, for users and for statistics."""

    failure_id: str
    run_id: str
    event_seq: int | None
    recorded_at: int
    source_kind: str
    source_id: str | None
    failure_category: str
    propagation_kind: str
    exception_class: str
    message: str
    details: str | None
    timeout_kind: str | None
    deadline_at: int | None


@dataclass(eq=False)
class WorkerRow(Row):
    """A worker and its lease. The lease's duration is in microseconds; rows of older versions lack it."""

    worker_id: str
    host: str
    pid: int
    task_queues: str
    types: str
    build_id: str | None
    started_at: int
    lease_expires_at: int
    lease_duration: int | None = None


@dataclass(eq=False)
class QueueRow(Row):
    """A queue: its limits, whether it is paused, and what its admissions remember.

    Attributes:
        queue: Its name.
        concurrency: How many slots it has; ``None``, here and below: no limit.
        worker_concurrency: How many of them one worker may hold.
        rate_limit: How many admissions any window of ``rate_per`` may have.
        rate_per: That window, in microseconds.
        partition_concurrency: How many slots each partition has.
        partition_worker_concurrency: How many of a partition's one worker may hold.
        partition_rate_limit: How many admissions of a partition any window of ``partition_rate_per`` may have.
        partition_rate_per: That window, in microseconds.
        paused_at: When it was paused; ``None`` if it is not.
        note: Why it was paused.
        created_at: When it was defined.
        updated_at: When it was changed last.
        deleted_at: When it was deleted; the row itself goes a little later.
        cursor: The partition that was served last; ``None`` before the first.
        cycle_at: When the turn of all partitions began that is under way.
        rate_log: The admissions that ``rate_limit`` still counts, as JSON.
    """

    queue: str
    concurrency: int | None
    worker_concurrency: int | None
    rate_limit: int | None
    rate_per: int | None
    partition_concurrency: int | None
    partition_worker_concurrency: int | None
    partition_rate_limit: int | None
    partition_rate_per: int | None
    paused_at: int | None
    note: str | None
    created_at: int
    updated_at: int
    deleted_at: int | None = None
    cursor: str | None = None
    cycle_at: int | None = None
    rate_log: str | None = None


@dataclass(eq=False)
class DebounceRow(Row):
    """The run that the calls of one key go to, until it begins.

    Attributes:
        workflow_type: The type that is debounced.
        debounce_key: The caller's key.
        workflow_id: The workflow that the last burst of calls started.
        run_id: Its run.
        deadline_at: When it begins at the latest, in microseconds; ``None`` without a limit.
        calls: How many calls the burst has had.
        expires_at: When the row may go, where the run has begun by then.
    """

    workflow_type: str
    debounce_key: str
    workflow_id: str
    run_id: str
    deadline_at: int | None
    calls: int
    expires_at: int


@dataclass(eq=False)
class ScheduleRow(Row):
    """A schedule. Instants and the window are in microseconds.

    Attributes:
        schedule_id: Its id.
        version: It rises with every write. Each write names the version that it was made from.
        workflow_type: What it starts.
        task_queue: Where.
        input: The arguments, as JSON text.
        action: The options of each start, as JSON text.
        spec: The calendar, as JSON text.
        overlap: What it does with a slot while the workflow that it started last is open.
        catch_up: What it does about slots that nobody was there to fire.
        catch_up_window: How old such a slot may be.
        pause_on_failure: Whether it pauses when a workflow that it started fails.
        paused_at: When it was paused; ``None`` if it is not.
        note: What its users, or a pause, say about it.
        max_runs: How many slots it may start in all; ``None``: no limit.
        remaining_runs: How many of them are left.
        decided_until: Slots up to this instant are decided; none of them is looked at again.
        last_slot_at: The slot that it started last.
        next_look_at: When it has something to do; ``None`` if never.
        buffered: The slots that wait for the open workflow to end, as a JSON array.
        last_workflow_id: The workflow that it started last.
        last_first_run_id: The first run of its chain.
        failed_run_id: The failed run for which it was paused.
        recent: What became of the last slots, as a JSON array.
        started: How many slots it has started.
        skipped: How many it has left out.
        missed: How many were missed.
        created_at: When it was created.
        updated_at: When a user changed it last.
    """

    schedule_id: str
    version: int
    workflow_type: str
    task_queue: str
    input: str
    action: str
    spec: str
    overlap: str
    catch_up: str
    catch_up_window: int
    pause_on_failure: bool
    paused_at: int | None
    note: str | None
    max_runs: int | None
    remaining_runs: int | None
    decided_until: int
    last_slot_at: int | None
    next_look_at: int | None
    buffered: str | None
    last_workflow_id: str | None
    last_first_run_id: str | None
    failed_run_id: str | None
    recent: str | None
    started: int
    skipped: int
    missed: int
    created_at: int
    updated_at: int


RequestKey = tuple[str, str, str]
"""A request's key: the first run of the chain, the kind, and the request's id."""


@dataclass(eq=False)
class RequestRow(Row):
    """A request, and what became of it."""

    first_run_id: str
    kind: str
    request_id: str
    run_id: str
    name: str
    input: str
    state: str
    answer: str | None
    answer_seq: int | None
    created_at: int
    expires_at: int | None

    @property
    def key(self) -> RequestKey:
        """The row's key."""
        return self.first_run_id, self.kind, self.request_id


@dataclass(eq=False)
class OutboxRow(Row):
    """A start, a signal or a cancel request that was written in somebody's own transaction, and is to be applied.

    Attributes:
        outbox_id: Its number. Rows of one transaction have the order of their statements.
        kind: ``start``, ``signal`` or ``cancel``.
        workflow_id: The workflow.
        name: The workflow's type, or the signal's name; ``None`` for a cancel request.
        args: The arguments, as JSON text; ``None`` for none.
        options: What else there is, as a JSON object: see :mod:`outlast_runs.outbox`.
        created_at: When it was asked for, in microseconds; ``None``: when it was found.
        state: ``waiting`` or ``refused``.
        reason: Why it was refused.
        refused_at: When, in microseconds.
    """

    outbox_id: int
    kind: str
    workflow_id: str
    name: str | None
    args: str | None
    options: str
    created_at: int | None
    state: str
    reason: str | None
    refused_at: int | None


StreamKey = tuple[str, str]
"""A stream's key: the first run of its chain, and its name."""


@dataclass(eq=False)
class StreamRow(Row):
    """A stream of a chain: how much was written to it, and whether more can be.

    Attributes:
        next_offset: The offset of the next item, which is the number of items.
        bytes: The size of all values, as JSON text.
        version: Rises with each change, so that an update can tell whether another came first.
        closed_at: Since when it is closed, in microseconds; ``None`` while it is open.
    """

    first_run_id: str
    name: str
    next_offset: int
    bytes: int
    version: int
    closed_at: int | None

    @property
    def key(self) -> StreamKey:
        """The row's key."""
        return self.first_run_id, self.name


@dataclass(eq=False)
class StreamItemRow(Row):
    """One item of a stream.

    Attributes:
        item_offset: Its place, counted from 0.
        value: The value, as JSON text.
        run_id: The run that wrote it, or whose activity did.
        seq: The event that records the write, if the workflow's own code wrote it.
        activity_id: The activity that wrote it, if one did.
        attempt: Its attempt then.
    """

    first_run_id: str
    name: str
    item_offset: int
    value: str
    written_at: int
    run_id: str
    seq: int | None
    activity_id: int | None
    attempt: int | None


AlertTimerKey = tuple[str, int, str, str]
"""The key of a mark that is armed: its run, the activity (0 for the run itself), the kind and the mark."""


@dataclass(eq=False)
class AlertTimerRow(Row):
    """A mark that lies ahead: an alert fires when it is due.

    Attributes:
        activity_id: The activity that it is about; 0 for the run itself.
        kind: Which deadline it is about, or ``after`` or ``at_instant`` where it needs none.
        mark: Its name: ``80%``, ``-600s``, ``+3600s``, or an instant.
        attempt: The attempt that it is about; 0 for all of them, and for a run.
        due_at: When it fires, in microseconds.
        deadline_at: The deadline that it comes before, in microseconds.
    """

    run_id: str
    activity_id: int
    kind: str
    mark: str
    attempt: int
    due_at: int
    deadline_at: int | None

    @property
    def key(self) -> AlertTimerKey:
        """The row's key."""
        return self.run_id, self.activity_id, self.kind, self.mark


@dataclass(eq=False)
class AlertRow(Row):
    """An alert that was fired. Its other attributes are those of :class:`AlertTimerRow`.

    Attributes:
        scope: What has the mark once: the first run of the chain, or the run.
        fired_at: When it was fired, in microseconds.
        acknowledged_at: When somebody first said that he has seen it, in microseconds.
        acknowledged_by: Who that was.
        deliveries: By channel the workflow that delivers it, as JSON; null once that workflow was deleted.
    """

    alert_id: str
    scope: str
    activity_id: int
    attempt: int
    kind: str
    mark: str
    workflow_id: str
    run_id: str
    workflow_type: str
    activity_type: str | None
    task_queue: str
    deadline_at: int | None
    due_at: int
    fired_at: int
    acknowledged_at: int | None = None
    acknowledged_by: str | None = None
    deliveries: str | None = None

    @property
    def once(self) -> tuple[str, int, int, str, str]:
        """What two alerts never have in common."""
        return self.scope, self.activity_id, self.attempt, self.kind, self.mark
