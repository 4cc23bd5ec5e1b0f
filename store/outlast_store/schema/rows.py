"""Rows as Python objects: one class a table, one attribute a column, in the table's column order.

A row's ``__dict__`` *is* its column values in order, so inserting is ``tuple(vars(row).values())`` and finding out what
changed is a comparison of two dicts. Rows are mutable, but only a
:class:`~outlast_store.journal.batch.Batch` may change one, and only its own copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self


class Row:
    """What all rows share."""

    def copy(self) -> Self:
        """A row with the same values."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin


@dataclass(eq=False)
class InstanceRow(Row):
    """A workflow id, and which run stands for it now."""

    workflow_id: str
    workflow_type: str
    current_run_id: str
    run_count: int
    created_at: int


@dataclass(eq=False)
class RunRow(Row):
    """One run. Times in microseconds; ``execution_timeout`` and ``run_timeout`` are durations in microseconds."""

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

    @property
    def is_open(self) -> bool:
        """Whether the run can still take events."""
        return self.closed_at is None

    def is_behind(self, other: RunRow) -> bool:
        """Whether this is an older state of the run than ``other``."""
        return self.fence < other.fence or self.last_seq < other.last_seq or self.inbox < other.inbox

    def wake(self, now: int) -> None:
        """Say that there is something to do: the lesser of what is set and now (null counts as later)."""
        if self.wake_at is None or self.wake_at > now:
            self.wake_at = now


LOCAL = "\x01"
"""Before a queue's name: where the local activities of its runs wait. No user's queue can be called so."""


@dataclass(eq=False)
class ActivityRow(Row):
    """One activity execution; ``attempt`` is also the claim's token: it rises with every claim."""

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

    @property
    def is_open(self) -> bool:
        """Whether the activity can still be claimed or completed."""
        return self.closed_at is None

    @property
    def queue(self) -> str:
        """Its task queue, as users know it."""
        return self.task_queue.removeprefix(LOCAL) if self.local else self.task_queue

    @property
    def charged_attempt(self) -> int:
        """The attempt number as the user's policy counts it: rescues and hand-backs are not charged."""
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
    """A failure, for people and for statistics."""

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
    """A worker and its lease."""

    worker_id: str
    host: str
    pid: int
    task_queues: str
    types: str
    build_id: str | None
    started_at: int
    lease_expires_at: int


RequestKey = tuple[str, str, str]
"""Of a request: the first run of the chain, the kind, the request's id."""


@dataclass(eq=False)
class RequestRow(Row):
    """A request and what became of it."""

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
