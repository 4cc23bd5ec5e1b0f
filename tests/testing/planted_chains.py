"""What breaks the rules about chains of runs and the ids that point to them, and what the checker must say of it."""

from __future__ import annotations

from tests.testing.planting import (
    Planted,
    change_events,
    change_run,
    remove,
    run_of,
    say_in,
)


def change_instance(workflow_id: str, what: str) -> str:
    return f"UPDATE workflow_instances SET {what} WHERE workflow_id = '{workflow_id}'"


PLANTED: Planted = [
    # chains
    (change_run("chain", "run_number = 9"), "has run numbers [1, 2, 9]"),
    (
        f"UPDATE workflow_runs SET first_run_id = {run_of('chain', 2)} WHERE workflow_id = 'chain'",
        "does not begin with its first run",
    ),
    (change_run("chain", "previous_run_id = 'x'", 1), "does not begin with its first run"),
    (change_run("chain", "next_run_id = 'x'"), "ends with a run that names a next one, x"),
    (change_run("chain", "previous_run_id = NULL"), "runs 2 and 3 do not point to each other"),
    (change_run("chain", "next_run_id = 'x'", 2), "runs 2 and 3 do not point to each other"),
    (change_run("chain", "status = 'completed'", 1), "run 1 is completed but is followed by another"),
    (change_run("chain", "workflow_id = 9", 2), "workflow_id changed from"),
    (change_run("chain", "execution_timeout = 9", 2), "execution_timeout changed from"),
    (change_run("chain", "execution_deadline_at = 9", 2), "execution_deadline_at changed from"),
    (change_run("retried", "attempt = 1"), "run 3 is attempt 1 after a failed run"),
    (change_run("chain", "attempt = 2"), "run 3 is attempt 2 after a continued_as_new run"),
    (change_run("chain", "created_at = created_at + 1", 2), "run 2 was not created in the transaction"),
    (say_in("chain", "WorkflowStarted", "last_result", "5"), "run 3 has another last result than the run"),
    (
        say_in("chain", "WorkflowStarted", "schedule", "json_object('schedule_id', 's')"),
        "run 3 has another schedule than",
    ),
    (say_in("retried", "WorkflowStarted", "last_failure.type", "'x'"), "run 3 has another last failure than"),
    # resets
    (say_in("collector", "WorkflowStarted", "reset.run_id", "'x'"), "which is not the run before it"),
    (say_in("collector", "WorkflowStarted", "reset.seq", "99"), "which is not the run before it"),
    (say_in("collector", "ActivityScheduled", "priority", "1"), "run 3 does not start as the run that it"),
    (change_events("collector", "WorkflowStarted", "recorded_at = 1"), "run 3 does not start as the run"),
    (remove("history_events", "collector", "seq = 3", 2), "run 2 lacks the signals that came after"),
    (
        say_in("collector", "SignalReceived", "name", "'x'", 2),
        "run 2 lacks the signals that came after",
    ),
    (say_in("collector", "WorkflowStarted", "reset.seeds", "json('[[1, 5]]')"), "and has seeds for [1]"),
    # forks
    (
        say_in("fork", "WorkflowStarted", "forked_from.workflow_id", "'x'"),
        "is listed with the forks of collector",
    ),
    (
        say_in("fork", "WorkflowStarted", "forked_from.run_id", run_of("asleep")),
        "which is a run of asleep",
    ),
    (
        say_in("fork", "WorkflowStarted", "search_attributes", "json('{}')"),
        "is listed with the forks of None",
    ),
    (say_in("fork", "SignalReceived", "name", "'x'"), "does not start as the run that it was forked from"),
    (
        say_in("fork", "WorkflowStarted", "forked_from.seeds", "json('[[1, 5]]')"),
        "and has seeds for [1]",
    ),
    (
        say_in(
            "fork",
            "WorkflowStarted",
            "forked_from.seeds",
            f"json((SELECT json_insert(json_extract(o.payload, '$.reset.seeds'), '$[#]', json_array("
            f"json_extract(h.payload, '$.forked_from.seq'), json_extract(o.payload, '$.seed'))) FROM history_events o, "
            f"history_events h WHERE o.run_id = {run_of('collector')} AND o.seq = 1 "
            f"AND h.run_id = {run_of('fork')} AND h.seq = 1))",
        ),
        "draws the same numbers after it",
    ),
    (
        say_in(
            "chain",
            "WorkflowStarted",
            "forked_from",
            "json_object('workflow_id', 'x', 'run_id', 'x', 'seq', 1)",
        ),
        "says that it was forked, and does not begin its chain",
    ),
    (
        say_in("timers", "WorkflowStarted", "search_attributes", "json_object('outlast_forked_from', 'x')"),
        "is listed with the forks of x, its chain says",
    ),
    # instances
    ("DELETE FROM workflow_instances WHERE workflow_id = 'chain'", "has runs but no instance"),
    (change_instance("timers", "current_run_id = 'none'"), "which is not one of its runs"),
    (change_instance("timers", f"current_run_id = {run_of('asleep')}"), "which is not one of its runs"),
    (change_instance("chain", f"current_run_id = {run_of('chain', 1)}"), "which is not the newest"),
    (change_instance("chain", "run_count = 7"), "run_count is 7"),
    (change_instance("chain", "workflow_type = 'x'"), "type x, its run differs"),
    (change_run("busy", f"workflow_id = 'asleep', first_run_id = {run_of('busy')}"), "has open runs"),
]
