"""What a pass costs when nothing is due, by the number of open deadlines.

The rows are inserted directly: one fifth runs, two fifths activities and two fifths timers, all due in a year. Run as a
program, this module measures passes over a database in a process of its own.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import statistics
import sys
import time
from collections.abc import Iterator

from sqlalchemy import Connection

from benchmarks.harness.databases import opened
from benchmarks.harness.filling import CHUNK, Values, insert
from benchmarks.harness.inputs import OPTIONS
from benchmarks.harness.measuring import expect, percentile
from benchmarks.harness.processes import resident_mib, threads
from outlast.client.client import Client
from outlast_store.schema import tables
from outlast_store.schema.rows import ActivityRow
from outlast_store.transitions.new_runs import first_run
from outlast_watchdog.watchdog import TaskWatchdog
from outlast_workflow.environment import Environment
from outlast_workflow.options.options import StartOptions

PASSES = 200
A_YEAR_S = 365 * 86_400
A_RUN = 5
"""How many deadlines a run brings: its own, two activities', two timers'."""


def fill(url: str, deadlines: int, at: int | None = None) -> None:
    """Add a number of open deadlines.

    Args:
        url: The database.
        deadlines: How many.
        at: When all of them are due, in microseconds; by default one after the other, in a year.
    """
    environment = Environment()
    runs: list[Values] = []
    activities: list[Values] = []
    timers: list[Values] = []
    kinds = [
        (tables.workflow_runs, runs),
        (tables.activity_executions, activities),
        (tables.timers, timers),
    ]
    with opened(url) as connection:
        for number in range(deadlines // A_RUN):
            run_id, now = environment.ids.next(), environment.clock.now()
            run = first_run(
                run_id=run_id,
                workflow_id=run_id,
                workflow_type="idle",
                task_queue="idle",
                options=StartOptions(run_timeout=A_YEAR_S),
                memo=None,
                now=now,
                owner_id=None,
            )
            run.wake_at = None
            if at is not None:
                run.run_deadline_at = run.next_deadline_at = at
            runs.append(tuple(vars(run).values()))
            due = now + A_YEAR_S * 1_000_000 + number if at is None else at
            for command in (1, 2):
                activities.append(tuple(vars(pending(run_id, command, now, due)).values()))
                timers.append((run_id, command + 2, due, None))
            if len(runs) == CHUNK:
                insert(connection, kinds)
        insert(connection, kinds)
        connection.exec_driver_sql("ANALYZE")


def pending(run_id: str, activity_id: int, now: int, due: int) -> ActivityRow:
    """Return an activity that waits on a task queue that no worker serves."""
    return ActivityRow(
        run_id=run_id,
        activity_id=activity_id,
        activity_type="idle",
        task_queue="idle",
        priority=5,
        scheduled_seq=2,
        status="pending",
        attempt=0,
        uncharged=0,
        rescues=0,
        scheduled_at=now,
        available_at=now,
        claimed_by=None,
        started_at=None,
        heartbeat_at=None,
        heartbeat_details=None,
        options=OPTIONS.snapshot.json.decode(),
        last_failure=None,
        schedule_to_start_deadline_at=due,
        start_to_close_deadline_at=None,
        schedule_to_close_deadline_at=None,
        heartbeat_deadline_at=None,
        next_deadline_at=due,
        cancel_requested=False,
        local=False,
        closed_at=None,
        summary=None,
    )


def open_deadlines(url: str) -> int:
    """Return how many deadlines are open."""
    with opened(url) as connection:
        return sum(_count(connection))


def _count(connection: Connection) -> Iterator[int]:
    for table in ("workflow_runs", "activity_executions"):
        text = f"SELECT COUNT(*) FROM {table} WHERE next_deadline_at IS NOT NULL"
        yield int(connection.exec_driver_sql(text).scalar_one())
    yield int(connection.exec_driver_sql("SELECT COUNT(*) FROM timers").scalar_one())


async def measure(url: str) -> dict[str, float]:
    """Run passes; return their milliseconds, and the memory of the process after a watchdog has run in it."""
    async with await Client.connect(url) as client:
        watchdog = TaskWatchdog(client, interval=0.05)
        watchdog.start()
        await asyncio.sleep(0.2)
        found: list[float] = []
        for _ in itertools.repeat(None, PASSES):
            began = time.perf_counter()
            report = await watchdog.run_pass()
            found.append((time.perf_counter() - began) * 1000)
            expect("what an idle pass did", (report.done, report.left, report.skipped), (0, {}, False))
        held = {"memory_mib": resident_mib(), "threads": float(threads())}
        await watchdog.stop()
    return {"median_ms": statistics.median(found), "p99_ms": percentile(found, 0.99), **held}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(sys.argv[1]))))
