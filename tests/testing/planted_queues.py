"""What breaks the rules about queues, and what the checker must say of it."""

from __future__ import annotations

from tests.testing.planting import (
    Planted,
    change_activity,
    change_events,
    change_run,
    run_of,
    together,
)

CALLER = "calling through a queue"
"""Two activities of it stand in a queue that has one slot, by each limit; the first holds it."""


def second_slot(*lifted: str) -> str:
    """The second activity runs on the same worker, though the queue has one slot; some limits are lifted."""
    worker = (
        f"(SELECT claimed_by FROM activity_executions WHERE run_id = {run_of(CALLER)} AND activity_id = 1)"
    )
    lift = [f"UPDATE queues SET {limit} = NULL WHERE queue = 'narrow'" for limit in lifted]
    return together(*lift, change_activity(CALLER, f"status = 'running', claimed_by = {worker}", 2))


PLANTED: Planted = [
    (second_slot(), "more slots than its concurrency of 1"),
    (second_slot("concurrency"), "more slots than its partition_concurrency of 1"),
    (second_slot("concurrency", "partition_concurrency"), "more slots than its worker_concurrency of 1"),
    (
        second_slot("concurrency", "partition_concurrency", "worker_concurrency"),
        "more slots than its partition_worker_concurrency of 1",
    ),
    (change_run("asleep", "slot_queue = 'slow'"), "has no queue, but slot_queue="),
    (change_run("asleep", "status = 'queued'"), "is queued and has no queue"),
    (change_run("admitted", "partition_key = NULL"), "has a queue, but no partition"),
    (change_run("left the line", "slot_queue = 'slow'"), "in a slot of its queue, or delayed"),
    (change_run("in line", "wake_at = 1"), "is queued, but has owner"),
    (change_run("in line", "queued_at = NULL"), "is queued, but neither in line"),
    (change_run("delayed", "queued_at = 1"), "is queued, but both in line"),
    (change_run("in line", "run_deadline_at = 1"), "but its run timeout runs"),
    (change_run("admitted", "slot_queue = NULL"), "without a slot of its queue"),
    (change_run("admitted", "queued_at = 1"), "but in line or delayed"),
    (
        change_events(
            "admitted", "WorkflowDequeued", "type = 'WorkflowStartChanged', payload = '{\"start_at\":\"x\"}'"
        ),
        "was never dequeued",
    ),
]
