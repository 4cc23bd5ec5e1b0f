"""Runs of queues: how they join their line, wait before that, and leave it.

A run of a queue that has not been admitted is ``queued``. It has neither owner nor ``wake_at``, so nothing makes it
claimable. It either stands in line (``queued_at``), or waits for the end of its start delay: then timer 0, which the
watchdog fires without an event, lets it join the line. What ends a start delay otherwise, a signal or an update, lets
it join the line at once.

An admitted run holds a slot (``slot_queue``) until its chain ends; what continues the chain takes the slot over.
"""

from __future__ import annotations

from typing import Final

import orjson

from outlast_store.journal.batch import Batch
from outlast_store.schema.rows import RunRow
from outlast_store.transitions.run_deadlines import lower_run_deadline, nearest_deadline
from outlast_workflow.history.events import WorkflowDeadlineLowered, WorkflowDequeued
from outlast_workflow.primitives.enums import RunStatus
from outlast_workflow.primitives.times import iso, later, microseconds

START_TIMER: Final = 0
"""The timer that ends the start delay of a run of a queue. The ids of commands begin at 1."""


def enter_queue(run: RunRow, now: int, *, schedule_to_start: int | None = None) -> None:
    """Make a run that is about to be inserted wait for its queue: in line, or for the end of its start delay.

    Args:
        run: The run, of a queue; its ``not_before`` is the end of its start delay.
        now: The instant, in microseconds.
        schedule_to_start: How long it may stand in line, in microseconds.
    """
    delayed = run.not_before > now
    joins_at = run.not_before if delayed else now
    run.status = RunStatus.QUEUED.value
    run.owner_id = None
    run.fence = 0
    run.wake_at = None
    run.slot_queue = None
    run.queued_at = None if delayed else now
    run.run_deadline_at = None
    run.start_deadline_at = later(joins_at, schedule_to_start) if schedule_to_start is not None else None
    run.next_deadline_at = nearest_deadline(run)


def add_start_timer(batch: Batch, run: RunRow) -> None:
    """Insert the timer that ends the start delay of a run of a queue, if it has one."""
    if run.status == RunStatus.QUEUED and run.queued_at is None:
        batch.add_timer(run.run_id, START_TIMER, run.not_before)


def join_line(batch: Batch, run: RunRow, at: int) -> None:
    """Let a run whose start delay ends join its line; its schedule-to-start timeout counts from there.

    Args:
        batch: The batch.
        run: The run; nothing happens unless it is delayed.
        at: When it joins the line, in microseconds.
    """
    if run.status != RunStatus.QUEUED or run.queued_at is not None:
        return
    batch.remove_timer(run.run_id, START_TIMER)
    if run.start_deadline_at is not None:
        run.start_deadline_at += at - run.not_before
        run.next_deadline_at = nearest_deadline(run)
    run.queued_at = at
    run.not_before = 0
    run.start_delayed = False


def leave_line(batch: Batch, run: RunRow, until: int) -> None:
    """Give a queued run another start delay: it leaves its line, if it stands in one, and joins it anew afterwards.

    Its schedule-to-start timeout counts from there.

    Args:
        batch: The batch.
        run: The run, queued.
        until: When it joins the line, in microseconds.
    """
    batch.remove_timer(run.run_id, START_TIMER)
    batch.add_timer(run.run_id, START_TIMER, until)
    if run.start_deadline_at is not None:
        joins_at = run.queued_at if run.queued_at is not None else run.not_before
        run.start_deadline_at = later(run.start_deadline_at, until - joins_at)
        run.next_deadline_at = nearest_deadline(run)
    run.queued_at = None
    run.not_before = until
    run.start_delayed = True


def _limit(batch: Batch, run: RunRow) -> int | None:
    """Return the timeout that the code of a run has set itself before a reset put it back in line, in microseconds."""
    text = "SELECT payload FROM history_events WHERE run_id = ? AND type = ? ORDER BY seq DESC LIMIT 1"
    found = batch.scan(text, (run.run_id, WorkflowDeadlineLowered.type))
    return microseconds(orjson.loads(found[0][0])["timeout_seconds"]) if found else None


def dequeue(batch: Batch, run: RunRow, worker_id: str) -> None:
    """Admit a run that stands in line: it takes a slot and an owner, and its run timeout begins.

    Args:
        batch: The batch; it holds the queue's gate.
        run: The run, locked.
        worker_id: Its owner from now on.
    """
    assert run.queue is not None
    assert run.queued_at is not None
    waited = max(batch.now - run.queued_at, 0)
    run.queued_at = None
    run.start_deadline_at = None
    run.slot_queue = run.queue
    # A reset may have put a run back in line that had begun.
    run.status = str(RunStatus.PENDING if run.started_at is None else RunStatus.RUNNING)
    run.run_deadline_at = later(batch.now, run.run_timeout) if run.run_timeout is not None else None
    limit = _limit(batch, run) if run.started_at is not None else None
    if limit is not None:
        lower_run_deadline(run, later(batch.now, limit))
    run.next_deadline_at = nearest_deadline(run)
    run.wake_at = batch.now
    run.not_before = 0
    run.start_delayed = False
    run.owner_id = worker_id
    run.fence += 1
    deadline = iso(run.run_deadline_at) if run.run_deadline_at is not None else None
    batch.append(run, WorkflowDequeued(run.queue, run.partition_key or "", waited, deadline))
