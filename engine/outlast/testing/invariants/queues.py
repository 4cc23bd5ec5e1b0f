"""What must hold of runs of queues: in line or with a slot, never both, and nothing of either once they have ended."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from outlast_store.schema.rows import RunRow
from outlast_store.transitions.queued_runs import START_TIMER
from outlast_workflow.history import events
from outlast_workflow.history.events import Event

RUN_DEADLINES = (events.WorkflowStarted, events.WorkflowDequeued, events.WorkflowStartChanged)
"""The events that say which run deadline holds from there on."""


def run_deadline_of(history: Sequence[Event]) -> str | None:
    """Return the run deadline that a history says holds at its end."""
    said = [event for event in history if isinstance(event, RUN_DEADLINES)]
    return said[-1].run_deadline_at if said else None


def check_queued(run: RunRow, history: Sequence[Event], timers: Collection[int]) -> Iterator[str]:
    """Check what a run's row says of its queue.

    Args:
        run: The run.
        history: Its events, in order.
        timers: The ids of its open timers.
    """
    delayed = START_TIMER in timers
    if run.queue is None:
        for name in ("partition_key", "queued_at", "slot_queue", "start_deadline_at"):
            if getattr(run, name) is not None:
                yield f"has no queue, but {name}={getattr(run, name)!r}"
        if run.status == "queued" or delayed:
            yield f"is {run.status} and has no queue"
        return
    if run.partition_key is None:
        yield "has a queue, but no partition"
    if run.closed_at is not None:
        if (
            run.queued_at is not None
            or run.slot_queue is not None
            or run.start_deadline_at is not None
            or delayed
        ):
            yield f"is {run.status}, but in line, in a slot of its queue, or delayed"
    elif run.status == "queued":
        if run.owner_id is not None or run.wake_at is not None or run.slot_queue is not None:
            yield f"is queued, but has owner {run.owner_id}, wake_at {run.wake_at} or slot {run.slot_queue}"
        if (run.queued_at is not None) == delayed:
            yield f"is queued, but {'both' if delayed else 'neither'} in line and delayed"
        if run.run_deadline_at is not None:
            yield "is queued, but its run timeout runs"
    else:
        if run.slot_queue != run.queue:
            yield f"is {run.status} without a slot of its queue {run.queue}: it has {run.slot_queue}"
        if run.queued_at is not None or run.start_deadline_at is not None or delayed:
            yield f"is {run.status}, but in line or delayed"
        dequeued = any(isinstance(event, events.WorkflowDequeued) for event in history)
        if not dequeued and run.previous_run_id is None:
            yield "has a slot, but was never dequeued"
