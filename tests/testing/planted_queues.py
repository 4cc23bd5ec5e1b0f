"""What breaks the rules about queues, and what the checker must say of it."""

from __future__ import annotations

from tests.testing.planting import Planted, change_events, change_run

PLANTED: Planted = [
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
