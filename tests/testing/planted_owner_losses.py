"""What breaks the rules about owners that a run has lost, and what the checker must say of it."""

from __future__ import annotations

from tests.testing.planting import Planted, change_run, say_in

PLANTED: Planted = [
    (change_run("asleep", "owner_losses = 99"), "owners can have lost it"),
    (change_run("asleep", "owner_losses = 3, fence = 9"), "and needs no attention"),
    (change_run("doomed", "owner_losses = 3, fence = 9"), "ended because it had lost 2 owners"),
    (say_in("doomed", "WorkflowFailed", "failure.limit", "2"), "and may lose 2"),
    (
        say_in("doomed", "WorkflowFailed", "next_run_id", "'x'"),
        "took its owners down and was retried as run x",
    ),
]
