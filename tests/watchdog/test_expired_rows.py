"""Queries that nobody waits for and rate logs that have passed are deleted; what still counts stays."""

from __future__ import annotations

import psycopg
import pytest
from tests.queued import write_queue
from tests.watchdog.stage import SECOND, Stage

from outlast_store.transitions.expired_rows import ForgetRateLogs
from outlast_watchdog import expired_rows


async def ask(stage: Stage, name: str, expires_at: int | None) -> None:
    """Leave a query; without an end it is an update."""
    await stage.sql(
        "INSERT INTO workflow_requests (first_run_id, kind, request_id, run_id, name, input, state, created_at, "
        "expires_at) VALUES ('r', 'query', ?, 'r', 'status', 'null', 'open', 0, ?)",
        name,
        expires_at,
    )


async def log(stage: Stage, partition: str, expires_at: int, queue: str = "q") -> None:
    """Leave the rate log of a partition."""
    text = "INSERT INTO queue_partitions (queue, partition_key, rate_log, expires_at) VALUES (?, ?, '[[1,1]]', ?)"
    await stage.sql(text, queue, partition, expires_at)


def left(stage: Stage) -> tuple[list[str], list[str]]:
    queries = sorted(row[2] for row in stage.rows("workflow_requests"))
    return queries, sorted(row[1] for row in stage.rows("queue_partitions"))


async def test_what_has_expired_goes_after_a_minute(stage: Stage) -> None:
    now = stage.clock.now()
    await write_queue(stage.runtime.journal)
    for name, expires_at in (("gone", now), ("young", now + 1), ("open", now + 3600 * SECOND)):
        await ask(stage, name, expires_at)
        await log(stage, name, expires_at)
    await ask(stage, "update", None)
    await stage.watchdog.run_pass()
    stage.clock.advance(59)
    await stage.watchdog.run_pass()
    assert left(stage) == (["gone", "open", "update", "young"], ["gone", "open", "young"])
    stage.clock.advance(1)
    await stage.watchdog.run_pass()
    assert left(stage) == (["open", "update", "young"], ["open", "young"])


async def test_a_look_that_finds_as_much_as_it_may_goes_on_in_the_next_pass(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expired_rows, "MOST_AT_ONCE", 2)
    for queue in ("q", "r"):
        await write_queue(stage.runtime.journal, queue)
        await log(stage, "p", stage.clock.now(), queue)
    for name in ("a", "b", "c"):
        await ask(stage, name, stage.clock.now())
    stage.clock.advance(60)
    await stage.watchdog.run_pass()
    assert left(stage) == (["c"], [])
    await stage.watchdog.run_pass()
    assert left(stage) == ([], [])


async def test_a_log_that_was_written_since_it_was_found_stays(stage: Stage) -> None:
    await write_queue(stage.runtime.journal)
    await log(stage, "busy", stage.clock.now() + 60 * SECOND)
    await log(stage, "over", stage.clock.now())
    stage.clock.advance(119)
    assert await stage.apply(ForgetRateLogs([("q", "busy"), ("q", "over")])) == 1
    assert left(stage)[1] == ["busy"]


@pytest.mark.postgresql
async def test_logs_stay_while_somebody_admits(postgresql_url: str) -> None:
    stage = await Stage.open(postgresql_url)
    for queue in ("mine", "theirs"):
        await write_queue(stage.runtime.journal, queue)
        await log(stage, "p", 0, queue)
    with psycopg.connect(postgresql_url) as other:
        other.execute("SELECT 1 FROM queues WHERE queue = 'theirs' FOR UPDATE")
        assert await stage.apply(ForgetRateLogs([("mine", "p"), ("theirs", "p")])) == 1
    assert [row[0] for row in stage.rows("queue_partitions")] == ["theirs"]
    await stage.close()
