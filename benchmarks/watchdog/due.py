"""How many deadlines per second one watchdog enforces when all have passed.

The rows are made by the engine's own changes, so a pass does everything that it does in production. A run that times
out gets its failure row and its last event. An activity gets its attempt row and its failure row, and waits for its
retry. A timer fires and wakes its run. An alert becomes a row, and a line of the log.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.harness.measuring import WrongResultError, expect, timed
from outlast.client.client import Client
from outlast.testing import check_database
from outlast_runs.claims import RegisterWorker
from outlast_runs.start import StartRun
from outlast_runs.task_commit import CommitWorkflowTask
from outlast_runs.workflow_task import WorkflowTask
from outlast_store.schema.rows import RunRow, WorkerRow
from outlast_store.transitions.new_runs import first_run, started_event
from outlast_watchdog.passes import apply_all
from outlast_watchdog.watchdog import TaskWatchdog
from outlast_workflow.history.events import ActivityScheduled, Event, TimerScheduled, WorkflowTaskCompleted
from outlast_workflow.options.options import ActivityOptions, RetryPolicy, StartOptions
from outlast_workflow.primitives.enums import DuplicatePolicy
from outlast_workflow.primitives.payloads import Payload

KINDS = {
    "runs": "run_timeout",
    "activities": "start_to_close",
    "timers": "timer_fired",
    "alerts": "alert_fired",
}
OWNER = "bench-owner"
OPTIONS = ActivityOptions(
    start_to_close_timeout=0.001, retry_policy=RetryPolicy(initial_interval=100, max_attempts=3)
)
AHEAD_S = 0.5
"""When an alert is due, after its start."""
AT_A_TIME = 500
CHECKED = 2000
"""Up to this number, everything that was written is checked as well."""


async def all_applied(client: Client, changes: Sequence[Any]) -> list[Any]:
    """Apply changes, and raise any error."""
    values: list[Any] = []
    for start in range(0, len(changes), AT_A_TIME):
        values += await apply_all(client.runtime.journal, changes[start : start + AT_A_TIME])
    for value in values:
        if isinstance(value, BaseException):
            raise value
    return values


async def start_runs(client: Client, number: int, options: StartOptions) -> list[RunRow]:
    """Start runs that one worker owns."""
    environment = client.runtime.environment
    rows = [
        first_run(
            run_id=environment.ids.next(),
            workflow_id=f"w-{index}",
            workflow_type="due",
            task_queue="due",
            options=options,
            memo=None,
            now=environment.clock.now(),
            owner_id=OWNER,
        )
        for index in range(number)
    ]
    events = [started_event(row, input=Payload.of([]), seed=1) for row in rows]
    policy = DuplicatePolicy.ALLOW_DUPLICATE
    await all_applied(client, [StartRun(row, event, policy) for row, event in zip(rows, events, strict=True)])
    return rows


def decision(kind: str, row: RunRow, now: int) -> CommitWorkflowTask:
    """Return the first workflow task of a run: an activity that is already running, or a timer."""
    command: Event = TimerScheduled(1, now)
    if kind == "activities":
        command = ActivityScheduled(1, "due", "due", Payload.of([]), OPTIONS.snapshot, 5)
    record = WorkflowTaskCompleted(1, 0, now, 1, 1, 0, 11)
    eager = {1: OPTIONS} if kind == "activities" else {}
    return CommitWorkflowTask(row, WorkflowTask(OWNER, 1, 1, 0, record, [command], eager=eager))


async def measure(url: str, kind: str, number: int) -> dict[str, float]:
    """Let a number of deadlines pass, and enforce them in one pass."""
    async with await Client.connect(url) as client:
        worker = WorkerRow(OWNER, "host", 1, "[]", "{}", None, 0, 0)
        await all_applied(client, [RegisterWorker(worker, 3600 * 1_000_000)])
        options = StartOptions(run_timeout=1) if kind == "runs" else StartOptions()
        if kind == "alerts":
            options = options.with_alerts(after=[AHEAD_S])
            # What is logged is made, and goes nowhere.
            logging.getLogger("outlast.alerts").addHandler(logging.NullHandler())
        rows = await start_runs(client, number, options)
        if kind in ("activities", "timers"):
            now = client.runtime.environment.clock.now()
            await all_applied(client, [decision(kind, row, now) for row in rows])
        await asyncio.sleep({"runs": 1.1, "alerts": AHEAD_S + 0.1}.get(kind, 0.1))
        watchdog = TaskWatchdog(client)
        with timed(number) as timing:
            report = await watchdog.run_pass()
        expect("what the pass did", report.counts, {KINDS[kind]: number})
        expect("what it left", (report.left, report.set_aside), ({}, 0))
        expect("what a second pass does", (await watchdog.run_pass()).counts, {})
        if number <= CHECKED:
            with client.runtime.database.reader() as connection:
                wrong = check_database(connection)
            if wrong:
                raise WrongResultError(f"{len(wrong)} broken invariants: {wrong[0]}")
    return {"rate": timing.rate, "cpu_us": timing.cpu_us}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(sys.argv[1], sys.argv[2], int(sys.argv[3])))))
