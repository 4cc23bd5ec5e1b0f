"""What breaks the rules about activities, and what the checker must say of it."""

from __future__ import annotations

from tests.testing.planting import (
    Planted,
    change_activity,
    remove,
    run_of,
    say_in,
    together,
)

# The activities of `impatient`: 1 to 3 timed out (the second closed early), 4 failed, 5 is local, 6 and 7 were
# cancelled (the second before it began), 9 timed out by schedule-to-close, 10 runs, 11 waits.


def change_attempt(workflow_id: str, what: str, activity_id: int = 1, attempt: int = 1) -> str:
    which = f"run_id = {run_of(workflow_id)} AND activity_id = {activity_id} AND attempt = {attempt}"
    return f"UPDATE activity_attempts SET {what} WHERE {which}"


def more_attempts(workflow_id: str, first: int, last: int) -> str:
    """Copies of the first attempt's row."""
    return (
        "INSERT INTO activity_attempts "
        f"WITH RECURSIVE n (a) AS (SELECT {first} UNION ALL SELECT a + 1 FROM n WHERE a < {last}) "
        "SELECT run_id, activity_id, a, worker_id, started_at, ended_at, outcome, timeout_kind, failure "
        f"FROM activity_attempts, n WHERE run_id = {run_of(workflow_id)} AND attempt = 1"
    )


AGAIN = (
    "INSERT INTO history_events SELECT run_id, (SELECT last_seq + 1 FROM workflow_runs r WHERE r.run_id = h.run_id), "
    f"type, recorded_at, payload FROM history_events h WHERE run_id = {run_of('flaky')} AND type = 'ActivityCompleted'"
)

RESULT_OF_A_RESCUED_ATTEMPT = together(
    more_attempts("flaky", 3, 3),
    change_attempt("flaky", "outcome = 'rescued'", attempt=3),
    change_activity("flaky", "uncharged = 1, rescues = 1"),
)
"""Merged while the next attempt waits; while it runs, nothing of that is in the database."""

PLANTED: Planted = [
    # the row and its events
    (AGAIN, "ended 2 times"),
    (change_activity("busy", "status = 'completed', closed_at = 1"), "is completed, but no event says so"),
    (change_activity("flaky", "status = 'failed'"), "its last event says completed"),
    (change_activity("flaky", "status = 'pending', closed_at = NULL"), "its last event says completed"),
    (change_activity("flaky", "closed_at = NULL"), "with closed_at=None"),
    (change_activity("busy", "closed_at = 1"), "is running with closed_at=1"),
    (change_activity("flaky", "activity_type = 'x'"), "has activity_type='x'"),
    (change_activity("flaky", "priority = 1"), "has priority=1"),
    (change_activity("flaky", "summary = 'another'"), "has summary='another'"),
    (change_activity("flaky", "queue = 'narrow', partition_key = NULL"), "has queue='narrow'"),
    (change_activity("calling through a queue", "partition_key = 'u'", 2), "stands in partition 'u'"),
    (change_activity("flaky", "task_queue = 'x'"), "waits in 'x'"),
    (change_activity("flaky", "local = 1"), "waits in 'default'"),
    (change_activity("impatient", "task_queue = 'default'", 5), "waits in 'default'"),
    (change_activity("flaky", "local = 1, task_queue = char(1) || task_queue"), "waits in '\\x01default'"),
    (change_activity("flaky", "scheduled_seq = 1"), "has scheduled_seq=1"),
    (change_activity("flaky", "options = '{}'"), "has other options"),
    (say_in("flaky", "ActivityCompleted", "attempt", "2"), "ActivityCompleted says attempt 2, the row 3"),
    (change_activity("impatient", "uncharged = 1", 4), "ActivityFailed says attempt 1, the row 0"),
    (RESULT_OF_A_RESCUED_ATTEMPT, "ActivityCompleted says attempt 3, the row 2"),
    (RESULT_OF_A_RESCUED_ATTEMPT, "is completed in attempt 3, there are rows of the attempts [1, 2, 3]"),
    # deadlines that passed
    (change_activity("flaky", "closed_at = closed_at + 900000000"), "ActivityCompleted came"),
    (change_activity("impatient", "closed_at = closed_at + 900000000", 4), "ActivityFailed came"),
    (change_activity("impatient", "closed_at = closed_at + 900000000000", 6), "ActivityCancelled came"),
    (change_activity("impatient", "closed_at = closed_at + 900000000", 7), "ActivityCancelled came"),
    (
        change_activity("impatient", "started_at = schedule_to_close_deadline_at", 2),
        "past its deadline 1767225605500000",
    ),
    (change_activity("impatient", "started_at = schedule_to_start_deadline_at", 11), "was claimed at"),
    *[
        (
            change_attempt("flaky", f"outcome = '{outcome}', ended_at = ended_at + 900000000"),
            f"{outcome} 840000000",
        )
        for outcome in ("failed", "rescued", "handed_back")
    ],
    (change_attempt("impatient", "ended_at = ended_at + 20000000", 4), "failed 10000000 µs past another"),
    (change_attempt("impatient", "ended_at = ended_at + 500000", 2), "timed_out 0 µs past another deadline"),
    # deadlines that had not passed
    (change_activity("impatient", "closed_at = closed_at - 1", 1), "timed out before its deadline"),
    (remove("activity_attempts", "impatient", "activity_id = 2"), "timed out before its deadline"),
    (change_attempt("impatient", "outcome = 'failed'", 2), "timed out before its deadline"),
    (change_attempt("impatient", "attempt = 2", 2), "timed out before its deadline"),
    (change_attempt("impatient", "timeout_kind = 'schedule_to_close'", 2), "timed out before its deadline"),
    (say_in("impatient", "ActivityTimedOut", "retry_state", "'x'"), "timed out before its deadline"),
    (change_activity("impatient", "start_to_close_deadline_at = 5", 1), "timed out by start_to_close"),
    (change_attempt("impatient", "ended_at = ended_at - 1", 1), "(start_to_close) before its timeout"),
    (change_attempt("impatient", "ended_at = ended_at - 1", 3), "(schedule_to_start) before its time"),
    (change_attempt("impatient", "timeout_kind = 'schedule_to_close'", 2), "(schedule_to_close) before its"),
    (
        change_attempt("impatient", "outcome = 'timed_out', timeout_kind = 'heartbeat'", 4),
        "(heartbeat) before its timeout",
    ),
    (change_attempt("impatient", "timeout_kind = 'start_to_close'", 3), "(start_to_close) before its time"),
    (change_attempt("flaky", "outcome = 'timed_out', timeout_kind = 'heartbeat'"), "(heartbeat) before its"),
    # deadline columns
    (change_activity("flaky", "schedule_to_close_deadline_at = 7"), "the row says 7"),
    (change_activity("impatient", "schedule_to_close_deadline_at = NULL", 11), "the row says None"),
    (change_activity("flaky", "next_deadline_at = 1"), "is completed but has next_deadline_at"),
    (change_activity("busy", "next_deadline_at = next_deadline_at + 1"), "the least of its deadlines"),
    (change_activity("backing-off", "claimed_by = 'somebody'"), "is pending but claimed"),
    (change_activity("backing-off", "started_at = 1"), "is pending but claimed"),
    (change_activity("backing-off", "heartbeat_deadline_at = 1"), "is pending but has a heartbeat deadline"),
    (change_activity("busy", "started_at = NULL"), "is running but was not started"),
    (change_activity("busy", "claimed_by = NULL, local = 1"), "is deferred, but local"),
    (change_activity("busy", "claimed_by = NULL, options = '{}'"), "is deferred, but no timeout bounds it"),
    (change_activity("impatient", "heartbeat_at = started_at + 5", 10), "heartbeat_deadline_at is"),
    (change_activity("impatient", "heartbeat_deadline_at = NULL", 10), "heartbeat_deadline_at is None"),
    (change_activity("busy", "start_to_close_deadline_at = NULL"), "start_to_close_deadline_at is None"),
    (change_activity("busy", "schedule_to_start_deadline_at = 5"), "schedule_to_start_deadline_at is 5"),
    (change_activity("impatient", "start_to_close_deadline_at = 5", 11), "start_to_close_deadline_at is 5"),
    (change_activity("impatient", "available_at = 5", 11), "schedule_to_start_deadline_at is"),
    # attempts
    (change_activity("flaky", "attempt = 4"), "there are rows of the attempts"),
    (change_activity("flaky", "attempt = 2"), "there are rows of the attempts"),
    (change_activity("backing-off", "attempt = 9"), "there are rows of the attempts"),
    (remove("activity_attempts", "flaky", "attempt = 1"), "there are rows of the attempts [2]"),
    (more_attempts("flaky", 99, 99), "has 3 rows of attempts up to 99"),
    (
        together(more_attempts("backing-off", 4, 120), change_activity("backing-off", "attempt = 120")),
        "has 120 rows of attempts up to 120",
    ),
    (change_activity("flaky", "uncharged = 1"), "uncharged is 1, 0 attempts were released"),
    (change_attempt("flaky", "outcome = 'handed_back'"), "uncharged is 0, 1 attempts were released"),
    (change_activity("flaky", "rescues = 1"), "rescues is 1, 0 attempts were rescued"),
    (change_attempt("flaky", "outcome = 'rescued'"), "rescues is 0, 1 attempts were rescued"),
    (change_activity("flaky", "rescues = 5"), "was rescued 5 times"),
    (change_activity("backing-off", "attempt = 9"), "is in attempt 9 of 5"),
    (say_in("impatient", "ActivityFailed", "retry_state", "'cancel_requested'"), "cancel_requested is False"),
    (change_activity("impatient", "cancel_requested = 1", 4), "cancel_requested is True"),
    (remove("workflow_failures", "flaky", "event_seq IS NULL"), "failed, and no failure row says so"),
    (remove("workflow_failures", "impatient", "source_id = '1'"), "timed_out, and no failure row says so"),
    (change_attempt("flaky", "failure = NULL"), "attempt 1 failed without saying why"),
    (change_attempt("impatient", "failure = NULL"), "attempt 1 timed_out without saying why"),
]


NOT_WRONG: Planted = [
    # a bounded attempt may go on without a worker
    (change_activity("busy", "claimed_by = NULL"), "is deferred"),
    # a run's end closes what it finds
    (change_attempt("impatient", "ended_at = ended_at + 900000000000", 6), "past another deadline"),
    # when an attempt was last heard of is known of the last one only
    (
        together(
            change_attempt("impatient", "ended_at = ended_at + 20000000", 4),
            change_activity("impatient", "attempt = 2", 4),
        ),
        "past another deadline",
    ),
]
