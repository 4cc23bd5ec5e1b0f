"""New runs: the row and the first event of a chain's first run, and of each next one."""

from __future__ import annotations

from typing import Any

import orjson

from outlast_store.journal.batch import Batch
from outlast_store.reads.histories import HAS_INPUT, LAST_INPUT
from outlast_store.schema.rows import InstanceRow, RunRow
from outlast_store.transitions import requests
from outlast_store.transitions.queued_runs import enter_queue
from outlast_store.transitions.run_deadlines import earliest
from outlast_workflow.history.events import (
    Failure,
    WorkflowStartChanged,
    WorkflowStarted,
    last_input,
    stored_event,
)
from outlast_workflow.options.alerts import stored
from outlast_workflow.options.options import StartOptions
from outlast_workflow.options.search_attributes import Document
from outlast_workflow.primitives.enums import (
    RunStatus,
)
from outlast_workflow.primitives.payloads import Payload
from outlast_workflow.primitives.times import MICROSECONDS_PER_SECOND, iso, later, microseconds, seconds


def new_instance(run: RunRow) -> InstanceRow:
    """Return the instance row for a chain's first run."""
    return InstanceRow(run.workflow_id, run.workflow_type, run.run_id, 1, run.created_at)


def started_event(
    run: RunRow,
    *,
    input: Payload,
    seed: int,
    last_failure: Failure | None = None,
    last_result: Payload | None = None,
    headers: Any = None,
    parent: dict[str, Any] | None = None,
    schedule: dict[str, Any] | None = None,
    debounce_key: str | None = None,
) -> WorkflowStarted:
    """Return the first event of a run, made from its row.

    Args:
        run: The run's row.
        input: The input of its code.
        seed: The seed of its random numbers.
        last_failure: How the latest run before it that failed did so, if one did.
        last_result: What the latest run before it that completed returned, if one did.
        headers: The headers of the start.
        parent: The parent's workflow, run, command and close policy, if it has one.
        schedule: The schedule that started its chain and the slot, if one did.
        debounce_key: The key of the calls that it is made of, if it is debounced.
    """
    deadline, run_deadline = run.execution_deadline_at, run.run_deadline_at
    delay = run.not_before - run.created_at
    waiting = None
    if run.start_deadline_at is not None:
        waiting = seconds(run.start_deadline_at - max(run.not_before, run.created_at))
    return WorkflowStarted(
        workflow_id=run.workflow_id,
        workflow_type=run.workflow_type,
        task_queue=run.task_queue,
        input=input,
        first_run_id=run.first_run_id,
        run_number=run.run_number,
        attempt=run.attempt,
        seed=seed,
        priority=run.priority,
        execution_timeout_seconds=None if run.execution_timeout is None else seconds(run.execution_timeout),
        run_timeout_seconds=None if run.run_timeout is None else seconds(run.run_timeout),
        execution_deadline_at=iso(deadline) if deadline is not None else None,
        run_deadline_at=iso(run_deadline) if run_deadline is not None else None,
        previous_run_id=run.previous_run_id,
        start_delay_seconds=seconds(delay) if run.start_delayed and delay > 0 else None,
        retry_policy=orjson.loads(run.retry_policy) if run.retry_policy is not None else None,
        memo=Payload(run.memo.encode()) if run.memo is not None else None,
        search_attributes=orjson.loads(run.search_attributes) if run.search_attributes is not None else None,
        last_failure=last_failure,
        last_result=last_result,
        parent=parent,
        headers=headers,
        summary=run.summary,
        schedule=schedule,
        queue=run.queue,
        partition_key=run.partition_key or None,
        schedule_to_start_timeout_seconds=waiting,
        debounce_key=debounce_key,
    )


def next_run(
    run: RunRow,
    *,
    run_id: str,
    now: int,
    attempt: int = 1,
    backoff: int = 0,
    start_delay: int = 0,
    owner_id: str | None = None,
    workflow_type: str | None = None,
    task_queue: str | None = None,
    run_timeout: int | None = None,
    memo: str | None = None,
    search_attributes: Document | None = None,
    retry_policy: str | None = None,
) -> RunRow:
    """Return the row of a chain's next run: it keeps the execution deadline and gets a run deadline of its own.

    It keeps the queue, too, and the slot there that the run before it gives up in the same change.

    Args:
        run: The run that it continues; what is not given is taken from it.
        run_id: The new run's id.
        now: When it is created, in microseconds.
        attempt: Its attempt by the retry policy of runs.
        backoff: How long it waits before its first workflow task, in microseconds.
        start_delay: Likewise, unless a message ends the wait.
        owner_id: The worker that owns it from the first write, if any.
        workflow_type: Its type.
        task_queue: Its task queue.
        run_timeout: Its run timeout, in microseconds.
        memo: Its memo, as JSON text.
        search_attributes: Its search attributes.
        retry_policy: Its retry policy, as JSON text.
    """
    row = run.copy()
    run_timeout = run_timeout if run_timeout is not None else run.run_timeout
    wait = backoff or start_delay
    begins = later(now, wait)
    run_deadline = later(begins, run_timeout) if run_timeout is not None else None
    vars(row).update(
        run_id=run_id,
        run_number=run.run_number + 1,
        previous_run_id=run.run_id,
        next_run_id=None,
        workflow_type=workflow_type or run.workflow_type,
        task_queue=task_queue or run.task_queue,
        status=RunStatus.PENDING.value,
        created_at=now,
        started_at=None,
        closed_at=None,
        run_timeout=run_timeout,
        run_deadline_at=run_deadline,
        next_deadline_at=earliest(run.execution_deadline_at, run_deadline),
        last_seq=0,
        last_event_at=now,
        inbox=0,
        wake_at=begins,
        not_before=begins if wait else 0,
        start_delayed=bool(start_delay),
        owner_id=owner_id,
        fence=1 if owner_id is not None else 0,
        owner_losses=0,
        cascade_at=None,
        attempt=attempt,
        memo=memo if memo is not None else run.memo,
        retry_policy=retry_policy if retry_policy is not None else run.retry_policy,
        cancel_requested_at=None,
        task_failures=0,
        attention=None,
        attention_since=None,
        build_id=None,
        history_bytes=0,
        progress=None,
        queued_at=None,
        start_deadline_at=None,
    )
    if search_attributes is not None:
        row.search_attributes = orjson.dumps(search_attributes).decode() if search_attributes else None
    return row


def add_next_run(batch: Batch, run: RunRow, following: RunRow, started: WorkflowStarted) -> RunRow:
    """Insert a chain's next run with its first event, and point its instance and its predecessor to it.

    Args:
        batch: The batch.
        run: The run that it continues.
        following: The new run's row.
        started: Its first event.
    """
    row = batch.add_run(following)
    batch.append(row, started)
    run.next_run_id = row.run_id
    if run.inbox:
        requests.move_updates(batch, run, row)
    instance = batch.lock_instance(run.workflow_id)
    if instance is not None and instance.current_run_id == run.run_id:
        instance.current_run_id = row.run_id
        instance.run_count = row.run_number
        instance.workflow_type = row.workflow_type
    return row


def first_event(batch: Batch, run_id: str) -> WorkflowStarted:
    """Return a run's ``WorkflowStarted``, from this batch or from the database.

    Raises:
        DamagedHistoryError: It cannot be read.
    """
    for seq, event, _ in batch.appended(run_id):
        if seq == 1 and isinstance(event, WorkflowStarted):
            return event
    text = "SELECT payload FROM history_events WHERE run_id = ? AND seq = 1"
    event = stored_event(run_id, 1, WorkflowStarted.type, batch.scan(text, (run_id,))[0][0])
    assert isinstance(event, WorkflowStarted)
    return event


def last_input_of(batch: Batch, run_id: str, started: WorkflowStarted) -> Payload:
    """Return the input that a run began with, or would begin with now.

    Args:
        batch: The batch.
        run_id: The run.
        started: Its first event.

    Raises:
        DamagedHistoryError: It cannot be read.
    """
    if started.debounce_key is None:
        return started.input
    for _, event, _ in reversed(batch.appended(run_id)):
        if isinstance(event, WorkflowStartChanged) and event.input is not None:
            return event.input
    found = batch.scan(LAST_INPUT, (run_id, HAS_INPUT))
    if not found:
        return started.input
    event = stored_event(run_id, found[0][0], WorkflowStartChanged.type, found[0][1])
    return last_input(started, (event,))


def new_seed(batch: Batch) -> int:
    """Return a seed for a run's random numbers: 52 bits, exact in any JSON reader."""
    return int(batch.random() * (1 << 52))


def first_run(
    *,
    run_id: str,
    workflow_id: str,
    workflow_type: str,
    task_queue: str,
    options: StartOptions,
    memo: Payload | None,
    search_attributes: Document | None = None,
    now: int,
    owner_id: str | None,
) -> RunRow:
    """Return the row of a chain's first run.

    The execution deadline counts from ``now``, the run deadline from the end of the start delay. With a queue it counts
    from the admission: the run waits for that, in line or for the end of its start delay.

    Args:
        run_id: The run's id, which also names the chain.
        workflow_id: Its workflow id.
        workflow_type: Its type.
        task_queue: Its task queue.
        options: Timeouts, start delay, retry policy and priority.
        memo: Its memo.
        search_attributes: Its search attributes.
        now: When it is created, in microseconds.
        owner_id: The worker that owns it from the first write, if any.
    """
    delay = options.start_delay_us
    begins = later(now, delay) if delay else now
    execution_timeout, run_timeout = options.execution_timeout_us, options.run_timeout_us
    execution_deadline = later(now, execution_timeout) if execution_timeout is not None else None
    if options.execution_deadline_us is not None:
        execution_deadline = options.execution_deadline_us
        # As the first event can say it. A child may begin after its deadline: its run ends as soon as somebody looks.
        execution_timeout = microseconds(max(execution_deadline - now, 1) / MICROSECONDS_PER_SECOND)
    run_deadline = later(begins, run_timeout) if run_timeout is not None else None
    policy = options.retry_policy
    run = RunRow(
        run_id=run_id,
        workflow_id=workflow_id,
        run_number=1,
        first_run_id=run_id,
        previous_run_id=None,
        next_run_id=None,
        workflow_type=workflow_type,
        task_queue=task_queue,
        priority=options.priority,
        status="pending",
        created_at=now,
        started_at=None,
        closed_at=None,
        execution_timeout=execution_timeout,
        execution_deadline_at=execution_deadline,
        run_timeout=options.run_timeout_us,
        run_deadline_at=run_deadline,
        next_deadline_at=execution_deadline,
        last_seq=0,
        last_event_at=now,
        inbox=0,
        wake_at=begins,
        not_before=begins if delay else 0,
        start_delayed=bool(delay),
        owner_id=owner_id,
        fence=1 if owner_id is not None else 0,
        owner_losses=0,
        parent_run_id=None,
        parent_command_id=None,
        parent_close_policy=None,
        cascade_at=None,
        attempt=1,
        retry_policy=orjson.dumps(policy.to_document()).decode() if policy is not None else None,
        memo=memo.json.decode() if memo is not None else None,
        cancel_requested_at=None,
        task_failures=0,
        attention=None,
        attention_since=None,
        build_id=None,
        history_bytes=0,
        search_attributes=orjson.dumps(search_attributes).decode() if search_attributes else None,
        summary=options.summary,
        progress=None,
    )
    if run_deadline is not None:
        run.next_deadline_at = earliest(execution_deadline, run_deadline)
    if options.alerts is not None:
        run.alerts = stored(options.alerts, now)
    if options.queue is not None:
        run.queue = options.queue
        run.partition_key = options.partition_key or ""
        enter_queue(run, now, schedule_to_start=options.schedule_to_start_timeout_us)
    return run
