"""The checker of invariants finds what is planted, and nothing in what the engine wrote."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Connection, StaticPool, create_engine
from tests.engine import programs

from holdfast.testing import TestEnvironment, check_database
from holdfast_store.queries import fetch
from holdfast_workflow.options import RetryPolicy, StartOptions


async def live() -> bytes:
    """A database with some of everything: open and closed runs, chains, retries, timers, activities in each state."""
    async with TestEnvironment(workflows=programs.WORKFLOWS, activities=programs.ACTIVITIES) as env:
        start = env.client.start
        options = StartOptions(execution_timeout=1_000_000, run_timeout=100_000)
        handles: list[Any] = [
            await start(programs.Countdown.run, 2, [], id="chain", options=options),
            await start(programs.third_time, id="retried", options=StartOptions(retry_policy=RetryPolicy())),
            await start(programs.retrying, "flaky", 2, id="flaky"),
            await start(programs.refused, "non_retryable", id="refused"),
            await start(programs.crashing, "x", id="failed"),
            await start(programs.waiting, 50_000, id="timed-out", options=StartOptions(run_timeout=5)),
            await start(programs.with_timeout, id="timers"),
        ]
        await asyncio.gather(*[handle.result() for handle in handles], return_exceptions=True)
        await start(programs.Sleeper.run, 5000, id="asleep", options=options)
        await start(programs.waiting, 5000, id="busy", options=options)
        await start(programs.waiting, 5000, id="queued", task_queue="elsewhere")
        ended = await start(programs.Careful.run, 5000, id="terminated")
        await ended.terminate("enough")
        asked = await start(programs.stubborn, id="asked")
        await asked.cancel()
        await start("strict", 1, "no date", id="stuck")
        await start(programs.retrying, "still-flaky", 99, id="backing-off")
        await env.sleep(5)
        with env.client.hub.database.reader() as connection:
            assert check_database(connection) == []
            driver: Any = connection.connection.driver_connection
            saved: bytes = driver.serialize()
        return saved


@pytest.fixture(scope="module")
def saved() -> bytes:
    return TestEnvironment.run(live)


@pytest.fixture
def database(saved: bytes) -> Iterator[Connection]:
    """A copy of that database."""
    driver = sqlite3.connect(":memory:", isolation_level=None)
    driver.deserialize(saved)
    engine = create_engine(
        "sqlite://", creator=lambda: driver, poolclass=StaticPool, isolation_level="AUTOCOMMIT"
    )
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def test_what_the_engine_wrote_is_in_order(database: Connection) -> None:
    assert check_database(database) == []
    statuses = {row[0] for row in fetch(database, "SELECT DISTINCT status FROM workflow_runs")}
    assert statuses >= {
        "completed",
        "failed",
        "timed_out",
        "terminated",
        "continued_as_new",
        "running",
        "pending",
    }
    found = {row[0] for row in fetch(database, "SELECT DISTINCT status FROM activity_executions")}
    assert found == {"pending", "running", "completed", "failed", "cancelled"}


def run_of(workflow_id: str) -> str:
    return f"(SELECT current_run_id FROM workflow_instances WHERE workflow_id = '{workflow_id}')"


def update_run(workflow_id: str, what: str) -> str:
    return f"UPDATE workflow_runs SET {what} WHERE run_id = {run_of(workflow_id)}"


def update_activity(workflow_id: str, what: str) -> str:
    return f"UPDATE activity_executions SET {what} WHERE run_id = {run_of(workflow_id)}"


PLANTED = [
    # histories
    (f"DELETE FROM history_events WHERE run_id = {run_of('timers')} AND seq = 3", "gaps"),
    (f"DELETE FROM history_events WHERE run_id = {run_of('timers')} AND seq = 1", "WorkflowStarted"),
    (f"DELETE FROM history_events WHERE run_id = {run_of('timers')}", "has no history"),
    (
        (
            f"INSERT INTO history_events SELECT run_id, last_seq + 1, 'WorkflowTaskFailed', last_event_at, "
            f"'{{\"failure\":{{}}}}' FROM workflow_runs WHERE run_id = {run_of('timers')}"
        ),
        "stands after the terminal event",
    ),
    (
        (
            f"INSERT INTO history_events SELECT run_id, last_seq + 1, 'WorkflowTaskFailed', last_event_at, "
            f"'{{\"failure\":{{}}}}' FROM workflow_runs WHERE run_id = {run_of('stuck')}"
        ),
        "second WorkflowTaskFailed of one streak",
    ),
    (
        (
            f"INSERT INTO history_events SELECT run_id, last_seq + 1, 'WorkflowCancelRequested', last_event_at, "
            f"'{{}}' FROM workflow_runs WHERE run_id = {run_of('busy')}"
        ),
        "cancel requests",
    ),
    (
        f"UPDATE history_events SET recorded_at = 1 WHERE run_id = {run_of('timers')} AND seq = 4",
        "was recorded",
    ),
    (
        f"UPDATE history_events SET type = 'Nonsense' WHERE run_id = {run_of('timers')} AND seq = 4",
        "can't be read",
    ),
    (
        f"UPDATE history_events SET payload = payload || ' ' WHERE run_id = {run_of('timers')} AND seq = 4",
        "history_bytes",
    ),
    (
        "INSERT INTO history_events VALUES ('nobody', 1, 'WorkflowCancelRequested', 1, '{}')",
        "not in workflow_runs",
    ),
    # run rows
    (update_run("timers", "last_seq = last_seq + 1"), "last_seq is"),
    (update_run("timers", "last_event_at = last_event_at + 1"), "last_event_at"),
    (update_run("timers", "history_bytes = 0"), "history_bytes"),
    (update_run("timers", "status = 'running'"), "the history says completed"),
    (update_run("asleep", "status = 'completed'"), "the history says running"),
    (update_run("asleep", "started_at = NULL"), "started_at"),
    (update_run("timers", "closed_at = NULL"), "closed_at"),
    (update_run("asleep", "closed_at = 1"), "but has closed_at"),
    (update_run("timers", "owner_id = 'somebody'"), "has owner_id"),
    (update_run("timers", "wake_at = 1"), "has wake_at"),
    (update_run("timers", "next_deadline_at = 1"), "has next_deadline_at"),
    (update_run("timers", "attention = 'overdue'"), "has attention"),
    (update_run("timers", "next_run_id = 'another'"), "next_run_id"),
    (update_run("asked", "cancel_requested_at = NULL"), "cancel_requested_at"),
    (update_run("stuck", "task_failures = 0"), "task_failures"),
    (update_run("asleep", "task_failures = 2"), "task_failures"),
    (f"DELETE FROM workflow_failures WHERE run_id = {run_of('failed')}", "failure rows"),
    (f"DELETE FROM workflow_failures WHERE run_id = {run_of('terminated')}", "failure rows"),
    # deadlines
    (update_run("asleep", "next_deadline_at = NULL"), "not the lesser of"),
    (update_run("asleep", "next_deadline_at = next_deadline_at + 1"), "not the lesser of"),
    (update_run("asleep", "run_deadline_at = run_deadline_at + 1"), "WorkflowStarted says run_deadline_at"),
    (update_run("asleep", "run_timeout = run_timeout + 1"), "WorkflowStarted says an run timeout"),
    (update_run("asleep", "execution_deadline_at = 5"), "WorkflowStarted says execution_deadline_at"),
    (
        update_run("chain", "execution_deadline_at = execution_deadline_at + 1"),
        "execution_deadline_at changed",
    ),
    (
        (
            f"UPDATE history_events SET payload = json_remove(payload, '$.execution_deadline_at') "
            f"WHERE run_id = {run_of('chain')} AND seq = 1"
        ),
        "WorkflowStarted says execution_deadline_at=None",
    ),
    (
        (
            f"UPDATE history_events SET recorded_at = recorded_at - 4000000 WHERE run_id = {run_of('timed-out')} "
            "AND type = 'WorkflowTimedOut'"
        ),
        "before its deadline",
    ),
    (
        (
            f"UPDATE history_events SET recorded_at = recorded_at + 200000000000 WHERE run_id = {run_of('asleep')} "
            "AND type = 'WorkflowTaskCompleted'"
        ),
        "past the deadline",
    ),
    # chains and instances
    (
        "UPDATE workflow_instances SET current_run_id = 'none' WHERE workflow_id = 'timers'",
        "not one of its runs",
    ),
    (
        (
            "UPDATE workflow_instances SET current_run_id = (SELECT first_run_id FROM workflow_runs WHERE "
            "workflow_id = 'chain' LIMIT 1) WHERE workflow_id = 'chain'"
        ),
        "which is not the newest",
    ),
    ("UPDATE workflow_instances SET run_count = 7 WHERE workflow_id = 'chain'", "run_count"),
    ("DELETE FROM workflow_instances WHERE workflow_id = 'chain'", "has runs but no instance"),
    (update_run("chain", "previous_run_id = NULL"), "do not point to each other"),
    (update_run("chain", "run_number = 9"), "run numbers"),
    (update_run("retried", "attempt = 1"), "is attempt 1 after a failed run"),
    (update_run("busy", f"workflow_id = 'asleep', first_run_id = {run_of('busy')}"), "has open runs"),
    # timers
    (f"DELETE FROM timers WHERE run_id = {run_of('asleep')}", "the open timers are"),
    (f"UPDATE timers SET fire_at = fire_at + 1 WHERE run_id = {run_of('asleep')}", "the open timers are"),
    (f"INSERT INTO timers VALUES ({run_of('timers')}, 99, 5)", "has open timers"),
    (
        f"UPDATE history_events SET recorded_at = 1 WHERE run_id = {run_of('timers')}",
        "fired early",
    ),
    # activities
    (update_activity("flaky", "status = 'failed'"), "its last event says completed"),
    (update_activity("flaky", "status = 'pending', closed_at = NULL"), "its last event says completed"),
    (update_activity("busy", "status = 'completed', closed_at = 1"), "no event says so"),
    (f"DELETE FROM activity_executions WHERE run_id = {run_of('busy')}", "or their events, not both"),
    (f"DELETE FROM activity_executions WHERE run_id = {run_of('terminated')}", "or their events, not both"),
    (update_activity("terminated", "status = 'running', closed_at = NULL"), "is open, its run is terminated"),
    (update_activity("flaky", "closed_at = NULL"), "with closed_at=None"),
    (update_activity("flaky", "next_deadline_at = 1"), "has next_deadline_at"),
    (update_activity("flaky", "scheduled_seq = 1"), "scheduled_seq"),
    (update_activity("flaky", "priority = 1"), "has priority=1"),
    (update_activity("flaky", "options = '{}'"), "other options"),
    (update_activity("flaky", "attempt = 4"), "the attempts"),
    (update_activity("flaky", "attempt = 2"), "the attempts"),
    (update_activity("flaky", "uncharged = 1"), "uncharged"),
    (update_activity("flaky", "rescues = 1"), "rescues is"),
    (f"DELETE FROM activity_attempts WHERE run_id = {run_of('flaky')} AND attempt = 1", "the attempts"),
    (f"UPDATE activity_attempts SET failure = NULL WHERE run_id = {run_of('flaky')}", "without saying why"),
    (
        update_activity("busy", "start_to_close_deadline_at = NULL, next_deadline_at = NULL"),
        "start_to_close_deadline_at",
    ),
    (update_activity("busy", "next_deadline_at = next_deadline_at + 1"), "the least of its deadlines"),
    (update_activity("busy", "claimed_by = NULL"), "claimed by nobody"),
    (update_activity("flaky", "schedule_to_close_deadline_at = 7"), "schedule_to_close_deadline_at is 7"),
    (
        (
            "UPDATE activity_attempts SET outcome = 'timed_out', timeout_kind = 'start_to_close' "
            f"WHERE run_id = {run_of('flaky')} AND attempt = 1"
        ),
        "before its time was over",
    ),
    # waking
    (
        (
            "INSERT INTO history_events SELECT run_id, last_seq + 1, 'SignalReceived', last_event_at, "
            f'\'{{"name":"x","input":[]}}\' FROM workflow_runs WHERE run_id = {run_of("asleep")}'
        ),
        "is asleep, and its code has not seen SignalReceived",
    ),
    (update_activity("backing-off", "claimed_by = 'somebody'"), "is pending but claimed"),
    (update_activity("backing-off", "attempt = 9"), "of 5"),
    (
        (
            f"UPDATE history_events SET recorded_at = recorded_at + 900000000 WHERE run_id = {run_of('flaky')} "
            "AND seq >= (SELECT seq FROM history_events WHERE type = 'ActivityCompleted' AND "
            f"run_id = {run_of('flaky')})"
        ),
        "",
    ),
]


@pytest.mark.parametrize(
    ("statement", "said"), PLANTED, ids=[f"{n}-{said[:30]}" for n, (_, said) in enumerate(PLANTED)]
)
def test_what_is_planted_is_found(database: Connection, statement: str, said: str) -> None:
    assert database.exec_driver_sql(statement).rowcount > 0, "nothing was planted"
    found = check_database(database)
    assert any(said in violation for violation in found), found


def test_an_empty_database_is_in_order() -> None:
    async def body() -> list[str]:
        async with TestEnvironment() as env:
            with env.client.hub.database.reader() as connection:
                return check_database(connection)

    assert TestEnvironment.run(body) == []
