"""Durable timers: many runs set one each, all for the same instant, and end when it has fired.

The worker caches the default number of runs, so most are replayed when they wake.
"""

from __future__ import annotations

import asyncio
import time

from sqlalchemy import Connection

from benchmarks.harness.databases import Backend, count_where, opened
from benchmarks.harness.figures import Figure, rate
from benchmarks.harness.measuring import WrongResultError, expect, timed
from outlast import workflow
from outlast.client.client import Client
from outlast.worker.worker import Worker

BATCH = 1000
SET_A_SECOND = 300
"""How fast timers must be set at least, so that all are set before they are due."""
OPEN = "SELECT count(*) FROM workflow_runs WHERE closed_at IS NULL"
SET = "SELECT count(*) FROM timers"
LAST = "SELECT max(closed_at), min(closed_at) FROM workflow_runs"


@workflow.defn
async def sleeps_until(instant: float) -> float:
    """One timer."""
    await asyncio.sleep(instant - workflow.now().timestamp())
    return instant


async def _until(connection: Connection, query: str, wanted: int) -> None:
    while int(connection.exec_driver_sql(query).scalar_one()) != wanted:
        await asyncio.sleep(0.05)


async def _measure(url: str, backend: Backend, count: int) -> list[Figure]:
    due = time.time() + count / SET_A_SECOND + 3
    async with Client.connect(url) as client, Worker(client, workflows=[sleeps_until]):
        with opened(url) as connection:
            with timed(count) as setting:
                for start in range(0, count, BATCH):
                    batch = range(start, min(start + BATCH, count))
                    await asyncio.gather(*(client.start(sleeps_until, due) for _ in batch))
                await _until(connection, SET, count)
            if time.time() > due:
                raise WrongResultError(
                    f"{count} timers took {setting.wall_s:.0f} s to set: the first fired meanwhile"
                )
            await asyncio.sleep(due - time.time())
            with timed(count) as firing:
                await _until(connection, OPEN, 0)
            last, first = connection.exec_driver_sql(LAST).one()
    firing.wall_s = last / 1e6 - due
    expect("runs that ended before their timer was due", first / 1e6 >= due, True)
    expect("runs that completed", count_where(url, "workflow_runs", "status = 'completed'"), count)
    expect("timers that are left", count_where(url, "timers", "fire_at IS NOT NULL"), 0)
    fired = rate("d", backend, f"{count:,} timers of one instant: fired, all runs ended", firing)
    fired.details["seconds until the last"] = firing.wall_s
    return [rate("d", backend, f"{count:,} runs started, each with a timer set", setting), fired]


def measure(url: str, backend: Backend, count: int) -> list[Figure]:
    """Measure from the set to the end."""
    return asyncio.run(_measure(url, backend, count))
