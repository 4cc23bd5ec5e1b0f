"""A worker claims the activities that it may claim, and looks no more often than something changes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from outlast import RetryPolicy, activity, workflow
from outlast.testing import TestEnvironment, VirtualLoop
from outlast_activities.changes import ClaimActivities
from outlast_watchdog.watchdog import TaskWatchdog

ONCE = RetryPolicy(max_attempts=1)


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": VirtualLoop}


@activity.defn(start_to_close_timeout=60, retry_policy=ONCE)
async def take(seconds: float) -> None:
    await asyncio.sleep(seconds)


@workflow.defn
async def long_and_impatient() -> list[str]:
    calls = [take(20), take.with_options(schedule_to_start_timeout=5)(1)]
    return [type(ended).__name__ for ended in await asyncio.gather(*calls, return_exceptions=True)]


async def test_what_nobody_may_claim_any_more_is_not_looked_for_again_and_again() -> None:
    """Its deadline has passed and no watchdog enforces it: the worker waits and does not spin."""
    async with TestEnvironment() as env:
        runtime = env.client.runtime
        submit, claims = runtime.journal.submit, []

        def counted(change: Any, callback: Any) -> None:
            if isinstance(change, ClaimActivities):
                claims.append(change)
            if len(claims) < 100:  # This would otherwise never end.
                submit(change, callback)

        runtime.journal.submit = counted  # type: ignore[method-assign]
        async with env.new_worker(
            workflows=[long_and_impatient], activities=[take], watchdog=False, max_concurrent_activities=1
        ):
            handle = await env.client.start(long_and_impatient, id="w")
            await env.sleep(30)
            assert len(claims) < 10
            await TaskWatchdog(env.client).run_pass()
            assert await handle.result() == ["NoneType", "ActivityTimeoutError"]
