"""What breaks the rules about parents and children, and what the checker must say of it."""

from __future__ import annotations

from tests.testing.planting import (
    Planted,
    append,
    change_events,
    change_run,
    remove,
    run_of,
    say_in,
)

MET = "ParentClosePolicyApplied"

PLANTED: Planted = [
    # what a run says of its parent
    (change_run("held", "parent_run_id = NULL"), "has the parent None"),
    (change_run("timers", "parent_run_id = 'x'"), "has the parent x"),
    (change_run("timers", "parent_command_id = 1"), "has a parent's command or policy, but no parent"),
    (change_run("timers", "parent_close_policy = 'x'"), "has a parent's command or policy, but no parent"),
    (change_run("held", "parent_close_policy = 'abandon'"), "by abandon, WorkflowStarted says"),
    (change_run("held", "parent_run_id = 'x'"), "closes with x by terminate"),
    (change_run("held", "parent_command_id = 99"), "is command 99 of its parent"),
    (
        say_in("held", "WorkflowStarted", "parent.workflow_id", "'x'"),
        "says that its parent is x, it is parent",
    ),
    (change_run("held", "execution_deadline_at = NULL"), "may run until None, longer than its parent"),
    (change_run("held", "execution_deadline_at = execution_deadline_at + 1"), "longer than its parent"),
    (say_in("child to terminate", MET, "policy", "'abandon'"), "met the policy abandon"),
    (say_in("child to terminate", MET, "parent_run_id", "'x'"), "met the policy terminate of x"),
    (append("held", MET, '{"policy":"terminate","parent_run_id":"x"}'), "but the parent is open"),
    # what a run says of its children
    (change_run("asleep", "cascade_at = 5"), "is open, but has cascade_at=5"),
    (remove("history_events", "parent", "seq = 17"), "child 4 was neither started nor refused"),
    (remove("history_events", "parent", "seq = 12"), "child 3 was neither started nor refused"),
    (say_in("parent", "ChildWorkflowStarted", "run_id", run_of("asleep")), "which is not its child"),
    (say_in("parent", "ChildWorkflowScheduled", "workflow_id", "'x'"), "which is not its child"),
    (change_run("held", "parent_run_id = 'x'"), "which is not its child"),
    (
        say_in("parent", "ChildWorkflowScheduled", "parent_close_policy", "'request_cancel'"),
        "has another close policy than it was given",
    ),
    (remove("history_events", "parent", "seq = 14"), "has a child held that it did not schedule"),
    (remove("history_events", "parent", "seq = 5"), "was not notified that its child grown has ended"),
    (
        change_events("parent", "ChildWorkflowFailed", "type = 'ChildWorkflowCancelled'"),
        "has ChildWorkflowCancelled of its child fallen, which is failed",
    ),
    (
        append("parent", "ChildWorkflowCompleted", '{"command_id":4,"result":1}'),
        "has the end of child 4, which has not ended",
    ),
    (say_in("held", "WorkflowStarted", "parent.run_id", "'x'"), "closes with "),
    (change_run("held", "parent_run_id = 'x'"), "awaits its child held, whose parent is x"),
    (
        change_run("child to abandon", "parent_close_policy = 'terminate'"),
        "and no close policy will be applied",
    ),
]
