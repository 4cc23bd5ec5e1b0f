"""The scans: index ranges only, in order, past whatever stays, and never blocked by rows that can't be handled."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from sqlalchemy import Connection
from tests.watchdog.stage import POLICY, SECOND, START, Stage

from outlast_store.database.sql_text import fetch
from outlast_store.reads import due
from outlast_workflow.options.options import ActivityOptions, RetryPolicy, StartOptions

ONCE = ActivityOptions(start_to_close_timeout=20, retry_policy=RetryPolicy(max_attempts=1))
MANY = 20_000

FILL_RUNS = """
    INSERT INTO workflow_runs (run_id, workflow_id, run_number, first_run_id, workflow_type, task_queue, priority,
        status, created_at, next_deadline_at, last_seq, last_event_at, inbox, not_before, start_delayed, owner_id,
        wake_at, fence, owner_losses, attempt, task_failures, history_bytes)
    SELECT 'run-' || n, 'id-' || n, 1, 'run-' || n, 'Order', 'default', 5,
        'running', 0, CASE WHEN n & 1 = 0 THEN {start} + n END, 1, 0, 0, 0, {false}, 'worker-' || (n & 255),
        NULL, 1, 0, 1, 0, 0
    FROM ({numbers}) AS numbers"""

FILL_ACTIVITIES = """
    INSERT INTO activity_executions (run_id, activity_id, activity_type, task_queue, priority, scheduled_seq,
        status, attempt, uncharged, rescues, scheduled_at, available_at,
        claimed_by, options, next_deadline_at, cancel_requested, local)
    SELECT 'run-' || n, 1, 'charge', 'default', 5, 3,
        CASE WHEN n & 1 = 0 THEN 'running' ELSE 'pending' END, 1, 0, 0, 0, 0,
        'worker-' || (n & 255), '{{}}', CASE WHEN n & 1 = 0 THEN {start} + n END, {false}, {false}
    FROM ({numbers}) AS numbers"""

FILL_TIMERS = """
    INSERT INTO timers (run_id, timer_id, fire_at)
    SELECT 'run-' || n, 2, {start} + n FROM ({numbers}) AS numbers"""

FILL_SCHEDULES = """
    INSERT INTO schedules (schedule_id, version, workflow_type, task_queue, input, action, spec, overlap, catch_up,
        catch_up_window, pause_on_failure, decided_until, next_look_at, started, skipped, missed,
        created_at, updated_at)
    SELECT 'schedule-' || n, 1, 'Order', 'default', 'null', '{{}}', '{{}}', 'skip', 'latest',
        0, {false}, 0, {start} + n, 0, 0, 0, 0, 0 FROM ({numbers}) AS numbers"""

FILL_ALERTS = """
    INSERT INTO alert_timers (run_id, activity_id, kind, mark, attempt, due_at)
    SELECT 'run-' || n, 0, 'after', '+60s', 0, {start} + n FROM ({numbers}) AS numbers"""

NUMBERS = {
    "sqlite": f"WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {MANY}) SELECT n FROM c",
    "postgresql": f"SELECT n FROM generate_series(1, {MANY}) AS n",
}

FILL_OUTBOX = """
    INSERT INTO outlast_outbox (kind, workflow_id, name, args, state, refused_at)
    SELECT 'start', 'id-' || n, 'Order', '[]', 'refused', {start} + n FROM ({numbers}) AS numbers"""

PLANS: list[tuple[str, tuple[Any, ...], tuple[str, ...]]] = [
    (
        due.LOW_ENDS,
        (START, START, START, START, START),
        (
            "ix_runs_deadline",
            "ix_activities_deadline",
            "ix_timers_fire_at",
            "ix_schedules_look",
            "ix_alert_timers_due",
            "ix_runs_owned",
            "ix_outbox_refused",
            "ix_outbox_waiting",
        ),
    ),
    (
        due.NEXT_DEADLINES,
        (START, START, START, START, START),
        (
            "ix_runs_deadline",
            "ix_activities_deadline",
            "ix_timers_fire_at",
            "ix_alert_timers_due",
            "ix_schedules_look",
        ),
    ),
    (due.DUE_RUNS, (START + 20, -1, -1, "", 10), ("ix_runs_deadline",)),
    (due.DUE_ACTIVITIES, (START + 20, -1, -1, "", 0, 10), ("ix_activities_deadline",)),
    (due.DUE_TIMERS, (START + 20, -1, -1, "", 0, 10), ("ix_timers_fire_at",)),
    (due.DUE_ALERTS, (START + 20, -1, -1, "", 0, "", "", 10), ("ix_alert_timers_due",)),
    (due.DUE["runs"], (START + 20, 10), ("ix_runs_deadline",)),
    (due.DUE["activities"], (START + 20, 10), ("ix_activities_deadline",)),
    (due.LOST_OWNERS, (), ("ix_runs_owned",)),
    (due.LOST_CLAIMERS, (), ("ix_activities_claimed",)),
    (due.AWAKE_RUNS_OF, ("worker-1", 10), ("ix_runs_owned",)),
    (due.IDLE_RUNS_OF, ("worker-1", 10), ("ix_runs_owned",)),
    (due.ACTIVITIES_OF, ("worker-2", "", 0, 10), ("ix_activities_claimed",)),
]


async def test_every_scan_reads_its_partial_index_and_no_table(stage: Stage) -> None:
    backend = stage.runtime.database.backend
    false = "0" if backend == "sqlite" else "false"
    for text in (FILL_RUNS, FILL_ACTIVITIES, FILL_TIMERS, FILL_SCHEDULES, FILL_ALERTS, FILL_OUTBOX):
        await stage.sql(text.format(start=START, false=false, numbers=NUMBERS[backend]))
    with stage.runtime.database.writer() as connection:
        connection.exec_driver_sql("ANALYZE")
    explain = "EXPLAIN QUERY PLAN" if backend == "sqlite" else "EXPLAIN"
    for text, values, indexes in PLANS:
        plan = "\n".join(str(row) for row in stage.runtime.read_now(fetch, f"{explain} {text}", values))
        for index in indexes:
            assert index in plan, f"{text}\n{plan}"
        for table in ("workflow_runs", "activity_executions", "timers", "schedules", "alert_timers"):
            assert f"Seq Scan on {table}" not in plan, f"{text}\n{plan}"
            assert f"SCAN {table}'" not in plan, f"{text}\n{plan}"
    await stage.wipe()


async def test_an_idle_pass_is_one_statement(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = await stage.start(StartOptions(execution_timeout=60))
    await stage.schedule(run_id, ONCE)
    await stage.claim()
    await stage.register("worker-1")
    await stage.set_timer(run_id, 30)
    asked: list[str] = []

    def count(connection: Connection, text: str, values: tuple[Any, ...] = ()) -> Any:
        asked.append(text)
        return fetch(connection, text, values)

    monkeypatch.setattr("outlast_store.reads.due.fetch", count)
    changes = stage.runtime.journal.committer.statistics["changes"]
    report = await stage.watchdog.run_pass()
    assert asked == [due.LOW_ENDS]
    assert stage.runtime.journal.committer.statistics["changes"] == changes
    assert (report.done, report.left, report.next_deadline_at) == (0, {}, stage.clock.us + 20 * SECOND)


async def test_what_is_due_of_all_kinds_shares_a_commit(stage: Stage) -> None:
    ending = await stage.start(StartOptions(execution_timeout=60))
    busy = await stage.start()
    await stage.schedule(busy, ONCE)
    await stage.claim()
    await stage.set_timer(busy, 60)
    stage.clock.advance(60)
    statistics = stage.runtime.journal.committer.statistics
    batches, stale = statistics["batches"], statistics["stale"]
    report = await stage.watchdog.run_pass()
    assert report.counts == {"execution_timeout": 1, "start_to_close": 1, "timer_fired": 1}
    assert (statistics["batches"], statistics["stale"]) == (batches + 1, stale)
    assert stage.run(ending).status == "timed_out"
    assert stage.types(busy)[-2:] == ["ActivityTimedOut", "TimerFired"]


@pytest.mark.parametrize("batch", [1, 2, 3, 100])
async def test_what_is_due_is_drained_in_batches_of_any_size(memory_stage: Stage, batch: int) -> None:
    stage = memory_stage
    stage.watchdog.batch = batch
    runs = [await stage.start(StartOptions(execution_timeout=60)) for _ in range(7)]
    busy = await stage.start()
    await stage.schedule(busy, ONCE, number=7)
    await stage.claim()
    await stage.set_timer(busy, 60, number=7)
    stage.clock.advance(60)
    assert (await stage.watchdog.run_pass()).counts == {
        "execution_timeout": 7,
        "start_to_close": 7,
        "timer_fired": 7,
    }
    assert all(stage.run(run_id).status == "timed_out" for run_id in runs)


async def test_a_limit_holds_for_each_kind_and_the_report_says_what_is_left(stage: Stage) -> None:
    for _ in range(5):
        await stage.start(StartOptions(execution_timeout=60))
    run_id = await stage.start()
    await stage.set_timer(run_id, 60, number=3)
    stage.clock.advance(60)
    report = await stage.watchdog.run_pass(2)
    assert report.counts == {"execution_timeout": 2, "timer_fired": 2}
    assert report.left == {"runs": 3, "timers": 1}
    assert report.reached_limit
    report = await stage.watchdog.run_pass()
    assert (report.counts, report.left, report.reached_limit) == (
        {"execution_timeout": 3, "timer_fired": 1},
        {},
        False,
    )


# --- rows that can't be handled -------------------------------------------------------------------------------------


async def spoil(stage: Stage, kind: str, number: int) -> None:
    """Rows that come before everything else and can't be handled."""
    for _ in range(number):
        if kind == "undecodable policy":
            run_id = await stage.start(StartOptions(run_timeout=10, retry_policy=POLICY))
            await stage.sql("UPDATE workflow_runs SET retry_policy = '{' WHERE run_id = ?", run_id)
        elif kind == "undecodable options":
            run_id = await stage.start()
            await stage.schedule(run_id, ONCE, claimed_by="worker-1")
            text = "UPDATE activity_executions SET options = '{', next_deadline_at = ?, start_to_close_deadline_at = ? "
            await stage.sql(f"{text} WHERE run_id = ?", START + 1, START + 1, run_id)
        elif kind == "undecodable cause":
            run_id = await stage.start()
            await stage.schedule(run_id, ONCE, claimed_by="worker-1")
            await stage.sql("UPDATE activity_executions SET last_failure = '{' WHERE run_id = ?", run_id)
        elif kind == "deadline of a closed activity":
            run_id = await stage.start()
            await stage.schedule(run_id, ONCE, claimed_by="worker-1")
            await stage.sql(
                "UPDATE activity_executions SET closed_at = 1, status = 'completed' WHERE run_id = ?", run_id
            )
        elif kind == "activity of a closed run":
            run_id = await stage.start()
            await stage.schedule(run_id, ONCE, claimed_by="worker-1")
            await stage.sql(
                "UPDATE workflow_runs SET closed_at = 1, status = 'completed' WHERE run_id = ?", run_id
            )
        elif kind == "activity of no run":
            run_id = await stage.start()
            await stage.schedule(run_id, ONCE, claimed_by="worker-1")
            await stage.sql("DELETE FROM workflow_runs WHERE run_id = ?", run_id)
        elif kind == "timer of a closed run":
            run_id = await stage.start()
            await stage.set_timer(run_id, 10)
            await stage.sql(
                "UPDATE workflow_runs SET closed_at = 1, status = 'completed' WHERE run_id = ?", run_id
            )
        elif kind == "deadline of a closed run":
            run_id = await stage.start(StartOptions(run_timeout=10))
            await stage.sql(
                "UPDATE workflow_runs SET closed_at = 1, status = 'completed' WHERE run_id = ?", run_id
            )


def complaints(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """What the watchdog says of rows, among the failures that are logged."""
    return [record for record in caplog.records if record.name == "outlast.watchdog"]


@pytest.mark.parametrize(
    "kind",
    [
        "undecodable policy",
        "undecodable options",
        "undecodable cause",
        "activity of a closed run",
        "activity of no run",
        "deadline of a closed activity",
        "timer of a closed run",
        "deadline of a closed run",
    ],
)
async def test_limit_many_rows_that_cannot_be_handled_do_not_block_the_one_behind(
    stage: Stage, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    await stage.register("worker-1", 1000)
    await spoil(stage, kind, 6)
    stage.clock.advance(5)
    run_id = await stage.start(StartOptions(execution_timeout=40))
    await stage.schedule(run_id, ONCE, claimed_by="worker-1")
    await stage.set_timer(run_id, 20)
    stage.clock.advance(20)
    stage.watchdog.batch = 2
    with caplog.at_level(logging.ERROR, "outlast.watchdog"):
        report = await stage.watchdog.run_pass(2)
    assert (report.counts, report.set_aside) == ({"start_to_close": 1, "timer_fired": 1}, 6)
    assert sum(report.left.values()) == 6
    assert len(complaints(caplog)) == 6
    assert all(vars(record)["run_id"] for record in complaints(caplog))
    with caplog.at_level(logging.ERROR, "outlast.watchdog"):
        assert (await stage.watchdog.run_pass()).set_aside == 6
    assert len(complaints(caplog)) == 6, "each is named once"
    stage.clock.advance(20)
    assert (await stage.watchdog.run_pass()).counts == {"execution_timeout": 1}
    await stage.wipe()


async def test_a_row_whose_index_entry_is_stale_is_mended_and_not_enforced(memory_stage: Stage) -> None:
    stage = memory_stage
    await stage.register("worker-1")
    run_id = await stage.start(StartOptions(run_timeout=60))
    activity_id = await stage.schedule(run_id, ONCE)
    await stage.claim()
    await stage.sql("UPDATE workflow_runs SET next_deadline_at = ?", START + 1)
    await stage.sql("UPDATE activity_executions SET next_deadline_at = ?", START + 1)
    stage.clock.advance(5)
    await stage.watchdog.run_pass()
    assert stage.run(run_id).next_deadline_at == START + 60 * SECOND
    assert stage.activity(run_id, activity_id).next_deadline_at == START + 20 * SECOND
    assert (await stage.watchdog.run_pass()).next_deadline_at == START + 20 * SECOND
