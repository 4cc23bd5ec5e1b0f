"""What a schedule starts: a chain that knows its slot, and the result and the failure before it."""

from __future__ import annotations

from typing import Any

from outlast import Every, workflow
from outlast.errors import ApplicationError
from outlast.testing import TestEnvironment


@workflow.defn
async def nightly(again: bool) -> dict[str, Any]:
    info = workflow.info()
    if again:
        workflow.continue_as_new(False)
    schedule, failure = info.schedule, info.last_failure
    slot = None if schedule is None else schedule.scheduled_at.isoformat()
    if info.last_result is not None and failure is None:
        raise ApplicationError("every other one fails")
    await workflow.sleep(1)
    return {"slot": slot, "before": workflow.last_result(dict[str, Any]), "failed": failure is not None}


WORKFLOWS = [nightly]
ACTIVITIES: list[Any] = []


async def live(env: TestEnvironment) -> None:
    """Let three slots pass."""
    await env.client.schedules.create("nightly", nightly, True, spec=Every(3600), max_runs=3)
    await env.sleep(hours=4)
