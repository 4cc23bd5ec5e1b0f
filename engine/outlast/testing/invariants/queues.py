"""What must hold of queues, and of their runs and activities.

A run is in line or has a slot, never both, and nothing of either once it has ended. Slots are within the limits that
have always been those of their queue. A limit that was lowered ends nothing: of one that was changed nothing is known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from outlast_store.schema.rows import ActivityRow, QueueRow, RunRow
from outlast_store.transitions.queued_runs import START_TIMER
from outlast_workflow.history import events
from outlast_workflow.history.events import Event


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


def check_slots(
    queues: Mapping[str, QueueRow], runs: Iterable[RunRow], activities: Iterable[ActivityRow]
) -> Iterator[tuple[str, str]]:
    """Check that no more slots are held than limits allow that were never changed. Yield the place, and a sentence.

    Args:
        queues: The queues, by name.
        runs: All runs.
        activities: All activities.
    """
    slots = [
        *((run.slot_queue, run.partition_key, run.owner_id) for run in runs if run.slot_queue is not None),
        *((row.queue, row.partition_key, row.claimed_by) for row in activities if row.status == "running"),
    ]
    whole: Counter[tuple[str, str]] = Counter()
    for name, partition, owner in slots:
        queue = queues.get(name or "")
        if queue is None or queue.updated_at != queue.created_at:
            continue
        held = {
            "concurrency": "",
            "partition_concurrency": partition or "",
            **({} if owner is None else {"worker_concurrency": owner}),
            **({} if owner is None else {"partition_worker_concurrency": f"{partition or ''} of {owner}"}),
        }
        for limit, whose in held.items():
            most = getattr(queue, limit)
            whole[f"{queue.queue}, {limit}", whose] += 1
            if most is not None and whole[f"{queue.queue}, {limit}", whose] == most + 1:
                yield f"queue {queue.queue}", f"has more slots than its {limit} of {most} allows ({whose!r})"
