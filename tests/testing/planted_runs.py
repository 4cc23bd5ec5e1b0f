"""What breaks the rules about runs and what they have open, and what the checker must say of it."""

from __future__ import annotations

from tests.testing.planting import (
    Planted,
    append,
    change_activity,
    change_events,
    change_run,
    remove,
    run_of,
    say_in,
)

FAILED_TASK = '{"failure":{}}'

SAID_AT_THE_START = (
    "workflow_id",
    "workflow_type",
    "task_queue",
    "first_run_id",
    "run_number",
    "attempt",
    "priority",
    "previous_run_id",
    "summary",
)

HISTORIES: Planted = [
    (remove("history_events", "timers", "seq = 1"), "(WorkflowTaskCompleted) is first"),
    (append("timers", "WorkflowTaskFailed", FAILED_TASK), "stands after the terminal event"),
    (say_in("flaky", "WorkflowTaskCompleted", "commands", "0"), "is a command that no workflow task record"),
]

LATE_TERMINATION = (
    f"UPDATE history_events SET recorded_at = recorded_at + 200000000000 WHERE run_id = {run_of('terminated')} "
    "AND type IN ('ActivityCancelled', 'WorkflowTerminated')"
)

PLANTED: Planted = [
    # histories
    (remove("history_events", "timers", "seq = 3"), "the seqs have gaps"),
    (remove("history_events", "timers"), "has no history"),
    (remove("history_events", "retried", number=2), "has no history"),
    (remove("history_events", "collector", number=2), "has no history"),
    (remove("history_events", "cart"), "has no history"),
    (change_events("timers", "TimerFired", "recorded_at = 1"), "was recorded"),
    (change_events("timers", "TimerFired", "type = 'Nonsense'"), "cannot be read"),
    (change_events("timers", "TimerFired", "payload = '{'"), "cannot be read"),
    ("INSERT INTO history_events VALUES ('nobody', 1, 'WorkflowCancelRequested', 1, '{}')", "has rows but"),
    ("INSERT INTO timers VALUES ('nobody', 1, 1, NULL)", "has rows but is not in workflow_runs"),
    (change_activity("busy", "run_id = 'nobody'"), "has rows but is not in workflow_runs"),
    ("UPDATE workflow_failures SET run_id = 'nobody'", "has rows but is not in workflow_runs"),
    # rows of runs
    *[(change_run("asleep", f"{name} = 9"), f"WorkflowStarted says {name}=") for name in SAID_AT_THE_START],
    (change_run("timers", "last_seq = last_seq + 1"), "last_seq is"),
    (change_run("timers", "last_event_at = last_event_at + 1"), "last_event_at is not when"),
    (change_run("timers", "history_bytes = 0"), "history_bytes is"),
    (change_run("timers", "status = 'running'"), "the history says completed"),
    (change_run("asleep", "status = 'completed'"), "the history says running"),
    (change_run("queued", "status = 'running'"), "the history says pending"),
    (change_run("asleep", "started_at = NULL"), "started_at is None after 1 workflow tasks"),
    (change_run("queued", "started_at = 1"), "started_at is 1 after 0 workflow tasks"),
    (change_run("timers", "closed_at = NULL"), "closed_at is None"),
    (change_run("timers", "closed_at = closed_at - 1"), "closed_at is"),
    (change_run("asleep", "closed_at = 1"), "but has closed_at"),
    (change_run("timers", "owner_id = 'somebody'"), "has owner_id"),
    (change_run("timers", "wake_at = 1"), "has wake_at"),
    (change_run("timers", "next_deadline_at = 1"), "has next_deadline_at"),
    (change_run("timers", "attention = 'overdue'"), "has attention"),
    (change_run("timers", "next_run_id = 'another'"), "next_run_id is another"),
    (change_run("chain", "next_run_id = NULL", 1), "next_run_id is None"),
    (change_run("asked", "cancel_requested_at = NULL"), "cancel_requested_at is None with 1"),
    (append("asked", "WorkflowCancelRequested", "{}"), "with 2 cancel requests"),
    (change_run("stuck", "task_failures = 0"), "task_failures is 0, the history says some"),
    (change_run("asleep", "task_failures = 2"), "task_failures is 2, the history says none"),
    (append("stuck", "WorkflowTaskFailed", FAILED_TASK), "second WorkflowTaskFailed of one streak"),
    (remove("workflow_failures", "failed"), "is failed with 0 failure rows"),
    (remove("workflow_failures", "terminated"), "is terminated with 0 failure rows"),
    (
        f"UPDATE workflow_failures SET run_id = {run_of('asked')}, event_seq = 10 WHERE run_id = {run_of('failed')}",
        "is completed with 1 failure rows",
    ),
    # deadlines of runs
    (change_run("asleep", "next_deadline_at = NULL"), "not the lesser of"),
    (change_run("asleep", "next_deadline_at = next_deadline_at + 1"), "not the lesser of"),
    (change_run("asleep", "run_deadline_at = run_deadline_at + 1"), "the history says run_deadline_at="),
    (change_run("asleep", "execution_deadline_at = 5"), "the history says execution_deadline_at="),
    (
        change_events(
            "chain", "WorkflowStarted", "payload = json_remove(payload, '$.execution_deadline_at')"
        ),
        "the history says execution_deadline_at=None",
    ),
    (change_run("asleep", "run_timeout = run_timeout + 1"), "WorkflowStarted says an run timeout"),
    (change_run("asleep", "execution_timeout = 5"), "WorkflowStarted says an execution timeout"),
    (change_run("asleep", "run_deadline_at = NULL"), "run timeout and run deadline are not both set"),
    (change_run("asleep", "execution_timeout = NULL"), "execution timeout and execution deadline are not"),
    (change_run("asleep", "run_deadline_at = created_at + 1"), "comes before its timeout is over"),
    (
        change_events("run-timed-out", "WorkflowTimedOut", "recorded_at = recorded_at - 4000000"),
        ", before its deadline",
    ),
    (change_run("run-timed-out", "run_deadline_at = 5"), "timed out by run_timeout"),
    (change_run("timed-out", "execution_deadline_at = 5"), "timed out by execution_timeout"),
    *[
        (change_events("timers", kind, "recorded_at = recorded_at + 200000000000"), f"{kind} was recorded")
        for kind in ("WorkflowTaskCompleted", "TimerFired", "ActivityCompleted", "WorkflowCompleted")
    ],
    (
        change_events("busy", "WorkflowTaskCompleted", "recorded_at = recorded_at + 200000000000"),
        "WorkflowTaskCompleted was recorded",
    ),
    (LATE_TERMINATION, "ActivityCancelled was recorded"),
    # what a run has open
    (say_in("timers", "TimerFired", "fire_at", "5"), "was set for"),
    (change_events("timers", "TimerFired", "recorded_at = recorded_at - 1"), "fired early"),
    (remove("timers", "asleep"), "the open timers are"),
    ("UPDATE timers SET fire_at = fire_at + 1", "the open timers are"),
    ("UPDATE timers SET summary = 'another'", "the open timers are"),
    (f"INSERT INTO timers VALUES ({run_of('timers')}, 99, 5, NULL)", "is completed but has open timers"),
    (remove("activity_executions", "busy"), "rows of activities [1] or their events, not both"),
    (remove("activity_executions", "terminated"), "rows of activities [1] or their events, not both"),
    (
        remove("history_events", "busy", "type = 'ActivityScheduled'"),
        "rows of activities [1] or their events",
    ),
    (change_activity("terminated", "status = 'running', closed_at = NULL"), "is open, its run is terminated"),
]

NOT_WRONG: Planted = [
    # what is open when its run ends is closed, be it late or not
    (change_activity("terminated", "closed_at = closed_at + 200000000000"), "past its deadline"),
    # children tell of their end whatever the time
    (change_events("parent", "ChildWorkflowFailed", "recorded_at = recorded_at + 2000000000000"), "past the"),
    # a stamp that is its predecessor's says nothing of the time
    (
        f"UPDATE history_events SET recorded_at = {10**16} WHERE run_id = {run_of('busy')}",
        "past the deadline",
    ),
]
