"""Events of the run itself: how it started, its workflow tasks, and how it ended."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from outlast_workflow.history.event import Event, Failure, record
from outlast_workflow.primitives.payloads import Payload


@record
class WorkflowStarted(Event):
    """A run was created: always the first event. Deadlines are ISO 8601, UTC.

    ``reset`` is set for a run that continues another run's history: the other's ``run_id``, the ``seq`` up to which the
    events are the other's, and ``seeds``, pairs of a seq and the seed that holds after it, one for each reset so far.
    ``forked_from`` is set for a fork: the ``workflow_id`` and ``run_id`` of the original, the ``seq`` up to which the
    events are the original's, and ``seeds`` likewise. A reset of a fork has both, and the seeds are in ``reset``.
    A run that is started into a queue has no run deadline before :class:`WorkflowDequeued`.
    ``last_failure`` is the latest failure of a run before this one, ``last_result`` the latest result. Retries and
    continue-as-new pass them on, and so does a schedule to the workflow that it starts next. ``schedule`` is set where
    a schedule started the chain: ``schedule_id``, and ``scheduled_at``, the slot. ``debounce_key`` is the key of the
    calls that the run was made of.
    """

    inbound = True
    workflow_id: str
    workflow_type: str
    task_queue: str
    input: Payload
    first_run_id: str
    run_number: int
    attempt: int
    seed: int
    priority: int
    execution_timeout_seconds: float | int | None = None
    run_timeout_seconds: float | int | None = None
    execution_deadline_at: str | None = None
    run_deadline_at: str | None = None
    previous_run_id: str | None = None
    start_delay_seconds: float | int | None = None
    retry_policy: dict[str, Any] | None = None
    memo: Payload | None = None
    search_attributes: dict[str, Any] | None = None
    last_failure: Failure | None = None
    parent: dict[str, Any] | None = None
    headers: dict[str, Any] | None = None
    reset: dict[str, Any] | None = None
    summary: str | None = None
    last_result: Payload | None = None
    schedule: dict[str, Any] | None = None
    queue: str | None = None
    partition_key: str | None = None
    schedule_to_start_timeout_seconds: float | int | None = None
    forked_from: dict[str, Any] | None = None
    debounce_key: str | None = None


@record
class WorkflowDequeued(Event):
    """The run's queue has admitted it: it holds a slot from here on, and its run timeout counts from here.

    ``waited_us`` is how long it stood in line, in microseconds, its start delay not included.
    """

    inbound = True
    queue: str
    partition_key: str
    waited_us: int
    run_deadline_at: str | None = None


@record
class WorkflowStartChanged(Event):
    """The start of a run that has not begun was moved: ``start_at`` is when it joins its line or begins.

    A debounced run may have been given another ``input``: the last one before its first workflow task counts.
    """

    inbound = True
    start_at: str
    run_deadline_at: str | None = None
    input: Payload | None = None


@record
class WorkflowDeadlineLowered(Event):
    """The code brought the run's deadline nearer with ``workflow.limit``.

    ``run_deadline_at`` holds from here on. ``timeout_seconds`` is what the code gave; a run that continues this history
    has it again, from where it begins.
    """

    command = True
    run_deadline_at: str
    timeout_seconds: float | int


@record
class WorkflowTaskCompleted(Event):
    """One workflow task: which inbound events it applied, when it ran, and how many commands follow.

    It applied every inbound event up to seq ``through`` that no earlier workflow task had applied, in seq order,
    and then the ``own`` inbound events that stand just before it. ``at`` is the workflow task's time in
    microseconds; ``history_events`` and ``history_bytes`` are what ``workflow.info()`` showed. From a workflow task
    with ``suggested`` on, ``workflow.info()`` suggests continuing as new, whatever the limits are later. ``flags``
    names engine behaviours. ``buffered`` is how many signals of each name wait without a handler. ``receiving`` names
    the signals that the code waits to receive, in the order of its calls.
    """

    through: int
    own: int
    at: int
    commands: int
    history_events: int
    history_bytes: int
    python: int
    build_id: str | None = None
    flags: list[str] | None = None
    buffered: dict[str, int] | None = None
    suggested: bool | None = None
    receiving: list[str] | None = None


@record
class WorkflowTaskFailed(Event):
    """A workflow task failed (non-determinism, missing code, undecodable input). Written once per streak."""

    failure: Failure
    build_id: str | None = None


@record
class WorkflowCompleted(Event):
    """The run returned."""

    command = True
    terminal = True
    result: Payload


@record
class WorkflowFailed(Event):
    """The run raised, or exceeded a limit (``by``)."""

    command = True
    terminal = True
    failure: Failure
    retry_state: str | None = None
    next_run_id: str | None = None
    by: str | None = None


@record
class WorkflowTimedOut(Event):
    """The execution or the run deadline passed."""

    terminal = True
    timeout_kind: str
    deadline_at: str
    next_run_id: str | None = None
    by: str | None = None


@record
class WorkflowCancelRequested(Event):
    """Cancellation of the run was requested; its code decides."""

    inbound = True
    reason: str | None = None


@record
class WorkflowCancelled(Event):
    """The run ended as cancelled."""

    command = True
    terminal = True
    reason: str | None = None
    by: str | None = None


@record
class WorkflowTerminated(Event):
    """The run was terminated: it ended at once, without running its code."""

    terminal = True
    reason: str | None = None
    by: str | None = None


@record
class WorkflowContinuedAsNew(Event):
    """The run ended by starting the next one of its chain with a fresh history.

    As a command it holds what the code requested; the change that creates the next run sets ``next_run_id``.
    """

    command = True
    compared = ("workflow_type",)
    terminal = True
    workflow_type: str
    input: Payload
    task_queue: str | None = None
    next_run_id: str | None = None
    run_timeout_seconds: float | int | None = None
    memo: Payload | None = None
    headers: dict[str, Any] | None = None
    search_attributes: dict[str, Any] | None = None
    retry_policy: dict[str, Any] | None = None
    start_delay_seconds: float | int | None = None


@record
class WorkflowReset(Event):
    """The run ended because a later one was started from a point of its history."""

    terminal = True
    next_run_id: str
    reason: str | None = None


def last_input(started: WorkflowStarted, events: Iterable[Event]) -> Payload:
    """Return the input that a run begins with: the one that a debounced run was given last.

    Args:
        started: Its first event.
        events: The events before its first workflow task, or more.
    """
    input = started.input
    for event in events:
        if type(event) is WorkflowStartChanged and event.input is not None:
            input = event.input
    return input
