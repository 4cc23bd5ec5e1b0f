"""How late a live worker enforces deadlines that pass one after another over some seconds.

Lateness is taken from the histories: the time when the event was recorded, minus its deadline or fire time. The
deadlines are spread evenly, and all are set before the first one passes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.harness.measuring import expect, percentile
from benchmarks.harness.processes import resident_mib, threads
from benchmarks.harness.tuning import tune
from outlast import AlertPolicy, activity, workflow
from outlast.client.client import Client
from outlast.errors import WorkflowTimeoutError
from outlast.worker.worker import Worker
from outlast_store.database.sql_text import fetch
from outlast_workflow.options.options import RetryPolicy, StartOptions
from outlast_workflow.primitives.times import from_iso

SPREAD_S = 20.0
AT_ONCE = 200
ONCE = RetryPolicy(max_attempts=1)


@activity.defn
async def never_ends() -> None:
    """Run until the attempt times out."""
    await asyncio.Event().wait()


@workflow.defn
async def waits_for_a_timer(seconds: float) -> None:
    """One timer."""
    await asyncio.sleep(seconds)


@workflow.defn
async def waits_for_an_activity(seconds: float) -> str:
    """Run one activity, which times out."""
    try:
        await workflow.execute_activity(never_ends, start_to_close_timeout=seconds, retry_policy=ONCE)
    except TimeoutError:
        return "timed out"
    return "ended"


@workflow.defn
async def waits_for_ever() -> None:
    """Wait until the run times out."""
    await asyncio.sleep(86_400)


@workflow.defn
async def waits_for_an_alert() -> None:
    """Wait until an alert says that it was fired."""
    await workflow.receive("told", result_type=dict)


async def start_all(client: Client, plans: Sequence[tuple[str, float]]) -> None:
    """Start the plan's workflows (kind, when its deadline is to be), some at a time."""

    async def begin(kind: str, at: float) -> None:
        left = max(at - time.monotonic(), 1)
        if kind == "timers":
            await client.start(waits_for_a_timer, left)
        elif kind == "activities":
            await client.start(waits_for_an_activity, left)
        elif kind == "alerts":
            alerts = AlertPolicy(after=[left], signal="told")
            await client.start(waits_for_an_alert, options=StartOptions(alerts=alerts))
        else:
            await client.start(waits_for_ever, options=StartOptions(run_timeout=left))

    for start in range(0, len(plans), AT_ONCE):
        await asyncio.gather(*[begin(*plan) for plan in plans[start : start + AT_ONCE]])


async def measure(url: str, counts: dict[str, int], lead_s: float) -> dict[str, Any]:
    """Start workflows, wait until all have ended, and read the histories."""
    async with await Client.connect(url) as client:
        worker = Worker(
            client,
            workflows=[waits_for_a_timer, waits_for_an_activity, waits_for_an_alert, waits_for_ever],
            activities=[never_ends],
            max_concurrent_activities=counts.get("activities", 0) + 1,
        )
        async with worker:
            before = resident_mib()
            first = time.monotonic() + lead_s
            plans = [
                (kind, first + (index + 0.5) * SPREAD_S / number)
                for kind, number in counts.items()
                for index in range(number)
            ]
            began = time.monotonic()
            await start_all(client, sorted(plans, key=lambda plan: plan[1]))
            started_s = time.monotonic() - began
            await asyncio.sleep(max(0.0, first - time.monotonic() - 0.5))
            held = {"memory_mib": resident_mib(), "memory_before_mib": before, "threads": threads()}
            cpu, wall = time.process_time(), time.monotonic()
            await asyncio.sleep(max(0.0, first + SPREAD_S - time.monotonic()))
            async for run in client.list(open=True):
                with contextlib.suppress(WorkflowTimeoutError):
                    await client.handle(run.workflow_id).result()
            load = (time.process_time() - cpu) / (time.monotonic() - wall)
        found = {kind: await latenesses(client, kind) for kind in counts}
    for kind, number in counts.items():
        expect(f"how many {kind} were enforced", len(found[kind]), number)
        expect(f"how many {kind} were early", sum(late < 0 for late in found[kind]), 0)
    return {
        "late_ms": {
            kind: {name: percentile(late, share) for name, share in SHARES.items()}
            for kind, late in found.items()
        },
        "started_s": started_s,
        "cpu": load,
        **held,
    }


SHARES = {"p50": 0.5, "p99": 0.99, "max": 1.0}
EVENTS = {"timers": "TimerFired", "activities": "ActivityTimedOut", "runs": "WorkflowTimedOut"}


async def latenesses(client: Client, kind: str) -> list[float]:
    """Return by how many milliseconds each event came after its deadline, or each alert after its mark."""
    if kind == "alerts":
        fired = await client.runtime.read(fetch, "SELECT fired_at - due_at FROM alerts", ())
        return [late / 1000 for (late,) in fired]
    text = "SELECT recorded_at, payload FROM history_events WHERE type = ?"
    rows = await client.runtime.read(fetch, text, (EVENTS[kind],))
    late: list[float] = []
    for recorded_at, payload in rows:
        document = json.loads(payload)
        due = document["fire_at"] if kind == "timers" else document["deadline_at"]
        late.append((recorded_at - (from_iso(due) if isinstance(due, str) else due)) / 1000)
    return late


if __name__ == "__main__":
    tune()
    print(json.dumps(asyncio.run(measure(sys.argv[1], json.loads(sys.argv[2]), float(sys.argv[3])))))
