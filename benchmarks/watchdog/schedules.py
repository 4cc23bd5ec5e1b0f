"""How schedules are fired: idle passes over many of them, and how late several watchdogs fire those of every second.

Lateness is taken from the histories: the time when ``WorkflowStarted`` was recorded, minus the slot. The phases of the
schedules are spread evenly over the second. Some of the watchdogs are killed meanwhile; what fires in the seconds after
a kill is counted apart.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from benchmarks.harness.databases import opened
from benchmarks.harness.filling import CHUNK, Values, insert
from benchmarks.harness.measuring import expect, percentile
from outlast import Client, Every, Schedule
from outlast.watchdog import TaskWatchdog
from outlast_schedules.specs.calendar import Calendar
from outlast_store.database.sql_text import fetch
from outlast_store.schema import tables
from outlast_store.schema.rows import ScheduleRow
from outlast_workflow.environment import Environment
from outlast_workflow.primitives.times import from_datetime, from_iso

YEAR_US = 365 * 86_400 * 1_000_000
RECOVERY_S = 2.0
"""How long after a kill what fires is counted apart: two intervals of a watchdog."""
LEAD_S = 3.0
WATCH = "watch"
TEXT = "SELECT recorded_at, payload FROM history_events WHERE seq = 1"


def fill(url: str, schedules: int) -> None:
    """Add schedules that fire in a year."""
    now = Environment().clock.now()
    spec = Calendar(Every(86_400)).to_json()
    rows: list[Values] = []
    with opened(url) as connection:
        for number in range(schedules):
            row = ScheduleRow(
                schedule_id=f"idle-{number:07}", version=1, workflow_type="idle", task_queue="idle", input="[]",
                action="{}", spec=spec, overlap="skip", catch_up="latest", catch_up_window=YEAR_US,
                pause_on_failure=False, paused_at=None, note=None, max_runs=None, remaining_runs=None,
                decided_until=now + YEAR_US, last_slot_at=None, next_look_at=now + YEAR_US + number, buffered=None,
                last_workflow_id=None, last_first_run_id=None, failed_run_id=None, recent=None, started=0, skipped=0,
                missed=0, created_at=now, updated_at=now,
            )  # fmt: skip
            rows.append(tuple(vars(row).values()))
            if len(rows) == CHUNK:
                insert(connection, [(tables.schedules, rows)])
        insert(connection, [(tables.schedules, rows)])
        connection.exec_driver_sql("ANALYZE")


def measure(url: str, processes: int, schedules: int, seconds: int, kills: int) -> dict[str, Any]:
    """Let watchdogs fire schedules of every second; return how late they were."""
    command = [sys.executable, "-m", "benchmarks.watchdog.schedules", WATCH, url]
    with ExitStack() as stack:
        watchdogs = [
            stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL))
            for _ in range(processes)
        ]
        for watchdog in watchdogs:
            stack.callback(watchdog.kill)
        for watchdog in watchdogs:
            assert watchdog.stdout is not None
            watchdog.stdout.readline()
        found, killed = asyncio.run(_fire(url, schedules, seconds, watchdogs[:kills]))
    expect("how many slots were fired", len(found), schedules * seconds)
    late, recovering = latenesses(found, killed)
    expect("how many were early", sum(one < 0 for one in late), 0)
    shares = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    return {
        "late_ms": {name: percentile(late, share) for name, share in shares.items()},
        "recovering_ms": {
            name: percentile(recovering, share) for name, share in shares.items() if recovering
        },
        "fires": len(found),
    }


async def _fire(
    url: str, schedules: int, seconds: int, victims: Sequence[subprocess.Popen[bytes]]
) -> tuple[list[Values], list[int]]:
    """Create the schedules and kill the victims meanwhile; return all first events, and when each was killed."""
    killed: list[int] = []
    async with await Client.connect(url) as client:
        begin = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=LEAD_S)
        end = begin + timedelta(seconds=seconds, microseconds=-1)
        await client.schedules.apply(
            [
                Schedule(
                    f"s-{number:04}", "idle", spec=Every(1, offset=number / schedules), start_at=begin, end_at=end,
                    overlap="allow_all", catch_up="all",
                )
                for number in range(schedules)
            ]
        )  # fmt: skip
        for number, victim in enumerate(victims, 1):
            at = begin.timestamp() + number * seconds / (len(victims) + 1)
            await asyncio.sleep(max(0.0, at - datetime.now(UTC).timestamp()))
            victim.kill()
            killed.append(from_datetime(datetime.now(UTC)))
        while await client.count() < schedules * seconds and datetime.now(UTC) < end + timedelta(seconds=60):
            await asyncio.sleep(0.5)
        return await client.runtime.read(fetch, TEXT, ()), killed


def latenesses(found: list[Values], killed: list[int]) -> tuple[list[float], list[float]]:
    """Return by how many milliseconds each slot was late, and the same of those that were fired just after a kill.

    Args:
        found: When each first event was recorded, and its payload.
        killed: When watchdogs were killed, in microseconds since the epoch.
    """
    calm: list[float] = []
    recovering: list[float] = []
    for recorded_at, payload in found:
        slot = from_iso(orjson.loads(payload)["schedule"]["scheduled_at"])
        after_kill = any(at <= recorded_at <= at + RECOVERY_S * 1_000_000 for at in killed)
        (recovering if after_kill else calm).append((recorded_at - slot) / 1000)
    return calm, recovering


async def watch(url: str) -> None:
    """Watch until the process is killed; say so once it begins."""
    async with await Client.connect(url) as client:
        TaskWatchdog(client).start()
        print(WATCH, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    if sys.argv[1] == WATCH:
        asyncio.run(watch(sys.argv[2]))
    print(orjson.dumps(measure(sys.argv[1], *map(int, sys.argv[2:6]))).decode())
